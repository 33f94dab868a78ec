//! Another agent, asked over JSON-RPC. Its card says which version it speaks.
//!
//! Everything that is sent and everything that comes is put to the guardians first. Sizes, numbers
//! and time are bounded, no redirect is followed, and a token goes to the host it is for.

use std::time::Duration;

use a2s::api::GuardianDecision;
use a2s::{Secret, one_line};
use aos::message::A2aMethod;
use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use url::Url;

use super::agent_card::Card;
use super::model::{Message, Part, Reply, Role, Task, Update};
use super::rpc::{Method, Object};
use super::wire_versions::Version;
use crate::client::{Client, Error as ClientError, Next, Sse};
use crate::clock_and_ids::ClockAndIds;
use crate::guard::{Denied, Direction, Guard, GuardOutcome};

/// The most bytes of a card, of an answer and of an event of a stream.
const MAX_ANSWER: usize = 1 << 20;
/// The most bytes and events of a stream.
const MAX_STREAM: usize = 16 << 20;
const MAX_EVENTS: usize = 1_000;
/// How long an agent may take for one answer, or for all of a stream.
const PATIENCE: Duration = Duration::from_secs(300);
/// The most decisions that are told.
const MAX_DECISIONS: usize = 100;
/// The longest words of an error that are told, in characters.
const MAX_WORDS: usize = 300;

/// Another agent, before it was asked for its card.
#[derive(Debug, Clone)]
pub struct UnresolvedAgent {
    http: Client,
}

/// Another agent.
#[derive(Debug, Clone)]
pub struct A2aClient {
    http: Client,
    card: Card,
    guard: Guard,
    outside: ClockAndIds,
    decisions: Vec<GuardianDecision>,
}

/// A stream of what happens to a task.
#[derive(Debug)]
pub struct TaskStream<'c> {
    client: &'c mut A2aClient,
    id: Value,
    hook: A2aMethod,
    events: Sse,
    until: Instant,
    bytes: usize,
    count: usize,
    over: bool,
}

