//! Whole numbers as clients write them: `5.0` is one for JSON Schema (2020-12, Validation, section 6.1.1).

use serde::de::{Error, Unexpected};
use serde::{Deserialize as _, Deserializer};
use serde_json::Number;

/// The largest number up to which an `f64` can represent every whole number.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads a whole number that is not negative.
pub(super) fn required<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    to_whole(&Number::deserialize(deserializer)?)
}

/// Reads a whole number that is not negative, or null.
pub(super) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    Option::<Number>::deserialize(deserializer)?.as_ref().map(to_whole).transpose()
}

fn to_whole<T: TryFrom<u64>, E: Error>(number: &Number) -> Result<T, E> {
    let is_whole = |number: &f64| (0.0..=MAX_EXACT).contains(number) && number.fract() == 0.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was checked")]
    let from_fraction = || number.as_f64().filter(is_whole).map(|number| number as u64);
    let whole = number.as_u64().or_else(from_fraction).and_then(|whole| T::try_from(whole).ok());
    whole.ok_or_else(|| E::invalid_value(Unexpected::Other(&number.to_string()), &"a whole number"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Numbers {
        #[serde(deserialize_with = "super::required")]
        one: u64,
        #[serde(default, deserialize_with = "super::optional")]
        other: Option<u8>,
    }

    #[test]
    fn whole_numbers_may_be_written_as_fractions() {
        let read = |value| serde_json::from_value::<Numbers>(value).map_err(|e| e.to_string());
        assert_eq!(read(json!({"one": 5.0, "other": 0.0})), Ok(Numbers { one: 5, other: Some(0) }));
        assert_eq!(read(json!({"one": 5, "other": null})), Ok(Numbers { one: 5, other: None }));
        assert_eq!(read(json!({"one": u64::MAX})), Ok(Numbers { one: u64::MAX, other: None }));
        for refused in [json!(0.5), json!(-1), json!(1e300), json!("5"), json!(null)] {
            let error = read(json!({"one": refused})).unwrap_err();
            assert!(error.contains("number"), "{error}");
        }
        assert!(read(json!({"one": 1, "other": 256})).is_err());
    }
}
