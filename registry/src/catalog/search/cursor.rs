//! Cursors: the start of the next page of a search.
//!
//! A cursor contains a digest of its query and the capabilities that earlier pages have returned. The next
//! page is the best of the rest *now*. So a walk through all pages returns no capability twice, and returns
//! everything that fits the whole time, even if capabilities are published or run in between, or the
//! registry restarts. The registry stores nothing for a cursor.

use a2s::Digest;
use a2s_api::{SearchFilters, SelectionStrategy};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::Serialize;

use crate::store::CapabilityId;

/// The most hits of a walk through all pages.
pub(crate) const MAX_WALK_HITS: usize = 1000;
/// The format version, which is the first byte of a cursor.
const FORMAT: u8 = 1;
/// The number of bytes of the query's digest in a cursor.
const DIGEST_BYTES: usize = 16;
/// The maximum length of a cursor in characters: 1,000 ids of 9 bytes.
const MAX_CURSOR_LENGTH: usize = 12_100;

/// The query that a cursor belongs to.
#[derive(Debug, Serialize)]
pub(crate) struct CursorQuery<'q> {
    /// The identity of the store. Capability ids are valid only in their store.
    pub(crate) store: &'q str,
    pub(crate) intent: &'q str,
    pub(crate) strategy: Option<&'q SelectionStrategy>,
    pub(crate) filters: Option<&'q SearchFilters>,
}

impl CursorQuery<'_> {
    fn digest(&self) -> Digest {
        // Serialising plain data to memory never fails; if it did, no cursor would fit.
        Digest::of_bytes(&serde_json::to_vec(self).unwrap_or_default())
    }
}

/// The reason why a cursor cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorError {
    /// The text is not a cursor.
    Malformed,
    /// The cursor belongs to another query.
    OtherQuery,
}

/// The cursor after the capabilities that a walk has returned.
pub(crate) fn encode(query: &CursorQuery<'_>, given: &[CapabilityId]) -> String {
    let mut ids: Vec<u64> = given.iter().map(|id| id.0.unsigned_abs()).collect();
    ids.sort_unstable();
    let mut bytes = vec![FORMAT];
    bytes.extend(query.digest().as_bytes().iter().take(DIGEST_BYTES));
    let mut before = 0;
    for id in ids {
        let mut step = id - before;
        before = id;
        while step >= 0x80 {
            bytes.push(step.to_le_bytes()[0] | 0x80);
            step >>= 7;
        }
        bytes.push(step.to_le_bytes()[0]);
    }
    BASE64.encode(bytes)
}

/// Returns the capabilities on earlier pages, in order of id.
///
/// # Errors
/// Fails when the text is not a cursor, or is the cursor of another query.
pub(crate) fn decode(
    query: &CursorQuery<'_>,
    text: &str,
) -> Result<Vec<CapabilityId>, CursorError> {
    if text.len() > MAX_CURSOR_LENGTH {
        return Err(CursorError::Malformed);
    }
    let bytes = BASE64.decode(text).map_err(|_| CursorError::Malformed)?;
    let Some((&FORMAT, rest)) = bytes.split_first() else { return Err(CursorError::Malformed) };
    let (digest, rest) = rest.split_at_checked(DIGEST_BYTES).ok_or(CursorError::Malformed)?;
    if !query.digest().as_bytes().starts_with(digest) {
        return Err(CursorError::OtherQuery);
    }
    let mut ids = Vec::new();
    let (mut id, mut step, mut shift) = (0i64, 0i64, 0u32);
    for byte in rest {
        // 9 groups of 7 bits are a positive number of 64 bits.
        if shift > 56 {
            return Err(CursorError::Malformed);
        }
        step |= i64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            id = id.checked_add(step).filter(|_| step > 0).ok_or(CursorError::Malformed)?;
            ids.push(CapabilityId(id));
            (step, shift) = (0, 0);
        }
    }
    if shift != 0 || ids.is_empty() || ids.len() >= MAX_WALK_HITS {
        return Err(CursorError::Malformed);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::tests::world::{World, document};

    fn query(intent: &str) -> CursorQuery<'_> {
        CursorQuery { store: "store", intent, strategy: None, filters: None }
    }

    #[tokio::test]
    async fn a_walk_ends_at_the_deepest_hit() {
        let world = World::new().await;
        let names = ["WeatherOslo", "WeatherRome", "WeatherBern", "WeatherPisa", "WeatherLyon"];
        world.publish_all(names.map(|name| document(name, "1.0.0", "Weather forecast"))).await;
        let intent = "weather forecast";
        let store = &world.app.shared.catalog.search.identity;
        // As if all but three of a walk had been given, and are gone.
        let gone: Vec<_> =
            (0..).map(|id| CapabilityId(1_000_000 + id)).take(MAX_WALK_HITS - 3).collect();
        let mut cursor = json!(encode(&CursorQuery { store, ..query(intent) }, &gone));
        let mut hits = Vec::new();
        for _ in 0..2 {
            let request = json!({"intent": intent, "limit": 2, "cursor": cursor});
            let answer = world.post("/v1/search", &request).await;
            hits.push(answer.names().len());
            cursor = answer.json()["next"].clone();
        }
        // Although two more fit.
        assert_eq!((hits, cursor), (vec![2, 1], json!(null)));
    }

    #[test]
    fn a_cursor_is_of_one_query() {
        let filters = SearchFilters { read_only: true, ..SearchFilters::default() };
        let strategy = SelectionStrategy::Preset("simplest".to_owned());
        let base = query("weather");
        let text = encode(&base, &[CapabilityId(7)]);
        assert_eq!(decode(&base, &text), Ok(vec![CapabilityId(7)]));
        for other in [
            query("whether"),
            CursorQuery { store: "other", ..query("weather") },
            CursorQuery { filters: Some(&filters), ..query("weather") },
            CursorQuery { strategy: Some(&strategy), ..query("weather") },
        ] {
            assert_eq!(decode(&other, &text), Err(CursorError::OtherQuery), "{other:?}");
        }
        for malformed in ["", "x", "!", "AQ", &text[..20], &"A".repeat(MAX_CURSOR_LENGTH + 4)] {
            assert_eq!(decode(&base, malformed), Err(CursorError::Malformed), "{malformed}");
        }
    }

    proptest! {
        #[test]
        fn a_cursor_remembers_every_id(
            ids in prop::collection::btree_set(1i64..=i64::MAX, 1..MAX_WALK_HITS),
        ) {
            let ids: Vec<_> = ids.into_iter().map(CapabilityId).collect();
            let mut given = ids.clone();
            given.reverse();
            let text = encode(&query("x"), &given);
            prop_assert!(text.len() <= MAX_CURSOR_LENGTH);
            prop_assert_eq!(decode(&query("x"), &text), Ok(ids));
        }

        #[test]
        fn foreign_bytes_never_make_more_than_a_walk_has(
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
        ) {
            let mut all = vec![FORMAT];
            all.extend(query("x").digest().as_bytes().iter().take(DIGEST_BYTES));
            all.extend(bytes);
            if let Ok(ids) = decode(&query("x"), &BASE64.encode(all)) {
                prop_assert!(ids.len() < MAX_WALK_HITS && ids.iter().all(|id| id.0 > 0));
                prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
            }
        }
    }
}
