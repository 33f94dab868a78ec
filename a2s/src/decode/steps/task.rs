//! The task of a step: written out, or one of the document's shared ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error_code;
use crate::field_reader::{DiagnosticSink, DocumentField, shorten_for_message};
use crate::name::Domain;
use crate::task::{
    ParameterLocation, ParameterStyle, SecurityScheme, Task, TaskFormat, decode_graphql,
    decode_mcp, decode_openapi,
};
use crate::tree::{TreeNode, member_path};

/// The decoder of the tasks of steps, with the shared tasks of the document.
pub(super) struct TaskDecoder<'n, 'f> {
    tasks: Option<DocumentField<'n>>,
    /// The shared tasks that were already read, by path and format; `None` for a task with errors.
    shared: BTreeMap<(String, TaskFormat), Option<Arc<Task>>>,
    domains: &'f [Domain],
}

impl<'n, 'f> TaskDecoder<'n, 'f> {
    pub(super) fn new(tasks: Option<DocumentField<'n>>, domains: &'f [Domain]) -> Self {
        Self { tasks, shared: BTreeMap::new(), domains }
    }

    /// Reads the task of a step. A shared task is read only once for all steps that reference it.
    /// Otherwise, a few bytes of text could become many copies of a large specification.
    pub(super) fn decode(
        &mut self,
        format: &DocumentField<'n>,
        definition: &DocumentField<'n>,
        findings: &mut DiagnosticSink,
    ) -> Option<Arc<Task>> {
        let format = decode_format(format, findings)?;
        let Some(reference) = definition.node.get("$ref") else {
            return self.decode_definition(format, definition, findings);
        };
        let shared = self.follow_ref(definition, reference, findings)?;
        let key = (shared.path.clone(), format);
        if let Some(read) = self.shared.get(&key) {
            return read.clone();
        }
        let task = self.decode_definition(format, &shared, findings);
        self.shared.insert(key, task.clone());
        task
    }

    /// Reads a task. Rejects a task that addresses a host outside of `domains`.
    fn decode_definition(
        &self,
        format: TaskFormat,
        definition: &DocumentField<'n>,
        findings: &mut DiagnosticSink,
    ) -> Option<Arc<Task>> {
        let (task, address) = match format {
            TaskFormat::OpenApi => {
                let (task, address) = decode_openapi(definition, findings)?;
                (Task::OpenApi(Box::new(task)), address)
            }
            TaskFormat::Graphql => {
                let (task, address) = decode_graphql(definition, findings)?;
                (Task::Graphql(Box::new(task)), address)
            }
            TaskFormat::Mcp => {
                let (task, address) = decode_mcp(definition, findings)?;
                (Task::Mcp(Box::new(task)), address)
            }
        };
        if !self.domains.is_empty() && !self.domains.iter().any(|domain| domain.covers(task.url()))
        {
            let host = task.url().host_str().unwrap_or_default();
            let port = task.url().port().map_or_else(String::new, |port| format!(":{port}"));
            findings.error_with_hint(
                error_code::FOREIGN_HOST,
                address,
                format!("the task sends requests to `{host}{port}`, which `domains` does not list"),
                format!("Add `{host}{port}` to `domains`, or correct the address."),
            );
        }
        self.check_token_hosts(&task, definition, findings);
        check_path(&task, definition, findings);
        Some(Arc::new(task))
    }

    /// Warns of token addresses on hosts outside of `domains`, because the executor does not fetch tokens
    /// there.
    fn check_token_hosts(
        &self,
        task: &Task,
        definition: &DocumentField<'n>,
        findings: &mut DiagnosticSink,
    ) {
        let mut foreign: Vec<String> = Vec::new();
        for requirement in task.security().iter().flatten() {
            let Some(SecurityScheme::OAuth2(flows)) = &requirement.scheme else { continue };
            let urls = [flows.client_token_url(), flows.refresh_token_url()];
            for url in urls.into_iter().flatten().filter_map(|text| task.token_address(text)) {
                let host = url.host_str().unwrap_or_default();
                let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
                let host = format!("{host}{port}");
                let known = self.domains.iter().any(|domain| domain.covers(&url));
                if !known && !self.domains.is_empty() && !foreign.contains(&host) {
                    foreign.push(host);
                }
            }
        }
        for host in foreign {
            let host = shorten_for_message(&host);
            findings.warning_with_hint(
                error_code::FOREIGN_HOST,
                definition.at_key(),
                format!("the task gets tokens from `{host}`, which `domains` does not list"),
                format!(
                    "Add `{host}` to `domains`: otherwise the executor does not fetch tokens there."
                ),
            );
        }
    }

