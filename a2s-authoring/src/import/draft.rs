//! From the parts of an imported document to its text, which the compiler has accepted.

use a2s::{Diagnostic, Digest, Document, SchemaResolver, compile_with_checksum, error_code, tree};
use serde_json::{Map, Value, json};

use super::schema::SchemaDetail;
use super::variable::DocumentParameter;
use super::{ImportRejection, ImportWarning, ImportedDocument};
use crate::{sanitize, yaml_writer};

/// The maximum length of a capability's description, in characters.
const MAX_DESCRIPTION: usize = 200;
/// The maximum length of an example's intent, in characters.
const MAX_INTENT: usize = 100;
/// The maximum length of an author's name, in characters.
const MAX_AUTHOR: usize = 100;

/// The content of a document, without its steps.
#[derive(Debug, Clone)]
pub(super) struct DocumentHeader {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) domains: Vec<String>,
    pub(super) author: DraftAuthor,
    pub(super) parameters: Vec<DocumentParameter>,
    /// The capabilities that its steps use.
    pub(super) dependencies: Vec<Value>,
}

/// The author of a document.
#[derive(Debug, Clone)]
pub(super) struct DraftAuthor {
    pub(super) name: String,
    pub(super) email: Option<String>,
}

impl DraftAuthor {
    /// Chooses the author: the requested one, else the contact of the description, else its title, else
    /// `otherwise`.
    pub(super) fn of(asked: Option<&str>, info: Option<&Value>, otherwise: &str) -> Self {
        let field = |value: Option<&Value>| sanitize::description(value?.as_str()?, MAX_AUTHOR);
        if let Some(asked) = asked.map(|asked| sanitize::clean_line(asked, MAX_AUTHOR)) {
            return Self { name: asked, email: None };
        }
        let contact = info.and_then(|info| info.get("contact"));
        let email = field(contact.and_then(|contact| contact.get("email")))
            .filter(|email| email.contains('@') && !email.contains(' '));
        let name = field(contact.and_then(|contact| contact.get("name")))
            .or_else(|| field(info.and_then(|info| info.get("title"))))
            .unwrap_or_else(|| otherwise.to_owned());
        Self { name, email }
    }

    fn to_value(&self) -> Value {
        match &self.email {
            Some(email) => json!({ "name": self.name, "email": email }),
            None => json!({ "name": self.name }),
        }
    }
}

/// Returns a description for a capability: the summary or the detail if one of them is sufficient, else
/// both together. If both are empty, it is `otherwise`.
pub(super) fn describe(summary: Option<&str>, detail: Option<&str>, otherwise: &str) -> String {
    /// A summary with at least this many characters describes a capability well enough.
    const MIN_DESCRIPTION_LENGTH: usize = 25;
    let summary = sanitize::sentence(summary.unwrap_or_default(), MAX_DESCRIPTION);
    let detail = sanitize::sentence(detail.unwrap_or_default(), MAX_DESCRIPTION);
    let alike = detail.to_lowercase().contains(&summary.to_lowercase());
    let text = match (summary.is_empty(), detail.is_empty()) {
        (true, true) => sanitize::clean_line(otherwise, MAX_DESCRIPTION),
        (true, false) => detail,
        (false, true) => summary,
        (false, false) if summary.chars().count() >= MIN_DESCRIPTION_LENGTH => summary,
        (false, false) if alike => detail,
        (false, false) => sanitize::clean_line(&format!("{summary}: {detail}"), MAX_DESCRIPTION),
    };
    // What looks like the placeholder of a template is none.
    if a2s::is_placeholder(&text) { format!("{text}.") } else { text }
}

impl DocumentHeader {
    /// Returns the examples in the description, by the names of parameters.
    pub(super) fn examples(&self) -> Map<String, Value> {
        let given = self.parameters.iter().filter(|variable| !variable.secret);
        given
            .filter_map(|variable| Some((variable.name.clone(), variable.example.clone()?)))
            .collect()
    }

    /// Builds the whole document without its checksum. `newer` is true when its steps need language 1.1.
    pub(super) fn document(&self, execution: Value, output: Option<Value>, newer: bool) -> Value {
        let newer = newer || self.parameters.iter().any(DocumentParameter::is_newer);
        let mut document = Map::new();
        let mut add = |key: &str, value: Value| document.insert(key.to_owned(), value);
        add("a2s", json!(if newer { "1.1.0" } else { "1.0.0" }));
        add("name", json!(self.name));
        add("description", json!(self.description));
        add("charset", json!("utf-8"));
        add("domains", json!(self.domains));
        add("version", json!("1.0.0"));
        add("checksum", Value::Null);
        add("authors", json!([self.author.to_value()]));
        if !self.parameters.is_empty() {
            add("parameters", self.parameters.iter().map(DocumentParameter::to_value).collect());
        }
        if !self.dependencies.is_empty() {
            add("dependencies", json!(self.dependencies));
        }
        add("execution", execution);
        if let Some(output) = output {
            add("output", output);
        }
        Value::Object(document)
    }
}

