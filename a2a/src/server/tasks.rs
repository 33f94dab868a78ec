//! The tasks that this agent does for others, kept in memory: bounded in number, size and time.
//!
//! A task continues when its client disconnects, and the client may ask for it again (A2A 1.0, section
//! 3.5.2: its life does not depend on any stream). When the process ends, its tasks are lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2s_api::PendingQuestion;
use a2s_api::Principal;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use uuid::Uuid;

use crate::model::{A2aTask, Message, Part, TaskState, TaskStatus, TaskUpdate};
use agent::WaitingTurn;

/// The maximum number of stored tasks. A new task replaces the oldest inactive task; if all tasks are
/// active, the server accepts no further task.
pub(super) const MAX_TASKS: usize = 256;
/// The maximum number of stored tasks of one principal.
pub(super) const MAX_OWNED: usize = 64;
/// The maximum number of stored tasks of all principals of one token.
pub(super) const MAX_OF_TOKEN: usize = 128;
/// The time that a task is kept, and a question stays open, after the last change.
const TASK_LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// The most messages of the history that are kept, and roughly their bytes together. The last message is
/// always kept.
const MAX_HISTORY: usize = 16;
const MAX_HISTORY_BYTES: usize = 256 << 10;
/// The most updates of one task that a stream gets. After them, all but the last are left out.
const MAX_UPDATES: usize = 512;

/// All tasks.
#[derive(Debug, Default)]
pub(super) struct TaskStore {
    known: Mutex<BTreeMap<Uuid, Arc<TaskEntry>>>,
}

/// One task.
#[derive(Debug)]
pub(super) struct TaskEntry {
    pub(super) id: Uuid,
    /// The party that asked for it; none when the service requires no token.
    owner: Option<Principal>,
    pub(super) context: String,
    inner: Mutex<TaskEntryState>,
    /// The number of updates.
    changed: watch::Sender<usize>,
}

#[derive(Debug)]
struct TaskEntryState {
    task: A2aTask,
    updates: Vec<TaskUpdate>,
    pending: Option<PendingQuestion>,
    /// The requested inputs that are not secret.
    open: Vec<String>,
    work: Option<AbortHandle>,
    /// The turn that waits for a person, until its run has ended.
    waiting: Option<WaitingTurn>,
    touched: Timestamp,
}

/// A task in a list, with the values that a filter needs.
#[derive(Debug, Clone)]
pub(super) struct TaskListItem {
    pub(super) id: Uuid,
    pub(super) state: TaskState,
    /// The time of the last change of its status.
    pub(super) since: Option<Timestamp>,
    /// The time of the last change.
    pub(super) touched: Timestamp,
    pub(super) entry: Arc<TaskEntry>,
}

impl TaskListItem {
    fn of(entry: &Arc<TaskEntry>) -> Self {
        let inner = entry.lock();
        let TaskStatus { state, timestamp, .. } = inner.task.status;
        Self {
            id: entry.id,
            state,
            since: timestamp,
            touched: inner.touched,
            entry: Arc::clone(entry),
        }
    }
}

/// The error when another task cannot be stored: all stored tasks are active, or all of the same principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskStoreFull;

/// The error for a message to a task that does not wait, with the state of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskNotWaiting(pub(super) TaskState);

