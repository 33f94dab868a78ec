//! Places in a message: `body.items[*].email`.

use serde_json::{Map, Value};

use super::unknown_facts::HiddenParts;

const MAX_SEGMENTS: usize = 16;

/// A path in a message. With `[*]` it matches several values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MessagePath(Vec<PathSegment>);

#[derive(Clone, Debug, PartialEq)]
enum PathSegment {
    Member(String),
    Item(usize),
    Every,
}

impl MessagePath {
    /// Parses a path.
    ///
    /// # Errors
    /// A sentence that describes the problem.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut segments = Vec::new();
        for part in text.split('.') {
            let (name, indices) = part.find('[').map_or((part, ""), |at| part.split_at(at));
            if name.is_empty() {
                return Err(format!("{text:?} has an empty name"));
            }
            segments.push(PathSegment::Member(name.to_owned()));
            let mut rest = indices;
            while !rest.is_empty() {
                let inner = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                let Some((index, after)) = inner else {
                    return Err(format!("{text:?} has an unclosed bracket"));
                };
                segments.push(match index {
                    "*" => PathSegment::Every,
                    index => PathSegment::Item(
                        index.parse().map_err(|_| format!("{text:?} has an invalid index"))?,
                    ),
                });
                rest = after;
            }
        }
        if MAX_SEGMENTS < segments.len() {
            return Err(format!("{text:?} is deeper than {MAX_SEGMENTS} levels"));
        }
        Ok(Self(segments))
    }

    /// Returns the same path relative to a member: `body.city` inside `body` is `city`, and inside
    /// `body.city` it is that value itself. Returns `None` if the path does not go through the member.
    pub(super) fn relative_to(&self, name: &str) -> Option<Self> {
        let mut rest = self.0.as_slice();
        for part in name.split('.') {
            let (first, after) = rest.split_first()?;
            if !matches!(first, PathSegment::Member(member) if member == part) {
                return None;
            }
            rest = after;
        }
        Some(Self(rest.to_vec()))
    }

    /// Returns the names of the members in the path.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|segment| match segment {
            PathSegment::Member(name) => Some(name.as_str()),
            PathSegment::Item(_) | PathSegment::Every => None,
        })
    }

    /// Returns the path as one dotted name, if it has no index.
    pub(super) fn to_dotted_name(&self) -> Option<String> {
        let names = self.0.iter().map(|segment| match segment {
            PathSegment::Member(name) => Some(name.as_str()),
            PathSegment::Item(_) | PathSegment::Every => None,
        });
        names.collect::<Option<Vec<_>>>().map(|names| names.join("."))
    }

    /// Sets the value at the path, and creates missing objects. Returns true when that changed anything.
    pub(super) fn set(&self, root: &mut Value, value: &Value) -> bool {
        let Some((last, way)) = self.0.split_last() else { return replace(root, value) };
        let mut changed = false;
        visit(root, way, true, &HiddenParts::default(), &mut |parent, _| {
            changed |= match (last, parent) {
                (PathSegment::Member(name), Value::Object(members)) => {
                    members.insert(name.clone(), value.clone()).as_ref() != Some(value)
                }
                (PathSegment::Item(index), Value::Array(items)) => {
                    items.get_mut(*index).is_some_and(|item| replace(item, value))
                }
                (PathSegment::Every, Value::Array(items)) => {
                    items.iter_mut().fold(false, |changed, item| replace(item, value) | changed)
                }
                _ => false,
            };
        });
        changed
    }

    /// Removes the values at this path. Returns true when there were any.
    pub(super) fn remove(&self, root: &mut Value) -> bool {
        let Some((last, way)) = self.0.split_last() else { return false };
        let mut changed = false;
        visit(root, way, false, &HiddenParts::default(), &mut |parent, _| {
            changed |= match (last, parent) {
                (PathSegment::Member(name), Value::Object(members)) => {
                    members.shift_remove(name).is_some()
                }
                (PathSegment::Item(index), Value::Array(items)) if *index < items.len() => {
                    items.remove(*index);
                    true
                }
                (PathSegment::Every, Value::Array(items)) => {
                    let had = !items.is_empty();
                    items.clear();
                    had
                }
                _ => false,
            };
        });
        changed
    }

    /// Changes every value at the path, given with its hidden parts. Returns true when that changed anything.
    pub(super) fn edit_values(
        &self,
        root: &mut Value,
        hidden: &HiddenParts,
        edit: &mut dyn FnMut(&mut Value, &HiddenParts) -> bool,
    ) -> bool {
        let mut changed = false;
        visit(root, &self.0, false, hidden, &mut |value, hidden| changed |= edit(value, hidden));
        changed
    }
}

