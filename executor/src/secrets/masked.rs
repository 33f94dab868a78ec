//! A value together with its form without secrets, which guardians and records see.

use std::collections::BTreeSet;
use std::fmt;

use a2s::{HIDDEN, InputLocation};
use indexmap::IndexMap;
use serde_json::{Map, Value};

/// The maximum number of paths with which a question names its hidden parts.
const MAX_HIDDEN_PATHS: usize = 256;

/// The inputs of a task.
pub(crate) type MaskedInputs = Masked<IndexMap<InputLocation, Value>>;

/// A value, and its form without secrets where that differs. A part of the shown form that a guardian leaves
/// unchanged means the true part.
#[derive(Clone, Default)]
pub(crate) struct Masked<T> {
    actual: T,
    shown: Option<T>,
}

/// Writes the form without secrets.
impl<T: fmt::Debug> fmt::Debug for Masked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(f)
    }
}

/// A value in which nothing is masked.
impl<T> From<T> for Masked<T> {
    fn from(actual: T) -> Self {
        Self { actual, shown: None }
    }
}

impl<T> Masked<T> {
    pub(crate) fn new(actual: T, shown: T) -> Self
    where
        T: PartialEq,
    {
        let shown = (shown != actual).then_some(shown);
        Self { actual, shown }
    }

    pub(crate) fn actual(&self) -> &T {
        &self.actual
    }

    pub(crate) fn into_actual(self) -> T {
        self.actual
    }

    pub(crate) fn shown(&self) -> &T {
        self.shown.as_ref().unwrap_or(&self.actual)
    }

    /// Returns true when something was masked, before any guardian changed the value.
    pub(crate) fn is_masked(&self) -> bool {
        self.shown.is_some()
    }
}

impl Masked<Value> {
    /// Returns the value that a guardian has made of the shown form.
    pub(crate) fn restore(&self, made: Value) -> Self {
        match &self.shown {
            None => Self::from(made),
            Some(shown) => {
                Self { actual: restore_value(shown, &self.actual, made.clone()), shown: Some(made) }
            }
        }
    }
}

impl Masked<Map<String, Value>> {
    /// Returns the values that a guardian has made of the shown ones.
    ///
    /// # Errors
    /// The name of a value into which the guardian has moved a secret.
    pub(crate) fn restore(&self, made: Map<String, Value>) -> Result<Self, String> {
        let Some(shown) = &self.shown else { return Ok(Self::from(made)) };
        let known = |name: &String| shown.get(name).zip(self.actual.get(name));
        Ok(Self { actual: restore_members(&made, known)?, shown: Some(made) })
    }
}

impl MaskedInputs {
    /// Returns the inputs that a guardian has made of the shown ones.
    ///
    /// # Errors
    /// The location into which the guardian has moved a secret.
    pub(crate) fn restore(
        &self,
        made: IndexMap<InputLocation, Value>,
    ) -> Result<Self, InputLocation> {
        let Some(shown) = &self.shown else { return Ok(Self::from(made)) };
        let known = |location: &InputLocation| shown.get(location).zip(self.actual.get(location));
        Ok(Self { actual: restore_members(&made, known)?, shown: Some(made) })
    }
}

/// Restores the true values of members. `known` returns the shown and the true value of each.
fn restore_members<'m, 'v, K: Clone + 'm, M: FromIterator<(K, Value)>>(
    made: impl IntoIterator<Item = (&'m K, &'m Value)>,
    known: impl Fn(&K) -> Option<(&'v Value, &'v Value)>,
) -> Result<M, K> {
    let restored = made.into_iter().map(|(name, made)| {
        let known = known(name);
        let value = match known {
            Some((shown, actual)) => restore_value(shown, actual, made.clone()),
            None => made.clone(),
        };
        // Sending the placeholder itself would be neither intended nor allowed.
        if has_placeholder(&value) && !known.is_some_and(|(_, actual)| has_placeholder(actual)) {
            return Err(name.clone());
        }
        Ok((name.clone(), value))
    });
    restored.collect()
}

