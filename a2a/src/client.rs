//! Another agent, asked over JSON-RPC. Its card says which version it speaks.
//!
//! Everything that is sent and everything that comes is put to the guardians first. Sizes, numbers
//! and time are bounded, no redirect is followed, and a token goes to the host it is for.

use std::time::Duration;

use a2s::{Secret, to_single_line};
use a2s_api::GuardianDecision;
use aos::message::A2aMethod;
use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use url::Url;

use crate::agent_card::PeerCard;
use crate::model::{A2aTask, Message, MessageReply, Part, Role, TaskUpdate};
use crate::rpc::{Object, RpcMethod};
use crate::wire_versions::A2aVersion;
use agent::ClockAndIds;
use agent::{ClientError, ServiceClient, SseItem, SseStream};
use agent::{Guard, GuardDenial, GuardOutcome, MessageDirection};

/// The maximum size of a card, of a response and of a stream event, in bytes.
const MAX_RESPONSE: usize = 1 << 20;
/// The maximum size of a stream in bytes, and the maximum number of its events.
const MAX_STREAM: usize = 16 << 20;
const MAX_EVENTS: usize = 1_000;
/// The time limit for one response, or for a whole stream.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);
/// The most decisions that are reported.
const MAX_DECISIONS: usize = 100;
/// The most characters of an error message that are reported.
const MAX_MESSAGE_CHARS: usize = 300;

/// Another agent with a card that has not been read yet.
#[derive(Debug, Clone)]
pub struct UnresolvedAgent {
    http: ServiceClient,
}

/// A client of another agent. It asks the guardians about every message.
#[derive(Debug, Clone)]
pub struct A2aClient {
    http: ServiceClient,
    card: PeerCard,
    guard: Guard,
    clock: ClockAndIds,
    decisions: Vec<GuardianDecision>,
}

/// The updates of a task, as they happen.
#[derive(Debug)]
pub struct TaskStream<'c> {
    client: &'c mut A2aClient,
    id: Value,
    hook: A2aMethod,
    events: SseStream,
    until: Instant,
    bytes: usize,
    count: usize,
    over: bool,
}

