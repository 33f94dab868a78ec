//! The order of fields: in values, and in lines of text with their comments.

use serde_json::{Map, Value};

use a2s::tree::{self, NodeMember, NodeValue, TreeNode};

const DOCUMENT: &[&str] = &[
    "a2s",
    "name",
    "description",
    "charset",
    "domains",
    "version",
    "checksum",
    "authors",
    "permissions",
    "parameters",
    "dependencies",
    "tasks",
    "execution",
    "output",
    "examples",
];
const EXECUTION: &[&str] =
    &["type", "variables", "max_concurrency", "condition", "if_true", "if_false", "steps"];
const STEP: &[&str] = &[
    "id",
    "type",
    "format",
    "use",
    "for_each",
    "condition",
    "max_concurrency",
    "task",
    "definition",
    "input_mapping",
    "input_template",
    "output_mapping",
    "timeout",
    "retry",
    "on_error",
    "if_true",
    "if_false",
    "steps",
    "catch",
];

/// The position of a field in a mapping with this order; fields that the language does not define come
/// last.
fn rank(order: &[&str], key: &str) -> usize {
    order.iter().position(|known| *known == key).unwrap_or(order.len())
}

/// Returns the value of a document with its fields, and those of its steps, in order.
pub(super) fn order_value(mut document: Value) -> Value {
    if let Value::Object(members) = &mut document {
        if let Some(execution) = members.get_mut("execution") {
            order_steps(execution);
            sort(execution, EXECUTION);
        }
        sort(&mut document, DOCUMENT);
    }
    document
}

fn order_steps(block: &mut Value) {
    for branch in ["if_true", "if_false", "catch"] {
        if let Some(branch) = block.get_mut(branch) {
            order_steps(branch);
        }
    }
    for step in block.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten() {
        order_steps(step);
        sort(step, STEP);
    }
}

fn sort(value: &mut Value, order: &[&str]) {
    if let Value::Object(members) = value {
        let mut sorted: Vec<(String, Value)> = std::mem::take(members).into_iter().collect();
        sorted.sort_by_key(|(key, _)| rank(order, key));
        *members = sorted.into_iter().collect::<Map<_, _>>();
    }
}

/// Returns the text of a YAML document with its fields, and those of its steps, in order; `None` when they
/// are in order already. The caller must check that the text still has the same meaning.
pub(super) fn order_lines(text: &str) -> Option<String> {
    let (root, _) = tree::parse_tree(text.as_bytes());
    let root = root?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let before = lines.clone();
    // Inner mappings first: the lines of an outer one stay where they are meanwhile.
    if let Some(execution) = root.get("execution") {
        order_steps_of(execution, &mut lines);
        order_mapping(execution, EXECUTION, &mut lines);
    }
    order_mapping(&root, DOCUMENT, &mut lines);
    (lines != before).then(|| lines.join("\n") + "\n")
}

fn order_steps_of(block: &TreeNode<'_>, lines: &mut [String]) {
    for branch in ["if_true", "if_false", "catch"] {
        if let Some(branch) = block.get(branch) {
            order_steps_of(branch, lines);
        }
    }
    let Some(NodeValue::Array(steps)) = block.get("steps").map(|steps| &steps.kind) else { return };
    for step in steps {
        order_steps_of(step, lines);
        order_mapping(step, STEP, lines);
    }
}

/// A field: its lines, and the blank lines and comments before it.
struct FieldBlock {
    rank: usize,
    before: Vec<String>,
    lines: Vec<String>,
}

