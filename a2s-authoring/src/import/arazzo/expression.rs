//! Runtime expressions: `$inputs.x`, `$steps.a.outputs.b`, `$response.body#/c`.

/// A runtime expression (Arazzo 1.0.1, "Runtime Expressions").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuntimeExpression<'t> {
    /// `$inputs.`, with the text after it.
    Input(&'t str),
    /// `$steps.ID.outputs.`, with the text after it.
    StepOutput { step: &'t str, rest: &'t str },
    /// `$response.body`, with the JSON Pointer after `#`.
    Body(&'t str),
    /// `$response.header.NAME`.
    Header(&'t str),
    /// `$statusCode`.
    Status,
    /// `$outputs.NAME`, or `$workflows.ID.outputs.NAME`: an output of the workflow that a step
    /// uses.
    WorkflowOutput(&'t str),
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExpressionPart<'t> {
    Text(&'t str),
    /// The text between `{` and `}`; it begins with `$`.
    Expression(&'t str),
}

impl<'t> RuntimeExpression<'t> {
    /// Parses an expression; `None` when the import does not support it.
    pub(super) fn parse(text: &'t str) -> Option<Self> {
        let text = text.trim();
        if text == "$statusCode" {
            return Some(Self::Status);
        }
        if let Some(rest) = text.strip_prefix("$inputs.").filter(|rest| !rest.is_empty()) {
            return Some(Self::Input(rest));
        }
        if let Some((step, rest)) = text.strip_prefix("$steps.")?.split_once(".outputs.") {
            return Some(Self::StepOutput { step, rest });
        }
        None
    }

    /// Parses an expression that may also refer to the response.
    pub(super) fn parse_output(text: &'t str) -> Option<Self> {
        let text = text.trim();
        // `headers` is a frequent slip of the pen.
        for before in ["$response.header.", "$response.headers."] {
            if let Some(name) = text.strip_prefix(before).filter(|name| !name.is_empty()) {
                return Some(Self::Header(name));
            }
        }
        if let Some(rest) = text.strip_prefix("$response.body") {
            return match rest.strip_prefix('#') {
                Some(pointer) => Some(Self::Body(pointer)),
                None => rest.is_empty().then_some(Self::Body("")),
            };
        }
        if let Some(name) = text.strip_prefix("$outputs.") {
            return Some(Self::WorkflowOutput(name));
        }
        if let Some(rest) = text.strip_prefix("$workflows.") {
            let (_, name) = rest.split_once(".outputs.")?;
            return Some(Self::WorkflowOutput(name));
        }
        if text == "$statusCode" { Some(Self::Status) } else { Self::parse(text) }
    }
}

/// Returns true when the grammar of runtime expressions gives `text` a meaning. Every other text is a
/// literal: `$5`, `$filter`, `$.a[0]`.
pub(super) fn is_expression(text: &str) -> bool {
    const WHOLE: [&str; 3] = ["$url", "$method", "$statusCode"];
    const BEGINNINGS: [&str; 8] = [
        "$request.",
        "$response.",
        "$inputs.",
        "$outputs.",
        "$steps.",
        "$workflows.",
        "$sourceDescriptions.",
        "$components.",
    ];
    // Blanks at the end are no part of an expression. Only the text after a known beginning is searched for
    // them: a text can have many beginnings and a long end.
    let is_blank_after =
        |begin: &&str| text.strip_prefix(*begin).map(|rest| rest.trim_start().is_empty());
    WHOLE.iter().any(|whole| is_blank_after(whole) == Some(true))
        || BEGINNINGS.iter().any(|begin| is_blank_after(begin) == Some(false))
}

/// Splits a text into plain text and embedded expressions: `Bearer {$inputs.token}`.
pub(super) fn split_expressions(text: &str) -> Vec<ExpressionPart<'_>> {
    let mut pieces = Vec::new();
    let (mut start, mut from) = (0, 0);
    // Several openings can have one closing bracket, which is searched for once.
    let mut closing = None;
    while let Some(at) = text[from..].find("{$").map(|at| from + at) {
        let known = closing.filter(|end| *end > at);
        let Some(end) = known.or_else(|| text[at..].find('}').map(|length| at + length)) else {
            break;
        };
        closing = Some(end);
        let inside = &text[at + 1..end];
        if !is_expression(inside) {
            from = at + 1;
            continue;
        }
        if at > start {
            pieces.push(ExpressionPart::Text(&text[start..at]));
        }
        pieces.push(ExpressionPart::Expression(inside));
        (start, from) = (end + 1, end + 1);
    }
    if start < text.len() {
        pieces.push(ExpressionPart::Text(&text[start..]));
    }
    pieces
}

/// The path after a name, in the syntax of references: `.a[0].b`, or `#/a/0/b`. None when a reference
/// cannot contain a part of it.
pub(super) fn reference_path(text: &str) -> Option<String> {
    if let Some(pointer) = text.strip_prefix('#') {
        let mut way = String::new();
        for token in pointer.strip_prefix('/').into_iter().flat_map(|rest| rest.split('/')) {
            if !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit()) {
                way.extend(["[", token, "]"]);
            } else if a2s::is_variable_name(token) {
                way.extend([".", token]);
            } else {
                return None;
            }
        }
        return Some(way);
    }
    let reference = format!("x{text}");
    a2s::VariableReference::parse(&reference).is_ok().then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_told_apart() {
        let parse = RuntimeExpression::parse_output;
        assert_eq!(parse("$statusCode"), Some(RuntimeExpression::Status));
        assert_eq!(parse("$inputs.a.b"), Some(RuntimeExpression::Input("a.b")));
        let output = RuntimeExpression::StepOutput { step: "a-b", rest: "c[0].d" };
        assert_eq!(parse("$steps.a-b.outputs.c[0].d"), Some(output));
        assert_eq!(parse("$response.body#/a/0"), Some(RuntimeExpression::Body("/a/0")));
        assert_eq!(parse("$response.body"), Some(RuntimeExpression::Body("")));
        assert_eq!(parse("$response.header.X-Y"), Some(RuntimeExpression::Header("X-Y")));
        assert_eq!(parse("$workflows.w.outputs.o"), Some(RuntimeExpression::WorkflowOutput("o")));
        for other in ["$url", "$request.body", "$response.bodyx", "text", "$steps.a", ""] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn texts_are_split_at_their_expressions() {
        let text = "a {$inputs.b}{c} {$steps.d.outputs.e";
        assert_eq!(
            split_expressions(text),
            [
                ExpressionPart::Text("a "),
                ExpressionPart::Expression("$inputs.b"),
                ExpressionPart::Text("{c} {$steps.d.outputs.e")
            ]
        );
    }

    /// A search from each opening to the end of the text would not end within minutes.
    #[test]
    fn a_long_text_of_openings_is_split_in_one_pass() {
        let openings = "{$".repeat(4 << 20);
        for text in [format!("{openings}}}"), format!("{openings}{}}}", " ".repeat(4 << 20))] {
            assert_eq!(split_expressions(&text), [ExpressionPart::Text(&text)]);
        }
    }

    #[test]
    fn texts_beside_the_grammar_are_literals() {
        for literal in
            ["$5", "$", "$$x", "$filter", "$select=name", "$inputs", "$inputsX.a", "$.a.b", "US$"]
        {
            assert!(!is_expression(literal), "{literal}");
        }
        for expression in ["$url", "$statusCode", "$inputs.a", "$response.body#/a", "$steps.a"] {
            assert!(is_expression(expression), "{expression}");
        }
        let pieces = split_expressions("{$5} {${$inputs.a}");
        let expected = [ExpressionPart::Text("{$5} {$"), ExpressionPart::Expression("$inputs.a")];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn ways_are_written_as_references_write_them() {
        assert_eq!(reference_path(".a[0].b").as_deref(), Some(".a[0].b"));
        assert_eq!(reference_path("#/a/0/b").as_deref(), Some(".a[0].b"));
        assert_eq!(reference_path("").as_deref(), Some(""));
        assert_eq!(reference_path(".a (of b)"), None);
    }
}
