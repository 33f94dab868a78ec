//! YAML text to a tree, over the events of `granit-parser`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::Number;

use super::{
    MAX_DEPTH, MAX_NODES, MAX_TEXT, NodeMember, NodeValue, TreeNode, item_path, member_path,
    refuse_duplicates,
};
use crate::checksum::MAX_SAFE_INTEGER;
use crate::diagnostic::{Diagnostic, DiagnosticList, SourcePosition};
use crate::error_code;

/// Returns the options of the parser.
fn options() -> granit_parser::Options {
    granit_parser::options! {
        disallow_directives: true,
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH + 1,
        block_nesting_limit: MAX_DEPTH + 1,
    }
}

/// Returns the anchors that the aliases of a text name, as far as the text can be read.
fn find_aliased(text: &str) -> BTreeSet<usize> {
    let events = Parser::new_from_str_with_options(text, options()).map_while(Result::ok);
    let alias = |(event, _): (Event<'_>, Span)| match event {
        Event::Alias(anchor) => Some(anchor),
        _ => None,
    };
    events.filter_map(alias).collect()
}

/// Reads a text. Returns the tree, as far as it can be read, and every error.
pub(super) fn parse(text: &str) -> (Option<TreeNode<'_>>, DiagnosticList) {
    let mut builder = TreeBuilder { source: text, ..TreeBuilder::default() };
    for event in Parser::new_from_str_with_options(text, options()) {
        match event {
            Ok((event, span)) => {
                if builder.accept(event, &span).is_err() {
                    return (None, builder.diagnostics);
                }
            }
            Err(error) => {
                let marker = error.marker();
                let position = SourcePosition { line: marker.line(), column: marker.col() + 1 };
                let info = error.info();
                let code = if info.contains("nesting") || info.contains("limit") {
                    error_code::BUDGET
                } else {
                    error_code::SYNTAX
                };
                let path = builder.path();
                let (message, hint) = explain(&info, text, position, builder.open.last());
                let diagnostic = Diagnostic::error(code, (path, position), message);
                builder.diagnostics.push(match hint {
                    Some(hint) => diagnostic.with_hint(hint),
                    None => diagnostic,
                });
                return (None, builder.diagnostics);
            }
        }
    }
    let root = builder.root.take().unwrap_or(TreeNode {
        kind: NodeValue::Null,
        position: SourcePosition { line: 1, column: 1 },
    });
    (Some(root), builder.diagnostics)
}

/// Returns the parser's error in plain words, and the fix. `open` is the innermost collection that has not
/// ended.
fn explain(
    complaint: &str,
    text: &str,
    at: SourcePosition,
    open: Option<&OpenNode<'_>>,
) -> (String, Option<&'static str>) {
    let line = |number: usize| text.lines().nth(number.wrapping_sub(1)).unwrap_or_default();
    // In flow style a collection begins with its bracket.
    let bracket = open.and_then(|open| {
        let bracket = line(open.position.line).chars().nth(open.position.column - 1);
        Some((bracket.filter(|c| matches!(c, '[' | '{'))?, open.position.line))
    });
    let says = |words: &str| complaint.contains(words);
    if says("unknown anchor") {
        let hint = "Write `&name` at the value before the alias `*name` uses it.";
        return ("the alias names an unknown anchor".to_owned(), Some(hint));
    }
    if says("unknown escape") {
        let hint = "Write `\\\\` for a backslash, or put the text in single quotes.";
        return ("a quoted text has an unknown escape".to_owned(), Some(hint));
    }
    if says("quoted scalar") || says("unclosed quote") {
        let hint = "Close the text with the same quote that starts it.";
        return ("a quoted text is not closed before this position".to_owned(), Some(hint));
    }
    if says("tab") {
        return (
            "a tab is used where only spaces are allowed".to_owned(),
            Some("Indent with spaces."),
        );
    }
    if let Some((bracket, from)) = bracket {
        let hint = if line(at.line).contains("${") {
            "Put templates in quotes: \"${city}\"."
        } else {
            "Close the bracket, and put a `,` between its items."
        };
        return (
            format!("the `{bracket}` on line {from} is not closed before this position"),
            Some(hint),
        );
    }
    if says("mapping values are not allowed") || says("':' indicator") {
        let hint = "Put the text in quotes if the `:` is part of it; otherwise align the line with the lines around it.";
        return ("a `:` is not allowed here".to_owned(), Some(hint));
    }
    if says("block mapping") || says("block collection") || says("block sequence") {
        let hint = "Align the line with the lines of the same list or mapping.";
        return (
            "this line does not match the indentation of the lines before it".to_owned(),
            Some(hint),
        );
    }
    if says("unexpected character") || says("cannot start any token") {
        return (complaint.to_owned(), Some("Put the text in quotes."));
    }
    (complaint.to_owned(), None)
}

