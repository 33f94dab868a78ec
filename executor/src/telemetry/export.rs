//! Sending spans to a receiver of OTLP over HTTP, beside everything else.
//!
//! A run hands its spans over and is done. Behind that is one queue, bounded, and one task that sends
//! what is in it: all that has gathered while the last batch was under way goes with the next. What
//! finds no room, or nobody takes, is dropped and counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use url::Url;

use super::otlp::{self, Ready};
use super::spans::Trace;
use crate::config::Export;
use crate::control;
use crate::error::{Error, Kind};
use crate::metrics::Metrics;

/// Spans that wait; a trace that comes when there are more is dropped, so there is one more trace
/// at the most.
const MAX_WAITING: usize = 32_768;
/// Spans that are sent at a time, as OpenTelemetry's own batches.
const BATCH: usize = 512;
/// How long one batch may take, as OpenTelemetry's exporters wait.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a batch is sent, when the receiver may take it later.
const ATTEMPTS: u32 = 3;
/// The pause behind the first attempt; the next is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// The most of an answer that is read.
const MAX_ANSWER: usize = 64 * 1024;

/// The way to a receiver of spans.
#[derive(Debug)]
pub(crate) struct Exporter {
    /// None once it is closed.
    queue: Mutex<Option<UnboundedSender<Vec<Ready>>>>,
    shared: Arc<Shared>,
    /// The one task that sends. It ends with the exporter.
    sending: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Shared {
    http: reqwest::Client,
    endpoint: Url,
    headers: HeaderMap,
    service: String,
    metrics: Metrics,
    /// Spans that wait or are under way.
    waiting: AtomicUsize,
    dropped: AtomicU64,
}

impl Exporter {
    /// A way to the receiver of the configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Kind::Configuration`] when its address or a header cannot be used, or no client can be made.
    pub(crate) fn new(export: &Export, metrics: Metrics) -> Result<Self, Error> {
        let unusable =
            |why: String| Error::new(Kind::Configuration, format!("the receiver of traces: {why}"));
        if !matches!(export.endpoint.scheme(), "http" | "https") || !export.endpoint.has_host() {
            return Err(unusable(format!("`{}` is no HTTP address", export.endpoint)));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &export.headers {
            let header = HeaderName::from_bytes(name.as_bytes());
            let header = header.map_err(|_| unusable(format!("`{name}` is no header")))?;
            let mut value = HeaderValue::from_str(value.reveal())
                .map_err(|_| unusable(format!("the value of `{name}` fits into no header")))?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let http = control::client(TIMEOUT)
            .user_agent(concat!("a2s-executor/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        let shared = Arc::new(Shared {
            http,
            endpoint: export.endpoint.clone(),
            headers,
            service: export.service.clone(),
            metrics,
            waiting: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        });
        let (queue, waiting) = unbounded_channel();
        let mut sending = JoinSet::new();
        sending.spawn(Arc::clone(&shared).send_all(waiting));
        Ok(Self { queue: Mutex::new(Some(queue)), shared, sending: Mutex::new(sending) })
    }

    /// Takes the spans of a run, if there is room for them. Never waits.
    pub(crate) fn offer(&self, trace: Trace) {
        let spans = otlp::ready(trace);
        let count = spans.len();
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match &*queue {
            Some(queue) if self.shared.waiting.load(Ordering::Relaxed) < MAX_WAITING => {
                self.shared.waiting.fetch_add(count, Ordering::Relaxed);
                // Somebody listens as long as the queue is there.
                let _ = queue.send(spans);
            }
            Some(_) => self.shared.drop_spans(count, "too many wait"),
            None => self.shared.drop_spans(count, "the executor stops"),
        }
    }

    /// Sends what waits, for so long at the most, and takes nothing more.
    pub(crate) async fn close(&self, time: Duration) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut sending =
            std::mem::take(&mut *self.sending.lock().unwrap_or_else(PoisonError::into_inner));
        let sent = async { while sending.join_next().await.is_some() {} };
        if tokio::time::timeout(time, sent).await.is_err() {
            sending.shutdown().await;
            let left = self.shared.waiting.swap(0, Ordering::Relaxed);
            self.shared.drop_spans(left, "the executor stops");
        }
    }
}

impl Shared {
    async fn send_all(self: Arc<Self>, mut waiting: UnboundedReceiver<Vec<Ready>>) {
        let mut traces = Vec::new();
        while waiting.recv_many(&mut traces, BATCH).await > 0 {
            let mut spans = traces.drain(..).flatten();
            loop {
                let batch: Vec<Ready> = spans.by_ref().take(BATCH).collect();
                let count = batch.len();
                if count == 0 {
                    break;
                }
                match self.send(otlp::encode(&self.service, batch)).await {
                    Ok(rejected) => {
                        let rejected = usize::try_from(rejected).unwrap_or(count).min(count);
                        self.metrics.exported(count - rejected);
                        self.drop_spans(rejected, "the receiver refused them");
                    }
                    Err(why) => self.drop_spans(count, &why),
                }
                self.waiting.fetch_sub(count, Ordering::Relaxed);
            }
        }
    }

