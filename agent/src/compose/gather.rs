//! What a registry knows for each request of a sentence.

use std::sync::Arc;

use a2s::api::SearchRequest;
use a2s::split_requests;

use super::{Candidate, MAX_STEPS, MOST_CANDIDATES, Request};
use crate::client::Error;
use crate::registry::Registry;

/// The requests that a sentence is made of, each with the capabilities that `registry` finds for it.
///
/// Their documents have the digests that the search named. There are none when the sentence asks for
/// one thing, or for more than a chain may do.
///
/// # Errors
/// When the registry refuses or does not answer.
pub async fn gather(registry: &Registry, sentence: &str) -> Result<Vec<Request>, Error> {
    let texts: Vec<String> = split_requests(sentence).into_iter().map(str::to_owned).collect();
    if !(2..=MAX_STEPS).contains(&texts.len()) {
        return Ok(Vec::new());
    }
    let intents = texts.clone();
    let limit = Some(MOST_CANDIDATES);
    let search = SearchRequest { intents, limit, ..SearchRequest::default() };
    let found = registry.search_all(&search).await?;
    let mut requests = Vec::with_capacity(texts.len());
    for (text, answer) in texts.into_iter().zip(found.answers) {
        let mut candidates = Vec::new();
        for hit in answer.answer.capabilities {
            let version = hit.version.to_string();
            let (document, _) = registry.document(&hit.name, &version, Some(hit.checksum)).await?;
            let document = Arc::new(document);
            candidates.push(Candidate { document, similarity: hit.similarity });
        }
        requests.push(Request { text, candidates });
    }
    Ok(requests)
}
