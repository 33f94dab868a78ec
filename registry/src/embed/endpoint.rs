//! A service that speaks the embeddings API of `OpenAI`: `POST {base}/embeddings`.
//!
//! It is part of the control plane: the operator of the registry configures it, and documents cannot change
//! it. It may be slow, fail, or return invalid responses; only its vectors depend on that.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use a2s::Secret;
use reqwest::header::{AUTHORIZATION, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{StatusCode, Url, redirect, retry};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::embeddings_response::{self, MAX_DIMENSIONS};
use super::{EmbedDeadline, EmbedPurpose, Embedding, Error, PromptPrefixes, RULES, short_digest};

/// The maximum number of texts of one request, and of their bytes together.
const MAX_TEXTS: usize = 64;
const MAX_REQUEST_BYTES: usize = 128 * 1024;
/// The maximum number of bytes of a text that count, and of a text that the endpoint has rejected, perhaps
/// because of its length.
const MAX_TEXT_BYTES: usize = 8 * 1024;
const SHORTENED_TEXT_BYTES: usize = 1024;
/// The maximum size of a response in bytes: the vectors of a full request as JSON.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The timeout of a request of background work.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The number of attempts of background work.
const ATTEMPTS: u32 = 4;
/// The pause after the first attempt; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The maximum pause that an endpoint can request.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// After this many failures in a row, waiting callers skip the endpoint for this time.
const FAILURES_BEFORE_COOLDOWN: u32 = 3;
const COOLDOWN: Duration = Duration::from_secs(5);

/// The configuration of an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// The URL before `/embeddings`, such as `https://api.openai.com/v1`.
    pub base: Url,
    /// The requested model.
    pub model: String,
    /// The key, which each request contains as a bearer token.
    pub key: Option<Secret>,
    /// The requested length of vectors; when absent, the model decides.
    pub dimensions: Option<usize>,
    /// The requested encoding of numbers.
    pub encoding: VectorEncoding,
    /// The prefixes of texts.
    pub prefixes: PromptPrefixes,
}

/// The encoding of numbers in a response. The registry reads both, whichever it asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VectorEncoding {
    /// JSON numbers, which every endpoint supports.
    #[default]
    Float,
    /// Little-endian floats of four bytes in Base64: a third of the size.
    Base64,
}

/// The client of an embeddings endpoint. Copies share it.
#[derive(Debug, Clone)]
pub struct EmbeddingEndpoint {
    client: Arc<EndpointClient>,
}

#[derive(Debug)]
struct EndpointClient {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    config: EndpointConfig,
    id: String,
    /// The length of vectors, from the configuration or from the first response.
    dimensions: OnceLock<usize>,
    health: Mutex<EndpointHealth>,
}

/// The recent failures of the endpoint.
#[derive(Debug, Default)]
struct EndpointHealth {
    failures: u32,
    cooldown_until: Option<Instant>,
}

#[derive(Serialize)]
struct EmbeddingsRequest<'r> {
    model: &'r str,
    input: &'r [&'r str],
    encoding_format: VectorEncoding,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

/// The reason for the failure of one request.
enum EmbedRequestError {
    /// The request may succeed later, after this pause if the endpoint states one.
    Retryable(String, Option<Duration>),
    /// The endpoint rejected these texts.
    TextsRejected(String),
    /// The endpoint rejects all requests of this kind.
    Permanent(String),
}