impl TaskStore {
    /// Creates a task. The id must be unpredictable.
    pub(super) fn create(
        &self,
        id: Uuid,
        owner: Option<Principal>,
        context: String,
        now: Timestamp,
    ) -> Result<Arc<TaskEntry>, TaskStoreFull> {
        let status =
            TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(now) };
        let task = A2aTask {
            id: id.to_string(),
            context: context.clone(),
            status,
            artifacts: Vec::new(),
            history: Vec::new(),
            metadata: serde_json::Map::new(),
        };
        let inner = Mutex::new(TaskEntryState {
            task,
            updates: Vec::new(),
            pending: None,
            open: Vec::new(),
            work: None,
            waiting: None,
            touched: now,
        });
        let entry =
            Arc::new(TaskEntry { id, owner, context, inner, changed: watch::Sender::new(0) });
        let mut known = self.lock();
        known.retain(|_, entry| !entry.is_removable(Some(now)));
        let is_owned = |other: &TaskEntry| other.owner.is_some() && other.owner == entry.owner;
        let token = |entry: &TaskEntry| entry.owner.as_ref().map(|owner| owner.token.clone());
        let own_token = token(&entry);
        let is_of_token = |other: &TaskEntry| own_token.is_some() && token(other) == own_token;
        make_room(&mut known, MAX_OWNED, is_owned)?;
        make_room(&mut known, MAX_OF_TOKEN, is_of_token)?;
        make_room(&mut known, MAX_TASKS, |_| true)?;
        known.insert(id, Arc::clone(&entry));
        Ok(entry)
    }

    /// Returns a task of `owner`, if it is still stored.
    pub(super) fn get(
        &self,
        id: Uuid,
        owner: Option<&Principal>,
        now: Timestamp,
    ) -> Option<Arc<TaskEntry>> {
        let entry = self.lock().get(&id).map(Arc::clone)?;
        (entry.owner.as_ref() == owner && !entry.is_removable(Some(now))).then_some(entry)
    }

    /// Returns all stored tasks of `owner`; the task with the latest change is first.
    pub(super) fn list(&self, owner: Option<&Principal>, now: Timestamp) -> Vec<TaskListItem> {
        let known = self.lock();
        let own = known.values().filter(|entry| entry.owner.as_ref() == owner);
        let own = own.filter(|entry| !entry.is_removable(Some(now)));
        let mut listed: Vec<TaskListItem> = own.map(TaskListItem::of).collect();
        listed.sort_by_key(|task| std::cmp::Reverse((task.touched, task.id)));
        listed
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, Arc<TaskEntry>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskEntry {
    fn lock(&self) -> MutexGuard<'_, TaskEntryState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true when the task is settled and, if a time is given, has not changed for long.
    fn is_removable(&self, now: Option<Timestamp>) -> bool {
        let inner = self.lock();
        let is_old = now.is_none_or(|now| now.duration_since(inner.touched) > TASK_LIFETIME);
        inner.task.status.state.is_settled() && is_old
    }

    /// Returns the current task, and the number of its updates so far.
    pub(super) fn snapshot(&self) -> (A2aTask, usize) {
        let inner = self.lock();
        (inner.task.clone(), inner.updates.len())
    }

    /// Accepts a message: the first one, or the reply to a question. Returns the question.
    pub(super) fn accept_message(
        &self,
        message: Message,
        now: Timestamp,
    ) -> Result<Option<PendingQuestion>, TaskNotWaiting> {
        let mut inner = self.lock();
        let state = inner.task.status.state;
        let waits = matches!(state, TaskState::InputRequired | TaskState::AuthRequired);
        if !waits && !inner.task.history.is_empty() {
            return Err(TaskNotWaiting(state));
        }
        let status =
            TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(now) };
        let before = std::mem::replace(&mut inner.task.status, status);
        inner.task.history.extend(before.message);
        inner.task.history.push(message);
        let over = count_dropped(&inner.task.history);
        inner.task.history.drain(..over);
        inner.touched = now;
        Ok(inner.pending.take())
    }

    /// Keeps the handle of the work on the task, so that the work can be stopped.
    pub(super) fn set_abort_handle(&self, work: AbortHandle) {
        let mut inner = self.lock();
        if inner.task.status.state.is_final() {
            work.abort();
        } else {
            inner.work = Some(work);
        }
    }

    /// Records an update. After the end of the task, this does nothing.
    pub(super) fn apply_update(&self, update: TaskUpdate, now: Timestamp) {
        let mut inner = self.lock();
        if inner.task.status.state.is_settled() {
            return;
        }
        let is_last = matches!(&update, TaskUpdate::Status(status) if status.state.is_settled());
        inner.task.apply_update(update.clone());
        inner.touched = now;
        if inner.updates.len() < MAX_UPDATES || is_last {
            inner.updates.push(update);
        }
        let count = inner.updates.len();
        drop(inner);
        self.changed.send_replace(count);
    }

    /// Stores the question that the task waits for, and the names of its requested inputs that are not
    /// secret.
    pub(super) fn set_question(&self, pending: PendingQuestion, open: Vec<String>) {
        let mut inner = self.lock();
        inner.pending = Some(pending);
        inner.open = open;
    }

    /// Returns the inputs of the last question that are not secret.
    pub(super) fn open_inputs(&self) -> Vec<String> {
        self.lock().open.clone()
    }

    /// Keeps the turn with the run that the task waits for; none when the task no longer waits for a run.
    pub(super) fn await_run(&self, waiting: Option<WaitingTurn>) {
        self.lock().waiting = waiting;
    }

    /// The turn with the run that the task waits for.
    pub(super) fn waiting_turn(&self) -> Option<WaitingTurn> {
        self.lock().waiting.clone()
    }

    /// Lets a task that waits for its run continue. Returns false when the task does not wait, or continues
    /// already.
    pub(super) fn resume(&self, now: Timestamp) -> bool {
        let mut inner = self.lock();
        if inner.task.status.state != TaskState::AuthRequired {
            return false;
        }
        let status = TaskStatus { state: TaskState::Working, message: None, timestamp: Some(now) };
        let before = std::mem::replace(&mut inner.task.status, status);
        inner.task.history.extend(before.message);
        let over = count_dropped(&inner.task.history);
        inner.task.history.drain(..over);
        inner.touched = now;
        true
    }

    /// Returns true when the task waits for a consent.
    pub(super) fn asks_for_consent(&self) -> bool {
        self.lock().pending.as_ref().is_some_and(|pending| pending.missing.is_empty())
    }

    /// Adds metadata to the task.
    pub(super) fn set_metadata(&self, name: &str, value: impl Into<serde_json::Value>) {
        self.lock().task.metadata.insert(name.to_owned(), value.into());
    }

    /// Stops the task. If it is over already, returns its state as an error. Returns the turn with the run
    /// that waits for a person, because the end of the work does not stop that run.
    pub(super) fn cancel(
        &self,
        message: Message,
        now: Timestamp,
    ) -> Result<Option<WaitingTurn>, TaskState> {
        let mut inner = self.lock();
        let state = inner.task.status.state;
        if state.is_final() {
            return Err(state);
        }
        let message = Some(message);
        let status = TaskStatus { state: TaskState::Canceled, message, timestamp: Some(now) };
        inner.task.status = status.clone();
        inner.updates.push(TaskUpdate::Status(status));
        inner.pending = None;
        inner.touched = now;
        if let Some(work) = inner.work.take() {
            work.abort();
        }
        let waiting = inner.waiting.take();
        let count = inner.updates.len();
        drop(inner);
        self.changed.send_replace(count);
        Ok(waiting)
    }

    /// The update after the first `seen`; none when the task is settled.
    pub(super) async fn next_update(&self, seen: usize) -> Option<TaskUpdate> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            {
                let inner = self.lock();
                if let Some(update) = inner.updates.get(seen) {
                    return Some(update.clone());
                }
                if inner.task.status.state.is_settled() {
                    return None;
                }
            }
            changed.changed().await.ok()?;
        }
    }

    /// Waits until the task changes no more without a new message.
    pub(super) async fn wait_until_settled(&self) {
        let mut seen = self.snapshot().1;
        while self.next_update(seen).await.is_some() {
            seen += 1;
        }
    }
}

