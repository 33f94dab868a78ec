//! A list of tasks, page by page (A2A 1.0, section 3.1.4).

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::limit_history;
use super::request_params::{invalid_params, read_history_length};
use crate::model::TaskState;
use crate::rpc::{Object, RpcError};
use crate::server::tasks::TaskListItem;
use crate::wire_versions::{self, A2aVersion};

/// The default and the largest number of tasks in a page.
const PAGE: usize = 50;
const MAX_PAGE: u64 = 100;
/// The maximum size of the tasks in a page, in bytes; a page always has at least one task.
const MAX_BYTES: usize = 4 << 20;

/// The filters and the page of a task list.
#[derive(Debug)]
pub(crate) struct TaskListQuery {
    context: Option<String>,
    state: Option<TaskState>,
    since: Option<Timestamp>,
    /// The last task of the previous page: the time of its last change, and its id.
    after: Option<(Timestamp, Uuid)>,
    size: usize,
    history: usize,
    with_artifacts: bool,
}

impl TaskListQuery {
    /// Reads the query from the parameters.
    ///
    /// # Errors
    /// Fails when a parameter has the wrong type or is out of range.
    pub(super) fn read(version: A2aVersion, params: &Object) -> Result<Self, RpcError> {
        let given = |name: &str| params.get(name).filter(|value| !value.is_null());
        let text = |name: &str| match given(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(invalid_params(format!("`{name}` must be a text"))),
        };
        let no_state = || invalid_params("`status` must be a state of a task");
        let state = match given("status").and_then(Value::as_u64) {
            Some(number) => Some(version.read_state_number(number).ok_or_else(no_state)),
            None => text("status")?.map(|name| version.read_state(name).ok_or_else(no_state)),
        };
        let since = text("statusTimestampAfter")?.map(|text| {
            let time = text.parse();
            time.map_err(|_| {
                invalid_params(
                    "`statusTimestampAfter` must be a time such as `2026-01-31T12:00:00Z`",
                )
            })
        });
        let after = text("pageToken")?.map(|token| {
            read_token(token)
                .ok_or_else(|| invalid_params("`pageToken` is not a token of this agent"))
        });
        let size = match given("pageSize") {
            None => PAGE,
            Some(size) => match size.as_u64() {
                Some(size @ 1..=MAX_PAGE) => usize::try_from(size).unwrap_or(PAGE),
                _ => {
                    return Err(invalid_params(format!(
                        "`pageSize` must be a whole number from 1 to {MAX_PAGE}"
                    )));
                }
            },
        };
        let with_artifacts = match given("includeArtifacts") {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => return Err(invalid_params("`includeArtifacts` must be true or false")),
        };
        Ok(Self {
            context: wire_versions::id(params, "contextId").map_err(invalid_params)?,
            // Protocol Buffers have it in the place of nothing.
            state: state.transpose()?.filter(|state| *state != TaskState::Unknown),
            since: since.transpose()?,
            after: after.transpose()?,
            size,
            history: read_history_length(params)?.unwrap_or(0),
            with_artifacts,
        })
    }

    /// Writes the page of the query from tasks that are in the order of the list.
    pub(super) fn to_page(&self, listed: Vec<TaskListItem>, version: A2aVersion) -> Value {
        let fits = |task: &TaskListItem| {
            self.context.as_ref().is_none_or(|context| *context == task.entry.context)
                && self.state.is_none_or(|state| state == task.state)
                && self.since.is_none_or(|since| task.since.is_some_and(|at| since <= at))
        };
        let fitting: Vec<TaskListItem> = listed.into_iter().filter(fits).collect();
        let total = fitting.len();
        let is_left =
            |task: &TaskListItem| self.after.is_none_or(|last| (task.touched, task.id) < last);
        let mut left = fitting.into_iter().filter(is_left).peekable();
        let (mut tasks, mut bytes, mut last) = (Vec::new(), 0, None);
        while tasks.len() < self.size {
            let Some(next) = left.peek() else { break };
            let written = self.write(next, version);
            bytes += written.to_string().len();
            if bytes > MAX_BYTES && !tasks.is_empty() {
                break;
            }
            tasks.push(written);
            last = left.next();
        }
        let token = last.filter(|_| left.peek().is_some());
        let token = token.map_or_else(String::new, |last| write_token(last.touched, last.id));
        json!({
            "pageSize": tasks.len(),
            "totalSize": total,
            "nextPageToken": token,
            "tasks": tasks,
        })
    }

    fn write(&self, listed: &TaskListItem, version: A2aVersion) -> Value {
        let mut task = limit_history(listed.entry.snapshot().0, Some(self.history));
        if !self.with_artifacts {
            task.artifacts.clear();
        }
        version.task(&task)
    }
}

fn write_token(at: Timestamp, id: Uuid) -> String {
    format!("{}.{}", at.as_nanosecond(), id.simple())
}

fn read_token(token: &str) -> Option<(Timestamp, Uuid)> {
    let (at, id) = token.split_once('.')?;
    let at = Timestamp::from_nanosecond(at.parse().ok()?).ok()?;
    Some((at, Uuid::try_parse(id).ok()?))
}