/// The error when the document exceeds a limit and the reading stops.
struct OverBudget;

#[derive(Default)]
struct TreeBuilder<'s> {
    source: &'s str,
    open: Vec<OpenNode<'s>>,
    root: Option<TreeNode<'s>>,
    documents: usize,
    anchors: BTreeMap<usize, TreeNode<'s>>,
    /// The anchors that an alias names, known from the first anchor on. The values of other anchors are
    /// not copied.
    aliased: Option<BTreeSet<usize>>,
    nodes: usize,
    text: usize,
    /// The number of values, and of bytes of text, in `anchors`.
    copied: (usize, usize),
    diagnostics: DiagnosticList,
}

/// A collection whose end has not been read yet.
struct OpenNode<'s> {
    anchor: usize,
    position: SourcePosition,
    items: NodeItems<'s>,
}

enum NodeItems<'s> {
    Array(Vec<TreeNode<'s>>),
    /// The members, and the key whose value comes next. The inner `None` stands for a rejected key.
    Object(Vec<NodeMember<'s>>, Option<Option<Scalar<'s>>>),
}

/// A scalar: a value, or a key whose value has not been read yet.
struct Scalar<'s> {
    text: Cow<'s, str>,
    position: SourcePosition,
    /// True when the parser made it up, because the text has nothing here.
    is_empty: bool,
}

