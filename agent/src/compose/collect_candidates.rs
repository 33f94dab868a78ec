//! Candidates of a registry for each request of a sentence.

use std::sync::Arc;

use a2s_api::{SearchHit, SearchRequest};
use a2s_intent::split_requests;

use super::{ChainCandidate, ChainRequest, MAX_CANDIDATES, MAX_STEPS};
use crate::client::Error;
use crate::registry::RemoteRegistry;

/// Splits a sentence into requests, each with the capabilities that `registry` finds for it.
///
/// A sentence with one request becomes two if the best capability takes an id that another hit finds: first
/// the search for the id.
/// Their documents have the digests from the search. The result is empty when the sentence contains one
/// request without such a search, or more requests than a chain may have.
///
/// # Errors
/// Fails when the registry rejects a request or does not respond.
pub async fn collect_candidates(
    registry: &RemoteRegistry,
    sentence: &str,
) -> Result<Vec<ChainRequest>, Error> {
    let texts: Vec<String> = split_requests(sentence).into_iter().map(str::to_owned).collect();
    if !(1..=MAX_STEPS).contains(&texts.len()) {
        return Ok(Vec::new());
    }
    let is_single = texts.len() == 1;
    let intents = texts.clone();
    let limit = Some(MAX_CANDIDATES);
    let search = SearchRequest { intents, limit, ..SearchRequest::default() };
    let found = registry.search_all(&search).await?;
    let mut requests = Vec::with_capacity(texts.len());
    for (text, answer) in texts.into_iter().zip(found.responses) {
        let hits = answer.answer.capabilities;
        if is_single {
            let Some((search, hit)) = find_prerequisite(&hits) else { return Ok(Vec::new()) };
            for hit in [search, hit] {
                let candidates = vec![load_candidate(registry, hit).await?];
                requests.push(ChainRequest { text: text.clone(), candidates });
            }
            return Ok(requests);
        }
        let mut candidates = Vec::new();
        // A search that another hit needs was not asked for itself.
        for hit in hits.iter().filter(|hit| hit.needed_by.is_none()) {
            candidates.push(load_candidate(registry, hit).await?);
        }
        requests.push(ChainRequest { text, candidates });
    }
    Ok(requests)
}

/// The best hit, and the search that finds the id that it takes.
fn find_prerequisite(hits: &[SearchHit]) -> Option<(&SearchHit, &SearchHit)> {
    let best = hits.first()?;
    let is_needed = |hit: &&SearchHit| {
        hit.needed_by.as_ref().is_some_and(|needed| {
            needed.name == best.name && !best.extracted.contains_key(&needed.input)
        })
    };
    Some((hits.iter().find(is_needed)?, best))
}

async fn load_candidate(
    registry: &RemoteRegistry,
    hit: &SearchHit,
) -> Result<ChainCandidate, Error> {
    let version = hit.version.to_string();
    let (document, _) = registry.get_document(&hit.name, &version, Some(hit.checksum)).await?;
    Ok(ChainCandidate { document: Arc::new(document), score: hit.score })
}

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use axum::{Json, Router};
    use serde_json::{Value, json};
    use tokio::net::TcpListener;

    use super::*;
    use crate::client::ServiceClient;

    /// A registry that finds a capability for everything, with this digest.
    async fn registry(source: &'static str, checksum: Value) -> RemoteRegistry {
        let hit = json!({
            "id": "GetJoke@1.0.0", "name": "GetJoke", "version": "1.0.0", "description": "Gives a joke",
            "checksum": checksum, "similarity": 0.9, "score": 0.9, "usage_count": 0,
            "success_rate": null, "complexity": "low", "required_permissions": [], "parameters": [],
            "explanation": [],
        });
        let search = async move |Json(asked): Json<Value>| {
            let metadata = json!({"total_matches": 1, "search_time_ms": 1.0});
            let answer = |intent: &Value| json!({"intent": intent, "capabilities": [&hit], "metadata": metadata});
            let intents = asked["intents"].as_array().unwrap().iter();
            Json(json!({"responses": intents.map(answer).collect::<Vec<_>>()}))
        };
        let router = Router::new()
            .route("/v1/search", post(search))
            .route("/v1/capabilities/{name}/{version}", get(async move || source));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        RemoteRegistry::new(ServiceClient::new(&url.parse().unwrap(), None).unwrap())
    }

    #[tokio::test]
    async fn a_document_that_is_not_the_one_that_was_found_is_refused() {
        let source = include_str!("../../../capabilities/GetJoke.yaml");
        let sentence = "tell me a joke and tweet it";
        let digest = a2s::Document::open(source.as_bytes()).unwrap().digest();
        let found =
            collect_candidates(&registry(source, json!(digest)).await, sentence).await.unwrap();
        let texts: Vec<_> = found.iter().map(|request| request.text.as_str()).collect();
        assert_eq!(texts, ["tell me a joke", "tweet it"]);
        assert!(found.iter().all(|request| request.candidates.len() == 1));
        let other = json!(a2s::Digest::of_bytes(b"another one"));
        let refused =
            collect_candidates(&registry(source, other).await, sentence).await.unwrap_err();
        assert!(refused.to_string().contains("its data was changed"), "{refused}");
    }
}