/// Sorts the lines of the members of `mapping`, if each member begins on a separate line.
fn order_mapping(mapping: &TreeNode<'_>, order: &[&str], lines: &mut [String]) {
    let Some(members) = mapping.members() else { return };
    if members.is_sorted_by_key(|member| rank(order, &member.key)) {
        return;
    }
    let Some(column) = common_column(members) else { return };
    let Some(end) = end_of_mapping(members, column, lines) else { return };
    let starts: Vec<usize> = members.iter().map(|member| member.position.line - 1).collect();
    let Some(opening) = text_before_key(&lines[starts[0]], column) else { return };
    let begin = starts[0] - count_comments_of_first_key(&lines[..starts[0]], column);

    let mut chunks: Vec<FieldBlock> = Vec::with_capacity(members.len());
    let mut before = lines[begin..starts[0]].to_vec();
    for (index, member) in members.iter().enumerate() {
        let stop = starts.get(index + 1).copied().unwrap_or(end);
        let mut own: Vec<String> = lines[starts[index]..stop].to_vec();
        let tail = own.len() - count_lines_of_next_field(&own, column);
        let next = if index + 1 < members.len() { own.split_off(tail) } else { Vec::new() };
        chunks.push(FieldBlock {
            rank: rank(order, &member.key),
            before: std::mem::replace(&mut before, next),
            lines: own,
        });
    }
    // The dash of an item, if any, stays first, whichever field follows.
    if let Some(first) = chunks.first_mut().and_then(|chunk| chunk.lines.first_mut()) {
        first.replace_range(..opening.len(), &" ".repeat(opening.len()));
    }
    chunks.sort_by_key(|chunk| chunk.rank);
    let blank = chunks[0].before.iter().take_while(|line| line.trim().is_empty()).count();
    let blank: Vec<String> = chunks[0].before.drain(..blank).collect();
    if let Some(next) = chunks.get_mut(1) {
        next.before.splice(..0, blank);
    }
    let mut moved: Vec<String> =
        chunks.into_iter().flat_map(|chunk| chunk.before.into_iter().chain(chunk.lines)).collect();
    let is_content = |line: &String| !is_blank_or_comment(line);
    let Some(first) = moved.iter().position(is_content) else { return };
    if moved[first].len() < opening.len() {
        return;
    }
    moved[first].replace_range(..opening.len(), &opening);
    for line in &mut moved[..first] {
        // A comment before the first field goes before its item.
        let indent = opening.len() - opening.trim_start().len();
        *line = format!("{}{}", " ".repeat(indent), line.trim_start());
    }
    lines[begin..end].clone_from_slice(&moved);
}

/// The number of lines right above the first key that belong to it. The first comment of a file belongs to
/// the file, and a comment above the dash of an item belongs to the item.
fn count_comments_of_first_key(above: &[String], column: usize) -> usize {
    let comments = above.iter().rev().take_while(|line| is_comment_at(line, column)).count();
    let further = &above[..above.len() - comments];
    if further.iter().all(|line| line.trim().is_empty()) { 0 } else { comments }
}

/// Returns the column of all keys, from 0; `None` when they differ, or when two keys are on the same line.
fn common_column(members: &[NodeMember<'_>]) -> Option<usize> {
    let column = members.first()?.position.column.checked_sub(1)?;
    let apart = members.windows(2).all(|pair| pair[0].position.line < pair[1].position.line);
    let aligned = members.iter().all(|member| member.position.column == column + 1);
    (apart && aligned).then_some(column)
}

/// The line after the mapping: the first one that is indented less than its keys.
fn end_of_mapping(members: &[NodeMember<'_>], column: usize, lines: &[String]) -> Option<usize> {
    let last = members.last()?.position.line;
    let rest = lines.get(last..)?;
    let outside = |line: &String| !line.trim().is_empty() && indent_of(line) < column;
    let mut end = last + rest.iter().position(outside).unwrap_or(rest.len());
    // Blank lines and comments at the fields' indentation after the last field stay there.
    while end > last && (lines[end - 1].trim().is_empty() || is_comment_at(&lines[end - 1], column))
    {
        end -= 1;
    }
    Some(end)
}

/// The text before the first key on its line; none unless it consists of spaces and at most one dash.
fn text_before_key(line: &str, column: usize) -> Option<String> {
    let before = line.get(..column)?;
    let plain = before.chars().all(|c| c == ' ' || c == '-') && before.matches('-').count() <= 1;
    plain.then(|| before.to_owned())
}

/// The number of lines at the end of `lines` that belong to the next field: comments at its own indentation
/// or less, and blank lines.
fn count_lines_of_next_field(lines: &[String], column: usize) -> usize {
    lines
        .iter()
        .skip(1)
        .rev()
        .take_while(|line| {
            line.trim().is_empty() || (is_blank_or_comment(line) && indent_of(line) <= column)
        })
        .count()
}

fn is_blank_or_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

fn is_comment_at(line: &str, column: usize) -> bool {
    indent_of(line) == column && line.trim_start().starts_with('#')
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
