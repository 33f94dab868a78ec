//! Search requests that were validated.

use a2s::Domain;
use a2s::api::{SearchFilters, SearchLevel, SearchRequest};

use super::cursor::{self, DEEPEST, Query, Unusable};
use crate::Error;
use crate::documents::author_key;
use crate::rank::{self, Strategy};
use crate::store::CapabilityId;
use crate::vectors::Filter;

/// Hits when the caller does not say how many, and at most.
const USUAL_LIMIT: usize = 10;
const MOST_HITS: usize = 100;
/// The longest intent, in characters.
const LONGEST_INTENT: usize = 2000;
/// The most intents of one request.
const MOST_INTENTS: usize = 16;
/// The most members of a list in a filter.
const MOST_MEMBERS: usize = 50;
/// The most permissions that a caller may hold.
const MOST_HELD: usize = 1000;
/// The longest name of an author, in bytes.
const LONGEST_AUTHOR: usize = 200;

/// A search that makes sense.
#[derive(Debug)]
pub(super) struct Asked<'r> {
    /// At least one.
    pub(super) intents: Vec<&'r str>,
    pub(super) limit: usize,
    pub(super) strategies: Vec<Strategy>,
    pub(super) filter: Filter,
    /// What earlier pages have given, in order of id; nothing when there are several intents.
    pub(super) given: Vec<CapabilityId>,
}

impl<'r> Asked<'r> {
    /// # Errors
    /// When the request makes no sense; the message names the member.
    pub(super) fn of(request: &'r SearchRequest, store: &str) -> Result<Self, Error> {
        let intents = intents_of(request)?;
        let limit = request.limit.unwrap_or(USUAL_LIMIT);
        if !(1..=MOST_HITS).contains(&limit) {
            return bad(format!("`limit` is a number from 1 to {MOST_HITS}"));
        }
        let strategies = rank::strategies_of(request.strategy.as_ref())?;
        let filter = to_filter(request.filters.as_ref())?;
        let is_paged = request.level != Some(SearchLevel::Services) && request.intents.is_empty();
        let given = match (&request.cursor, intents.as_slice()) {
            (None, _) => Vec::new(),
            (Some(text), [intent]) if is_paged => {
                let query = query(request, intent, store);
                cursor::decode(&query, text).map_err(|unusable| Error::BadCursor(match unusable {
                    Unusable::Malformed => "`cursor` is not one that this registry gave out",
                    Unusable::Foreign => {
                        "`cursor` belongs to a search with another intent, strategy or filter, or to another registry"
                    }
                }))?
            }
            (Some(_), _) => {
                return bad("`cursor` goes on with one intent, and lists capabilities".to_owned());
            }
        };
        Ok(Self { intents, limit, strategies, filter, given })
    }

    /// Whether no earlier page has given it.
    pub(super) fn is_new(&self, capability: CapabilityId) -> bool {
        self.given.binary_search(&capability).is_err()
    }

    /// How many hits a walk may give on this page.
    pub(super) fn page(&self) -> usize {
        self.limit.min(DEEPEST - self.given.len())
    }
}

/// What the cursor of an answer belongs to.
pub(super) fn query<'q>(request: &'q SearchRequest, intent: &'q str, store: &'q str) -> Query<'q> {
    let (strategy, filters) = (request.strategy.as_ref(), request.filters.as_ref());
    Query { store, intent, strategy, filters }
}

fn intents_of(request: &SearchRequest) -> Result<Vec<&str>, Error> {
    let several = &request.intents;
    if several.is_empty() {
        return Ok(vec![check_intent("intent", &request.intent)?]);
    }
    if !request.intent.is_empty() {
        return bad("give `intent` or `intents`, not both".to_owned());
    }
    if several.len() > MOST_INTENTS {
        return bad(format!("`intents` has more than {MOST_INTENTS} members"));
    }
    if request.level == Some(SearchLevel::Services) {
        return bad("`level: services` takes one `intent`".to_owned());
    }
    let checked = several.iter().enumerate();
    checked.map(|(index, intent)| check_intent(&format!("intents[{index}]"), intent)).collect()
}

fn check_intent<'i>(member: &str, intent: &'i str) -> Result<&'i str, Error> {
    let intent = intent.trim();
    if intent.is_empty() {
        return bad(format!("`{member}` is empty"));
    }
    if intent.chars().nth(LONGEST_INTENT).is_some() {
        return bad(format!("`{member}` is longer than {LONGEST_INTENT} characters"));
    }
    Ok(intent)
}

fn to_filter(filters: Option<&SearchFilters>) -> Result<Filter, Error> {
    let Some(filters) = filters else { return Ok(Filter::default()) };
    let held = filters.permissions.as_ref();
    for (member, length, most) in [
        ("domains", filters.domains.len(), MOST_MEMBERS),
        ("permissions", held.map_or(0, Vec::len), MOST_HELD),
        ("formats", filters.formats.len(), MOST_MEMBERS),
    ] {
        if length > most {
            return bad(format!("`filters.{member}` has more than {most} members"));
        }
    }
    let domain = |domain: &String| match Domain::new(domain) {
        Ok(domain) => Ok(domain.as_str().to_owned()),
        Err(error) => bad(format!("`filters.domains`: {error}")),
    };
    let author = filters.author.as_deref().map(author_key);
    if author.as_ref().is_some_and(|name| name.is_empty() || name.len() > LONGEST_AUTHOR) {
        return bad(format!("`filters.author` is a name of 1 to {LONGEST_AUTHOR} bytes"));
    }
    Ok(Filter {
        domains: filters.domains.iter().map(domain).collect::<Result<_, _>>()?,
        held: held.map(|held| held.iter().map(ToString::to_string).collect()),
        read_only: filters.read_only,
        formats: filters.formats.clone(),
        max_complexity: filters.max_complexity.map(|most| most as u8),
        author,
        version: filters.version.clone(),
    })
}

fn bad<T>(text: String) -> Result<T, Error> {
    Err(Error::BadSearch(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_page_of_a_walk_ends_with_it() {
        let request = SearchRequest { intent: "x".to_owned(), ..SearchRequest::default() };
        let asked = Asked::of(&request, "store").unwrap();
        assert_eq!(asked.page(), 10);
        let given = (1..=995).map(CapabilityId).collect();
        assert_eq!(Asked { given, ..asked }.page(), 5);
    }
}
