//! The server of A2A: every request and every answer is put to the guardians, a
//! message is a turn of the agent, and a task is what comes of it.

mod list;
pub(crate) mod request_params;
mod status_messages;
mod task_runner;
mod tasks;

use std::sync::Arc;

use a2s_api::CapabilitySummary;
use a2s_api::Principal;
use aos::message::A2aMethod;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::Semaphore;
use uuid::Uuid;

use self::request_params::{IncomingMessage, ParsedRequest, hide_inputs};
use crate::agent_card::MAX_SKILLS;
use crate::model::{A2aTask, Message, MessageReply, Part, Role, TaskState, TaskStatus, TaskUpdate};
use crate::rpc::{self, Kind, Object, RpcError, RpcMethod, RpcRequest};
use crate::wire_versions::A2aVersion;
use a2s_intent::reply::is_consent;
use agent::Agent;
use agent::ClientError;
use agent::Requester;
use agent::{GuardDenial, MessageDirection, RedactedInputs};
use tasks::{TaskEntry, TaskStore, TaskStoreFull};

/// The server for other agents. It runs each message as a normal turn of the agent.
#[derive(Debug)]
pub(crate) struct A2aServer {
    /// The agent without its peers: it does not pass a request from another agent to a third one, which
    /// could be the first one again.
    agent: Arc<Agent>,
    /// The tasks of all requesters.
    tasks: Arc<TaskStore>,
    turns: Arc<Semaphore>,
    /// The party that sends the requests. It sees its own tasks only.
    owner: Option<Principal>,
}

/// The response to a request.
pub(crate) enum RpcResponse {
    Single(Object),
    Stream(BoxStream<'static, Object>),
}

/// The data that each response to a request needs.
#[derive(Debug, Clone)]
struct ReplyTo {
    id: Value,
    version: A2aVersion,
    hook: A2aMethod,
}

impl A2aServer {
    /// Creates the server; `turns` limits the number of simultaneous turns.
    pub(crate) fn new(agent: Agent, turns: Arc<Semaphore>) -> Self {
        let (agent, tasks) = (Arc::new(agent.without_peers()), Arc::default());
        Self { agent, tasks, turns, owner: None }
    }

    /// Returns the server for one requester.
    pub(crate) fn acting_for(&self, requester: &Requester) -> Arc<Self> {
        Arc::new(Self {
            agent: Arc::new(self.agent.with_requester(requester)),
            tasks: Arc::clone(&self.tasks),
            turns: Arc::clone(&self.turns),
            owner: requester.principal().cloned(),
        })
    }

    /// The published capabilities, as many as a card may list, and whether there are more.
    ///
    /// # Errors
    /// No registry responds.
    pub(crate) async fn skills(&self) -> Result<(Vec<CapabilitySummary>, bool), ClientError> {
        let mut skills: Vec<CapabilitySummary> = Vec::new();
        let (mut failed, mut good) = (None, false);
        for source in self.agent.backends() {
            let mut after = None;
            loop {
                let page = match source.registry.list(after.as_deref()).await {
                    Ok(page) => page,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                };
                good = true;
                for skill in page.capabilities {
                    if skills.iter().all(|known| known.name != skill.name) {
                        skills.push(skill);
                    }
                }
                after = page.next;
                if skills.len() > MAX_SKILLS || after.is_none() {
                    break;
                }
            }
        }
        let has_more = skills.len() > MAX_SKILLS;
        skills.truncate(MAX_SKILLS);
        match failed {
            Some(error) if !good => Err(error),
            _ => Ok((skills, has_more)),
        }
    }

    /// Handles a request. `header` is the value of the header A2A-Version, if the caller sent it.
    pub(crate) async fn handle_request(
        self: Arc<Self>,
        body: &[u8],
        header: Option<&str>,
    ) -> RpcResponse {
        match RpcRequest::read(body, header) {
            Ok(call) => {
                let id = call.id.clone();
                let answer = self.handle_call(call).await;
                answer.unwrap_or_else(|fault| RpcResponse::Single(fault.to_response(&id)))
            }
            Err((id, fault)) => RpcResponse::Single(fault.to_response(&id)),
        }
    }

