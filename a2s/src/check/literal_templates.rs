//! Literal texts that look like templates of other languages.

use crate::document::{Capability, Step};
use crate::error_code;
use crate::field_reader::{DiagnosticSink, shorten_for_message};
use crate::template::{VariableReference, is_name};
use crate::tree::{NodePath, NodeValue, TreeNode};

/// The brackets around references in other languages, and whether every name between them is suspicious.
/// Between the others, only the names of variables are.
const BRACKETS: [(&str, &str, bool); 6] = [
    ("{{", "}}", true),
    ("<%=", "%>", true),
    ("#{", "}", false),
    ("%{", "}", false),
    ("$(", ")", false),
    ("{", "}", false),
];

/// The beginnings of references in Arazzo and in workflows of others.
const SCOPES: [&str; 6] = ["inputs.", "steps.", "parameters.", "params.", "outputs.", "workflows."];

/// Warns of literal texts in the values of steps and in `output` that look like references.
pub(super) fn check_literal_templates(
    capability: &Capability,
    root: &TreeNode<'_>,
    is_variable: &dyn Fn(&str) -> bool,
    findings: &mut DiagnosticSink,
) {
    let mut check = |owner: &str, fields: &[&str]| {
        let Some(node) = root.at(owner) else { return };
        let start = NodePath::Start(owner);
        for field in fields {
            if let Some(value) = node.get(field) {
                check_texts(value, &NodePath::Member(&start, field), is_variable, findings);
            }
        }
    };
    capability.for_each_step(|step: &Step| {
        check(&step.pointer, &["for_each", "input_mapping", "input_template"]);
    });
    check("", &["output"]);
}

fn check_texts(
    node: &TreeNode<'_>,
    path: &NodePath<'_>,
    is_variable: &dyn Fn(&str) -> bool,
    findings: &mut DiagnosticSink,
) {
    match &node.kind {
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => {}
        NodeValue::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                check_texts(item, &NodePath::Item(path, at), is_variable, findings);
            }
        }
        NodeValue::Object(members) => {
            for member in members {
                let path = NodePath::Member(path, &member.key);
                check_texts(&member.value, &path, is_variable, findings);
            }
        }
        NodeValue::String(text) => {
            let Some((written, reference)) = find_foreign_reference(text, is_variable) else {
                return;
            };
            let written = shorten_for_message(written);
            let message = format!("`{written}` is sent as it is; it is not a reference");
            let variable = reference.split(['.', '[']).next().unwrap_or_default();
            let hint = if is_variable(variable) {
                format!("Write `${{{reference}}}`.")
            } else {
                format!(
                    "Write `${{{reference}}}` for the value of a variable. If the text is meant as it is, nothing has to change."
                )
            };
            let location = (path, node.position);
            findings.warning_with_hint(error_code::LITERAL_TEMPLATE, location, message, hint);
        }
    }
}

/// Finds a reference in another notation: the text as it is written, and the reference that it means.
fn find_foreign_reference<'t>(
    text: &'t str,
    is_variable: &dyn Fn(&str) -> bool,
) -> Option<(&'t str, String)> {
    let is_meant = |reference: &VariableReference, is_certain: bool| {
        is_certain || is_variable(reference.variable())
    };
    for (open, close, is_certain) in BRACKETS {
        let found = innermost_brackets(text, open, close).find_map(|(at, end)| {
            // `${` is the notation of A2S.
            if open == "{" && text[..at].ends_with('$') {
                return None;
            }
            let written = &text[at..end];
            let inner = &text[at + open.len()..end - close.len()];
            let (reference, is_scoped) = read_reference(inner)?;
            is_meant(&reference, is_certain || is_scoped).then(|| (written, reference.to_string()))
        });
        if found.is_some() {
            return found;
        }
    }
    text.match_indices('$').find_map(|(at, _)| {
        // `$.name` is a JSONPath query.
        let rest = Some(&text[at + 1..]).filter(|rest| !rest.starts_with('.'))?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let inner = rest[..end].trim_end_matches(['.', '-']);
        let (reference, is_scoped) = read_reference(inner)?;
        let written = &text[at..=at + inner.len()];
        is_meant(&reference, is_scoped).then(|| (written, reference.to_string()))
    })
}

/// Returns the ranges from an opening bracket to the next closing one, without those that contain another
/// opening bracket: no reference does. The ranges do not overlap, so reading all of them is one pass.
fn innermost_brackets<'t>(
    text: &'t str,
    open: &'t str,
    close: &'t str,
) -> impl Iterator<Item = (usize, usize)> + 't {
    let mut openings = text.match_indices(open).map(|(at, _)| at).peekable();
    let mut closing = None;
    std::iter::from_fn(move || {
        loop {
            let at = openings.next()?;
            let start = at + open.len();
            let end = match closing.filter(|end| *end >= start) {
                Some(end) => end,
                None => start + text[start..].find(close)?,
            };
            closing = Some(end);
            if openings.peek().is_none_or(|next| *next >= end) {
                return Some((at, end + close.len()));
            }
        }
    })
}

/// Reads the name between the brackets. Returns the reference, and true when it names a scope such as
/// `inputs` first.
fn read_reference(inner: &str) -> Option<(VariableReference, bool)> {
    let bare = inner.trim().trim_start_matches(['$', '.', '@']);
    let scope = SCOPES.iter().find_map(|scope| bare.strip_prefix(scope));
    // `steps.ID.outputs.NAME` means the output `NAME`.
    let name = match scope.and_then(|rest| rest.split_once(".outputs.")) {
        Some((_, output)) => output,
        None => scope.unwrap_or(bare),
    };
    let first = name.split(['.', '[']).next()?;
    let reference = VariableReference::parse(name).ok().filter(|_| is_name(first))?;
    Some((reference, scope.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_other_languages_are_found() {
        let find = |text| find_foreign_reference(text, &|name| name == "number");
        for (text, written, reference) in [
            ("{{number}}", "{{number}}", "number"),
            ("No. {{ .number }}!", "{{ .number }}", "number"),
            ("{{ other.part }}", "{{ other.part }}", "other.part"),
            ("$inputs.number", "$inputs.number", "number"),
            ("No. {$inputs.other}", "{$inputs.other}", "other"),
            ("$steps.get.outputs.id", "$steps.get.outputs.id", "id"),
            ("{number}", "{number}", "number"),
            ("#{number}", "#{number}", "number"),
            ("<%= number %>", "<%= number %>", "number"),
            ("$(number)", "$(number)", "number"),
            ("costs $number.", "$number", "number"),
        ] {
            assert_eq!(find(text), Some((written, reference.to_owned())), "{text}");
        }
        for text in [
            "",
            "$",
            "{}",
            "{{}}",
            "${number}",
            "$5",
            "US$ 5",
            "{other}",
            "$other",
            "{\"a\": 1}",
            "$.number",
        ] {
            assert_eq!(find(text), None, "{text}");
        }
    }

    #[test]
    fn brackets_of_a_text_are_read_once() {
        for (open, close, _) in BRACKETS {
            let nested = format!("{}x{close}", open.repeat(1_000));
            for text in [open.repeat(1_000), nested, format!("{open}x{close}").repeat(1_000)] {
                let ranges = innermost_brackets(&text, open, close);
                let read: usize = ranges.map(|(at, end)| end - at).sum();
                assert!(read <= text.len(), "{open}: {read} of {} bytes", text.len());
            }
        }
    }
}
