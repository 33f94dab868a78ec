//! The clauses that differ between the engines. In the text of a query they have a name, in braces.
//!
//! | In a query | Meaning |
//! |---|---|
//! | `{among $1}` | the condition that a value is in a list, which is bound with [`Query::bind_list`] |
//! | `{among_hex $1}` | the same for bytes, with a list of their hexadecimal digits |
//! | `{pairs $1}` | a query for the keys and numbers of a JSON object |
//! | `{elements $1}` | a query for the elements of a JSON list, as JSON |
//! | `{bytes x}` | the bytes of a text |
//! | `{before_slash x}` | the part of a text before its first slash |
//! | `{now}` | the clock of the database, in milliseconds since 1970 |
//! | `{random_id}` | a new unique id |
//! | `{FOR …}` | a lock of the selected rows. SQLite needs none: a transaction that writes is alone |
//!
//! [`Query::bind_list`]: crate::Query::bind_list

use std::borrow::Cow;

/// A database engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

impl Engine {
    /// Replaces the named clauses of a query with those of the engine.
    pub(crate) fn translate(self, sql: &'static str) -> Cow<'static, str> {
        let Some((first, rest)) = sql.split_once('{') else { return sql.into() };
        let mut text = first.to_owned();
        for part in rest.split('{') {
            let (clause, after) = part.split_once('}').unwrap_or((part, ""));
            text.push_str(&self.clause(clause));
            text.push_str(after);
        }
        text.into()
    }

    fn clause(self, clause: &str) -> String {
        let (name, x) = clause.split_once(' ').unwrap_or((clause, ""));
        match (name, self) {
            ("among", Self::Sqlite) => format!("IN (SELECT value FROM json_each({x}))"),
            ("among", Self::Postgres) => format!("= ANY({x})"),
            ("among_hex", Self::Sqlite) => format!("IN (SELECT unhex(value) FROM json_each({x}))"),
            ("among_hex", Self::Postgres) => {
                format!("= ANY(ARRAY(SELECT decode(digits, 'hex') FROM unnest({x}) AS digits))")
            }
            ("pairs", Self::Sqlite) => format!("SELECT key, value FROM json_each({x})"),
            ("pairs", Self::Postgres) => {
                format!("SELECT key, value::bigint FROM json_each_text({x}::json)")
            }
            ("elements", Self::Sqlite) => {
                format!("SELECT value AS element FROM json_each({x})")
            }
            ("elements", Self::Postgres) => {
                format!("SELECT element FROM jsonb_array_elements({x}::jsonb) AS element")
            }
            ("bytes", Self::Sqlite) => format!("CAST({x} AS BLOB)"),
            ("bytes", Self::Postgres) => format!("convert_to({x}, 'UTF8')"),
            ("before_slash", Self::Sqlite) => {
                format!("substr({x}, 1, instr({x} || '/', '/') - 1)")
            }
            ("before_slash", Self::Postgres) => format!("split_part({x}, '/', 1)"),
            ("now", Self::Sqlite) => "CAST(unixepoch('subsec') * 1000 AS INTEGER)".to_owned(),
            ("now", Self::Postgres) => {
                "(extract(epoch FROM clock_timestamp()) * 1000)::bigint".to_owned()
            }
            ("random_id", Self::Sqlite) => "lower(hex(randomblob(16)))".to_owned(),
            ("random_id", Self::Postgres) => "replace(gen_random_uuid()::text, '-', '')".to_owned(),
            ("FOR", Self::Sqlite) => String::new(),
            // A lock, or a mistake that the engine reports.
            _ => clause.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_have_names() {
        let sql = "SELECT {now} FROM run WHERE id {among $1} ORDER BY id {FOR UPDATE SKIP LOCKED}";
        assert_eq!(
            Engine::Postgres.translate(sql),
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM run \
             WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED"
        );
        assert_eq!(
            Engine::Sqlite.translate(sql),
            "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM run \
             WHERE id IN (SELECT value FROM json_each($1)) ORDER BY id "
        );
    }
}