    async fn handle_call(self: &Arc<Self>, call: RpcRequest) -> Result<RpcResponse, RpcError> {
        let Some(hook) = call.method.hook() else { return Err(unsupported_error(call.method)) };
        let ticket = ReplyTo { id: call.id.clone(), version: call.version, hook };
        let streams = matches!(call.method, RpcMethod::Stream | RpcMethod::Follow);
        let asked = match self.guard_request(&ticket, call).await? {
            Ok(asked) => asked,
            Err((ParsedRequest::Message(incoming), denial)) if incoming.task.is_none() => {
                let task = self.reject(*incoming, &denial)?;
                if streams {
                    return Ok(RpcResponse::Stream(self.stream_task(ticket, None, task, 0)));
                }
                return self.reply(&ticket, task).await.map(RpcResponse::Single);
            }
            Err((_, denial)) => {
                return Err(denied_error("the guardian does not allow the request", &denial));
            }
        };
        let task = match asked {
            ParsedRequest::Message(incoming) => {
                let (waits, history) = (incoming.waits, incoming.history);
                let (entry, (task, seen)) = self.start_task(*incoming)?;
                if streams {
                    return Ok(RpcResponse::Stream(self.stream_task(
                        ticket,
                        Some(entry),
                        task,
                        seen,
                    )));
                }
                if waits {
                    entry.wait_until_settled().await;
                    limit_history(entry.snapshot().0, history)
                } else {
                    limit_history(task, history)
                }
            }
            ParsedRequest::Task { id, history } => {
                let entry = self.find_task(id)?;
                self.refresh_waiting_task(&entry).await;
                limit_history(entry.snapshot().0, history)
            }
            ParsedRequest::List(wanted) => {
                let now = self.agent.clock().now();
                let listed = self.tasks.list(self.owner.as_ref(), now);
                let page = wanted.to_page(listed, ticket.version);
                return self.guard_result(&ticket, page).await.map(RpcResponse::Single);
            }
            ParsedRequest::Cancel { id } => {
                let entry = self.find_task(id)?;
                self.cancel_task(&entry, ticket.version).await?;
                entry.snapshot().0
            }
            ParsedRequest::Follow { id } => {
                let entry = self.find_task(id)?;
                self.refresh_waiting_task(&entry).await;
                let (task, seen) = entry.snapshot();
                if task.status.state.is_final() {
                    let state = ticket.version.state(task.status.state);
                    let text = format!("the task has ended: {state}; get the task instead");
                    return Err(RpcError::new(Kind::Unsupported, text));
                }
                return Ok(RpcResponse::Stream(self.stream_task(ticket, Some(entry), task, seen)));
            }
        };
        let written = match ticket.hook {
            A2aMethod::MessageSend => {
                return self.reply(&ticket, task).await.map(RpcResponse::Single);
            }
            _ => ticket.version.task(&task),
        };
        self.guard_result(&ticket, written).await.map(RpcResponse::Single)
    }

    /// Cancels a task and the run that it waits for.
    async fn cancel_task(&self, entry: &TaskEntry, version: A2aVersion) -> Result<(), RpcError> {
        let message =
            self.new_message(entry, vec![Part::Text("The task was cancelled.".to_owned())]);
        let waiting = entry.cancel(message, self.agent.clock().now()).map_err(|state| {
            let state = version.state(state);
            RpcError::new(Kind::NotCancelable, format!("the task has ended: {state}"))
        })?;
        if let Some(waiting) = waiting
            && let Err(error) = waiting.cancel(&self.agent).await
        {
            tracing::warn!(%error, "the run of a cancelled task could not be cancelled and still waits");
        }
        Ok(())
    }

    async fn reply(&self, ticket: &ReplyTo, task: A2aTask) -> Result<Object, RpcError> {
        self.guard_result(ticket, ticket.version.reply(&MessageReply::Task(task))).await
    }

