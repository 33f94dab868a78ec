//! A stand-in for an embeddings API, on loopback: it can be slow, fail, and answer nonsense, and it
//! counts what it is asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

use crate::Secret;
use crate::embed::{Embedder, EndpointConfig, PromptPrefixes, VectorEncoding};

pub(crate) const DIMENSIONS: usize = 8;
pub(crate) const KEY: &str = "the key of the endpoint";

/// How it behaves from now on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mood {
    Good,
    /// It answers this status, and asks for a pause of so many seconds.
    Says(u16, Option<u64>),
    /// It answers this body.
    Body(&'static str),
    /// It takes connections and never answers.
    Silent,
    /// It refuses texts that contain this.
    Dislikes(&'static str),
    /// Its vectors are one longer than usual.
    Longer,
    /// It sends whoever asks to itself.
    Moved,
}

/// The stand-in. It stops when this is dropped.
pub(crate) struct StandIn {
    pub(crate) base: String,
    shared: Arc<Shared>,
    _stop: oneshot::Sender<()>,
}

struct Shared {
    mood: Mutex<Mood>,
    /// Moods of the next requests.
    next: Mutex<Vec<Mood>>,
    requests: Mutex<Vec<Value>>,
    /// A request of documents needs one of these.
    gate: Semaphore,
}

impl StandIn {
    pub(crate) async fn start() -> Self {
        let shared = Arc::new(Shared {
            mood: Mutex::new(Mood::Good),
            next: Mutex::default(),
            requests: Mutex::default(),
            gate: Semaphore::new(1_000_000),
        });
        let router = axum::Router::new()
            .route("/v1/embeddings", post(embed))
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1/", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(async move {
            tokio::select! {
                served = axum::serve(listener, router).into_future() => served.unwrap(),
                _ = stopped => {}
            }
        });
        Self { base, shared, _stop: stop }
    }

    pub(crate) fn embedder(&self, model: &str) -> Embedder {
        Embedder::endpoint(self.config(model)).unwrap()
    }

    pub(crate) fn config(&self, model: &str) -> EndpointConfig {
        EndpointConfig {
            base: self.base.parse().unwrap(),
            model: model.to_owned(),
            key: Some(Secret::new(KEY)),
            dimensions: None,
            encoding: VectorEncoding::Float,
            prefixes: PromptPrefixes::default(),
        }
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    /// Moods of the next requests, one each.
    pub(crate) fn set_next(&self, moods: &[Mood]) {
        *self.shared.next.lock().unwrap() = moods.iter().rev().copied().collect();
    }

    /// From now on so many more requests are answered, and others wait.
    pub(crate) fn allow(&self, requests: usize) {
        self.shared.gate.forget_permits(usize::MAX >> 4);
        self.shared.gate.add_permits(requests);
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Every text of every request so far.
    pub(crate) fn texts(&self) -> Vec<String> {
        let requests = self.requests();
        let texts = requests.iter().flat_map(|request| request["input"].as_array().unwrap());
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    }
}

/// What texts are about, to a very small mind.
const TOPICS: [(&str, usize); 10] = [
    ("dog", 0),
    ("pooch", 0),
    ("breed", 0),
    ("weather", 1),
    ("rain", 1),
    ("money", 2),
    ("currency", 2),
    ("tweet", 3),
    ("twitter", 3),
    ("encyclopedia", 4),
];

fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let text = text.to_lowercase();
    let mut vector = vec![0.0; dimensions];
    for (word, topic) in TOPICS {
        if text.contains(word) {
            vector[topic] += 3.0;
        }
    }
    // What it does not know is about nothing in particular.
    vector[7] += if vector.iter().all(|x| *x == 0.0) { 1.0 } else { 0.1 };
    vector
}

async fn embed(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Response {
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
    shared.requests.lock().unwrap().push(request.clone());
    shared.gate.acquire().await.unwrap().forget();
    let next = shared.next.lock().unwrap().pop();
    let mood = next.unwrap_or_else(|| *shared.mood.lock().unwrap());
    let inputs = request["input"].as_array().unwrap();
    let texts: Vec<_> = inputs.iter().map(|text| text.as_str().unwrap()).collect();
    let mut dimensions = DIMENSIONS;
    match mood {
        Mood::Good => {}
        Mood::Longer => dimensions += 1,
        Mood::Says(status, pause) => {
            let mut answer = StatusCode::from_u16(status).unwrap().into_response();
            if let Some(pause) = pause {
                answer.headers_mut().insert("retry-after", pause.into());
            }
            return answer;
        }
        Mood::Body(body) => return body.into_response(),
        Mood::Moved => {
            let there = [("location", "/v1/embeddings")];
            return (StatusCode::TEMPORARY_REDIRECT, there).into_response();
        }
        Mood::Silent => return std::future::pending().await,
        Mood::Dislikes(word) => {
            if texts.iter().any(|text| text.contains(word)) {
                return (StatusCode::BAD_REQUEST, "too long").into_response();
            }
        }
    }
    let packed = request["encoding_format"] == "base64";
    let to_embedding = |text: &str| {
        let vector = vector(text, dimensions);
        match packed {
            true => {
                let bytes: Vec<_> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
                json!(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            false => json!(vector),
        }
    };
    // In another order than asked for: the index counts.
    let data: BTreeMap<_, _> = texts.iter().enumerate().collect();
    let data = data.iter().rev().map(|(index, text)| {
        json!({"object": "embedding", "index": index, "embedding": to_embedding(text)})
    });
    let data: Vec<_> = data.collect();
    Json(json!({"object": "list", "data": data, "model": request["model"]})).into_response()
}

/// Longer than anything here takes, and bounded.
pub(crate) const SOON: Duration = Duration::from_secs(30);