/// Removes inactive tasks until fewer than `most` of those that count are stored.
fn make_room(
    known: &mut BTreeMap<Uuid, Arc<TaskEntry>>,
    most: usize,
    counts: impl Fn(&TaskEntry) -> bool,
) -> Result<(), TaskStoreFull> {
    while known.values().filter(|entry| counts(entry)).count() >= most {
        let oldest = oldest_idle(known.values().filter(|entry| counts(entry)));
        known.remove(&oldest.ok_or(TaskStoreFull)?);
    }
    Ok(())
}

/// Returns the task to remove: of the inactive tasks, the one with the oldest change.
fn oldest_idle<'a>(entries: impl Iterator<Item = &'a Arc<TaskEntry>>) -> Option<Uuid> {
    let idle = entries.filter(|entry| entry.is_removable(None));
    idle.min_by_key(|entry| entry.lock().touched).map(|entry| entry.id)
}

/// The number of the oldest messages of a history that are dropped.
fn count_dropped(history: &[Message]) -> usize {
    let mut bytes = 0;
    let kept = history.iter().rev().take(MAX_HISTORY).take_while(|message| {
        bytes += size(message);
        bytes <= MAX_HISTORY_BYTES
    });
    history.len() - kept.count().max(1).min(history.len())
}

/// Returns the approximate size of a message, in bytes.
fn size(message: &Message) -> usize {
    let part = |part: &Part| match part {
        Part::Text(text) => text.len(),
        Part::Data(data) => data.to_string().len(),
        Part::File => 0,
    };
    message.parts.iter().map(part).sum()
}

#[cfg(test)]
mod tests;
