//! The executor at the other end of HTTP: plans, runs and their events.

use a2s_api::{EventKind, ExecutionRequest, PlanRequest, PlanResponse, Run, RunEvent};
use reqwest::header::ACCEPT;
use reqwest::{Method, StatusCode};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::client::{Error, ServiceClient, SseItem, SseStream};

/// A client of an executor, which runs capabilities: the `CapabilityExecutor` of the A2S text.
#[derive(Debug, Clone)]
pub struct RemoteExecutor {
    client: ServiceClient,
}

impl RemoteExecutor {
    /// Creates an executor that uses `client`.
    #[must_use]
    pub fn new(client: ServiceClient) -> Self {
        Self { client }
    }

    /// The plan of a run. The executor sends no request to any service.
    ///
    /// # Errors
    /// When the executor rejects the request or does not respond.
    pub async fn plan(&self, request: &PlanRequest) -> Result<PlanResponse, Error> {
        self.client.post(&["v1", "plans"], request).await
    }

    /// Starts a run. If `wait` is set in the request, returns the run when it has ended.
    ///
    /// # Errors
    /// When the executor rejects the request or does not respond.
    pub async fn start(&self, request: &ExecutionRequest) -> Result<Run, Error> {
        self.client.post(&["v1", "executions"], request).await
    }

    /// Starts a run that is cancelled when the returned guard is dropped. Also cancels the run when the
    /// future is dropped before the executor responds: a run may send requests before that.
    ///
    /// # Errors
    /// When the executor rejects the request or does not respond.
    pub async fn start_guarded(&self, request: ExecutionRequest) -> Result<RunGuard, Error> {
        let (sender, receiver) = oneshot::channel();
        let executor = self.clone();
        // The task also completes when this future is dropped. It then drops the guard, which cancels the run.
        tokio::spawn(async move {
            let started = executor.start(&request).await;
            let _ = sender.send(started.map(|run| RunGuard::new(executor, &run)));
        });
        let lost = |_| Error::Unreachable {
            url: Box::new(self.client.url().clone()),
            cause: "this process is about to end".to_owned(),
        };
        receiver.await.map_err(lost)?
    }

    /// Reads the current state of a run.
    ///
    /// # Errors
    /// When the run does not exist, or the executor does not respond.
    pub async fn get_run(&self, id: Uuid) -> Result<Run, Error> {
        self.client.get(&["v1", "executions", &id.to_string()]).await
    }

    /// Cancels a run. Requests that it has already sent to services are not undone.
    ///
    /// # Errors
    /// When the run does not exist or has ended, or the executor does not respond.
    pub async fn cancel(&self, id: Uuid) -> Result<Run, Error> {
        let id = id.to_string();
        let path = ["v1", "executions", &id, "cancel"];
        self.client.json(self.client.request(Method::POST, &path)).await
    }

    /// The events of a run after number `seen`; 0 for all of them.
    #[must_use]
    pub fn stream_events(&self, id: Uuid, seen: u64) -> RunEventStream {
        RunEventStream { client: self.client.clone(), id, seen, open: None, over: false }
    }
}

/// The guard of a run: if it is dropped before the run has ended or waits, the run is cancelled.
#[derive(Debug)]
pub struct RunGuard {
    executor: RemoteExecutor,
    id: Uuid,
    events: RunEventStream,
    over: bool,
}

impl RunGuard {
    fn new(executor: RemoteExecutor, run: &Run) -> Self {
        let events = executor.stream_events(run.id, 0);
        Self { executor, id: run.id, events, over: run.status.is_final() }
    }

    /// Returns the id of the run.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Returns the next event; none when the run has ended or waits.
    ///
    /// # Errors
    /// Fails like [`RunEventStream::next`].
    pub async fn next(&mut self) -> Result<Option<RunEvent>, Error> {
        let event = self.events.next().await?;
        self.over |= event.is_none();
        Ok(event)
    }

