//! JSONPath for names and pointers of descriptions.

use a2s::JsonPathQuery;

/// Returns the JSONPath of a member of the body; `None` when a singular query cannot select it.
pub(super) fn of_member(name: &str) -> Option<String> {
    checked(format!("${}", segment(name)))
}

/// Converts a JSON Pointer (RFC 6901) to a JSONPath: `/data/0/id` is `$.data[0].id`.
pub(super) fn of_pointer(pointer: &str) -> Option<String> {
    let mut query = "$".to_owned();
    let tokens = pointer.strip_prefix('/').map(|rest| rest.split('/')).into_iter().flatten();
    for token in tokens {
        let token = token.replace("~1", "/").replace("~0", "~");
        if !token.is_empty() && token.len() < 10 && token.bytes().all(|b| b.is_ascii_digit()) {
            query.extend(["[", &token, "]"]);
        } else {
            query += &segment(&token);
        }
    }
    checked(query)
}

/// Returns the query, if the compiler accepts it and it selects one value.
fn checked(query: String) -> Option<String> {
    JsonPathQuery::parse(&query).is_ok_and(|query| query.is_singular()).then_some(query)
}

fn segment(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain {
        format!(".{name}")
    } else {
        format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_pointers_become_queries() {
        assert_eq!(of_member("id").as_deref(), Some("$.id"));
        assert_eq!(of_member("a b's\\").as_deref(), Some("$['a b\\'s\\\\']"));
        assert_eq!(of_pointer("").as_deref(), Some("$"));
        assert_eq!(of_pointer("/data/0/a~1b").as_deref(), Some("$.data[0]['a/b']"));
        assert_eq!(of_pointer("/@odata.nextLink").as_deref(), Some("$['@odata.nextLink']"));
    }
}
