//! Entities: the things that have an id, and the capabilities that find this id, by their names.
//!
//! A person who says "in which films did she play" does not say "search the person". But `GetMovieCredits`
//! takes a `person_id`, and `SearchPerson` finds it.

use std::collections::BTreeSet;

use crate::word_similarity::{singular, words_of_name};

/// The words by which the name of a capability says that it searches, as names write them.
pub const SEARCH_WORDS: [&str; 4] = ["Find", "Lookup", "Query", "Search"];
/// The words in the name of a search that say nothing about what it finds.
const FILL_WORDS: [&str; 4] = ["all", "get", "list", "the"];
/// The words before a condition in the name of a search: `FindPersonByName`.
const CONDITION_WORDS: [&str; 4] = ["by", "for", "in", "with"];

/// The words for something that has an id, in the singular.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entity(BTreeSet<String>);

impl Entity {
    /// Returns the entity whose id a parameter takes: `person` for `person_id` and `personIds`.
    #[must_use]
    pub fn of_parameter(name: &str) -> Option<Self> {
        let mut words = words_of_name(name);
        let last = words.pop()?;
        let is_id = matches!(last.as_str(), "id" | "ids");
        (is_id && !words.is_empty()).then(|| Self::from_words(&words))
    }

    /// Returns the entity that a capability searches, by its name. None when it is no search.
    ///
    /// A search for parts of an entity, such as `SearchSiteFunctions`, is no search for the entity.
    #[must_use]
    pub fn of_search(name: &str) -> Option<Self> {
        let words = words_of_name(name);
        let is_condition = |word: &String| CONDITION_WORDS.contains(&word.as_str());
        let end = words.iter().position(is_condition).unwrap_or(words.len());
        let is_verb =
            |word: &String| SEARCH_WORDS.iter().any(|verb| verb.eq_ignore_ascii_case(word));
        let (verbs, others): (Vec<_>, Vec<_>) = words.into_iter().take(end).partition(is_verb);
        let others: Vec<_> =
            others.into_iter().filter(|word| !FILL_WORDS.contains(&word.as_str())).collect();
        (!verbs.is_empty() && !others.is_empty()).then(|| Self::from_words(&others))
    }

    fn from_words(words: &[String]) -> Self {
        Self(words.iter().map(|word| singular(word)).collect())
    }
}

/// Returns true when an output of a search is the id that an input of another capability takes: `id` or
/// `person_id` of `SearchPerson` for `person_id`.
#[must_use]
pub fn is_id_for(search: &str, output: &str, input: &str) -> bool {
    let Some(entity) = Entity::of_parameter(input) else { return false };
    let gives_id = words_of_name(output) == ["id"];
    let gives_same = || Entity::of_parameter(output).as_ref() == Some(&entity);
    Entity::of_search(search).as_ref() == Some(&entity) && (gives_id || gives_same())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(words: &[&str]) -> Entity {
        Entity(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn a_parameter_names_the_entity_of_its_id() {
        for (name, words) in [
            ("person_id", &["person"][..]),
            ("personIds", &["person"]),
            ("tv_show_id", &["tv", "show"]),
        ] {
            assert_eq!(Entity::of_parameter(name), Some(entity(words)), "{name}");
        }
        for name in ["id", "ids", "person", "identity", "paid", ""] {
            assert_eq!(Entity::of_parameter(name), None, "{name}");
        }
    }

    #[test]
    fn a_search_is_known_by_its_name() {
        for (name, words) in [
            ("SearchPersons", &["person"][..]),
            ("find_tv_show", &["tv", "show"]),
            ("GetSearchPerson", &["person"]),
            ("FindPersonByName", &["person"]),
            ("SearchSiteFunctions", &["site", "function"]),
        ] {
            assert_eq!(Entity::of_search(name), Some(entity(words)), "{name}");
        }
        for name in ["GetPerson", "Search", "SearchAll", "SearchByName", ""] {
            assert_eq!(Entity::of_search(name), None, "{name}");
        }
    }

    #[test]
    fn the_id_of_an_entity_comes_from_its_own_search() {
        for (search, output, input, expected) in [
            ("SearchPerson", "id", "person_id", true),
            ("SearchPerson", "personId", "person_id", true),
            ("SearchPerson", "name", "person_id", false),
            ("SearchMovie", "id", "person_id", false),
            ("GetPerson", "id", "person_id", false),
            ("SearchPerson", "id", "id", false),
        ] {
            assert_eq!(is_id_for(search, output, input), expected, "{search} {output} {input}");
        }
    }
}