fn replace(place: &mut Value, value: &Value) -> bool {
    let differs = place != value;
    if differs {
        *place = value.clone();
    }
    differs
}

fn visit(
    value: &mut Value,
    way: &[PathSegment],
    makes: bool,
    hidden: &HiddenParts,
    act: &mut dyn FnMut(&mut Value, &HiddenParts),
) {
    let Some((first, rest)) = way.split_first() else { return act(value, hidden) };
    match (first, value) {
        (PathSegment::Member(name), Value::Object(members)) => {
            if makes && !members.contains_key(name) {
                members.insert(name.clone(), Value::Object(Map::new()));
            }
            if let Some(member) = members.get_mut(name) {
                visit(member, rest, makes, &hidden.enter(name), act);
            }
        }
        (PathSegment::Item(index), Value::Array(items)) => {
            if let Some(item) = items.get_mut(*index) {
                visit(item, rest, makes, &hidden.enter_item(*index), act);
            }
        }
        (PathSegment::Every, Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                visit(item, rest, makes, &hidden.enter_item(index), act);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> MessagePath {
        MessagePath::parse(text).unwrap()
    }

    #[track_caller]
    fn check_set(place: &str, mut before: Value, after: &Value) {
        path(place).set(&mut before, &json!("new"));
        assert_eq!(before, *after);
    }

    #[test]
    fn values_are_set_where_they_belong() {
        check_set("a", json!({}), &json!({"a": "new"}));
        check_set("a.b", json!({"a": {"c": 1}}), &json!({"a": {"c": 1, "b": "new"}}));
        check_set("a.b.c", json!({}), &json!({"a": {"b": {"c": "new"}}}));
        check_set("a[1]", json!({"a": [1, 2]}), &json!({"a": [1, "new"]}));
        check_set(
            "a[*].b",
            json!({"a": [{"b": 1}, {}]}),
            &json!({"a": [{"b": "new"}, {"b": "new"}]}),
        );
        check_set("a[7]", json!({"a": [1]}), &json!({"a": [1]}));
        check_set("a.b", json!({"a": "text"}), &json!({"a": "text"}));
    }

    #[test]
    fn values_are_removed() {
        let mut value = json!({"a": [{"b": 1, "c": 2}, {"b": 3}], "d": 1});
        assert!(path("a[*].b").remove(&mut value));
        assert!(path("d").remove(&mut value));
        assert!(!path("d").remove(&mut value));
        assert_eq!(value, json!({"a": [{"c": 2}, {}]}));
    }

    #[test]
    fn a_path_is_seen_from_inside_a_dotted_name() {
        assert_eq!(path("body.city").relative_to("body"), Some(path("city")));
        assert_eq!(path("a.b.c").relative_to("a.b"), Some(path("c")));
        assert_eq!(path("a.b").relative_to("a.b"), Some(MessagePath(Vec::new())));
        assert_eq!(path("a.b").relative_to("a.c"), None);
        assert_eq!(path("a").relative_to("a.b"), None);
        assert_eq!(path("a[0].b").to_dotted_name(), None);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", "a..b", ".a", "a[", "a[x]", "a]0[", "[0]", &["a"; 17].join(".")] {
            assert!(MessagePath::parse(text).is_err(), "{text:?}");
        }
    }
}
