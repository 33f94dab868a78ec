//! Names made of foreign ones: of capabilities, variables and steps.

use std::collections::{BTreeMap, BTreeSet};

/// The maximum length of a capability name or a step id, in characters.
const MOST: usize = 100;
/// The maximum length of a variable name that this module builds, in characters.
const MOST_OF_VARIABLE: usize = 80;

/// The names that are in use, so that each name is used only once.
#[derive(Debug, Default, Clone)]
pub(crate) struct UsedNames {
    names: BTreeSet<String>,
    /// The next number to try for each name.
    numbers: BTreeMap<String, usize>,
    ignores_case: bool,
}

impl UsedNames {
    /// Creates a set of file names, which ignores upper and lower case as some file systems do.
    pub(crate) fn for_file_names() -> Self {
        Self { ignores_case: true, ..Self::default() }
    }

    fn key(&self, name: &str) -> String {
        if self.ignores_case { name.to_ascii_lowercase() } else { name.to_owned() }
    }

    /// Reserves `name`, or the first of `name2`, `name3`, … that is free; the result has at most [`MOST`]
    /// characters.
    pub(crate) fn reserve(&mut self, name: &str) -> String {
        let mut free = truncate_name(name, MOST).to_owned();
        let whole = self.key(&free);
        while !self.names.insert(self.key(&free)) {
            let number = self.numbers.entry(whole.clone()).or_insert(2);
            let ending = number.to_string();
            *number += 1;
            free = format!("{}{ending}", truncate_name(name, MOST - ending.len()));
        }
        free
    }

    /// Reserves the first of `names` that is free, else the last of them with a number.
    pub(crate) fn reserve_one_of(&mut self, names: &[String]) -> String {
        match names.iter().find(|name| !self.names.contains(&self.key(name))) {
            Some(free) => self.reserve(free),
            None => self.reserve(names.last().map_or("value", String::as_str)),
        }
    }
}

/// Builds a capability name from the letters and digits of `text`: `get-user_by.id` is `GetUserById`.
/// `None` when it has no letter.
pub(crate) fn capability_name(text: &str) -> Option<String> {
    const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    let word = |(index, word): (usize, &str)| match word {
        // `GET_users` begins with a method, which is a word like any other.
        method if index == 0 && METHODS.contains(&method) => capitalise(&method.to_lowercase()),
        word => capitalise(word),
    };
    let name: String = words(text).enumerate().map(word).collect();
    let name = name.trim_start_matches(|c: char| c.is_ascii_digit());
    let name = capitalise(truncate_name(name, MOST));
    (!name.is_empty()).then_some(name)
}

/// Builds a step id from the letters and digits of `text`: `GetUser` and `get-user` are `getUser`.
pub(crate) fn step_id(text: &str) -> String {
    let Some(name) = capability_name(text) else { return "step".to_owned() };
    // `URLCheck` is `urlCheck`, `GetUser` is `getUser`.
    let upper = name.chars().take_while(char::is_ascii_uppercase).count();
    let whole = upper == name.len();
    let lowered = if upper > 1 && !whole { upper - 1 } else { upper };
    name[..lowered].to_ascii_lowercase() + &name[lowered..]
}

/// Builds a variable name that is similar to `text`: `filter[name]` is `filter_name`, `$top` is `top`.
pub(crate) fn variable_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().take(4 * MOST_OF_VARIABLE) {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = truncate_name(&name, MOST_OF_VARIABLE).trim_end_matches(['_', '-']);
    let name = name.trim_start_matches('-');
    match name.chars().next() {
        None => "value".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        Some(_) => name.to_owned(),
    }
}

/// Returns the sequences of letters and digits.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

fn capitalise(word: &str) -> String {
    match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    }
}

/// Returns the first `most` bytes of a name, which is ASCII. Other text is cut at a character boundary.
fn truncate_name(name: &str, most: usize) -> &str {
    let mut end = name.len().min(most);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_the_shape_of_their_kind() {
        let name = |text| capability_name(text).unwrap();
        assert_eq!(name("get-user_by.id"), "GetUserById");
        assert_eq!(name("2fa/enable"), "FaEnable");
        assert_eq!(name("getURL"), "GetURL");
        assert_eq!(name("GET_user-id"), "GetUserId");
        assert_eq!(capability_name("取得"), None);
        assert_eq!(capability_name("42"), None);
        assert_eq!(capability_name(&"ab ".repeat(90)).unwrap().len(), 100);

        assert_eq!(step_id("GetUser"), "getUser");
        assert_eq!(step_id("URLCheck"), "urlCheck");
        assert_eq!(step_id("ID"), "id");
        assert_eq!(step_id("…"), "step");

        assert_eq!(variable_name("filter[name]"), "filter_name");
        assert_eq!(variable_name("$top"), "top");
        assert_eq!(variable_name("X-Request-ID"), "X-Request-ID");
        assert_eq!(variable_name("2fa"), "_2fa");
        assert_eq!(variable_name("-"), "value");
        assert_eq!(variable_name("größe"), "gr_e");
    }

    #[test]
    fn no_name_is_given_twice() {
        let mut taken = UsedNames::default();
        assert_eq!(taken.reserve("Get"), "Get");
        assert_eq!(taken.reserve("Get"), "Get2");
        assert_eq!(taken.reserve("Get"), "Get3");
        assert_eq!(taken.reserve("GET"), "GET");
        let mut files = UsedNames::for_file_names();
        assert_eq!(files.reserve("GetItem"), "GetItem");
        assert_eq!(files.reserve("Getitem"), "Getitem2");
        // The next free number is known, however many were given out.
        let last = (0..20_000).map(|_| taken.reserve("Many")).last();
        assert_eq!(last.as_deref(), Some("Many20000"));
        let long = "A".repeat(100);
        assert_eq!(taken.reserve(&long), long);
        assert_eq!(taken.reserve(&long), format!("{}2", "A".repeat(99)));
        let names = ["Get".to_owned(), "body_Get".to_owned()];
        assert_eq!(taken.reserve_one_of(&names), "body_Get");
        assert_eq!(taken.reserve_one_of(&names), "body_Get2");
    }
}
