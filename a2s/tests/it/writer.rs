//! One content, written in any of the ways that YAML and JSON have: block and flow style mixed,
//! every kind of quotes, comments, blank lines, another order of keys, other spellings of scalars,
//! keys without quotes, and aliases for what was written before.

use serde_json::{Map, Value};

/// Writes `content`. Where there are several ways, `choices` decide, over and over.
pub(crate) fn write(content: &Value, choices: &[usize]) -> String {
    let mut writer = Writer {
        choices: choices.to_vec(),
        next: 0,
        anchors: None,
        wrote: Vec::new(),
        in_literal: false,
    };
    let content = writer.reorder(content);
    match writer.choose(8) {
        0 => content.to_string(),
        1 => serde_json::to_string_pretty(&content).unwrap(),
        2 => format!("--- {}\n...\n", writer.flow(&content)),
        3 => format!("\u{feff}{}", writer.block(&content, 0)),
        4 => writer.block(&content, 0).replace('\n', "\r\n"),
        5 => {
            writer.anchors = Some(repeated(&content));
            format!("# begins with a remark\n---\n{}", writer.block(&content, 0))
        }
        6 => {
            writer.anchors = Some(repeated(&content));
            format!("{} # the end", writer.flow(&content))
        }
        _ => writer.block(&content, 0),
    }
}

/// Values that stand in `content` more than once.
fn repeated(content: &Value) -> Vec<Value> {
    fn visit<'v>(value: &'v Value, seen: &mut Vec<&'v Value>, repeated: &mut Vec<Value>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| visit(item, seen, repeated)),
            Value::Object(members) => members.values().for_each(|m| visit(m, seen, repeated)),
            _ => {}
        }
        if seen.contains(&value) {
            if !repeated.contains(value) {
                repeated.push(value.clone());
            }
        } else {
            seen.push(value);
        }
    }
    let (mut seen, mut repeated) = (Vec::new(), Vec::new());
    visit(content, &mut seen, &mut repeated);
    repeated
}

struct Writer {
    choices: Vec<usize>,
    next: usize,
    /// The values that get an anchor when they are written first, and an alias from then on.
    anchors: Option<Vec<Value>>,
    /// The anchors that are written.
    wrote: Vec<usize>,
    /// Whether the line before ends a literal text, to which a blank line would belong.
    in_literal: bool,
}

/// What stands for a value: an alias, or the value behind a mark that may be an anchor.
enum Mark {
    Alias(String),
    Value(String),
}

impl Writer {
    /// One of `count` ways.
    fn choose(&mut self, count: usize) -> usize {
        self.next += 1;
        let turn = self.next / self.choices.len();
        (self.choices[self.next % self.choices.len()].wrapping_add(turn)) % count
    }

