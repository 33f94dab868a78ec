//! Keys of services that are written in a document. Every reader of the registry can read them, and a
//! published version never changes.

use crate::error_code;
use crate::field_reader::{CompileMode, DiagnosticSink, is_placeholder};
use crate::tree::{NodePath, NodeValue, TreeNode};

/// The field by which an author states that the keys in a document are public.
const PUBLIC_KEYS: &str = "x-a2s-public-keys";

/// The beginnings of keys, and the minimum number of characters after each.
const PREFIXES: [(&str, usize); 22] = [
    ("sk-", 16),
    ("sk_", 16),
    ("rk_", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxs-", 10),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("npm_", 30),
    ("hf_", 30),
    ("shpat_", 30),
    ("dop_v1_", 30),
    ("SG.", 40),
];

/// The ends of names whose values are keys, in lower case without separators.
const KEY_NAMES: [&str; 14] = [
    "authorization",
    "apikey",
    "authkey",
    "accesskey",
    "subscriptionkey",
    "apitoken",
    "authtoken",
    "accesstoken",
    "bearertoken",
    "apisecret",
    "clientsecret",
    "secretkey",
    "privatekey",
    "apipassword",
];

/// Further ends of names of headers and cookies whose values are keys.
const KEY_HEADERS: [&str; 3] = ["token", "secret", "password"];

/// Reports keys in a new version, unless its author states that they are public.
pub(super) fn check_literal_keys(
    root: &TreeNode<'_>,
    mode: CompileMode,
    findings: &mut DiagnosticSink,
) {
    let is_public = |node: &TreeNode<'_>| matches!(node.kind, NodeValue::Bool(true));
    if mode == CompileMode::Final || root.get(PUBLIC_KEYS).is_some_and(is_public) {
        return;
    }
    KeySearch { mode, findings }.search(root, &NodePath::Start(""), Region::Document);
}

/// The part of a document that a value is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Region {
    /// A part without requests.
    Document,
    /// The description of a service. Its examples and texts come from the service.
    Specification,
    /// The values of a request.
    Inputs,
    /// The headers or cookies of a request.
    Headers,
    /// The headers that a task sends with each request.
    TaskHeaders,
}

impl Region {
    /// Returns the part below the member `key`. `None` when keys in it are no secrets of the author.
    fn below(self, key: &str) -> Option<Self> {
        match (self, key) {
            (Self::Specification, "description" | "summary" | "title" | "example" | "examples") => {
                None
            }
            (Self::Specification, "headers") => Some(Self::TaskHeaders),
            // In an OpenAPI specification these are the headers of a response.
            (Self::Specification | Self::TaskHeaders, _) => Some(Self::Specification),
            (Self::Document, "tasks" | "task" | "definition") => Some(Self::Specification),
            (Self::Document, "input_mapping" | "input_template") => Some(Self::Inputs),
            (Self::Inputs, "headerParameters" | "cookieParameters") => Some(Self::Headers),
            _ => Some(self),
        }
    }
}

struct KeySearch<'f> {
    mode: CompileMode,
    findings: &'f mut DiagnosticSink,
}

impl KeySearch<'_> {
    fn search(&mut self, node: &TreeNode<'_>, path: &NodePath<'_>, region: Region) {
        match &node.kind {
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => {}
            NodeValue::String(text) => {
                if let Some(prefix) = find_key(text) {
                    let message = format!("this text contains a key: it begins with `{prefix}`");
                    self.report(path, node, message);
                }
            }
            NodeValue::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.search(item, &NodePath::Item(path, at), region);
                }
            }
            NodeValue::Object(members) => {
                if region == Region::Specification {
                    self.check_fixed_parameter(node, path);
                }
                for member in members {
                    let Some(below) = region.below(&member.key) else { continue };
                    let path = NodePath::Member(path, &member.key);
                    let has_key_name = match region {
                        Region::Document | Region::Specification => false,
                        Region::Inputs => is_key_name(&member.key, false),
                        Region::Headers | Region::TaskHeaders => is_key_name(&member.key, true),
                    };
                    if has_key_name && is_literal(&member.value) {
                        self.report_literal(&path, &member.key, &member.value);
                    } else {
                        self.search(&member.value, &path, below);
                    }
                }
            }
        }
    }

    /// Reports a parameter of an operation that always has the same key.
    fn check_fixed_parameter(&mut self, node: &TreeNode<'_>, path: &NodePath<'_>) {
        let text = |key: &str| node.get(key).and_then(TreeNode::as_str);
        let (Some(name), Some(place)) = (text("name"), text("in")) else { return };
        let Some(schema) = node.get("schema") else { return };
        if !is_key_name(name, matches!(place, "header" | "cookie")) {
            return;
        }
        let path = NodePath::Member(path, "schema");
        if let Some(value) = schema.get("const").filter(|value| is_literal(value)) {
            self.report_literal(&NodePath::Member(&path, "const"), name, value);
        }
    }

    fn report_literal(&mut self, path: &NodePath<'_>, name: &str, node: &TreeNode<'_>) {
        let name = crate::field_reader::shorten_for_message(name);
        self.report(path, node, format!("`{name}` has a literal value, which looks like a key"));
    }

    /// Adds the finding. Its message never contains the key.
    fn report(&mut self, path: &NodePath<'_>, node: &TreeNode<'_>, message: String) {
        let (code, location) = (error_code::LITERAL_KEY, (path, node.position));
        match self.mode {
            CompileMode::Publish => self.findings.error(code, location, message),
            CompileMode::Draft | CompileMode::Final => {
                self.findings.warning(code, location, message);
            }
        }
    }
}

