//! Search requests that were validated.

use a2s::Domain;
use a2s_api::{MAX_INTENT_LENGTH, SearchFilters, SearchLevel, SearchRequest};

use super::cursor::{self, CursorError, CursorQuery, MAX_WALK_HITS};
use crate::Error;
use crate::documents::author_key;
use crate::rank::{self, RankStrategy};
use crate::store::CapabilityId;
use crate::vectors::PointFilter;

/// The default number of hits, and the maximum.
const DEFAULT_LIMIT: usize = 10;
const MAX_HITS: usize = 100;
/// The maximum number of intents of one request.
const MAX_INTENTS: usize = 16;
/// The maximum number of members of a list in a filter.
const MAX_FILTER_MEMBERS: usize = 50;
/// The maximum number of permissions in the filter for a caller's permissions.
const MAX_HELD_PERMISSIONS: usize = 1000;
/// The maximum length of the name of an author, in bytes.
const MAX_AUTHOR_LENGTH: usize = 200;

/// A valid search request.
#[derive(Debug)]
pub(super) struct ValidSearch<'r> {
    /// The intents, at least one.
    pub(super) intents: Vec<&'r str>,
    pub(super) limit: usize,
    pub(super) strategies: Vec<RankStrategy>,
    pub(super) filter: PointFilter,
    /// The capabilities on earlier pages, in order of id; empty when there are several intents.
    pub(super) previous_hits: Vec<CapabilityId>,
}

impl<'r> ValidSearch<'r> {
    /// Checks and converts a request.
    ///
    /// # Errors
    /// Fails when the request is invalid; the message names the member.
    pub(super) fn from_request(request: &'r SearchRequest, store: &str) -> Result<Self, Error> {
        let intents = validate_intents(request)?;
        let limit = request.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_HITS).contains(&limit) {
            return bad_search(format!("`limit` must be a number from 1 to {MAX_HITS}"));
        }
        let strategies = rank::parse_strategies(request.strategy.as_ref())?;
        let filter = to_filter(request.filters.as_ref())?;
        let is_paged = request.level != Some(SearchLevel::Services) && request.intents.is_empty();
        let given = match (&request.cursor, intents.as_slice()) {
            (None, _) => Vec::new(),
            (Some(text), [intent]) if is_paged => {
                let query = to_cursor_query(request, intent, store);
                cursor::decode(&query, text).map_err(|unusable| Error::BadCursor(match unusable {
                    CursorError::Malformed => "`cursor` is not a cursor of this registry",
                    CursorError::OtherQuery => {
                        "`cursor` belongs to a search with another intent, strategy or filter, or to another registry"
                    }
                }))?
            }
            (Some(_), _) => {
                return bad_search(
                    "`cursor` requires one `intent` and a list of capabilities".to_owned(),
                );
            }
        };
        Ok(Self { intents, limit, strategies, filter, previous_hits: given })
    }

    /// Returns true when no earlier page has returned the capability.
    pub(super) fn is_new(&self, capability: CapabilityId) -> bool {
        self.previous_hits.binary_search(&capability).is_err()
    }

    /// The most hits on this page.
    pub(super) fn page_size(&self) -> usize {
        self.limit.min(MAX_WALK_HITS - self.previous_hits.len())
    }
}

/// The query that the cursor of a response belongs to.
pub(super) fn to_cursor_query<'q>(
    request: &'q SearchRequest,
    intent: &'q str,
    store: &'q str,
) -> CursorQuery<'q> {
    let (strategy, filters) = (request.strategy.as_ref(), request.filters.as_ref());
    CursorQuery { store, intent, strategy, filters }
}

fn validate_intents(request: &SearchRequest) -> Result<Vec<&str>, Error> {
    let several = &request.intents;
    if several.is_empty() {
        return Ok(vec![check_intent("intent", &request.intent)?]);
    }
    if !request.intent.is_empty() {
        return bad_search("give `intent` or `intents`, not both".to_owned());
    }
    if several.len() > MAX_INTENTS {
        return bad_search(format!("`intents` has more than {MAX_INTENTS} members"));
    }
    if request.level == Some(SearchLevel::Services) {
        return bad_search("`level: services` requires a single `intent`".to_owned());
    }
    let checked = several.iter().enumerate();
    checked.map(|(index, intent)| check_intent(&format!("intents[{index}]"), intent)).collect()
}

fn check_intent<'i>(member: &str, intent: &'i str) -> Result<&'i str, Error> {
    let intent = intent.trim();
    if intent.is_empty() {
        return bad_search(format!("`{member}` is empty"));
    }
    if intent.chars().nth(MAX_INTENT_LENGTH).is_some() {
        return bad_search(format!("`{member}` is longer than {MAX_INTENT_LENGTH} characters"));
    }
    Ok(intent)
}

fn to_filter(filters: Option<&SearchFilters>) -> Result<PointFilter, Error> {
    let Some(filters) = filters else { return Ok(PointFilter::default()) };
    let held = filters.permissions.as_ref();
    for (member, length, most) in [
        ("domains", filters.domains.len(), MAX_FILTER_MEMBERS),
        ("permissions", held.map_or(0, Vec::len), MAX_HELD_PERMISSIONS),
        ("formats", filters.formats.len(), MAX_FILTER_MEMBERS),
    ] {
        if length > most {
            return bad_search(format!("`filters.{member}` has more than {most} members"));
        }
    }
    let domain = |domain: &String| match Domain::new(domain) {
        Ok(domain) => Ok(domain.as_str().to_owned()),
        Err(error) => bad_search(format!("`filters.domains`: {error}")),
    };
    let author = filters.author.as_deref().map(author_key);
    if author.as_ref().is_some_and(|name| name.is_empty() || name.len() > MAX_AUTHOR_LENGTH) {
        return bad_search(format!(
            "`filters.author` must be a name of 1 to {MAX_AUTHOR_LENGTH} bytes"
        ));
    }
    Ok(PointFilter {
        domains: filters.domains.iter().map(domain).collect::<Result<_, _>>()?,
        held_permissions: held.map(|held| held.iter().map(ToString::to_string).collect()),
        read_only: filters.read_only,
        formats: filters.formats.clone(),
        max_complexity: filters.max_complexity.map(|most| most as u8),
        author,
        version: filters.version.clone(),
    })
}

fn bad_search<T>(text: String) -> Result<T, Error> {
    Err(Error::BadSearch(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_page_of_a_walk_ends_with_it() {
        let request = SearchRequest { intent: "x".to_owned(), ..SearchRequest::default() };
        let asked = ValidSearch::from_request(&request, "store").unwrap();
        assert_eq!(asked.page_size(), 10);
        let previous_hits = (1..=995).map(CapabilityId).collect();
        assert_eq!(ValidSearch { previous_hits, ..asked }.page_size(), 5);
    }
}
