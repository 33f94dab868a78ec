//! What a capability takes, gives and needs, derived from its document.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::document::{Action, Capability};
use crate::name::Domain;

/// What a capability takes, gives and needs. For a capability that uses others this is what its
/// own document tells; their required inputs that it does not map are added when it is planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Interface {
    /// Declared parameters first, then free variables: names that are used but set by no step.
    pub inputs: Vec<Field>,
    /// The members of the result.
    pub outputs: Vec<String>,
    /// The hosts that requests go to.
    #[schema(value_type = Vec<String>)]
    pub services: Vec<Domain>,
    /// By number of steps.
    pub complexity: Complexity,
    /// Whether no step of its own changes anything; false when it uses other capabilities.
    pub read_only: bool,
}

/// One input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Whether a run needs a value.
    pub required: bool,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Patterns that extract it from a query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
}

/// How much a capability does: low up to 2 steps, medium up to 6, else high. Only task and
/// capability steps count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the type says it")]
pub enum Complexity {
    Low,
    Medium,
    High,
}

impl Complexity {
    /// The complexity of so many steps.
    #[must_use]
    pub fn of_steps(steps: usize) -> Self {
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

impl Interface {
    /// The interface that a document alone tells.
    #[must_use]
    pub fn of(capability: &Capability) -> Self {
        let mut steps = 0;
        let mut read_only = true;
        let mut set = BTreeSet::new();
        capability.for_each_step(|step| {
            match &step.action {
                Action::Task { task, .. } => {
                    steps += 1;
                    read_only &= task.is_read_only();
                }
                Action::Capability { .. } => {
                    steps += 1;
                    read_only = false;
                }
                Action::Block(_) => {}
            }
            set.extend(step.action.outputs().iter().map(|output| output.variable().to_owned()));
        });
        let used = crate::check::references(capability);
        let mut inputs: Vec<Field> = capability
            .parameters
            .iter()
            .map(|parameter| Field {
                name: parameter.name.clone(),
                required: parameter.required
                    && used.contains(&parameter.name)
                    && !set.contains(&parameter.name),
                description: parameter.description.clone(),
                patterns: parameter.patterns.clone(),
            })
            .collect();
        for name in used {
            if !set.contains(&name) && !inputs.iter().any(|field| field.name == name) {
                inputs.push(Field {
                    name,
                    required: true,
                    description: None,
                    patterns: Vec::new(),
                });
            }
        }
        let outputs = match &capability.output {
            Some(output) => output
                .members()
                .map_or_else(Vec::new, |members| members.into_iter().map(str::to_owned).collect()),
            None => set.into_iter().collect(),
        };
        Self {
            inputs,
            outputs,
            services: capability.domains.clone(),
            complexity: Complexity::of_steps(steps),
            read_only,
        }
    }
}
