//! The interface of a capability, derived from its document: inputs, outputs and needs.

mod agreement;
mod graphql_output;
mod schema;
mod schema_exclusions;
mod schema_keywords;
mod sent;
mod variable_uses;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use self::agreement::{declare, put_definitions, take_definitions};
use self::schema::{SchemaDirection, SchemaWriter};
use self::variable_uses::VariableUses;
use crate::budget::AnalysisBudget;
use crate::document::{Capability, OutputMapping, Parameter};
use crate::name::{Domain, Permission};
use crate::types::{InferredType, LoopScope, TypeEnv};
use crate::variable_references::references;

/// The inputs, outputs and needs of a capability.
///
/// For a capability that uses others, it contains only the facts of its own document; the planner adds the
/// required inputs of the others that the document does not map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Interface)]
pub struct CapabilityInterface {
    /// The declared parameters, then the free variables: names that the document uses but no step sets.
    pub inputs: Vec<InputField>,
    /// The members of the result.
    pub outputs: Vec<OutputField>,
    /// The hosts that requests go to.
    pub services: Vec<Domain>,
    /// The permissions that a caller must hold, including those of the capabilities that it uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// The size of the capability, by number of steps.
    pub complexity: Complexity,
    /// True when none of its own steps changes anything; false when it uses other capabilities.
    pub read_only: bool,
    /// True when it uses other capabilities, which may need inputs that are not listed here.
    #[serde(default)]
    pub uses_others: bool,
}

/// An input of a capability as the document declares or reads it, without the schema that its uses give it.
pub(crate) struct DeclaredInput<'c> {
    /// Its name.
    pub(crate) name: &'c str,
    /// True when a run needs a value.
    pub(crate) required: bool,
    /// Its declaration, if it is a parameter.
    pub(crate) parameter: Option<&'c Parameter>,
}

/// Returns the inputs of a capability, in the order of [`CapabilityInterface::inputs`].
pub(crate) fn list_inputs<'c>(capability: &'c Capability) -> Vec<DeclaredInput<'c>> {
    let used = references(capability);
    let mut set = BTreeSet::new();
    capability.for_each_step(|step| {
        set.extend(step.action.outputs().iter().map(OutputMapping::variable));
    });
    let declare = |parameter: &'c Parameter| {
        let Parameter { name, required, .. } = parameter;
        let is_needed = used.contains(name.as_str()) && !set.contains(name.as_str());
        DeclaredInput { name, required: *required && is_needed, parameter: Some(parameter) }
    };
    let is_free = |name: &&str| !set.contains(name) && capability.parameter(name).is_none();
    let free = used.iter().copied().filter(is_free);
    let free = free.map(|name| DeclaredInput { name, required: true, parameter: None });
    capability.parameters.iter().map(declare).chain(free).collect()
}

/// One input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputField {
    /// Its name.
    pub name: String,
    /// True when a run needs a value.
    pub required: bool,
    /// Its meaning, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Patterns that extract it from a query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// The JSON Schema of its values: the declared schema, or the schema from the tasks that use the input.
    /// `{}` when nothing is known; then the JSON omits it.
    #[serde(default = "anything", skip_serializing_if = "is_anything")]
    pub schema: Value,
    /// The value when the caller does not provide one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// True when its value is kept out of events, logs, guardians and errors.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

impl InputField {
    /// Creates a required input of which only the name is known.
    #[must_use]
    pub fn with_name(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            required: true,
            description: None,
            patterns: Vec::new(),
            schema: anything(),
            default: None,
            secret: false,
        }
    }

    /// Returns the input with this name, or one of which only the name is known.
    #[must_use]
    pub fn find(fields: &[Self], name: &str) -> Self {
        let known = fields.iter().find(|field| field.name == name);
        known.cloned().unwrap_or_else(|| Self::with_name(name))
    }
}

/// One member of the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputField {
    /// Its name.
    pub name: String,
    /// The JSON Schema of its values, as the services describe their responses; `{}` when the services do
    /// not describe them.
    #[serde(default = "anything", skip_serializing_if = "is_anything")]
    pub schema: Value,
    /// Its meaning, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The size of a capability: low up to 2 steps, medium up to 6, else high. Only task and capability steps
/// count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the type says it")]
pub enum Complexity {
    Low,
    Medium,
    High,
}

impl Complexity {
    /// Returns the complexity for this number of steps.
    #[must_use]
    pub fn from_step_count(steps: usize) -> Self {
        match steps {
            0..=2 => Self::Low,
            3..=6 => Self::Medium,
            _ => Self::High,
        }
    }

