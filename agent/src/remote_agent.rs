//! An agent at the other end of HTTP: `POST /v1/agent`.

use a2s_api::{AgentEvent, AgentRequest, AgentResponse, Problem};
use reqwest::Method;
use reqwest::header::ACCEPT;

use crate::client::{Error, ServiceClient, SseItem, SseStream};

/// A client for turns with an agent that runs elsewhere.
#[derive(Debug, Clone)]
pub struct RemoteAgent {
    client: ServiceClient,
}

/// A turn in progress. When it is dropped, the agent stops its runs.
#[derive(Debug)]
pub struct RemoteTurn {
    client: ServiceClient,
    events: SseStream,
    over: bool,
}

impl RemoteAgent {
    /// Creates an agent that uses `client`.
    #[must_use]
    pub fn new(client: ServiceClient) -> Self {
        Self { client }
    }

    /// Runs one turn, and returns only the response.
    ///
    /// # Errors
    /// Fails when the agent rejects the request or does not respond.
    pub async fn ask(&self, request: &AgentRequest) -> Result<AgentResponse, Error> {
        self.client.post(&["v1", "agent"], request).await
    }

    /// Takes a turn, with its events as they happen.
    ///
    /// # Errors
    /// When the agent rejects the request or does not respond.
    pub async fn take_turn(&self, request: &AgentRequest) -> Result<RemoteTurn, Error> {
        let sent = self.client.request(Method::POST, &["v1", "agent"]).json(request);
        let response = self.client.send(sent.header(ACCEPT, "text/event-stream")).await?;
        Ok(RemoteTurn {
            client: self.client.clone(),
            events: SseStream::from_response(response),
            over: false,
        })
    }
}

impl RemoteTurn {
    /// Returns the next event; the last one is the response.
    ///
    /// # Errors
    /// Fails when the turn has no response because the agent rejected it or the connection broke.
    pub async fn next(&mut self) -> Result<Option<AgentEvent>, Error> {
        if self.over {
            return Ok(None);
        }
        let block = match self.events.next(&self.client).await? {
            SseItem::Event(block) => block,
            SseItem::Broken(error) => return Err(self.client.unreachable(&error)),
            SseItem::End => {
                return Err(self.client.bad_response("ended a turn without a response"));
            }
        };
        let unreadable =
            |error| self.client.bad_response(format!("sent an invalid event: {error}"));
        if block.event.as_deref() == Some("problem") {
            let problem: Problem = serde_json::from_str(&block.data).map_err(unreadable)?;
            return Err(Error::Refused { problem: Box::new(problem) });
        }
        let event: AgentEvent = serde_json::from_str(&block.data).map_err(unreadable)?;
        self.over = matches!(event, AgentEvent::Response(_));
        Ok(Some(event))
    }
}