/// Returns true for a text that is sent as it is.
fn is_literal(node: &TreeNode<'_>) -> bool {
    let text = node.as_str().unwrap_or_default();
    !text.trim().is_empty() && !text.contains("${") && !is_placeholder(text)
}

/// Returns true when the value of this name is a key. `is_header` is for headers and cookies, whose names
/// have fewer meanings.
fn is_key_name(name: &str, is_header: bool) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let plain: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    let ends = |end: &&str| plain.ends_with(*end);
    KEY_NAMES.iter().any(ends) || plain == "password" || (is_header && KEY_HEADERS.iter().any(ends))
}

/// Finds a key by its known form. Returns the beginning that all keys of this form have.
fn find_key(text: &str) -> Option<&'static str> {
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return Some("-----BEGIN … PRIVATE KEY-----");
    }
    PREFIXES.iter().find_map(|&(prefix, least)| {
        let is_key = |(at, _): (usize, &str)| {
            let before = text[..at].chars().next_back();
            let is_start = before.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_');
            let after = &text[at + prefix.len()..];
            let is_part = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            // The bound keeps the search linear; no key needs more characters to be recognized.
            let part: String = after.chars().take(2 * least).take_while(is_part).collect();
            // Words in a text have no digits.
            is_start && part.len() >= least && part.contains(|c: char| c.is_ascii_digit())
        };
        text.match_indices(prefix).any(is_key).then_some(prefix)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_their_form() {
        // The parts stand apart, so that no search for keys finds this file.
        for (prefix, rest) in [
            ("sk_", "live_51H8abcdefgh1234"),
            ("sk-", "proj-abcdefgh12345678"),
            ("ghp_", "abcdefghijklmnopqrst0123456789"),
            ("AKIA", "ABCDEFGHIJKLMN12"),
            ("xoxb-", "1234567890-abc"),
            ("AIza", "SyA1234567890abcdefghijklmnopqrstu"),
        ] {
            let key = format!("{prefix}{rest}");
            for text in [key.clone(), format!("Bearer {key}"), format!("https://x/?k={key}&a=1")] {
                assert_eq!(find_key(&text), Some(prefix), "{text}");
            }
            assert_eq!(find_key(&format!("a{key}")), None, "{key}");
        }
        assert!(find_key(&format!("-----BEGIN RSA {} KEY-----\nMII", "PRIVATE")).is_some());
        for text in ["", "sk-SK", "sk_learn_model_parameters", "task-1234567890123456", "AKIA", "é"]
        {
            assert_eq!(find_key(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_keys_are_told_from_other_names() {
        for name in ["Authorization", "X-Api-Key", "api_key", "apiKey", "Ocp-Apim-Subscription-Key"]
        {
            assert!(is_key_name(name, false) && is_key_name(name, true), "{name}");
        }
        for name in ["X-Token", "session_secret"] {
            assert!(is_key_name(name, true) && !is_key_name(name, false), "{name}");
        }
        for name in ["Idempotency-Key", "key", "page", "X-Request-Id", "sort_key", "grant_type"] {
            assert!(!is_key_name(name, true) && !is_key_name(name, false), "{name}");
        }
    }
}
