//! A registry on loopback that answers as a test wants.

use super::*;

#[derive(Default)]
pub(crate) struct RegistryDouble {
    pub(super) published: Mutex<BTreeMap<String, Vec<Published>>>,
    pub(super) outcomes: Mutex<VecDeque<(Value, Option<String>)>>,
    pub(super) reported: Notify,
    pub(super) refuses_outcomes: std::sync::atomic::AtomicBool,
    /// The owners of names.
    pub(super) owners: Mutex<BTreeMap<String, Vec<String>>>,
    /// The `Authorization` of each request that reads.
    pub(super) readers: Mutex<Vec<Option<String>>>,
    /// Whether reading needs a token.
    pub(super) asks_readers: std::sync::atomic::AtomicBool,
}

#[derive(Clone)]
pub(crate) struct Published {
    pub(crate) version: String,
    /// The digest that is listed.
    pub(crate) checksum: Digest,
    /// The digest in the entity tag.
    pub(crate) etag: Digest,
    /// What is sent.
    pub(crate) source: Vec<u8>,
    pub(crate) yanked: bool,
    /// Whether the registry has noticed that the document was changed.
    pub(crate) damaged: bool,
}

impl RegistryDouble {
    /// Publishes a document of these members, and gives its digest.
    pub(crate) fn publish(&self, name: &str, version: &str, rest: &Value) -> Digest {
        let source = document(name, version, rest);
        let digest = a2s::Document::open(&source).unwrap().digest();
        self.publish_raw(
            name,
            Published {
                version: version.to_owned(),
                checksum: digest,
                etag: digest,
                source,
                yanked: false,
                damaged: false,
            },
        );
        digest
    }

    /// The same in language 1.1.
    pub(crate) fn publish_newer(&self, name: &str, rest: &Value) -> Digest {
        let mut rest = rest.clone();
        rest["a2s"] = json!("1.1.0");
        self.publish(name, "1.0.0", &rest)
    }

    pub(crate) fn publish_raw(&self, name: &str, published: Published) {
        self.published.lock().unwrap().entry(name.to_owned()).or_default().push(published);
    }

    /// Changes what is sent of a capability's only version.
    pub(crate) fn tamper(&self, name: &str, change: impl FnOnce(&mut Published)) {
        change(&mut self.published.lock().unwrap().get_mut(name).unwrap()[0]);
    }

    /// Answers reports of outcomes with an error, or takes them again.
    pub(crate) fn refuse_outcomes(&self, refuses: bool) {
        self.refuses_outcomes.store(refuses, Ordering::SeqCst);
    }

    /// The next outcome that was reported, and the `Authorization` that it came with.
    pub(crate) async fn outcome(&self) -> (Value, Option<String>) {
        let next = async {
            loop {
                if let Some(outcome) = self.outcomes.lock().unwrap().pop_front() {
                    return outcome;
                }
                self.reported.notified().await;
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("an outcome is reported")
    }
}

pub(super) fn registry_routes(registry: Arc<RegistryDouble>) -> Router {
    Router::new()
        .route("/v1/capabilities/{name}", get(list_versions))
        .route("/v1/capabilities/{name}/owners", get(readers::list_owners))
        .route("/v1/capabilities/{name}/{version}", get(get_document))
        .route("/v1/outcomes", post(take_outcome))
        .with_state(registry)
}

async fn list_versions(
    State(registry): State<Arc<RegistryDouble>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Some(shut) = registry.note_reader(&headers) {
        return shut;
    }
    let published = registry.published.lock().unwrap();
    let Some(versions) = published.get(&name) else { return StatusCode::NOT_FOUND.into_response() };
    let versions: Vec<Value> = versions
        .iter()
        .map(|published| {
            json!({
                "name": name, "version": published.version, "checksum": published.checksum,
                "description": "", "domains": ["api.example"],
                "published_at": "2025-01-01T00:00:00Z", "yanked": published.yanked,
            })
        })
        .collect();
    let answer = json!({"name": name, "latest": null, "versions": versions});
    let answer: CapabilityVersions = serde_json::from_value(answer).unwrap();
    axum::Json(answer).into_response()
}

async fn get_document(
    State(registry): State<Arc<RegistryDouble>>,
    Path((name, version)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    assert_eq!(headers[header::ACCEPT], "application/yaml");
    if let Some(shut) = registry.note_reader(&headers) {
        return shut;
    }
    let published = registry.published.lock().unwrap();
    let versions = published.get(&name).map_or(&[][..], Vec::as_slice);
    let Some(found) = versions.iter().find(|published| published.version == version) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if found.damaged {
        let problem = json!({
            "type": "/errors/A2S222", "title": "damaged", "status": 500, "code": "A2S222",
            "detail": "the stored document was changed",
        });
        return (StatusCode::INTERNAL_SERVER_ERROR, axum::Json(problem)).into_response();
    }
    let etag = format!("W/\"{}\"", found.etag);
    ([(header::ETAG, etag)], found.source.clone()).into_response()
}

async fn take_outcome(
    State(registry): State<Arc<RegistryDouble>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let authorization = headers.get(header::AUTHORIZATION);
    let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
    let outcome = serde_json::from_slice(&body).unwrap();
    registry.outcomes.lock().unwrap().push_back((outcome, authorization));
    registry.reported.notify_one();
    if registry.refuses_outcomes.load(Ordering::SeqCst) {
        StatusCode::INTERNAL_SERVER_ERROR
    } else {
        StatusCode::NO_CONTENT
    }
}
