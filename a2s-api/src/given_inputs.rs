//! The inputs of a request.

use serde::{Deserialize as _, Deserializer};
use serde_json::{Map, Value};

/// Reads inputs by name. One that is null counts as absent: language models that call tools with strict
/// schemas send null for each optional input.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    let mut inputs = Map::deserialize(deserializer)?;
    inputs.retain(|_, value: &mut Value| !value.is_null());
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{AgentRequest, ExecutionRequest, PlanRequest};

    #[test]
    fn a_null_input_counts_as_absent() {
        let inputs =
            json!({"count": null, "word": "null", "filter": {"tag": null}, "list": [null]});
        let request = json!({"name": "Echo", "inputs": inputs});
        let plan: PlanRequest = serde_json::from_value(request.clone()).unwrap();
        let run: ExecutionRequest = serde_json::from_value(request).unwrap();
        let turn: AgentRequest =
            serde_json::from_value(json!({"message": "go", "inputs": inputs})).unwrap();
        let given = json!({"word": "null", "filter": {"tag": null}, "list": [null]});
        for inputs in [plan.inputs, run.inputs, turn.inputs] {
            assert_eq!(json!(inputs), given);
        }
    }
}
