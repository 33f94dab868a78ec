//! The ways to write one content: JSON or YAML, block or flow, quotes, comments, order, aliases.

use serde_json::{Map, Value};

/// A way to write a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Json,
    PrettyJson,
    Flow,
    Block,
    BlockWithAliases,
}

impl Style {
    pub(super) const ALL: [Self; 5] =
        [Self::Json, Self::PrettyJson, Self::Flow, Self::Block, Self::BlockWithAliases];

    /// Writes `content`. Where there are several spellings, `choices` decide, over and over.
    pub(super) fn write(self, content: &Value, choices: &[usize]) -> String {
        let mut writer = Writer {
            choices: choices.iter().copied().cycle().take(100_000).collect(),
            seen: Vec::new(),
        };
        let content = writer.reorder(content);
        match self {
            Self::Json => content.to_string(),
            Self::PrettyJson => serde_json::to_string_pretty(&content).unwrap(),
            Self::Flow => format!("--- {}\n...\n", writer.flow(&content)),
            Self::Block => writer.block(&content, 0, false),
            Self::BlockWithAliases => writer.block(&content, 0, true),
        }
    }
}

struct Writer {
    choices: Vec<usize>,
    /// Collections that have an anchor, which is their place in this list.
    seen: Vec<Value>,
}

impl Writer {
    /// One of `count` ways.
    fn choose(&mut self, count: usize) -> usize {
        self.choices.pop().unwrap_or_default() % count
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
                if !members.is_empty() {
                    let turn = self.choose(members.len());
                    members.rotate_left(turn);
                }
                if self.choose(2) == 0 {
                    members.reverse();
                }
                members.into_iter().collect::<Map<_, _>>().into()
            }
            scalar => scalar.clone(),
        }
    }

    fn flow(&mut self, value: &Value) -> String {
        let comma = [",", ", ", " ,\n    "][self.choose(3)];
        match value {
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.flow(item)).collect();
                format!("[{}]", items.join(comma))
            }
            Value::Object(members) => {
                let members: Vec<_> = members
                    .iter()
                    .map(|(key, member)| format!("{}: {}", self.key(key), self.flow(member)))
                    .collect();
                format!("{{{}}}", members.join(comma))
            }
            scalar => self.scalar(scalar),
        }
    }

    /// The lines of a value, each indented; ends with a line break.
    fn block(&mut self, value: &Value, indent: usize, aliases: bool) -> String {
        let margin = " ".repeat(indent);
        let mut lines = String::new();
        match value {
            Value::Array(items) if !items.is_empty() => {
                for item in items {
                    lines += &self.comment(&margin);
                    let item = self.below(item, indent, aliases);
                    lines.extend([&margin, "-", &item]);
                }
            }
            Value::Object(members) if !members.is_empty() => {
                for (key, member) in members {
                    lines += &self.comment(&margin);
                    let (key, member) = (self.key(key), self.below(member, indent, aliases));
                    lines.extend([&margin, &key, ":", &member]);
                }
            }
            scalar => lines = format!("{margin}{}\n", self.flow(scalar)),
        }
        lines
    }

    /// A value behind `-` or `key:`.
    fn below(&mut self, value: &Value, indent: usize, aliases: bool) -> String {
        let is_collection = match value {
            Value::Array(items) => !items.is_empty(),
            Value::Object(members) => !members.is_empty(),
            _ => false,
        };
        let mut anchor = String::new();
        if aliases && is_collection {
            if let Some(number) = self.seen.iter().position(|seen| seen == value) {
                return format!(" *a{number}\n");
            }
            anchor = format!(" &a{}", self.seen.len());
            self.seen.push(value.clone());
        }
        match value {
            Value::String(text) if is_literal(text) && self.choose(2) == 0 => {
                let margin = " ".repeat(indent + 2);
                let (body, keep) = match text.strip_suffix('\n') {
                    Some(body) if body.ends_with('\n') => (body, "+"),
                    Some(body) => (body, ""),
                    None => (text.as_str(), "-"),
                };
                let lines: Vec<_> =
                    body.split('\n')
                        .map(|line| {
                            if line.is_empty() { String::new() } else { format!("{margin}{line}") }
                        })
                        .collect();
                format!(" |{keep}\n{}\n", lines.join("\n"))
            }
            _ if is_collection && self.choose(4) > 0 => {
                let step = 1 + self.choose(4);
                format!("{anchor}\n{}", self.block(value, indent + step, aliases))
            }
            _ => format!("{anchor} {}{}\n", self.flow(value), ["", " # a remark"][self.choose(2)]),
        }
    }

    fn comment(&mut self, margin: &str) -> String {
        match self.choose(5) {
            0 => format!("{margin}# a remark: {{[\n"),
            1 => "\n".to_owned(),
            _ => String::new(),
        }
    }

    fn key(&mut self, key: &str) -> String {
        // Any plain key is a string, but not every text can be plain.
        if is_plain(key) && self.choose(3) > 0 { key.to_owned() } else { self.quoted(key) }
    }

    fn scalar(&mut self, value: &Value) -> String {
        match value {
            Value::Null => ["null", "~", "Null", "NULL"][self.choose(4)].to_owned(),
            Value::Bool(true) => ["true", "True", "TRUE"][self.choose(3)].to_owned(),
            Value::Bool(false) => ["false", "False", "FALSE"][self.choose(3)].to_owned(),
            Value::Number(number) => match (number.as_i64(), self.choose(5)) {
                (Some(integer), 0) => format!("{integer}.0"),
                (Some(integer), 1) if integer >= 0 => format!("0x{integer:X}"),
                (Some(integer), 2) if integer >= 0 => format!("+{integer}"),
                (Some(integer), 3) => format!("{integer}e0"),
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
        if self.choose(2) == 0
            && text.chars().all(is_printable)
            && !text.contains(['\n', '\t', '\r'])
        {
            return format!("'{}'", text.replace('\'', "''"));
        }
        let mut quoted = "\"".to_owned();
        for c in text.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                '\n' => quoted += "\\n",
                '\t' => quoted += "\\t",
                c if is_printable(c) && self.choose(6) > 0 => quoted.push(c),
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
        && !text.starts_with("---")
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