fn restore_value(shown: &Value, actual: &Value, made: Value) -> Value {
    if *shown == made {
        return actual.clone();
    }
    match (shown, actual, made) {
        (Value::Object(shown), Value::Object(actual), Value::Object(made))
            if shown.len() == actual.len() =>
        {
            // A masked name has the same position in both.
            let pair_of = |name: &str| {
                let index = shown.keys().position(|known| known == name)?;
                let (true_name, true_value) = actual.iter().nth(index)?;
                Some((true_name.clone(), shown.get(name)?, true_value))
            };
            let restored = made.into_iter().map(|(name, value)| match pair_of(&name) {
                Some((true_name, shown, actual)) => {
                    (true_name, restore_value(shown, actual, value))
                }
                None => (name, value),
            });
            restored.collect::<Map<_, _>>().into()
        }
        (Value::Array(shown), Value::Array(actual), Value::Array(made))
            if shown.len() == made.len() && shown.len() == actual.len() =>
        {
            let pairs = shown.iter().zip(actual).zip(made);
            pairs.map(|((shown, actual), made)| restore_value(shown, actual, made)).collect()
        }
        (_, _, made) => made,
    }
}

/// Returns true when a text of `value` contains a placeholder.
fn has_placeholder(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.contains(HIDDEN),
        Value::Array(items) => items.iter().any(has_placeholder),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains(HIDDEN) || has_placeholder(value))
        }
    }
}

/// The parts of a question whose shown value is not the true one, as JSON pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct HiddenPaths(BTreeSet<String>);

impl HiddenPaths {
    pub(crate) fn add(&mut self, path: String) {
        self.0.insert(path);
    }

    /// Adds the differences between a true value and its shown form, which are at `path`.
    pub(crate) fn compare(&mut self, path: &str, actual: &Value, shown: &Value) {
        match (actual, shown) {
            _ if actual == shown => {}
            (Value::Object(actual), Value::Object(shown))
                // The name of a member can be a secret, too.
                if actual.len() == shown.len() && actual.keys().all(|name| shown.contains_key(name)) =>
            {
                for (name, shown) in shown {
                    self.compare(&join_pointer(path, name), &actual[name], shown);
                }
            }
            (Value::Array(actual), Value::Array(shown)) if actual.len() == shown.len() => {
                for (index, (actual, shown)) in actual.iter().zip(shown).enumerate() {
                    self.compare(&format!("{path}/{index}"), actual, shown);
                }
            }
            _ => self.add(path.to_owned()),
        }
    }

    /// Adds the hidden parts of a value at `path`.
    pub(crate) fn compare_masked(&mut self, path: &str, value: &Masked<Value>) {
        if let Some(shown) = &value.shown {
            self.compare(path, &value.actual, shown);
        }
    }

    /// Adds the hidden parts of inputs; `path` returns the path of an input.
    pub(crate) fn compare_inputs(
        &mut self,
        inputs: &MaskedInputs,
        path: impl Fn(&InputLocation) -> String,
    ) {
        for (location, shown) in inputs.shown.iter().flatten() {
            match inputs.actual.get(location) {
                Some(actual) => self.compare(&path(location), actual, shown),
                None => self.add(path(location)),
            }
        }
    }

    /// Returns the paths, and `None` when nothing is hidden. Where there are too many, their parents take
    /// their place, the deepest first.
    pub(crate) fn into_paths(self) -> Option<Vec<String>> {
        let mut paths = self.0;
        let depth = |path: &String| path.matches('/').count();
        while paths.len() > MAX_HIDDEN_PATHS {
            let deepest = paths.iter().map(depth).max().unwrap_or_default();
            let parent = |path: String| match path.rfind('/') {
                Some(end) if depth(&path) == deepest => path[..end].to_owned(),
                _ => path,
            };
            paths = paths.into_iter().map(parent).collect();
        }
        (!paths.is_empty()).then(|| paths.into_iter().collect())
    }
}

/// Returns the JSON pointer of a member (RFC 6901).
pub(crate) fn join_pointer(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}