/// Returns true when a warning says that a step reads a value that no response contains. Optional outputs
/// are excluded, because they may find nothing.
fn is_missing_value_warning(document: &Document, warning: &Diagnostic) -> bool {
    if warning.code != error_code::QUERY_MISS.id || !warning.message.contains("finds nothing") {
        return false;
    }
    let mut is_optional = false;
    document.capability().for_each_step(|step| {
        let mapping = tree::member_path(&step.pointer, "output_mapping");
        for output in step.action.outputs() {
            let path = tree::member_path(&mapping, &output.name.join("."));
            let below = warning.path.strip_prefix(&path);
            let is_meant = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            is_optional |= is_meant && output.default.is_some();
        }
    });
    !is_optional
}

/// The same document with an example: an intent, and inputs that fit the interface. The test of the example
/// generates the service's response. None for a document with several steps, whose responses would have to
/// fit each other.
fn with_example(
    document: &Document,
    content: &Value,
    comment: &str,
    examples: &Map<String, Value>,
) -> Option<(Document, String)> {
    let capability = document.capability();
    let children = capability.execution.children();
    let [step] = children.as_slice() else { return None };
    step.action.as_task()?;
    let schema = document.interface().to_json_schema("", "").get("input")?.clone();
    // Required inputs, with the examples and defaults of the description.
    let inputs = SchemaResolver::required_request_sample(&schema);
    let mut inputs = inputs.as_object().cloned().unwrap_or_default();
    inputs.retain(|name, _| {
        document.interface().inputs.iter().any(|field| field.required && field.name == *name)
    });
    for (name, value) in &mut inputs {
        if let Some(example) = examples.get(name) {
            *value = example.clone();
        }
    }
    let mut content = content.clone();
    let Value::Object(members) = &mut content else { return None };
    members.insert("a2s".to_owned(), json!("1.1.0"));
    let intent = intent_from_description(&capability.description);
    let mut example = Map::new();
    example.extend(intent.map(|intent| ("intent".to_owned(), json!(intent))));
    example.insert("inputs".to_owned(), Value::Object(inputs));
    members.insert("examples".to_owned(), json!([example]));
    let digest = Digest::of_document(&content).ok()?;
    content["checksum"] = json!(digest);
    let text =
        format!("# {}\n{}", sanitize::clean_line(comment, 200), yaml_writer::write_yaml(&content));
    let compilation = compile_with_checksum(text.as_bytes());
    let found = compilation.document.filter(|_| text.len() <= tree::MAX_BYTES)?;
    (found.warnings().len() <= document.warnings().len()).then_some((found, text))
}

/// An intent for an example, made from the first sentence of a capability's description.
fn intent_from_description(description: &str) -> Option<String> {
    let intent =
        sanitize::sentence(description, MAX_INTENT).trim_end_matches('…').trim().to_owned();
    let mut letters = intent.chars();
    let first = letters.next()?;
    // A word in capital letters is a name.
    let is_name = letters.clone().next().is_some_and(char::is_uppercase);
    let begin = if is_name { first.to_string() } else { first.to_lowercase().to_string() };
    Some(begin + letters.as_str()).filter(|intent| intent.split_whitespace().count() > 1)
}

/// Writes the document that `build` returns, with as much detail as fits into a document, and compiles it.
/// `comment` is its first line; `examples` are possible values of inputs.
pub(super) fn finish(
    source: &str,
    comment: &str,
    examples: &Map<String, Value>,
    build: impl Fn(SchemaDetail, &mut Vec<ImportWarning>) -> Value,
) -> Result<ImportedDocument, ImportRejection> {
    let mut too_large = String::new();
    for detail in SchemaDetail::LEVELS {
        let mut remarks = Vec::new();
        let mut content = build(detail, &mut remarks);
        let digest = Digest::of_document(&content)
            .map_err(|error| ImportRejection::new(source, "", error.to_string()))?;
        content["checksum"] = json!(digest);
        let body = yaml_writer::write_yaml(&content);
        let text = format!("# {}\n{body}", sanitize::clean_line(comment, 200));
        if text.len() > tree::MAX_BYTES {
            too_large = format!("the document would have {} bytes", text.len());
            continue;
        }
        let compilation = compile_with_checksum(text.as_bytes());
        if let Some(document) = compilation.document {
            let (document, text) = match with_example(&document, &content, comment, examples) {
                Some((document, text)) => (document, text),
                None => (document, text),
            };
            let digest = document.digest();
            let name = document.capability().name.to_string();
            remarks.extend(detail.describe_loss().map(|loss| ImportWarning::new("", loss)));
            for warning in document.warnings() {
                remarks.push(ImportWarning::new(&warning.path, warning.message.as_str()));
            }
            remarks.sort();
            remarks.dedup();
            let can_work =
                !document.warnings().iter().any(|it| is_missing_value_warning(&document, it));
            return Ok(ImportedDocument {
                can_work,
                name,
                source: sanitize::clean_line(source, 200),
                text,
                checksum: digest,
                remarks,
            });
        }
        let mut errors = compilation.diagnostics.into_iter().filter(|d| d.is_error());
        let Some(first) = errors.next() else { continue };
        if [error_code::TOO_LARGE.id, error_code::BUDGET.id].contains(&first.code.as_str()) {
            too_large = first.message;
            continue;
        }
        let more = match errors.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let reason = format!("{}: {}{more}", first.code, first.message);
        let refusal = ImportRejection::new(source, &first.path, reason);
        return Err(match first.hint {
            Some(hint) => refusal.with_hint(hint),
            None => refusal,
        });
    }
    Err(ImportRejection::new(source, "", too_large)
        .with_hint("Shorten the description of the operation, and import it again."))
}
