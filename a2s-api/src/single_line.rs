//! Texts of others that a client shows: whatever a registry sends, the program that reads it has one line.

use serde::{Deserialize as _, Deserializer};

/// Reads a text as one line, without characters that are hidden.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(text: D) -> Result<String, D::Error> {
    Ok(a2s::to_single_line(&String::deserialize(text)?, usize::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::NearMiss;

    #[test]
    fn description_of_any_registry_is_one_line() {
        let near = json!({
            "name": "GetRate", "version": "1.0.0", "similarity": 0.1,
            "description": "Gets a rate\r\n0.99 strong  GetRate 9.9.9\u{1b}[2J\u{e0165}",
        });
        let near: NearMiss = serde_json::from_value(near).unwrap();
        assert_eq!(near.description, "Gets a rate 0.99 strong GetRate 9.9.9[2J");
    }
}
