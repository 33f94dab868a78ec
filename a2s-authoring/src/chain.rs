//! A document that runs capabilities one after another, with what some give feeding others.

use std::collections::BTreeMap;

use a2s::{Diagnostic, Digest, Document, InputField, ValueType};
use serde_json::{Map, Value, json};

use super::naming::{UsedNames, capability_name, step_id, variable_name};
use super::{sanitize, yaml_writer};

/// The maximum length of a capability's description, in characters.
const MAX_DESCRIPTION: usize = 200;
/// The maximum number of outputs that a chain uses from one capability.
const MAX_OUTPUTS: usize = 100;

/// One capability of a chain.
#[derive(Debug, Clone)]
pub struct ChainStep<'d> {
    /// The content.
    pub document: &'d Document,
    /// The sources of its inputs among earlier steps, by the name of the input. Every other input becomes
    /// an input of the chain.
    pub bindings: BTreeMap<String, InputBinding>,
}

/// An output of an earlier step of a chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputRef {
    /// The index of the step, from 0.
    pub step: usize,
    /// Name of the output.
    pub output: String,
}

/// The source of an input of a chain's step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputBinding {
    /// An output, unchanged.
    Output(OutputRef),
    /// A text of outputs. When there are several, each follows its name.
    Text {
        /// Set when the input's own text precedes the outputs; the input then stays an input of the chain.
        own: bool,
        /// The outputs.
        parts: Vec<OutputRef>,
    },
    /// The same value as this input of an earlier step.
    Shared {
        /// The index of the step, from 0.
        step: usize,
        /// Name of its input.
        input: String,
    },
}

/// A chain as a document that the compiler has accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainDocument {
    /// Its text as YAML.
    pub text: String,
    /// The document.
    pub document: Document,
}

/// Writes a document that runs these capabilities in their order, pinned by version and content.
///
/// Its domains and permissions are those of all capabilities. Inputs without a source become its
/// parameters, with their descriptions, patterns, types and defaults. Where two would have the same name,
/// one gets another name. The outputs of the capabilities form its result.
///
/// A binding to an output that does not exist, or to a later step, is ignored.
///
/// # Errors
/// The compiler's diagnostics: there are no steps, for example, or too many.
pub fn write_chain(
    steps: &[ChainStep<'_>],
    author: &str,
) -> Result<ChainDocument, Vec<Diagnostic>> {
    let steps: Vec<ChainStep<'_>> =
        (0..steps.len()).map(|at| keep_valid_bindings(steps, at)).collect();
    let steps = steps.as_slice();
    let mut writer = ChainWriter::default();
    let ids: Vec<String> = {
        let mut taken = UsedNames::default();
        let names = steps.iter().map(|step| step.document.capability().name.as_str());
        names.map(|name| taken.reserve(&step_id(name))).collect()
    };
    // Names of inputs come first: people write them.
    for (index, (step, id)) in steps.iter().zip(&ids).enumerate() {
        writer.declare_inputs(index, step, id);
    }
    let mut written = Vec::with_capacity(steps.len());
    for (index, (step, id)) in steps.iter().zip(&ids).enumerate() {
        written.push(writer.write_step(index, step, id));
    }
    let mut content = header(steps, author);
    if !writer.parameters.is_empty() {
        content.insert("parameters".to_owned(), Value::Array(writer.parameters));
    }
    content.insert("dependencies".to_owned(), dependencies(steps));
    let execution = json!({"type": "sequence", "steps": written});
    content.insert("execution".to_owned(), execution);
    let mut content = Value::Object(content);
    // What cannot be put in canonical form, the compiler refuses with its reason.
    if let Ok(digest) = Digest::of_document(&content) {
        content["checksum"] = json!(digest);
    }
    let text = yaml_writer::write_yaml(&content);
    Document::open(text.as_bytes()).map(|document| ChainDocument { text, document })
}

/// Returns a step with only those bindings that refer to existing outputs and inputs of earlier steps.
fn keep_valid_bindings<'d>(steps: &[ChainStep<'d>], at: usize) -> ChainStep<'d> {
    let earlier = steps.get(..at).unwrap_or_default();
    let gives = |given: &OutputRef| {
        let interface = earlier.get(given.step).map(|step| step.document.interface());
        interface.is_some_and(|i| i.outputs.iter().any(|output| output.name == given.output))
    };
    let holds = |feed: &InputBinding| match feed {
        InputBinding::Output(given) => gives(given),
        InputBinding::Text { parts, .. } => !parts.is_empty() && parts.iter().all(gives),
        InputBinding::Shared { step, input } => earlier.get(*step).is_some_and(|step| {
            let takes = &step.document.interface().inputs;
            !step.bindings.contains_key(input) && takes.iter().any(|field| field.name == *input)
        }),
    };
    let step = &steps[at];
    let feeds = step.bindings.iter().filter(|(_, feed)| holds(feed));
    let feeds = feeds.map(|(input, feed)| (input.clone(), feed.clone())).collect();
    ChainStep { document: step.document, bindings: feeds }
}

