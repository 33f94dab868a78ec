//! Names of collections and aliases. Pure.
//!
//! `a2s-STORE-FORMAT-EMBEDDER` is the alias of the live index, one for each store, format and embedder: so
//! registries with different databases, and a new version alongside the old one, share a server without
//! conflicts. The name of a collection is its alias and the id of its index.

use super::super::FORMAT;
use crate::embed::short_digest;
use crate::store::indexes::IndexId;

/// The names of the indexes of one store.
#[derive(Debug, Clone)]
pub(super) struct CollectionNames {
    prefix: String,
}

impl CollectionNames {
    pub(super) fn for_store(store: &str) -> Self {
        Self { prefix: format!("a2s-{store}-{FORMAT}-") }
    }

    /// Returns the alias of the index that serves queries for an embedder.
    pub(super) fn alias(&self, embedder: &str) -> String {
        format!("{}{}", self.prefix, short_digest(embedder))
    }

    /// Returns true when an alias is one of this store and format.
    pub(super) fn is_ours(&self, alias: &str) -> bool {
        alias.starts_with(&self.prefix)
    }

    /// The collection of an index of an alias.
    pub(super) fn collection(alias: &str, index: &IndexId) -> String {
        format!("{alias}-{index}")
    }

    /// Returns true when a collection was made for an alias.
    pub(super) fn belongs_to(alias: &str, collection: &str) -> bool {
        collection.strip_prefix(alias).is_some_and(|rest| rest.starts_with('-'))
    }

    /// The usable aliases of this store, the best first: those of the available embedders, in their order,
    /// and then the others.
    pub(super) fn order<'a>(&self, aliases: &'a [String], embedders: &[String]) -> Vec<&'a str> {
        let existing: Vec<_> = embedders.iter().map(|embedder| self.alias(embedder)).collect();
        let mut ours: Vec<_> =
            aliases.iter().map(String::as_str).filter(|alias| self.is_ours(alias)).collect();
        let place = |alias: &str| existing.iter().position(|known| known == alias);
        ours.sort_unstable_by_key(|alias| (place(alias).unwrap_or(usize::MAX), *alias));
        ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wanted_embedder_comes_first_and_other_stores_never() {
        let names = CollectionNames::for_store("store");
        let [wanted, built_in, gone] = ["wanted", "built in", "gone"].map(|e| names.alias(e));
        let foreign = CollectionNames::for_store("other").alias("wanted");
        let aliases = [foreign, gone.clone(), built_in.clone(), wanted.clone()];
        let existing = ["wanted".to_owned(), "built in".to_owned()];
        assert_eq!(names.order(&aliases, &existing), [&wanted, &built_in, &gone]);
        assert_eq!(names.order(&aliases[..2], &existing), [&gone]);
        // A store does not own aliases with a longer store name.
        assert_eq!(CollectionNames::for_store("sto").order(&aliases, &existing), [""; 0]);
    }

    #[test]
    fn a_collection_belongs_to_one_alias() {
        let alias = CollectionNames::for_store("store").alias("e");
        let collection = CollectionNames::collection(&alias, &IndexId("1".to_owned()));
        assert!(CollectionNames::belongs_to(&alias, &collection));
        assert!(!CollectionNames::belongs_to(&alias[..alias.len() - 1], &collection));
        assert!(!CollectionNames::belongs_to(&alias, &alias));
    }
}