    /// Follows the run until it ends or waits, and returns it.
    ///
    /// # Errors
    /// As [`RunEventStream::next`] and [`RemoteExecutor::get_run`].
    pub async fn finish(mut self) -> Result<Run, Error> {
        while self.next().await?.is_some() {}
        self.executor.get_run(self.id).await
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // Without a runtime the process ends, and cannot send the request.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (executor, id) = (self.executor.clone(), self.id);
            runtime.spawn(async move { executor.cancel(id).await });
        }
    }
}

/// The events of a run as they happen, until it has ended or waits. A broken stream is opened again after
/// the last event.
#[derive(Debug)]
pub struct RunEventStream {
    client: ServiceClient,
    id: Uuid,
    seen: u64,
    open: Option<SseStream>,
    /// Set when no event follows the last one, at least for now.
    over: bool,
}

impl RunEventStream {
    /// The number of the last event that [`RunEventStream::next`] returned. Before the first event, the
    /// number after which the stream begins.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.seen
    }

    /// The next event; none when the run has ended or waits. Dropping the future loses no event.
    ///
    /// # Errors
    /// When the executor rejects the request, does not respond, or sends an invalid event.
    pub async fn next(&mut self) -> Result<Option<RunEvent>, Error> {
        loop {
            let Some(open) = &mut self.open else {
                self.open = connect(&self.client, self.id, self.seen).await?;
                if self.open.is_none() {
                    return Ok(None);
                }
                continue;
            };
            let block = match open.next(&self.client).await? {
                SseItem::Event(block) => block,
                // More events may follow a run that waited: the end of the stream decides.
                SseItem::End if self.over => return Ok(None),
                SseItem::End | SseItem::Broken(_) => {
                    self.open = None;
                    continue;
                }
            };
            let event: RunEvent = serde_json::from_str(&block.data).map_err(|error| {
                self.client.bad_response(format!("sent an invalid event: {error}"))
            })?;
            self.over =
                matches!(event.kind, EventKind::RunFinished { .. } | EventKind::RunWaiting { .. });
            self.seen = event.seq;
            return Ok(Some(event));
        }
    }
}

/// Opens the stream of events; none when every event was sent before and no other will follow.
async fn connect(client: &ServiceClient, run: Uuid, seen: u64) -> Result<Option<SseStream>, Error> {
    let run = run.to_string();
    let request = client
        .request(Method::GET, &["v1", "executions", &run, "events"])
        .header(ACCEPT, "text/event-stream")
        .header("last-event-id", seen.to_string());
    let response = client.send(request).await?;
    let is_over = response.status() == StatusCode::NO_CONTENT;
    Ok((!is_over).then(|| SseStream::from_response(response)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::routing::post;
    use axum::{Json, Router};
    use serde_json::{Value, json};
    use tokio::sync::{Notify, mpsc};

    use super::*;

    fn run() -> Json<Value> {
        let checksum = a2s::Digest::of_bytes(b"");
        Json(json!({
            "id": Uuid::nil(), "status": "running", "name": "Joke", "version": "1.0.0",
            "checksum": checksum, "started_at": "2026-01-02T03:04:05Z",
        }))
    }

    #[tokio::test]
    async fn a_run_is_cancelled_when_its_caller_leaves_early() {
        let (sender, mut requests) = mpsc::unbounded_channel();
        let (sender, respond) = (Arc::new(sender), Arc::new(Notify::new()));
        let (started, cancelled) = (Arc::clone(&sender), sender);
        let held = Arc::clone(&respond);
        let start = async move || {
            started.send("start").unwrap();
            held.notified().await;
            run()
        };
        let cancel = async move || {
            cancelled.send("cancel").unwrap();
            run()
        };
        let router = Router::new()
            .route("/v1/executions", post(start))
            .route("/v1/executions/{id}/cancel", post(cancel));
        let url = format!("http://{}/", test_support::serve(router).await).parse().unwrap();
        let executor = RemoteExecutor::new(ServiceClient::new(&url, None).unwrap());
        let request = ExecutionRequest::default();
        let starting = tokio::spawn(async move { executor.start_guarded(request).await });
        assert_eq!(requests.recv().await, Some("start"));
        starting.abort();
        assert!(starting.await.unwrap_err().is_cancelled());
        respond.notify_one();
        assert_eq!(requests.recv().await, Some("cancel"));
    }
}