/// Writes the parameters and steps of a chain, and records the names that are in use.
#[derive(Default)]
struct ChainWriter {
    used_names: UsedNames,
    parameters: Vec<Value>,
    /// The variable of each input and each output, by step and name.
    inputs: BTreeMap<(usize, String), String>,
    outputs: BTreeMap<(usize, String), String>,
}

impl ChainWriter {
    fn declare_inputs(&mut self, index: usize, step: &ChainStep<'_>, id: &str) {
        for field in &step.document.interface().inputs {
            let is_own = match step.bindings.get(&field.name) {
                None => true,
                Some(InputBinding::Text { own, .. }) => *own,
                Some(InputBinding::Output(_) | InputBinding::Shared { .. }) => false,
            };
            if !is_own {
                continue;
            }
            let names = [field.name.clone(), variable_name(&format!("{id}_{}", field.name))];
            let name = self.used_names.reserve_one_of(&names);
            self.parameters.push(parameter(&name, field, step.document));
            self.inputs.insert((index, field.name.clone()), name);
        }
    }

    fn write_step(&mut self, index: usize, step: &ChainStep<'_>, id: &str) -> Value {
        let interface = step.document.interface();
        let inputs = interface.inputs.iter().filter_map(|field| {
            let template = match step.bindings.get(&field.name) {
                None => reference(self.inputs.get(&(index, field.name.clone()))?),
                Some(feed) => self.template(index, &field.name, feed)?,
            };
            Some((field.name.clone(), json!(template)))
        });
        let inputs: Map<String, Value> = inputs.collect();
        let mut outputs = Map::new();
        for output in interface.outputs.iter().take(MAX_OUTPUTS) {
            let names =
                [variable_name(&output.name), variable_name(&format!("{id}_{}", output.name))];
            let name = self.used_names.reserve_one_of(&names);
            outputs.insert(name.clone(), json!(path_to(&output.name)));
            self.outputs.insert((index, output.name.clone()), name);
        }
        let name = step.document.capability().name.as_str();
        let mut written = Map::new();
        written.insert("id".to_owned(), json!(id));
        written.insert("type".to_owned(), json!("capability"));
        written.insert("use".to_owned(), json!(name));
        if !inputs.is_empty() {
            written.insert("input_mapping".to_owned(), Value::Object(inputs));
        }
        if !outputs.is_empty() {
            written.insert("output_mapping".to_owned(), Value::Object(outputs));
        }
        Value::Object(written)
    }