    /// Sends a batch, again where OTLP says that it may be taken later, and gives how many of its
    /// spans were refused.
    async fn send(&self, body: Vec<u8>) -> Result<u64, String> {
        let body = bytes::Bytes::from(body);
        let mut attempt = 1;
        loop {
            let (why, later) = match self.post(body.clone()).await {
                Ok((status, answer)) if status.is_success() => return Ok(otlp::rejected(&answer)),
                Ok((status, _)) => (format!("the receiver answered {status}"), may_pass(status)),
                // The address may have a name and a password in it.
                Err(error) => (error.without_url().to_string(), true),
            };
            if !later || attempt >= ATTEMPTS {
                return Err(why);
            }
            tokio::time::sleep(PAUSE * 2_u32.pow(attempt - 1)).await;
            attempt += 1;
        }
    }

    async fn post(&self, body: bytes::Bytes) -> reqwest::Result<(StatusCode, Vec<u8>)> {
        let request = self.http.post(self.endpoint.clone()).headers(self.headers.clone());
        let mut response = request.body(body).send().await?;
        let status = response.status();
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if MAX_ANSWER < answer.len() + chunk.len() {
                // Whatever it is, the receiver has taken the spans.
                answer.clear();
                break;
            }
            answer.extend_from_slice(&chunk);
        }
        Ok((status, answer))
    }

    /// Counts spans that nobody gets, and says so now and then: when there is the first, and
    /// whenever there are twice as many as the last time.
    fn drop_spans(&self, count: usize, why: &str) {
        if count == 0 {
            return;
        }
        self.metrics.spans_dropped(count);
        let count = count as u64;
        let before = self.dropped.fetch_add(count, Ordering::Relaxed);
        let after = before.saturating_add(count);
        if before.checked_ilog2() != after.checked_ilog2() {
            tracing::warn!(spans = after, why, "spans were dropped since the start");
        }
    }
}

/// Whether a receiver that answers so may take the same later (OTLP over HTTP, retryable codes).
fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use tokio::net::TcpListener;
    use uuid::Uuid;

    use super::super::context::RunTrace;
    use super::super::span::Span;
    use super::*;

    #[tokio::test]
    async fn so_many_spans_wait_and_the_others_are_dropped() {
        // Connections come up, and nobody ever reads from them.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/", silent.local_addr().unwrap()).parse().unwrap();
        let export = Export { endpoint, headers: Vec::new(), service: "test".to_owned() };
        let mut registry = Registry::default();
        let exporter = Exporter::new(&export, Metrics::register(&mut registry)).unwrap();
        let context = RunTrace::of(Uuid::from_u128(1), None, true);
        let span = Span::new(context.root(), None, "acs.turn", jiff::Timestamp::UNIX_EPOCH);
        let trace = Trace { context, spans: vec![span; 1_000] };
        let dropped = || exporter.shared.dropped.load(Ordering::Relaxed);
        for _ in 0..33 {
            exporter.offer(trace.clone());
        }
        assert_eq!(dropped(), 0);
        exporter.offer(trace.clone());
        assert_eq!(dropped(), 1_000);
        exporter.close(Duration::ZERO).await;
        assert_eq!(dropped(), 34_000);
        exporter.offer(trace);
        assert_eq!(dropped(), 35_000);
    }

    #[test]
    fn what_cannot_be_sent_to_is_refused_at_the_start() {
        let new = |endpoint: &str, name: &str, value: &str| {
            let export = Export {
                endpoint: endpoint.parse().unwrap(),
                headers: vec![(name.to_owned(), a2s::Secret::new(value))],
                service: "test".to_owned(),
            };
            let metrics = Metrics::register(&mut Registry::default());
            Exporter::new(&export, metrics).err().map(|error| error.kind)
        };
        let refused = Some(Kind::Configuration);
        assert_eq!(new("ftp://a.example/", "a", "b"), refused);
        assert_eq!(new("http://a.example/", "a b", "b"), refused);
        assert_eq!(new("http://a.example/", "a", "b\nc"), refused);
    }
}