/// Why there is no answer of another agent.
#[derive(Debug, thiserror::Error)]
pub enum A2aError {
    /// It does not answer, or not over HTTP as it should.
    #[error(transparent)]
    Http(#[from] ClientError),
    /// It answers what A2A has no place for.
    #[error("{url} answered what is not understood: {why}")]
    BadAnswer {
        /// Where.
        url: Box<Url>,
        /// What is wrong with it.
        why: String,
    },
    /// It says no, in its own words.
    #[error("{url} refuses ({code}): {message}")]
    Refused {
        /// Where.
        url: Box<Url>,
        /// The code of JSON-RPC.
        code: i64,
        /// Its words.
        message: String,
    },
    /// It takes too long, or does not come to an end.
    #[error("{url} {what}")]
    Endless {
        /// Where.
        url: Box<Url>,
        /// What there is too much of.
        what: &'static str,
    },
    /// The guardians let a message neither out nor in.
    #[error("{0}")]
    Denied(#[from] Denied),
}

impl UnresolvedAgent {
    /// The agent whose card is below `url`, and which is shown `token`.
    ///
    /// # Errors
    /// When there can be no HTTP client.
    pub fn new(url: &Url, token: Option<Secret>) -> Result<Self, ClientError> {
        Ok(Self { http: Client::new(url, token)?.up_to(MAX_ANSWER) })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &Url {
        self.http.url()
    }

    /// Reads its card. What is sent to it afterwards, and comes from it, is put to `guard`.
    ///
    /// # Errors
    /// It has no card that can be used.
    pub async fn meet(&self, guard: Guard, outside: ClockAndIds) -> Result<A2aClient, A2aError> {
        let url = self.url();
        let request = self.http.request(reqwest::Method::GET, &[".well-known", "agent-card.json"]);
        let request = request
            .header(ACCEPT, "application/json")
            .header("A2A-Version", Version::V1_0.as_str())
            .timeout(PATIENCE);
        let card: Value = self.http.json(request).await?;
        let card = Card::read(&card, url)
            .map_err(|why| bad(url, format!("its card cannot be used: {why}")))?;
        let http = self.http.clone().with_url(card.endpoint.clone());
        Ok(A2aClient { http, card, guard, outside, decisions: Vec::new() })
    }
}

impl A2aClient {
    /// What it says of itself.
    #[must_use]
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// What the guardians said since this was asked last.
    pub fn take_decisions(&mut self) -> Vec<GuardianDecision> {
        std::mem::take(&mut self.decisions)
    }

    /// A message in words, in a conversation where one is named.
    #[must_use]
    pub fn say(&self, text: &str, context: Option<&str>) -> Message {
        Message {
            id: self.outside.new_id().to_string(),
            context: context.map(str::to_owned),
            task: None,
            role: Role::User,
            parts: vec![Part::Text(text.to_owned())],
        }
    }

    /// Sends a message. With `waits` the answer comes when the task is over or waits.
    ///
    /// # Errors
    /// There is no answer, or none that may be used.
    pub async fn send(&mut self, message: &Message, waits: bool) -> Result<Reply, A2aError> {
        let params = self.message(message, waits);
        let result = self.call(Method::Send, A2aMethod::MessageSend, params).await?;
        let reply = self.version().read_reply(&result);
        reply.map_err(|why| bad(self.http.url(), why))
    }

    /// Sends a message, and follows what happens.
    ///
    /// # Errors
    /// There is no answer, or none that may be used.
    pub async fn stream(&mut self, message: &Message) -> Result<TaskStream<'_>, A2aError> {
        let params = self.message(message, true);
        let hook = A2aMethod::MessageStream;
        let until = Instant::now() + PATIENCE;
        let (id, response) = self.ask(Method::Stream, hook, params).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let body = self.http.read(response).await?;
            self.take(&id, hook, &body).await?;
            return Err(bad(self.http.url(), "it is no stream"));
        }
        let events = Sse::of(response);
        let (bytes, count, over) = (0, 0, false);
        Ok(TaskStream { client: self, id, hook, events, until, bytes, count, over })
    }

    /// A task as it is now.
    ///
    /// # Errors
    /// There is no answer, or none that may be used.
    pub async fn task(&mut self, id: &str) -> Result<Task, A2aError> {
        let result = self.call(Method::Get, A2aMethod::TaskGet, json!({ "id": id })).await?;
        self.version().read_task(&result).map_err(|why| bad(self.http.url(), why))
    }

    /// Stops a task.
    ///
    /// # Errors
    /// There is no answer, or none that may be used.
    pub async fn cancel(&mut self, id: &str) -> Result<Task, A2aError> {
        let result = self.call(Method::Cancel, A2aMethod::TaskCancel, json!({ "id": id })).await?;
        self.version().read_task(&result).map_err(|why| bad(self.http.url(), why))
    }

    fn version(&self) -> Version {
        self.card.protocol
    }

    fn message(&self, message: &Message, waits: bool) -> Value {
        let version = self.version();
        let configuration = match version {
            Version::V0_3 => json!({ "blocking": waits }),
            Version::V1_0 => json!({ "returnImmediately": !waits }),
        };
        json!({ "message": version.message(message), "configuration": configuration })
    }

    /// One answer to one request.
    async fn call(
        &mut self,
        method: Method,
        hook: A2aMethod,
        params: Value,
    ) -> Result<Value, A2aError> {
        let answer = async {
            let (id, response) = self.ask(method, hook, params).await?;
            let body = self.http.read(response).await?;
            self.take(&id, hook, &body).await
        };
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(too_slow(self.http.url())),
        }
    }