    /// Returns the template for an input; `None` when the binding refers to an output or input that does
    /// not exist.
    fn template(&self, index: usize, input: &str, feed: &InputBinding) -> Option<String> {
        let variable = |given: &OutputRef| self.outputs.get(&(given.step, given.output.clone()));
        match feed {
            InputBinding::Output(given) => variable(given).map(|name| reference(name)),
            InputBinding::Shared { step, input } => {
                self.inputs.get(&(*step, input.clone())).map(|name| reference(name))
            }
            InputBinding::Text { own, parts } => {
                let labelled = parts.len() > 1;
                let parts: Option<Vec<String>> = parts
                    .iter()
                    .map(|given| {
                        let value = reference(variable(given)?);
                        let label = a2s::split_name(&given.output).to_lowercase();
                        Some(if labelled { format!("{label}: {value}") } else { value })
                    })
                    .collect();
                let parts = parts?.join(", ");
                let own = own.then(|| self.inputs.get(&(index, input.to_owned()))).flatten();
                Some(match own {
                    Some(own) => format!("{} {parts}", reference(own)),
                    None => parts,
                })
            }
        }
    }
}

/// Builds all fields before the parameters.
fn header(steps: &[ChainStep<'_>], author: &str) -> Map<String, Value> {
    let capabilities = || steps.iter().map(|step| step.document.capability());
    let joined: Vec<&str> = capabilities().map(|capability| capability.name.as_str()).collect();
    let name = capability_name(&joined.join("-then-")).unwrap_or_else(|| "Chain".to_owned());
    let mut domains: Vec<&str> = Vec::new();
    let mut permissions: Vec<&str> = Vec::new();
    for capability in capabilities() {
        let more = capability.domains.iter().map(a2s::Domain::as_str);
        more.for_each(|domain| push_if_absent(&mut domains, domain));
        let more = capability.permissions.iter().map(a2s::Permission::as_str);
        more.for_each(|permission| push_if_absent(&mut permissions, permission));
    }
    let descriptions: Vec<&str> = capabilities().map(|c| c.description.as_str()).collect();
    let mut content = Map::new();
    let mut add = |key: &str, value: Value| content.insert(key.to_owned(), value);
    add("a2s", json!("1.1.0"));
    add("name", json!(name));
    add("description", json!(join_descriptions(&descriptions)));
    add("charset", json!("utf-8"));
    add("domains", json!(domains));
    add("version", json!("1.0.0"));
    add("checksum", Value::Null);
    add("authors", json!([{"name": sanitize::clean_line(author, 100)}]));
    if !permissions.is_empty() {
        add("permissions", json!(permissions));
    }
    content
}

fn push_if_absent<'a>(list: &mut Vec<&'a str>, item: &'a str) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// The descriptions one after another, within the maximum length.
fn join_descriptions(descriptions: &[&str]) -> String {
    const THEN: &str = ", then ";
    let room = MAX_DESCRIPTION.saturating_sub(THEN.len() * descriptions.len());
    let each = room / descriptions.len().max(1);
    let parts = descriptions.iter().enumerate().map(|(index, description)| {
        let part = sanitize::sentence(description, each);
        let mut letters = part.chars();
        match (letters.next(), letters.next()) {
            // `Gets` becomes `gets`, `GitHub` and `URLs` stay.
            (Some(first), Some(second))
                if index > 0
                    && second.is_lowercase()
                    && !part.chars().skip(1).take_while(|c| *c != ' ').any(char::is_uppercase) =>
            {
                first.to_lowercase().chain(part.chars().skip(1)).collect()
            }
            _ => part,
        }
    });
    sanitize::clean_line(&parts.collect::<Vec<_>>().join(THEN), MAX_DESCRIPTION)
}

fn dependencies(steps: &[ChainStep<'_>]) -> Value {
    let mut pins: Vec<Value> = Vec::new();
    for step in steps {
        let capability = step.document.capability();
        let version = &capability.version;
        // A range of pre-releases means stable versions, too.
        let range =
            if version.pre.is_empty() { format!("^{version}") } else { format!("={version}") };
        let pin = json!({
            "capability": capability.name.as_str(),
            "version": range,
            "checksum": step.document.digest(),
        });
        if !pins.contains(&pin) {
            pins.push(pin);
        }
    }
    Value::Array(pins)
}

/// Builds the parameter of the chain for an input of a step.
fn parameter(name: &str, field: &InputField, document: &Document) -> Value {
    let mut written = Map::new();
    let mut add = |key: &str, value: Value| written.insert(key.to_owned(), value);
    add("name", json!(name));
    let described = field.description.as_deref();
    let described = described.or_else(|| field.schema.get("description")?.as_str());
    if let Some(description) = described.and_then(|d| sanitize::description(d, MAX_DESCRIPTION)) {
        add("description", json!(description));
    }
    let kind = field.schema.get("type").and_then(Value::as_str);
    let is_kind = |kind: &&str| ValueType::NAMES.iter().any(|(name, _)| name == kind);
    if let Some(kind) = kind.filter(is_kind) {
        add("type", json!(kind));
    }
    let declared = document.capability().parameter(&field.name);
    if let Some(choices) = declared.map(|p| &p.choices).filter(|choices| !choices.is_empty()) {
        add("enum", json!(choices));
    }
    if let Some(default) = &field.default {
        add("default", default.clone());
    } else if !field.required {
        add("required", json!(false));
    }
    if field.secret {
        add("secret", json!(true));
    }
    if !field.patterns.is_empty() {
        add("patterns", json!(field.patterns));
    }
    Value::Object(written)
}

fn reference(variable: &str) -> String {
    format!("${{{variable}}}")
}

/// Returns the JSONPath of a member.
fn path_to(name: &str) -> String {
    if a2s::is_variable_name(name) && !name.contains('-') {
        format!("$.{name}")
    } else {
        format!("$['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use a2s::DependencyIndex;

    fn shipped(name: &str) -> Document {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capabilities");
        Document::open(&std::fs::read(format!("{folder}/{name}.yaml")).unwrap()).unwrap()
    }

    fn output_ref(step: usize, output: &str) -> OutputRef {
        OutputRef { step, output: output.to_owned() }
    }

    #[test]
    fn a_chain_is_a_document_that_compiles_and_links() {
        let (country, push) = (shipped("GetCountry"), shipped("SendNotification"));
        let text = InputBinding::Text {
            own: true,
            parts: vec![output_ref(0, "name"), output_ref(0, "capital")],
        };
        let title = InputBinding::Output(output_ref(0, "name"));
        let feeds = BTreeMap::from([("message".to_owned(), text), ("title".to_owned(), title)]);
        let steps = [
            ChainStep { document: &country, bindings: BTreeMap::new() },
            ChainStep { document: &push, bindings: feeds },
        ];
        let chain = write_chain(&steps, "Jane Smith").unwrap();
        let mut index = DependencyIndex::default();
        [&country, &push].iter().for_each(|document| index.add_document(document));
        assert_eq!(index.check_dependencies(chain.document.capability()), []);
        assert_eq!(chain.document.warnings(), []);
        let content = chain.document.content();
        assert_eq!(content["name"], "GetCountryThenSendNotification");
        assert_eq!(content["domains"], json!(["countries.trevorblades.com", "ntfy.sh"]));
        let step = &content["execution"]["steps"][1];
        assert_eq!(
            step["input_mapping"],
            json!({
                "topic": "${topic}",
                "title": "${name}",
                "message": "${message} name: ${name}, capital: ${capital}"
            })
        );
        let names: Vec<_> =
            chain.document.interface().inputs.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["country_code", "topic", "message"]);
        assert_eq!(
            content["parameters"][1]["patterns"],
            json!(["to topic *", "topic *"]),
            "patterns are carried over"
        );
    }

    #[test]
    fn names_that_two_would_have_are_told_apart() {
        let weather = shipped("GetCityWeather");
        let steps = [
            ChainStep { document: &weather, bindings: BTreeMap::new() },
            ChainStep { document: &weather, bindings: BTreeMap::new() },
        ];
        let chain = write_chain(&steps, "Jane Smith").unwrap();
        let interface = chain.document.interface();
        let inputs: Vec<_> = interface.inputs.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(inputs, ["city", "getCityWeather2_city"]);
        let outputs: Vec<_> = interface.outputs.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(outputs.len(), 8, "{outputs:?}");
    }

    #[test]
    fn what_there_is_not_feeds_nothing() {
        let joke = shipped("GetJoke");
        let tweet = shipped("PostTweet");
        let feeds =
            BTreeMap::from([("text".to_owned(), InputBinding::Output(output_ref(0, "poem")))]);
        let steps = [
            ChainStep { document: &joke, bindings: BTreeMap::new() },
            ChainStep { document: &tweet, bindings: feeds },
        ];
        let chain = write_chain(&steps, "Jane Smith").unwrap();
        assert_eq!(chain.document.interface().inputs[0].name, "text");
        assert!(write_chain(&[], "Jane Smith").is_err());
        let long =
            join_descriptions(&["Gets a thing ".repeat(40).trim(), "URLs are kept as they are"]);
        assert!(long.chars().count() <= MAX_DESCRIPTION && long.contains(", then URLs"), "{long}");
    }

    /// A document with all that a chain has to take over.
    fn demanding(name: &str, version: &str) -> Document {
        let text = format!(
            r#"a2s: 1.1.0
name: {name}
description: Does what its name says
charset: utf-8
domains: [api.example.com]
version: "{version}"
checksum: "<sha256>"
authors: [{{name: A2S authors}}]
permissions: [posts.write]
parameters: [{{name: city, type: string, default: Oslo}}, {{name: code, type: string, secret: true}}]
execution:
  type: sequence
  steps:
    - id: ask
      format: OpenAPI
      task:
        openapi: "3.0.3"
        info: {{title: Example, version: "1.0.0"}}
        servers: [{{url: "https://api.example.com"}}]
        paths:
          /ask:
            get:
              parameters:
                - {{name: city, in: query, schema: {{type: string}}}}
                - {{name: code, in: query, schema: {{type: string}}}}
              responses: {{"200": {{description: An answer}}}}
      input_mapping: {{city: "${{city}}", code: "${{code}}"}}
"#
        );
        let compilation = a2s::compile(text.as_bytes());
        compilation.document.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics))
    }

    #[test]
    fn what_its_parts_ask_for_a_chain_asks_for_as_well() {
        let (first, second) = (demanding("AskFirst", "1.0.0-rc.1"), shipped("GetJoke"));
        let steps = [&first, &second];
        let steps = steps.map(|document| ChainStep { document, bindings: BTreeMap::new() });
        let chain = write_chain(&steps, "Jane Smith").unwrap();
        assert_eq!(chain.document.content()["permissions"], json!(["posts.write"]));
        let inputs = &chain.document.interface().inputs;
        let input = |name: &str| inputs.iter().find(|field| field.name == name).unwrap();
        assert_eq!(input("city").default, Some(json!("Oslo")));
        assert!(input("code").secret && !input("city").secret);
        let pins = &chain.document.content()["dependencies"];
        assert_eq!(pins[0]["version"], "=1.0.0-rc.1", "a range would mean stable versions, too");
        assert_eq!(pins[1]["version"], format!("^{}", second.capability().version));
    }

    #[test]
    fn composed_steps_bind_only_earlier_outputs() {
        let (country, weather) = (shipped("GetCountry"), shipped("GetCityWeather"));
        let fed = |feed: InputBinding| BTreeMap::from([("city".to_owned(), feed)]);
        let capital = |step: usize| fed(InputBinding::Output(output_ref(step, "capital")));
        let asks_for_city = |steps: &[ChainStep<'_>]| {
            let chain = write_chain(steps, "Jane Smith").unwrap();
            chain.document.interface().inputs.iter().any(|field| field.name == "city")
        };
        let first = ChainStep { document: &country, bindings: BTreeMap::new() };
        let second = ChainStep { document: &weather, bindings: capital(0) };
        assert!(!asks_for_city(&[first.clone(), second.clone()]));
        let early = ChainStep { document: &weather, bindings: capital(1) };
        assert!(asks_for_city(&[early, first.clone()]));
        let shared = fed(InputBinding::Shared { step: 1, input: "city".to_owned() });
        let third = ChainStep { document: &weather, bindings: shared };
        assert!(asks_for_city(&[first, second, third]));
    }
}