impl<'s> TreeBuilder<'s> {
    fn accept(&mut self, event: Event<'s>, span: &Span) -> Result<(), OverBudget> {
        let position = SourcePosition { line: span.start.line(), column: span.start.col() + 1 };
        match event {
            Event::DocumentStart(..) => self.start_document(position)?,
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), position);
                let plain = style == ScalarStyle::Plain;
                let is_empty = plain && text == "~" && span.slice(self.source) != Some("~");
                let scalar = Scalar { text, position, is_empty };
                self.accept_scalar(scalar, plain, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), position);
                self.open(anchor, position, NodeItems::Array(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), position);
                self.open(anchor, position, NodeItems::Object(Vec::new(), None))?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close()?,
            Event::Alias(anchor) => self.accept_alias(anchor, position)?,
            _ => {}
        }
        Ok(())
    }

    fn start_document(&mut self, position: SourcePosition) -> Result<(), OverBudget> {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        let message = "a second document begins here";
        let hint = "Keep one document in the file, and remove the line `---`.";
        self.refuse(error_code::YAML_FEATURE, position, message, hint);
        Err(OverBudget)
    }

    fn accept_scalar(
        &mut self,
        scalar: Scalar<'s>,
        plain: bool,
        anchor: usize,
    ) -> Result<(), OverBudget> {
        let position = scalar.position;
        self.spend(1, scalar.text.len(), position)?;
        if !self.expects_key() {
            let kind = self.scalar(scalar.text, plain, position);
            return self.add(TreeNode { kind, position }, anchor);
        }
        if self.is_aliased(anchor) {
            // The anchor of a key names its scalar.
            let kind = self.scalar(scalar.text.clone(), plain, position);
            self.keep(&TreeNode { kind, position }, anchor)?;
        }
        let is_merge_key = plain && scalar.text == "<<";
        if is_merge_key {
            let message = "merge keys (`<<`) are not supported";
            let hint = "Write the fields in full; an alias `*name` can only replace a whole value.";
            self.refuse(error_code::YAML_FEATURE, position, message, hint);
        }
        self.set_key((!is_merge_key).then_some(scalar));
        Ok(())
    }

    fn accept_alias(&mut self, anchor: usize, position: SourcePosition) -> Result<(), OverBudget> {
        // A collection that contains itself has no end yet and so is not known here.
        let Some(node) = self.anchors.get(&anchor) else {
            let message = "an alias must not be inside the value that it names";
            let hint = "Write the value in full.";
            self.refuse(error_code::YAML_FEATURE, position, message, hint);
            return Err(OverBudget);
        };
        let (nodes, text) = node.size();
        let depth = node.depth();
        let node = TreeNode { position, ..node.clone() };
        self.spend(nodes, text, position)?;
        self.check_depth(self.open.len() + depth, position)?;
        if !self.expects_key() {
            return self.add(node, 0);
        }
        let (message, hint) = ("a key must not be an alias", "Write the key in full.");
        self.refuse(error_code::YAML_FEATURE, position, message, hint);
        self.set_key(None);
        Ok(())
    }

    fn refuse(
        &mut self,
        code: error_code::ErrorCode,
        position: SourcePosition,
        message: &str,
        hint: &str,
    ) {
        let path = self.path();
        let diagnostic = Diagnostic::error(code, (path, position), message.to_owned());
        self.diagnostics.push(diagnostic.with_hint(hint));
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, position: SourcePosition) {
        // A quoted scalar may carry the non-specific tag `!`; every tag is refused alike.
        if tag.is_some() {
            self.refuse(
                error_code::YAML_FEATURE,
                position,
                "tags (`!…`) are not supported",
                "Remove the tag; put the value in quotes if it is a text that looks like a number.",
            );
        }
    }

    fn spend(
        &mut self,
        nodes: usize,
        text: usize,
        position: SourcePosition,
    ) -> Result<(), OverBudget> {
        self.nodes += nodes;
        self.text += text;
        self.check_size(self.nodes, self.text, position)
    }

    fn check_size(
        &mut self,
        nodes: usize,
        text: usize,
        position: SourcePosition,
    ) -> Result<(), OverBudget> {
        if nodes > MAX_NODES || text > MAX_TEXT {
            let message = format!(
                "with its aliases expanded, the document has more than {MAX_NODES} values or {MAX_TEXT} bytes of text"
            );
            self.refuse(error_code::BUDGET, position, &message, error_code::BUDGET.remedy);
            return Err(OverBudget);
        }
        Ok(())
    }

    fn check_depth(&mut self, depth: usize, position: SourcePosition) -> Result<(), OverBudget> {
        if depth > MAX_DEPTH {
            let message = format!("the document has more than {MAX_DEPTH} levels");
            self.refuse(error_code::BUDGET, position, &message, error_code::BUDGET.remedy);
            return Err(OverBudget);
        }
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(OpenNode { items: NodeItems::Object(_, None), .. }))
    }

    fn set_key(&mut self, key: Option<Scalar<'s>>) {
        if let Some(OpenNode { items: NodeItems::Object(_, waiting), .. }) = self.open.last_mut() {
            *waiting = Some(key);
        }
    }

    fn open(
        &mut self,
        anchor: usize,
        position: SourcePosition,
        items: NodeItems<'s>,
    ) -> Result<(), OverBudget> {
        self.spend(1, 0, position)?;
        self.check_depth(self.open.len() + 1, position)?;
        self.open.push(OpenNode { anchor, position, items });
        Ok(())
    }

    fn close(&mut self) -> Result<(), OverBudget> {
        let Some(OpenNode { anchor, position, items }) = self.open.pop() else { return Ok(()) };
        let kind = match items {
            NodeItems::Array(items) => NodeValue::Array(items),
            NodeItems::Object(members, _) => {
                refuse_duplicates(&members, || path_through(&self.open), &mut self.diagnostics);
                NodeValue::Object(members)
            }
        };
        if self.expects_key() {
            self.refuse(
                error_code::YAML_FEATURE,
                position,
                "a key must be a string, not a collection",
                "Put templates and other text with brackets in quotes.",
            );
            self.set_key(None);
            Ok(())
        } else {
            self.add(TreeNode { kind, position }, anchor)
        }
    }

    fn add(&mut self, node: TreeNode<'s>, anchor: usize) -> Result<(), OverBudget> {
        self.keep(&node, anchor)?;
        match self.open.last_mut().map(|open| &mut open.items) {
            Some(NodeItems::Array(items)) => items.push(node),
            Some(NodeItems::Object(members, waiting)) => {
                if let Some(Some(Scalar { text: key, position, is_empty })) = waiting.take() {
                    members.push(NodeMember {
                        key,
                        position,
                        has_empty_key: is_empty,
                        value: node,
                    });
                }
            }
            None => self.root = Some(node),
        }
        Ok(())
    }

    /// Stores the value of an anchor for its aliases.
    fn keep(&mut self, node: &TreeNode<'s>, anchor: usize) -> Result<(), OverBudget> {
        if self.is_aliased(anchor) {
            // An alias counts this size again, so copies beyond the bound belong to a document that
            // is refused at its aliases.
            let (nodes, text) = node.size();
            self.copied = (self.copied.0 + nodes, self.copied.1 + text);
            self.check_size(self.copied.0, self.copied.1, node.position)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(())
    }

    /// Returns true when an alias names this anchor. The text is read again to find out, because an alias
    /// follows its anchor; texts without anchors are read once.
    fn is_aliased(&mut self, anchor: usize) -> bool {
        // The parser counts anchors from 1; 0 is a value without an anchor.
        anchor != 0
            && self.aliased.get_or_insert_with(|| find_aliased(self.source)).contains(&anchor)
    }

    /// Returns the path of the value that is being read.
    fn path(&self) -> String {
        path_through(&self.open)
    }

    fn scalar(
        &mut self,
        text: Cow<'s, str>,
        plain: bool,
        position: SourcePosition,
    ) -> NodeValue<'s> {
        if plain { self.plain_scalar(text, position) } else { NodeValue::String(text) }
    }

    /// Reads a plain scalar by the core schema (YAML 1.2.2, section 10.3.2).
    fn plain_scalar(&mut self, text: Cow<'s, str>, position: SourcePosition) -> NodeValue<'s> {
        match &*text {
            "" | "~" | "null" | "Null" | "NULL" => return NodeValue::Null,
            "true" | "True" | "TRUE" => return NodeValue::Bool(true),
            "false" | "False" | "FALSE" => return NodeValue::Bool(false),
            _ => {}
        }
        match plain_number(&text) {
            Some(Some(number)) => NodeValue::Number(number),
            Some(None) => {
                let message = format!("the number {text} is outside ±(2^53 − 1) or is not finite");
                self.refuse(error_code::NUMBER, position, &message, error_code::NUMBER.remedy);
                NodeValue::Null
            }
            None => NodeValue::String(text),
        }
    }
}