    /// `low`, `medium` or `high`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl CapabilityInterface {
    /// Builds the interface from the document alone.
    #[must_use]
    pub fn from_capability(capability: &Capability) -> Self {
        let mut steps = 0;
        let mut read_only = true;
        capability.for_each_step(|step| {
            // A block has no effect of its own; another capability may have any.
            if step.action.as_block().is_none() {
                steps += 1;
                read_only &= step.action.as_task().is_some_and(|step| step.task.is_read_only());
            }
        });
        let fuel = AnalysisBudget::for_document();
        let names = TypeEnv::new(capability, &fuel);
        Self {
            inputs: inputs_of(&names),
            outputs: outputs_of(&names),
            services: capability.domains.clone(),
            permissions: capability.permissions.clone(),
            complexity: Complexity::from_step_count(steps),
            read_only,
            uses_others: !capability.dependencies.is_empty(),
        }
    }

    /// Sorts the inputs and the outputs in the order of `other`.
    pub(crate) fn in_order_of(mut self, other: &Self) -> Self {
        self.inputs.sort_by_key(|field| other.inputs.iter().position(|it| it.name == field.name));
        self.outputs.sort_by_key(|field| other.outputs.iter().position(|it| it.name == field.name));
        self
    }

    /// Returns the interface as JSON Schema 2020-12: `input` is the schema of the object that a run takes,
    /// `output` the schema of the object that it returns. `title` and `description` are those of the
    /// capability.
    #[must_use]
    pub fn to_json_schema(&self, title: &str, description: &str) -> Value {
        let mut definitions = Map::new();
        let mut about = |name: &String, schema: &Value, text: Option<&String>| {
            let mut schema = schema.clone();
            definitions.extend(take_definitions(&mut schema));
            if let (Value::Object(members), Some(text)) = (&mut schema, text) {
                members.insert("description".to_owned(), json!(text));
            }
            (name.clone(), schema)
        };
        let inputs = self.inputs.iter();
        let inputs = inputs.map(|f| about(&f.name, &f.schema, f.description.as_ref()));
        let inputs: Map<String, Value> = inputs.collect();
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|f| about(&f.name, &f.schema, f.description.as_ref()));
        let outputs: Map<String, Value> = outputs.collect();
        let required = self.inputs.iter().filter(|field| field.required);
        let required: Vec<_> = required.map(|field| &field.name).collect();
        let whole = |properties: Map<String, Value>, required: &[&String], open: bool| {
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": title,
                "description": description,
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": open,
            })
        };
        let mut input = whole(inputs, &required, self.uses_others);
        put_definitions(&mut input, definitions);
        json!({ "input": input, "output": whole(outputs, &[], false) })
    }
}

fn anything() -> Value {
    json!({})
}

fn is_anything(schema: &Value) -> bool {
    *schema == anything()
}

fn inputs_of(names: &TypeEnv<'_>) -> Vec<InputField> {
    let uses = VariableUses::new(names);
    let describe = |DeclaredInput { name, required, parameter }| match parameter {
        Some(parameter) => InputField {
            name: name.to_owned(),
            required,
            description: parameter.description.clone(),
            patterns: parameter.patterns.clone(),
            schema: parameter_schema(parameter, &uses),
            default: parameter.default.clone(),
            secret: parameter.secret,
        },
        None => InputField {
            schema: match names.capability.variables.get(name) {
                Some(kind) => json!({"type": kind.as_str()}),
                None => uses.schema(name),
            },
            ..InputField::with_name(name)
        },
    };
    list_inputs(names.capability).into_iter().map(describe).collect()
}

fn parameter_schema(parameter: &Parameter, uses: &VariableUses<'_, '_>) -> Value {
    // The services' constraints add to the declared ones.
    let mut schema = uses.schema(&parameter.name);
    if !parameter.choices.is_empty() {
        schema = json!({});
    }
    if let Some(kind) = parameter.kind {
        declare(&mut schema, kind);
    }
    let Value::Object(members) = &mut schema else { return schema };
    let mut say = |key: &str, value: Option<Value>| {
        members.extend(value.map(|value| (key.to_owned(), value)));
    };
    say("enum", (!parameter.choices.is_empty()).then(|| json!(parameter.choices)));
    say("description", parameter.description.as_ref().map(|text| json!(text)));
    say("default", parameter.default.clone());
    say("writeOnly", parameter.secret.then_some(json!(true)));
    schema
}

fn outputs_of(names: &TypeEnv<'_>) -> Vec<OutputField> {
    let scope = LoopScope::default();
    let members: Vec<(String, InferredType<'_>)> = match &names.capability.output {
        Some(output) => names.template(output, &scope).members(),
        None => names.set().map(|name| (name.to_owned(), names.variable(name, &scope))).collect(),
    };
    let mut writer = SchemaWriter::new(SchemaDirection::Out);
    let mut outputs = Vec::with_capacity(members.len());
    for (name, kind) in members {
        let variable = names.capability.output.is_none().then_some(name.as_str());
        let declared = variable.and_then(|name| graphql_output::declared_output(names, name));
        let schema = declared.unwrap_or_else(|| writer.write(&kind));
        let description = schema.get("description").and_then(Value::as_str).map(str::to_owned);
        outputs.push(OutputField { name, schema, description });
    }
    outputs
}

#[cfg(test)]
mod tests;