impl EmbeddingEndpoint {
    pub(super) fn new(config: EndpointConfig) -> Result<Self, Error> {
        let unusable = |why: &str| Error::Unusable(format!("the embeddings endpoint: {why}"));
        let base = &config.base;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(unusable("its address is not an HTTP address"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(unusable(
                "its address contains a user name or password; set the key separately",
            ));
        }
        if config.model.is_empty() {
            return Err(unusable("it requires the name of a model"));
        }
        if config.dimensions.is_some_and(|length| !(1..=MAX_DIMENSIONS).contains(&length)) {
            return Err(unusable(&format!("vectors must have 1 to {MAX_DIMENSIONS} dimensions")));
        }
        let mut url = base.clone();
        url.set_path(&format!("{}/embeddings", base.path().trim_end_matches('/')));
        let mut headers = HeaderMap::new();
        if let Some(key) = &config.key {
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()))
                .map_err(|_| unusable("its key has characters that are not allowed in a header"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .user_agent(concat!("a2s-registry/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unusable(&error.to_string()))?;
        let prefixes = config.prefixes.to_id_source();
        let id_source = format!("{url} {:?} {:?} {prefixes}", config.model, config.dimensions);
        let model: String = config
            .model
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c))
            .take(48)
            .collect();
        let id = format!("endpoint-{model}-{}-{RULES}", short_digest(&id_source));
        let dimensions = OnceLock::new();
        if let Some(configured) = config.dimensions {
            dimensions.get_or_init(|| configured);
        }
        let health = Mutex::default();
        let shared = EndpointClient { http, url, headers, config, id, dimensions, health };
        Ok(Self { client: Arc::new(shared) })
    }

    pub(super) fn id(&self) -> &str {
        &self.client.id
    }

    pub(super) async fn dimensions(&self) -> Result<usize, Error> {
        if let Some(known) = self.client.dimensions.get() {
            return Ok(*known);
        }
        self.embed(vec!["dimensions".to_owned()], EmbedPurpose::Document, EmbedDeadline::Long)
            .await?;
        let unknown =
            || Error::Unavailable("the embeddings endpoint returned no vector".to_owned());
        self.client.dimensions.get().copied().ok_or_else(unknown)
    }

    pub(super) async fn embed(
        &self,
        texts: Vec<String>,
        purpose: EmbedPurpose,
        patience: EmbedDeadline,
    ) -> Result<Vec<Embedding>, Error> {
        let before = self.client.config.prefixes.prefix_for(purpose);
        let count = texts.len();
        // Services refuse empty texts, and those mean nothing anyway.
        let texts = texts.iter().map(|text| text.trim()).enumerate();
        let (places, texts): (Vec<_>, Vec<_>) = texts
            .filter(|(_, text)| !text.is_empty())
            .map(|(place, text)| (place, format!("{before}{}", truncate(text, MAX_TEXT_BYTES))))
            .unzip();
        let mut vectors = vec![None; count];
        let mut from = 0;
        while from < texts.len() {
            let mut bytes = 0;
            let fits = texts[from..].iter().take(MAX_TEXTS).take_while(|text| {
                bytes += text.len();
                bytes <= MAX_REQUEST_BYTES
            });
            let to = from + fits.count().max(1);
            let batch: Vec<_> = texts[from..to].iter().map(String::as_str).collect();
            let found = self.client.embed_batch(&batch, patience).await?;
            for (place, vector) in places[from..to].iter().zip(found) {
                vectors[*place] = vector;
            }
            from = to;
        }
        Ok(vectors)
    }
}

impl EndpointClient {
    /// Returns the vectors of one batch. When the endpoint rejects the batch, the client sends each half
    /// separately. So one text that is too long for the model does not cost the other texts their vectors.
    async fn embed_batch(
        &self,
        texts: &[&str],
        patience: EmbedDeadline,
    ) -> Result<Vec<Embedding>, Error> {
        match self.embed_with_retries(texts, patience).await {
            Ok(vectors) => Ok(vectors),
            Err(EmbedRequestError::Retryable(why, _) | EmbedRequestError::Permanent(why)) => {
                Err(unavailable(&why))
            }
            Err(EmbedRequestError::TextsRejected(why)) => match texts {
                [] => Ok(Vec::new()),
                [text] if text.len() > SHORTENED_TEXT_BYTES => {
                    Box::pin(self.embed_batch(&[truncate(text, SHORTENED_TEXT_BYTES)], patience))
                        .await
                }
                // It never gave a vector: then it is not the text.
                [_] if self.dimensions.get().is_none() => Err(unavailable(&why)),
                [_] => {
                    tracing::warn!(
                        why,
                        "the embeddings endpoint rejected a text; searches find the text by its words only"
                    );
                    Ok(vec![None])
                }
                texts => {
                    let (left, right) = texts.split_at(texts.len() / 2);
                    let mut vectors = Box::pin(self.embed_batch(left, patience)).await?;
                    vectors.extend(Box::pin(self.embed_batch(right, patience)).await?);
                    Ok(vectors)
                }
            },
        }
    }

    async fn embed_with_retries(
        &self,
        texts: &[&str],
        patience: EmbedDeadline,
    ) -> Result<Vec<Embedding>, EmbedRequestError> {
        let (attempts, timeout) = match patience {
            EmbedDeadline::Short(timeout) => {
                if let Some(why) = self.cooldown_reason() {
                    return Err(EmbedRequestError::Retryable(why, None));
                }
                (1, timeout)
            }
            EmbedDeadline::Long => (ATTEMPTS, TIMEOUT),
        };
        let mut attempt = 1;
        loop {
            let result = self.send_request(texts, timeout).await;
            self.note_result(&result);
            match result {
                Err(EmbedRequestError::Retryable(why, asked_for)) if attempt < attempts => {
                    let usual = FIRST_PAUSE * 2_u32.pow(attempt - 1);
                    let pause = asked_for.unwrap_or(usual).clamp(usual, MAX_PAUSE);
                    tracing::debug!(
                        why,
                        ?pause,
                        "the registry repeats the request to the embeddings endpoint"
                    );
                    tokio::time::sleep(pause).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Sends one request and reads its response.
    async fn send_request(
        &self,
        texts: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Embedding>, EmbedRequestError> {
        let body = EmbeddingsRequest {
            model: &self.config.model,
            input: texts,
            encoding_format: self.config.encoding,
            dimensions: self.config.dimensions,
        };
        let later = |error: reqwest::Error| {
            // Its sources say more, and none of them repeats a header.
            let error = error.without_url();
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            EmbedRequestError::Retryable(format!("{error}: {}", cause.unwrap_or_default()), None)
        };
        let request =
            self.http.post(self.url.clone()).headers(self.headers.clone()).timeout(timeout);
        let mut response = request.json(&body).send().await.map_err(later)?;
        let status = response.status();
        if status != StatusCode::OK {
            // The body may repeat a text or a key: only the status is safe.
            let why = format!("it responded with status {status}");
            return Err(match status.as_u16() {
                408 | 425 | 429 | 500..=599 => {
                    EmbedRequestError::Retryable(why, requested_pause(response.headers()))
                }
                400 | 413 | 422 => EmbedRequestError::TextsRejected(why),
                _ => EmbedRequestError::Permanent(why),
            });
        }
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(later)? {
            if answer.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(EmbedRequestError::Permanent(format!(
                    "its response is larger than {MAX_RESPONSE_BYTES} bytes"
                )));
            }
            answer.extend_from_slice(&chunk);
        }
        let known = self.dimensions.get().copied();
        let (vectors, length) = embeddings_response::parse_response(&answer, texts.len(), known)
            .map_err(|why| {
                EmbedRequestError::Retryable(
                    format!("its response is not a list of vectors: {why}"),
                    None,
                )
            })?;
        if vectors.iter().any(Option::is_some) {
            self.dimensions.get_or_init(|| length);
        }
        Ok(vectors)
    }

    /// The reason why the endpoint is skipped for now, when it is.
    fn cooldown_reason(&self) -> Option<String> {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health
            .cooldown_until
            .filter(|until| Instant::now() < *until)
            .map(|_| "requests are paused for a few seconds after repeated failures".to_owned())
    }

    fn note_result(&self, result: &Result<Vec<Embedding>, EmbedRequestError>) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            // It answers, even when it says no to a text.
            Ok(_) | Err(EmbedRequestError::TextsRejected(_)) => *health = EndpointHealth::default(),
            Err(EmbedRequestError::Retryable(..) | EmbedRequestError::Permanent(_)) => {
                health.failures = health.failures.saturating_add(1);
                if health.failures >= FAILURES_BEFORE_COOLDOWN {
                    health.cooldown_until = Some(Instant::now() + COOLDOWN);
                }
            }
        }
    }
}

fn unavailable(why: &str) -> Error {
    Error::Unavailable(format!("the embeddings endpoint: {why}"))
}

/// Returns the beginning of a text, cut between two characters.
fn truncate(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Reads `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date. A date is compared with the `Date`
/// of the same response, so that the clocks of both sides do not have to agree.
fn requested_pause(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let wanted = text(RETRY_AFTER)?;
    if let Ok(seconds) = wanted.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text| httpdate::parse_http_date(text).ok();
    date(wanted)?.duration_since(date(text(DATE)?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_asked_for_in_seconds_or_by_a_date() {
        let now = Some("Sun, 22 Nov 2026 14:00:00 GMT");
        for (wanted, date, pause) in [
            (Some("7"), None, Some(7)),
            (Some("Sun, 22 Nov 2026 14:00:09 GMT"), now, Some(9)),
            (Some("Sunday, 22-Nov-26 14:01:00 GMT"), now, Some(60)),
            (Some("Sun Nov 22 14:00:02 2026"), now, Some(2)),
            // It is over.
            (Some("Sun, 22 Nov 2026 13:59:00 GMT"), now, None),
            (Some("Sun, 22 Nov 2026 14:00:09 GMT"), None, None),
            (Some("Sun, 22 Nov 2026 14:00:09 GMT"), Some("today"), None),
            (Some("soon"), now, None),
            (Some("-1"), now, None),
            (None, now, None),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(RETRY_AFTER, wanted), (DATE, date)] {
                headers.extend(value.map(|value| (name, HeaderValue::from_static(value))));
            }
            assert_eq!(requested_pause(&headers), pause.map(Duration::from_secs), "{headers:?}");
        }
    }
}