/// Returns the path that leads through these open collections.
fn path_through(open: &[OpenNode<'_>]) -> String {
    open.iter().fold(String::new(), |path, open| match &open.items {
        NodeItems::Array(items) => item_path(&path, items.len()),
        NodeItems::Object(_, Some(Some(key))) => member_path(&path, &key.text),
        NodeItems::Object(..) => path,
    })
}

/// Returns the number that a plain scalar spells: `None` when it is not a number, `Some(None)` when the
/// number cannot be represented exactly everywhere.
fn plain_number(text: &str) -> Option<Option<Number>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if let "inf" | "Inf" | "INF" = unsigned.strip_prefix('.').unwrap_or("") {
        return Some(None);
    }
    if let ".nan" | ".NaN" | ".NAN" = text {
        return Some(None);
    }
    let digits = |s: &str, radix| !s.is_empty() && s.chars().all(|c| c.is_digit(radix));
    let safe = |integer: i64| (integer.unsigned_abs() < (1 << 53)).then(|| Number::from(integer));
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(rest) = text.strip_prefix(prefix) {
            return digits(rest, radix)
                .then(|| i64::from_str_radix(rest, radix).ok().and_then(safe));
        }
    }
    if digits(unsigned, 10) {
        return Some(text.parse().ok().and_then(safe));
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let shaped = (digits(whole, 10) && (fraction.is_empty() || digits(fraction, 10)))
        || (whole.is_empty() && digits(fraction, 10));
    let exponent_shaped =
        exponent.is_none_or(|e| digits(e.strip_prefix(['+', '-']).unwrap_or(e), 10));
    if !shaped || !exponent_shaped {
        return None;
    }
    let float: f64 = text.parse().ok()?;
    let exact = float.is_finite() && (float.fract() != 0.0 || float.abs() <= MAX_SAFE_INTEGER);
    Some(if exact { Number::from_f64(float) } else { None })
}