    /// The same with its members in another order.
    fn reorder(&mut self, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| self.reorder(item)).collect(),
            Value::Object(members) => {
                let mut members: Vec<_> = members
                    .iter()
                    .map(|(key, member)| (key.clone(), self.reorder(member)))
                    .collect();
                for place in (1..members.len()).rev() {
                    let other = self.choose(place + 1);
                    members.swap(place, other);
                }
                members.into_iter().collect::<Map<_, _>>().into()
            }
            scalar => scalar.clone(),
        }
    }

    fn mark(&mut self, value: &Value) -> Mark {
        let known = self.anchors.as_ref().and_then(|all| all.iter().position(|v| v == value));
        match known {
            Some(number) if self.wrote.contains(&number) => Mark::Alias(format!("*a-{number}")),
            Some(number) => {
                self.wrote.push(number);
                Mark::Value(format!("&a-{number} "))
            }
            None => Mark::Value(String::new()),
        }
    }

    fn flow(&mut self, value: &Value) -> String {
        match self.mark(value) {
            Mark::Alias(alias) => alias + " ",
            Mark::Value(mark) => mark + &self.flow_value(value),
        }
    }

    fn flow_value(&mut self, value: &Value) -> String {
        let comma = [",", ", ", " ,\n      ", ", # a remark, [ {\n      "][self.choose(4)];
        match value {
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.flow(item)).collect();
                self.bracketed('[', &items, comma, ']')
            }
            Value::Object(members) => {
                let members: Vec<_> = members
                    .iter()
                    .map(|(key, member)| format!("{}: {}", self.key(key), self.flow(member)))
                    .collect();
                self.bracketed('{', &members, comma, '}')
            }
            scalar => self.scalar(scalar),
        }
    }

    fn bracketed(&mut self, open: char, parts: &[String], comma: &str, close: char) -> String {
        let last = if parts.is_empty() || self.choose(4) > 0 { "" } else { "," };
        format!("{open}{}{last}{close}", parts.join(comma))
    }

    /// The lines of a value, each indented; ends with a line break.
    fn block(&mut self, value: &Value, indent: usize) -> String {
        let margin = " ".repeat(indent);
        let mut lines = String::new();
        match value {
            Value::Array(items) if !items.is_empty() => {
                for item in items {
                    lines += &self.comment(&margin);
                    let item = self.below(item, indent);
                    lines.extend([&margin, "-", &item]);
                }
            }
            Value::Object(members) if !members.is_empty() => {
                for (key, member) in members {
                    lines += &self.comment(&margin);
                    let (key, member) = (self.key(key), self.below(member, indent));
                    let space = ["", " "][self.choose(2)];
                    lines.extend([&margin, &key, space, ":", &member]);
                }
            }
            scalar => lines = format!("{margin}{}\n", self.flow(scalar)),
        }
        lines
    }

    /// A value behind `-` or `key:`.
    fn below(&mut self, value: &Value, indent: usize) -> String {
        let mark = match self.mark(value) {
            Mark::Alias(alias) => return format!(" {alias}{}\n", self.remark()),
            Mark::Value(mark) => mark,
        };
        let is_collection = match value {
            Value::Array(items) => !items.is_empty(),
            Value::Object(members) => !members.is_empty(),
            _ => false,
        };
        match value {
            Value::String(text) if is_literal(text) && self.choose(2) == 0 => {
                self.in_literal = true;
                let margin = " ".repeat(indent + 2);
                let (body, keep) = match text.strip_suffix('\n') {
                    Some(body) if body.ends_with('\n') => (body, "+"),
                    Some(body) => (body, ""),
                    None => (text.as_str(), "-"),
                };
                let lines = body.split('\n').map(|line| match line {
                    "" => String::new(),
                    line => format!("{margin}{line}"),
                });
                format!(" {mark}|{keep}\n{}\n", lines.collect::<Vec<_>>().join("\n"))
            }
            Value::Null if mark.is_empty() && self.choose(3) == 0 => format!("{}\n", self.remark()),
            _ if is_collection && self.choose(4) > 0 => {
                let step = 1 + self.choose(4);
                let remark = self.remark();
                format!(" {mark}{remark}\n{}", self.block(value, indent + step))
            }
            _ => format!(" {mark}{}{}\n", self.flow_value(value), self.remark()),
        }
    }

    fn remark(&mut self) -> &'static str {
        ["", "", " # a remark: {[", "   "][self.choose(4)]
    }

    fn comment(&mut self, margin: &str) -> String {
        let in_literal = std::mem::take(&mut self.in_literal);
        match self.choose(8) {
            0 => format!("{margin}# a remark: {{[\n"),
            1 => "# at the margin\n".to_owned(),
            2 if !in_literal => "\n".to_owned(),
            3 if !in_literal => "   \n".to_owned(),
            _ => String::new(),
        }
    }

    fn key(&mut self, key: &str) -> String {
        // A plain key is a string, whatever it looks like: `200:` is `"200":`.
        if is_plain(key) && self.choose(3) > 0 { key.to_owned() } else { self.quoted(key) }
    }

    fn scalar(&mut self, value: &Value) -> String {
        match value {
            Value::Null => ["null", "~", "Null", "NULL"][self.choose(4)].to_owned(),
            Value::Bool(true) => ["true", "True", "TRUE"][self.choose(3)].to_owned(),
            Value::Bool(false) => ["false", "False", "FALSE"][self.choose(3)].to_owned(),
            Value::Number(number) => match (number.as_i64(), self.choose(8)) {
                (Some(integer), 0) => format!("{integer}.0"),
                (Some(integer), 1) if integer >= 0 => format!("0x{integer:X}"),
                (Some(integer), 2) if integer >= 0 => format!("+{integer}"),
                (Some(integer), 3) => format!("{integer}e0"),
                (Some(integer), 4) if integer >= 0 => format!("0o{integer:o}"),
                (Some(integer), 5) if integer >= 0 => format!("000{integer}"),
                (Some(integer), 6) => format!("{integer}0E-1"),
                (None, 0) => format!("{:e}", number.as_f64().unwrap()),
                _ => number.to_string(),
            },
            Value::String(text)
                if is_plain(text) && !means_something(text) && self.choose(3) > 0 =>
            {
                text.clone()
            }
            Value::String(text) => self.quoted(text),
            collection => collection.to_string(),
        }
    }

    fn quoted(&mut self, text: &str) -> String {
        if self.choose(2) == 0 && text.chars().all(is_printable) {
            return format!("'{}'", text.replace('\'', "''"));
        }
        let mut quoted = "\"".to_owned();
        for c in text.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                '\n' => quoted += "\\n",
                '\t' => quoted += "\\t",
                c if is_printable(c) && self.choose(6) > 0 => quoted.push(c),
                c if u32::from(c) < 0x100 && self.choose(2) == 0 => {
                    quoted.extend(["\\x", &format!("{:02x}", u32::from(c))]);
                }
                c if u32::from(c) < 0x1_0000 && self.choose(2) == 0 => {
                    quoted.extend(["\\u", &format!("{:04X}", u32::from(c))]);
                }
                c => quoted.extend(["\\U", &format!("{:08x}", u32::from(c))]),
            }
        }
        quoted + "\""
    }
}

/// Whether a character may stand in YAML as it is, and on one line.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(c, '\u{2028}' | '\u{2029}')
}

/// Whether a text can stand without quotes in block and flow style; some that could are left out.
fn is_plain(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric())
        && !text.ends_with(' ')
        && text.chars().all(|c| c.is_alphanumeric() || " _./-$".contains(c))
}

/// Whether a plain text would be null, a boolean or a number.
fn means_something(text: &str) -> bool {
    ["null", "true", "false"].contains(&text.to_ascii_lowercase().as_str())
        || text.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a text can be a literal block.
fn is_literal(text: &str) -> bool {
    !text.trim().is_empty()
        && !text.starts_with([' ', '\n'])
        && text.chars().all(|c| c == '\n' || is_printable(c))
}