    /// Sends a request, as the guardians let it go.
    async fn ask(
        &mut self,
        method: Method,
        hook: A2aMethod,
        params: Value,
    ) -> Result<(Value, Response), A2aError> {
        let name = method.name(self.version());
        let id = Value::from(self.outside.new_id().to_string());
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
            same.then_some(()).ok_or_else(|| "it is another request".to_owned())
        };
        let way = Direction::Asks { name: &self.card.name, url: self.http.url().as_str() };
        let guarded = self.guard.a2a(hook, way, payload, fits).await;
        let payload = self.follow(guarded)?;
        let request = self.http.request(reqwest::Method::POST, &[]);
        let request = request
            .header("A2A-Version", self.version().as_str())
            .header(ACCEPT, "application/json, text/event-stream")
            .json(&payload);
        Ok((id, self.http.send(request).await?))
    }

    /// The result of an answer, as the guardians let it come in.
    async fn take(&mut self, id: &Value, hook: A2aMethod, body: &[u8]) -> Result<Value, A2aError> {
        let url = self.http.url();
        let answer: Object =
            serde_json::from_slice(body).map_err(|error| bad(url, error.to_string()))?;
        let way = Direction::Answered { name: &self.card.name, url: url.as_str() };
        let guarded = self.guard.a2a(hook, way, answer, |_| Ok(())).await;
        let mut answer = self.follow(guarded)?;
        let url = self.http.url();
        if answer.get("id") != Some(id) {
            return Err(bad(url, "it answers another request"));
        }
        if let Some(error) = answer.get("error") {
            let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
            return Err(A2aError::Refused {
                url: Box::new(url.clone()),
                code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
                message: one_line(message, MAX_WORDS),
            });
        }
        answer.remove("result").ok_or_else(|| bad(url, "it has no `result`"))
    }

    fn follow<T>(&mut self, guarded: GuardOutcome<T>) -> Result<T, Denied> {
        let room = MAX_DECISIONS.saturating_sub(self.decisions.len());
        self.decisions.extend(guarded.decisions.into_iter().take(room));
        guarded.outcome
    }
}

impl TaskStream<'_> {
    /// That the stream told of nothing.
    pub(crate) fn pointless(&self) -> A2aError {
        bad(self.client.http.url(), "it told of no task")
    }

    /// What happens next; none when the task is over or waits.
    ///
    /// # Errors
    /// What comes cannot or may not be used, does not come to an end, or ends too early.
    pub async fn next(&mut self) -> Result<Option<Update>, A2aError> {
        if self.over {
            return Ok(None);
        }
        let http = &self.client.http;
        let url = || Box::new(http.url().clone());
        let next = tokio::time::timeout_at(self.until, self.events.next(http)).await;
        let block = match next.map_err(|_| too_slow(http.url()))?? {
            Next::Block(block) => block,
            Next::Broken(error) => return Err(http.unreachable(&error).into()),
            Next::End => {
                return Err(bad(http.url(), "it ended before the task was over"));
            }
        };
        self.bytes += block.data.len();
        self.count += 1;
        if self.bytes > MAX_STREAM || self.count > MAX_EVENTS {
            return Err(A2aError::Endless { url: url(), what: "does not come to an end" });
        }
        let result = self.client.take(&self.id, self.hook, block.data.as_bytes()).await?;
        let update = self.client.version().read_update(&result);
        let update = update.map_err(|why| bad(self.client.http.url(), why))?;
        self.over = match &update {
            Update::Status(status) => status.state.is_settled(),
            Update::Reply(Reply::Task(task)) => task.status.state.is_settled(),
            Update::Reply(Reply::Message(_)) => true,
            Update::Artifact(_) => false,
        };
        Ok(Some(update))
    }
}

fn bad(url: &Url, why: impl AsRef<str>) -> A2aError {
    A2aError::BadAnswer { url: Box::new(url.clone()), why: one_line(why.as_ref(), MAX_WORDS) }
}

fn too_slow(url: &Url) -> A2aError {
    A2aError::Endless { url: Box::new(url.clone()), what: "takes too long" }
}

#[cfg(test)]
mod tests;