/// The reason why another agent gave no usable response.
#[derive(Debug, thiserror::Error)]
pub enum A2aError {
    /// The agent does not respond, or its HTTP response is not valid.
    #[error(transparent)]
    Http(#[from] ClientError),
    /// The response is not valid A2A.
    #[error("the response of {url} is invalid: {why}")]
    BadResponse {
        /// The address.
        url: Box<Url>,
        /// The reason.
        why: String,
    },
    /// The agent rejects the request with a JSON-RPC error.
    #[error("{url} rejected the request ({code}): {message}")]
    Refused {
        /// The address.
        url: Box<Url>,
        /// The JSON-RPC error code.
        code: i64,
        /// The error message.
        message: String,
    },
    /// The response takes too long, or the stream is too long.
    #[error("{url} {what}")]
    LimitExceeded {
        /// The address.
        url: Box<Url>,
        /// The limit that was exceeded.
        what: &'static str,
    },
    /// The guardians denied a request or a response.
    #[error("{0}")]
    Denied(#[from] GuardDenial),
}

impl UnresolvedAgent {
    /// Creates a reference to the agent with its card below `url`. Each request to it has the `token`.
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// When the HTTP client cannot be created.
    pub fn new(url: &Url, token: Option<Secret>) -> Result<Self, ClientError> {
        Ok(Self { http: ServiceClient::new(url, token)?.with_max_bytes(MAX_RESPONSE) })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &Url {
        self.http.url()
    }

    /// Reads the card of the agent. The client asks `guard` about all later messages to and from the agent.
    ///
    /// # Errors
    /// When the agent has no usable card.
    pub async fn resolve(&self, guard: Guard, clock: ClockAndIds) -> Result<A2aClient, A2aError> {
        let url = self.url();
        let request = self.http.request(reqwest::Method::GET, &[".well-known", "agent-card.json"]);
        let request = request
            .header(ACCEPT, "application/json")
            .header("A2A-Version", A2aVersion::V1_0.as_str())
            .timeout(RESPONSE_TIMEOUT);
        let card: Value = self.http.json(request).await?;
        let card = PeerCard::read(&card, url)
            .map_err(|why| bad_response(url, format!("its card cannot be used: {why}")))?;
        let http = self.http.clone().with_url(card.endpoint.clone());
        Ok(A2aClient { http, card, guard, clock, decisions: Vec::new() })
    }
}

impl A2aClient {
    /// Its description of itself.
    #[must_use]
    pub fn card(&self) -> &PeerCard {
        &self.card
    }

    /// Takes the guardians' decisions since the last call.
    pub fn take_decisions(&mut self) -> Vec<GuardianDecision> {
        std::mem::take(&mut self.decisions)
    }

    /// Creates a text message, in the conversation `context` if one is given.
    #[must_use]
    pub fn new_message(&self, text: &str, context: Option<&str>) -> Message {
        Message {
            id: self.clock.new_id().to_string(),
            context: context.map(str::to_owned),
            task: None,
            role: Role::User,
            parts: vec![Part::Text(text.to_owned())],
        }
    }

    /// Sends a message. If `waits` is true, the response comes when the task has ended or waits.
    ///
    /// # Errors
    /// When there is no response, or it may not be used.
    pub async fn send(&mut self, message: &Message, waits: bool) -> Result<MessageReply, A2aError> {
        let params = self.message_params(message, waits);
        let result = self.call(RpcMethod::Send, A2aMethod::MessageSend, params).await?;
        let reply = self.version().read_reply(&result);
        reply.map_err(|why| bad_response(self.http.url(), why))
    }

    /// Sends a message, and returns the stream of updates.
    ///
    /// # Errors
    /// When there is no response, or it may not be used.
    pub async fn stream(&mut self, message: &Message) -> Result<TaskStream<'_>, A2aError> {
        let params = self.message_params(message, true);
        let hook = A2aMethod::MessageStream;
        let until = Instant::now() + RESPONSE_TIMEOUT;
        let (id, response) = self.send_request(RpcMethod::Stream, hook, params).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let body = self.http.read(response).await?;
            self.read_result(&id, hook, &body).await?;
            return Err(bad_response(self.http.url(), "it is not a stream"));
        }
        let events = SseStream::from_response(response);
        let (bytes, count, over) = (0, 0, false);
        Ok(TaskStream { client: self, id, hook, events, until, bytes, count, over })
    }

    /// Reads the current state of a task.
    ///
    /// # Errors
    /// When there is no response, or it may not be used.
    pub async fn get_task(&mut self, id: &str) -> Result<A2aTask, A2aError> {
        let result = self.call(RpcMethod::Get, A2aMethod::TaskGet, json!({ "id": id })).await?;
        self.version().read_task(&result).map_err(|why| bad_response(self.http.url(), why))
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// Fails when the agent does not respond, or when the response is invalid or denied.
    pub async fn cancel(&mut self, id: &str) -> Result<A2aTask, A2aError> {
        let result =
            self.call(RpcMethod::Cancel, A2aMethod::TaskCancel, json!({ "id": id })).await?;
        self.version().read_task(&result).map_err(|why| bad_response(self.http.url(), why))
    }

    fn version(&self) -> A2aVersion {
        self.card.protocol
    }

    fn message_params(&self, message: &Message, waits: bool) -> Value {
        let version = self.version();
        let configuration = match version {
            A2aVersion::V0_3 => json!({ "blocking": waits }),
            A2aVersion::V1_0 => json!({ "returnImmediately": !waits }),
        };
        json!({ "message": version.message(message), "configuration": configuration })
    }

    /// Sends one request and reads its response.
    async fn call(
        &mut self,
        method: RpcMethod,
        hook: A2aMethod,
        params: Value,
    ) -> Result<Value, A2aError> {
        let answer = async {
            let (id, response) = self.send_request(method, hook, params).await?;
            let body = self.http.read(response).await?;
            self.read_result(&id, hook, &body).await
        };
        match tokio::time::timeout(RESPONSE_TIMEOUT, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(too_slow(self.http.url())),
        }
    }

    /// Sends a request in the form that the guardians allow.
    async fn send_request(
        &mut self,
        method: RpcMethod,
        hook: A2aMethod,
        params: Value,
    ) -> Result<(Value, Response), A2aError> {
        let name = method.name(self.version());
        let id = Value::from(self.clock.new_id().to_string());
        let payload: Object = Map::from_iter([
            ("jsonrpc".to_owned(), "2.0".into()),
            ("id".to_owned(), id.clone()),
            ("method".to_owned(), name.into()),
            ("params".to_owned(), params),
        ]);
        let fits = |payload: &Object| {
            let same = payload.get("id") == Some(&id)
                && payload.get("method").and_then(Value::as_str) == Some(name)
                && payload.get("params").is_some_and(Value::is_object);
            same.then_some(())
                .ok_or_else(|| "it changes the id or the method of the request".to_owned())
        };
        let direction = MessageDirection::OutboundRequest {
            name: &self.card.name,
            url: self.http.url().as_str(),
        };
        let guarded = self.guard.check_a2a(hook, direction, payload, fits).await;
        let payload = self.record_decisions(guarded)?;
        let request = self.http.request(reqwest::Method::POST, &[]);
        let request = request
            .header("A2A-Version", self.version().as_str())
            .header(ACCEPT, "application/json, text/event-stream")
            .json(&payload);
        Ok((id, self.http.send(request).await?))
    }

    /// Reads the result of a response in the form that the guardians allow.
    async fn read_result(
        &mut self,
        id: &Value,
        hook: A2aMethod,
        body: &[u8],
    ) -> Result<Value, A2aError> {
        let url = self.http.url();
        let answer: Object =
            serde_json::from_slice(body).map_err(|error| bad_response(url, error.to_string()))?;
        let direction =
            MessageDirection::InboundResponse { name: &self.card.name, url: url.as_str() };
        let guarded = self.guard.check_a2a(hook, direction, answer, |_| Ok(())).await;
        let mut answer = self.record_decisions(guarded)?;
        let url = self.http.url();
        if answer.get("id") != Some(id) {
            return Err(bad_response(url, "it is the response to another request"));
        }
        if let Some(error) = answer.get("error") {
            let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
            return Err(A2aError::Refused {
                url: Box::new(url.clone()),
                code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
                message: to_single_line(message, MAX_MESSAGE_CHARS),
            });
        }
        answer.remove("result").ok_or_else(|| bad_response(url, "it has no `result`"))
    }

    fn record_decisions<T>(&mut self, guarded: GuardOutcome<T>) -> Result<T, GuardDenial> {
        let room = MAX_DECISIONS.saturating_sub(self.decisions.len());
        self.decisions.extend(guarded.decisions.into_iter().take(room));
        guarded.outcome
    }
}

impl TaskStream<'_> {
    /// The error for a stream that reported no task.
    pub(crate) fn no_task_error(&self) -> A2aError {
        bad_response(self.client.http.url(), "it reported no task")
    }

    /// The next update; none when the task is over or waits.
    ///
    /// # Errors
    /// An update cannot or may not be used, the stream exceeds a limit, or it ends too early.
    pub async fn next(&mut self) -> Result<Option<TaskUpdate>, A2aError> {
        if self.over {
            return Ok(None);
        }
        let http = &self.client.http;
        let url = || Box::new(http.url().clone());
        let next = tokio::time::timeout_at(self.until, self.events.next(http)).await;
        let block = match next.map_err(|_| too_slow(http.url()))?? {
            SseItem::Event(block) => block,
            SseItem::Broken(error) => return Err(http.unreachable(&error).into()),
            SseItem::End => {
                return Err(bad_response(http.url(), "it ended before the task"));
            }
        };
        self.bytes += block.data.len();
        self.count += 1;
        if self.bytes > MAX_STREAM || self.count > MAX_EVENTS {
            return Err(A2aError::LimitExceeded { url: url(), what: "sends too many events" });
        }
        let result = self.client.read_result(&self.id, self.hook, block.data.as_bytes()).await?;
        let update = self.client.version().read_update(&result);
        let update = update.map_err(|why| bad_response(self.client.http.url(), why))?;
        self.over = match &update {
            TaskUpdate::Status(status) => status.state.is_settled(),
            TaskUpdate::Reply(MessageReply::Task(task)) => task.status.state.is_settled(),
            TaskUpdate::Reply(MessageReply::Message(_)) => true,
            TaskUpdate::Artifact(_) => false,
        };
        Ok(Some(update))
    }
}

fn bad_response(url: &Url, why: impl AsRef<str>) -> A2aError {
    A2aError::BadResponse {
        url: Box::new(url.clone()),
        why: to_single_line(why.as_ref(), MAX_MESSAGE_CHARS),
    }
}

fn too_slow(url: &Url) -> A2aError {
    A2aError::LimitExceeded { url: Box::new(url.clone()), what: "takes too long" }
}

#[cfg(test)]
mod tests;
