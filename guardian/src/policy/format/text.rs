//! The form of a policy file, as it is written.

use std::fmt;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::line_of;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileText {
    pub(super) version: Spanned<u64>,
    pub(super) default: DefaultWord,
    #[serde(default)]
    pub(super) rules: Vec<RuleText>,
}

/// The decision on what no rule is about.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum DefaultWord {
    Allow,
    Deny,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum DecisionWord {
    Allow,
    Deny,
    Modify,
    Approve,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleText {
    pub(super) id: Spanned<String>,
    /// For people who read the file.
    #[serde(rename = "description")]
    _description: Option<String>,
    pub(super) on: Option<Spanned<Listed>>,
    pub(super) tool: Option<Spanned<Listed>>,
    pub(super) capability: Option<Spanned<Listed>>,
    pub(super) host: Option<Spanned<Listed>>,
    pub(super) user: Option<Spanned<Listed>>,
    pub(super) agent: Option<Spanned<Listed>>,
    pub(super) session: Option<Spanned<Listed>>,
    pub(super) when: Option<Spanned<String>>,
    pub(super) limit: Option<Spanned<LimitText>>,
    pub(super) decision: DecisionWord,
    pub(super) message: Option<String>,
    pub(super) reason_codes: Option<Spanned<Listed>>,
    pub(super) modify: Option<ModifyText>,
    pub(super) approval: Option<Spanned<ApprovalText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitText {
    pub(super) calls: Option<u64>,
    pub(super) spend: Option<String>,
    pub(super) most: Option<f64>,
    pub(super) per: Option<PerWord>,
    pub(super) within: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PerWord {
    All,
    Session,
    User,
    Agent,
    Capability,
    Tool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalText {
    pub(super) within: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModifyText {
    pub(super) set: Option<Spanned<IndexMap<String, Value>>>,
    pub(super) remove: Option<Spanned<Listed>>,
    #[serde(default)]
    pub(super) redact: Vec<RedactText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RedactText {
    pub(super) path: Option<Spanned<String>>,
    pub(super) pattern: Option<PatternWord>,
    pub(super) regex: Option<Spanned<String>>,
    pub(super) replacement: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PatternWord {
    Email,
    Card,
    Key,
}

/// One text, or a list of them.
pub(super) enum Listed {
    One(String),
    Many(Vec<Spanned<String>>),
}

impl Listed {
    /// Each text with its line.
    pub(super) fn texts(listed: &Spanned<Self>) -> Vec<(u64, &str)> {
        match &listed.value {
            Self::One(text) => vec![(line_of(listed), text)],
            Self::Many(texts) => {
                texts.iter().map(|text| (line_of(text), text.value.as_str())).collect()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Listed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Listed, E> {
                Ok(Listed::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Listed, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = items.next_element()? {
                    texts.push(text);
                }
                Ok(Listed::Many(texts))
            }
        }

        deserializer.deserialize_any(OneOrMany)
    }
}
