//! The values of variables.

use std::borrow::Cow;
use std::fmt;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use serde_json::{Number, Value as Json};

/// A value that an expression can read. Texts are borrowed wherever they can be.
pub struct CelValue<'v>(Box<dyn Val + 'v>);

impl<'v> CelValue<'v> {
    fn new(value: impl Val + 'v) -> Self {
        Self(Box::new(value))
    }

    pub(crate) fn into_inner(self) -> Box<dyn Val + 'v> {
        self.0
    }

    /// Creates a list.
    pub fn list(items: impl IntoIterator<Item: Into<Self>>) -> Self {
        let items: Vec<_> = items.into_iter().map(|item| item.into().0).collect();
        Self::new(CelList::from(items))
    }

    /// Creates an object. When a member occurs twice, the last one counts.
    pub fn object<N, V>(members: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<Cow<'v, str>>,
        V: Into<Self>,
    {
        let member =
            |(name, value): (N, V)| (CelMapKey::String(name.into().into()), value.into().0);
        #[expect(clippy::disallowed_types, reason = "a map of CEL is made from one")]
        let members: std::collections::HashMap<_, _> = members.into_iter().map(member).collect();
        Self::new(CelMap::from(members))
    }

    /// Converts a JSON value whose numbers `to_number` converts.
    pub fn from_json(json: &'v Json, to_number: fn(&Number) -> Self) -> Self {
        let convert = |json| Self::from_json(json, to_number);
        match json {
            Json::Null => Self::new(CelNull),
            Json::Bool(value) => Self::from(*value),
            Json::Number(number) => to_number(number),
            Json::String(text) => Self::from(text.as_str()),
            Json::Array(items) => Self::list(items.iter().map(convert)),
            Json::Object(members) => {
                Self::object(members.iter().map(|(name, value)| (name, convert(value))))
            }
        }
    }
}

impl fmt::Debug for CelValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may be secret.
        f.debug_struct("CelValue").finish_non_exhaustive()
    }
}

impl From<bool> for CelValue<'_> {
    fn from(value: bool) -> Self {
        Self::new(CelBool::from(value))
    }
}

impl From<i64> for CelValue<'_> {
    fn from(value: i64) -> Self {
        Self::new(CelInt::from(value))
    }
}

impl From<f64> for CelValue<'_> {
    fn from(value: f64) -> Self {
        Self::new(CelDouble::from(value))
    }
}

impl<'v> From<&'v str> for CelValue<'v> {
    fn from(text: &'v str) -> Self {
        Self::from(Cow::Borrowed(text))
    }
}

impl<'v> From<Cow<'v, str>> for CelValue<'v> {
    fn from(text: Cow<'v, str>) -> Self {
        Self::new(CelString::from(text))
    }
}

impl<'v> From<&'v Json> for CelValue<'v> {
    fn from(json: &'v Json) -> Self {
        Self::from_json(json, |number| Self::from(number))
    }
}

impl From<Json> for CelValue<'_> {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::new(CelNull),
            Json::Bool(value) => Self::from(value),
            Json::Number(number) => Self::from(&number),
            Json::String(text) => Self::from(Cow::Owned(text)),
            Json::Array(items) => Self::list(items),
            Json::Object(members) => Self::object(members),
        }
    }
}

/// An integer becomes an `int` when it fits, and else a `uint`.
impl From<&Number> for CelValue<'_> {
    fn from(number: &Number) -> Self {
        match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Self::from(integer),
            (None, Some(integer)) => Self::new(CelUInt::from(integer)),
            (None, None) => Self::from(number.as_f64().unwrap_or(f64::NAN)),
        }
    }
}
