//! Reading the answer of an embeddings API. Pure; the answer is foreign.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::{Embedding, to_unit};

/// The maximum length of a vector, in dimensions.
pub(crate) const MAX_DIMENSIONS: usize = 8192;

/// The response `{"data": [{"index": 0, "embedding": …}, …]}`. Other members are ignored.
#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<EmbeddingItem>,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    index: Option<usize>,
    embedding: VectorNumbers,
}

/// The numbers of a vector: a list of numbers, or a Base64 text of little-endian floats of four bytes.
struct VectorNumbers(Vec<f32>);

/// Vectors of length one, in the order of the texts, and their length. `None` stands for a vector without a
/// direction.
///
/// # Errors
/// When the response is not for `count` texts, a value is not a finite number, or a vector does not have
/// the length of the others or `expected`.
pub(crate) fn parse_response(
    answer: &[u8],
    count: usize,
    expected: Option<usize>,
) -> Result<(Vec<Embedding>, usize), String> {
    let answer: EmbeddingsResponse =
        serde_json::from_slice(answer).map_err(|error| format!("it cannot be parsed: {error}"))?;
    if answer.data.len() != count {
        return Err(format!(
            "{count} vectors were requested, but {} were returned",
            answer.data.len()
        ));
    }
    let mut ordered: Vec<Embedding> = vec![None; count];
    for (place, item) in answer.data.into_iter().enumerate() {
        let index = item.index.unwrap_or(place);
        match ordered.get_mut(index) {
            Some(free @ None) => *free = Some(item.embedding.0),
            Some(Some(_)) => return Err(format!("two vectors have the index {index}")),
            None => return Err(format!("a vector has the index {index} of {count}")),
        }
    }
    let mut dimensions = expected;
    let mut vectors = Vec::with_capacity(count);
    for vector in ordered.into_iter().flatten() {
        let length = *dimensions.get_or_insert(vector.len());
        if vector.len() != length || !(1..=MAX_DIMENSIONS).contains(&length) {
            let found = vector.len();
            return Err(format!("a vector has {found} numbers, but {length} were expected"));
        }
        if !vector.iter().all(|number| number.is_finite()) {
            return Err("a vector has a number that is not finite".to_owned());
        }
        vectors.push(to_unit(vector));
    }
    Ok((vectors, dimensions.unwrap_or_default()))
}

impl<'de> Deserialize<'de> for VectorNumbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumbersVisitor)
    }
}

struct NumbersVisitor;

impl<'de> Visitor<'de> for NumbersVisitor {
    type Value = VectorNumbers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers, or Base64")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<VectorNumbers, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = sequence.next_element::<f32>()? {
            if numbers.len() == MAX_DIMENSIONS {
                return Err(de::Error::invalid_length(numbers.len() + 1, &self));
            }
            numbers.push(number);
        }
        Ok(VectorNumbers(numbers))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<VectorNumbers, E> {
        let bytes = STANDARD.decode(text).map_err(E::custom)?;
        let (floats, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() || floats.len() > MAX_DIMENSIONS {
            return Err(E::invalid_length(bytes.len(), &self));
        }
        Ok(VectorNumbers(floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read_json(answer: &Value, count: usize) -> Result<(Vec<Embedding>, usize), String> {
        parse_response(answer.to_string().as_bytes(), count, None)
    }

    #[test]
    fn vectors_keep_order_and_have_unit_length() {
        let answer = json!({"object": "list", "usage": {}, "data": [
            {"object": "embedding", "index": 1, "embedding": [0, 0]},
            {"index": 2, "embedding": STANDARD.encode([0f32, -2.0].map(f32::to_le_bytes).concat())},
            {"index": 0, "embedding": [3.0, 4]},
        ]});
        let expected = vec![Some(vec![0.6, 0.8]), None, Some(vec![0.0, -1.0])];
        assert_eq!(read_json(&answer, 3), Ok((expected, 2)));
        let without_index = json!({"data": [{"embedding": [1]}, {"embedding": [-1]}]});
        let expected = vec![Some(vec![1.0]), Some(vec![-1.0])];
        assert_eq!(read_json(&without_index, 2), Ok((expected, 1)));
    }

    #[test]
    fn an_answer_that_is_none_is_refused() {
        let one = |item: Value| json!({"data": [item]}).to_string();
        for (answer, expected) in [
            ("{}".to_owned(), "missing field `data`"),
            (one(json!({"index": 0})), "missing field `embedding`"),
            (json!({"data": []}).to_string(), "1 vectors were requested, but 0 were returned"),
            (one(json!({"index": 1, "embedding": [1]})), "has the index 1 of 1"),
            (one(json!({"index": -1, "embedding": [1]})), "invalid value"),
            (one(json!({"embedding": []})), "has 0 numbers"),
            (one(json!({"embedding": ["1"]})), "invalid type"),
            (one(json!({"embedding": [null]})), "invalid type"),
            (one(json!({"embedding": "AAAAAA=="})), "has 1 numbers, but 2 were"),
            (one(json!({"embedding": "AAAA"})), "invalid length 3"),
            (one(json!({"embedding": "?"})), "Invalid"),
            (
                one(
                    json!({"embedding": STANDARD.encode([f32::NAN, 1.0].map(f32::to_le_bytes).concat())}),
                ),
                "that is not finite",
            ),
            (r#"{"data": [{"embedding": [1e39, 1]}]}"#.to_owned(), "out of range"),
            (r#"{"data": [{"embedding": [1e999]}]}"#.to_owned(), "out of range"),
            (one(json!({"embedding": vec![0; MAX_DIMENSIONS + 1]})), "invalid length"),
        ] {
            let refused = parse_response(answer.as_bytes(), 1, Some(2)).unwrap_err();
            assert!(refused.contains(expected), "{answer:.80}: {refused}");
        }
        let twice =
            json!({"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]});
        assert!(read_json(&twice, 2).unwrap_err().contains("two vectors"));
        let unequal = json!({"data": [{"embedding": [1]}, {"embedding": [1, 2]}]});
        assert!(read_json(&unequal, 2).unwrap_err().contains("has 2 numbers, but 1 were"));
    }

    proptest! {
        #[test]
        fn whatever_comes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_response(&bytes, 3, Some(4));
        }

        #[test]
        fn what_is_taken_has_the_right_shape(
            items in prop::collection::vec(
                (prop::option::of(0usize..4), prop::collection::vec(any::<f32>(), 0..5), any::<bool>()),
                0..5,
            ),
            count in 0usize..5,
        ) {
            let items = items.iter().map(|(index, vector, packed)| {
                let embedding = match packed {
                    true => json!(STANDARD.encode(vector.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())),
                    false => json!(vector),
                };
                match index {
                    Some(index) => json!({"index": index, "embedding": embedding}),
                    None => json!({"embedding": embedding}),
                }
            });
            if let Ok((vectors, dimensions)) = read_json(&json!({"data": items.collect::<Vec<_>>()}), count) {
                prop_assert_eq!(vectors.len(), count);
                for vector in vectors.into_iter().flatten() {
                    prop_assert_eq!(vector.len(), dimensions);
                    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
                    prop_assert!((length - 1.0).abs() < 1e-3, "{}", length);
                }
            }
        }
    }
}