    /// Asks the guardians about a request, and returns it unchanged or as they modified it. The guardians
    /// do not see inputs that may be secret.
    ///
    /// # Errors
    /// Fails when the request is invalid, independent of the guardians' decision.
    async fn guard_request(
        &self,
        ticket: &ReplyTo,
        call: RpcRequest,
    ) -> Result<Result<ParsedRequest, (ParsedRequest, GuardDenial)>, RpcError> {
        let asked = ParsedRequest::read(&call)?;
        let (version, method, mut whole) = (call.version, call.method, call.raw);
        let hidden = self.hidden_inputs(&asked);
        hide_inputs(&mut whole, &hidden);
        let read = |payload: &Object| -> Result<ParsedRequest, RpcError> {
            let call =
                RpcRequest::from_object(payload.clone(), None).map_err(|(_, fault)| fault)?;
            if (call.version, call.method) != (version, method) {
                return Err(RpcError::new(Kind::Request, "the guardian changed the method"));
            }
            ParsedRequest::read(&call)
        };
        let fits = |payload: &Object| read(payload).map(drop).map_err(|fault| fault.message);
        let guard = self.agent.guard();
        let guarded =
            guard.check_a2a(ticket.hook, MessageDirection::InboundRequest, whole, fits).await;
        let guarded = guarded.without_added_consent(|payload| {
            let yes = read(payload).ok().and_then(|wanted| self.confirmed_task(&wanted));
            yes.is_some() && yes != self.confirmed_task(&asked)
        });
        match guarded.outcome {
            Ok(payload) => {
                let mut wanted = read(&payload)?;
                wanted.restore_inputs(&asked, &hidden);
                Ok(Ok(wanted))
            }
            Err(denial) => Ok(Err((asked, denial))),
        }
    }

    /// The task with the question that a request consents to.
    fn confirmed_task(&self, asked: &ParsedRequest) -> Option<Uuid> {
        let ParsedRequest::Message(incoming) = asked else { return None };
        let task = incoming.task.filter(|_| is_consent(&incoming.intent.text))?;
        self.find_task(task).is_ok_and(|entry| entry.asks_for_consent()).then_some(task)
    }

    /// Returns the inputs of a message that are hidden from guardians. The capability is not known yet, so
    /// any input may be secret, except those that a question requested as not secret.
    fn hidden_inputs(&self, asked: &ParsedRequest) -> RedactedInputs {
        let task = match asked {
            ParsedRequest::Message(incoming) => incoming.task,
            _ => None,
        };
        let entry = task.and_then(|id| self.find_task(id).ok());
        RedactedInputs::all_except(entry.map(|entry| entry.open_inputs()).unwrap_or_default())
    }

    /// Asks the guardians about a result, and returns it unchanged or as they modified it.
    async fn guard_result(&self, ticket: &ReplyTo, result: Value) -> Result<Object, RpcError> {
        let fits = |payload: &Object| match payload.get("result") {
            Some(Value::Object(_)) => Ok(()),
            _ => Err("it has no `result`".to_owned()),
        };
        let answer = rpc::result_response(&ticket.id, result);
        let guarded = self
            .agent
            .guard()
            .check_a2a(ticket.hook, MessageDirection::OutboundResponse, answer, fits)
            .await;
        match guarded.outcome {
            Ok(mut used) => {
                let result = used.remove("result").unwrap_or_default();
                Ok(rpc::result_response(&ticket.id, result))
            }
            Err(denial) => Err(denied_error("the guardian does not allow the response", &denial)),
        }
    }