    /// Returns the shared task that `$ref: "#/tasks/NAME"` references.
    fn follow_ref(
        &self,
        field: &DocumentField<'n>,
        reference: &TreeNode<'_>,
        findings: &mut DiagnosticSink,
    ) -> Option<DocumentField<'n>> {
        let only = field.node.members().is_some_and(|members| members.len() == 1);
        let target = reference.as_str().and_then(|text| text.strip_prefix("#/tasks/"));
        let name = target.map(|name| name.replace("~1", "/").replace("~0", "~"));
        let found = name.as_deref().and_then(|name| {
            let tasks = self.tasks.as_ref()?;
            let member = tasks.node.member(name)?;
            let path = member_path(&tasks.path, name);
            Some(DocumentField { node: &member.value, path, key: member.position })
        });
        if !only || found.is_none() {
            let known: Vec<_> = self
                .tasks
                .iter()
                .filter_map(|tasks| tasks.node.members())
                .flatten()
                .map(|member| format!("`#/tasks/{}`", member.key))
                .collect();
            let message = match (only, &name) {
                (false, _) => "`$ref` must be the only field of its mapping".to_owned(),
                (true, Some(name)) => {
                    format!("`tasks` does not contain `{}`", shorten_for_message(name))
                }
                (true, None) => "`$ref` does not start with `#/tasks/`".to_owned(),
            };
            let hint = match (only, known.is_empty()) {
                (false, _) => "Remove the other fields of the mapping.".to_owned(),
                (true, true) => error_code::BAD_REF.remedy.to_owned(),
                (true, false) => format!("Use one of {}.", known.join(", ")),
            };
            let path = member_path(&field.path, "$ref");
            let code = error_code::BAD_REF;
            findings.error_with_hint(code, (path, reference.position), message, hint);
            return None;
        }
        found
    }
}

/// Reads the format of a task. Returns `None` when the executor cannot run the format.
fn decode_format(field: &DocumentField<'_>, findings: &mut DiagnosticSink) -> Option<TaskFormat> {
    let text = field.string(findings)?;
    let format = TaskFormat::from_name(text);
    match (format, TaskFormat::explain_unsupported(text)) {
        (Some(TaskFormat::Mcp), _) => {
            findings.require_version(field.at_value(), "the format `MCP`");
        }
        (Some(TaskFormat::OpenApi | TaskFormat::Graphql), _) => {}
        (None, Some((message, hint))) => {
            findings.error_with_hint(error_code::UNSUPPORTED, field.at_value(), message, hint);
        }
        (None, None) => {
            let known = TaskFormat::ALL.map(TaskFormat::as_str);
            findings.unknown_word(field, "format", text, &known);
        }
    }
    format
}

/// Warns of a path that services may read as another path than the one that policies see: some cut parameters
/// of segments off, and decode slashes.
fn check_path(task: &Task, definition: &DocumentField<'_>, findings: &mut DiagnosticSink) {
    const SPELLINGS: [&str; 4] = [";", "\\", "%2f", "%5c"];
    let mut path = task.url().path().to_owned();
    let mut styled = None;
    if let Task::OpenApi(task) = task {
        path.push_str(&task.path);
        let mut parameters = task.parameters.iter();
        styled = parameters.find(|parameter| {
            parameter.location == ParameterLocation::Path
                && matches!(parameter.style.style, ParameterStyle::Matrix | ParameterStyle::Label)
        });
    }
    path.make_ascii_lowercase();
    let message = match (SPELLINGS.iter().find(|spelling| path.contains(**spelling)), styled) {
        (Some(spelling), _) => format!("the path of the task contains `{spelling}`"),
        (None, Some(parameter)) => {
            let style = parameter.style.style.as_str();
            let name = shorten_for_message(&parameter.name);
            format!("the path parameter `{name}` has the style `{style}`")
        }
        (None, None) => return,
    };
    findings.warning(
        error_code::AMBIGUOUS_PATH,
        definition.at_key(),
        format!("{message}: the service may read another path than policies see"),
    );
}