    /// Creates a rejected task. The text of the message is not kept.
    fn reject(&self, incoming: IncomingMessage, denial: &GuardDenial) -> Result<A2aTask, RpcError> {
        let (id, now) = (self.agent.clock().new_id(), self.agent.clock().now());
        let context = incoming.context.unwrap_or_else(|| self.agent.clock().new_id().to_string());
        let entry = self
            .tasks
            .create(id, self.owner.clone(), context, now)
            .map_err(|TaskStoreFull| busy_error())?;
        let words = format!("The guardian does not allow me to do this: {denial}");
        let message = Some(self.new_message(&entry, vec![Part::Text(words)]));
        let status = TaskStatus { state: TaskState::Rejected, message, timestamp: Some(now) };
        entry.apply_update(TaskUpdate::Status(status), now);
        Ok(entry.snapshot().0)
    }

    fn find_task(&self, id: Uuid) -> Result<Arc<TaskEntry>, RpcError> {
        let entry = self.tasks.get(id, self.owner.as_ref(), self.agent.clock().now());
        entry.ok_or_else(task_not_found)
    }

    /// Streams the task as it is and then its updates, until it is over or waits. An update that the
    /// guardians withhold is left out; if it is the first or the last, the stream ends with an error.
    fn stream_task(
        self: &Arc<Self>,
        ticket: ReplyTo,
        entry: Option<Arc<TaskEntry>>,
        task: A2aTask,
        seen: usize,
    ) -> BoxStream<'static, Object> {
        struct TaskStreamState {
            server: Arc<A2aServer>,
            ticket: ReplyTo,
            entry: Option<Arc<TaskEntry>>,
            ids: (String, String),
            first: Option<A2aTask>,
            seen: usize,
            over: bool,
        }
        let ids = (task.id.clone(), task.context.clone());
        let (server, first) = (Arc::clone(self), Some(task));
        let following = TaskStreamState { server, ticket, entry, ids, first, seen, over: false };
        let stream = futures::stream::unfold(following, |mut at| async move {
            while !at.over {
                let (update, needed) = if let Some(task) = at.first.take() {
                    (TaskUpdate::Reply(MessageReply::Task(task)), true)
                } else {
                    let update = at.entry.as_ref()?.next_update(at.seen).await?;
                    at.seen += 1;
                    let ends =
                        matches!(&update, TaskUpdate::Status(status) if status.state.is_settled());
                    at.over = ends;
                    (update, ends)
                };
                let (task, context) = &at.ids;
                let written = at.ticket.version.update(task, context, &update);
                match at.server.guard_result(&at.ticket, written).await {
                    Ok(answer) => return Some((answer, at)),
                    Err(fault) if needed => {
                        at.over = true;
                        return Some((fault.to_response(&at.ticket.id), at));
                    }
                    Err(_) => {}
                }
            }
            None
        });
        stream.boxed()
    }

    /// Creates a message of this agent about a task.
    fn new_message(&self, entry: &TaskEntry, parts: Vec<Part>) -> Message {
        Message {
            id: self.agent.clock().new_id().to_string(),
            context: Some(entry.context.clone()),
            task: Some(entry.id.to_string()),
            role: Role::Agent,
            parts,
        }
    }
}

/// The error for a method that is never supported.
fn unsupported_error(method: RpcMethod) -> RpcError {
    match method {
        RpcMethod::ExtendedCard => RpcError::new(
            Kind::NoExtendedCard,
            "the agent has only one card, which is the same for all callers",
        ),
        _ => RpcError::new(
            Kind::NoPush,
            "push notifications are not supported: follow the task, or get it",
        ),
    }
}

fn denied_error(what: &str, denial: &GuardDenial) -> RpcError {
    RpcError::new(Kind::Denied, format!("{what}: {denial}"))
}

fn busy_error() -> RpcError {
    RpcError::new(Kind::Busy, "too many tasks at once: try again later")
}

/// Creates the same error for ids that never existed, were removed, belong to another party or are not
/// valid.
fn task_not_found() -> RpcError {
    RpcError::new(Kind::NoTask, "unknown task, or a task that was removed")
}

/// Limits the history of a task to its last `history` messages.
fn limit_history(mut task: A2aTask, history: Option<usize>) -> A2aTask {
    if let Some(most) = history {
        let over = task.history.len().saturating_sub(most);
        task.history.drain(..over);
    }
    task
}
