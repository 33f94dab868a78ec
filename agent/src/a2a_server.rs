//! The server of A2A: every request and every answer is put to the guardians, a
//! message is a turn of the agent, and a task is what comes of it.

mod list;
mod request_params;
mod status_messages;
mod task_runner;
mod tasks;

use std::sync::Arc;

use a2s::Principal;
use a2s::api::CapabilitySummary;
use aos::message::A2aMethod;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::Semaphore;
use uuid::Uuid;

use self::request_params::{Asked, Incoming, hide_inputs};
use crate::a2a::agent_card::MAX_SKILLS;
use crate::a2a::model::{Message, Part, Reply, Role, Status, Task, TaskState, Update};
use crate::a2a::rpc::{self, Call, Fault, Kind, Method, Object};
use crate::a2a::wire_versions::Version;
use crate::agent::Agent;
use crate::agent::turn::parse_reply::is_consent;
use crate::client::Error as ClientError;
use crate::guard::{Denied, Direction, Hidden};
use crate::requester::Requester;
use tasks::{Entry, NoRoom, Tasks};

/// Where other agents are served. What it does, it does as any turn of the agent.
#[derive(Debug)]
pub(crate) struct Desk {
    /// Without peers: what came from another agent goes to no third one, which may be the first.
    agent: Arc<Agent>,
    /// All tasks, of all requesters.
    tasks: Arc<Tasks>,
    turns: Arc<Semaphore>,
    /// The party that asks, whose tasks alone it sees.
    owner: Option<Principal>,
}

/// What is answered to a request.
pub(crate) enum Answer {
    One(Object),
    Stream(BoxStream<'static, Object>),
}

/// What an answer goes back to.
#[derive(Debug, Clone)]
struct Ticket {
    id: Value,
    version: Version,
    hook: A2aMethod,
}

impl Desk {
    /// As many turns are taken at once as `turns` has permits.
    pub(crate) fn new(agent: Agent, turns: Arc<Semaphore>) -> Self {
        let (agent, tasks) = (Arc::new(agent.without_peers()), Arc::default());
        Self { agent, tasks, turns, owner: None }
    }

    /// The same desk for one requester.
    pub(crate) fn acting_for(&self, requester: &Requester) -> Arc<Self> {
        Arc::new(Self {
            agent: Arc::new(self.agent.acting_for(requester)),
            tasks: Arc::clone(&self.tasks),
            turns: Arc::clone(&self.turns),
            owner: requester.principal().cloned(),
        })
    }

    /// What is published, as far as a card has room for it, and whether there is more.
    ///
    /// # Errors
    /// No registry answers.
    pub(crate) async fn skills(&self) -> Result<(Vec<CapabilitySummary>, bool), ClientError> {
        let mut skills: Vec<CapabilitySummary> = Vec::new();
        let (mut failed, mut good) = (None, false);
        for source in &self.agent.sources {
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

    /// Answers a request. `header` is `A2A-Version`, where one was sent.
    pub(crate) async fn answer(self: Arc<Self>, body: &[u8], header: Option<&str>) -> Answer {
        match Call::read(body, header) {
            Ok(call) => {
                let id = call.id.clone();
                let answer = self.take(call).await;
                answer.unwrap_or_else(|fault| Answer::One(fault.answer(&id)))
            }
            Err((id, fault)) => Answer::One(fault.answer(&id)),
        }
    }

    async fn take(self: &Arc<Self>, call: Call) -> Result<Answer, Fault> {
        let Some(hook) = call.method.hook() else { return Err(never(call.method)) };
        let ticket = Ticket { id: call.id.clone(), version: call.version, hook };
        let streams = matches!(call.method, Method::Stream | Method::Follow);
        let asked = match self.let_in(&ticket, call).await? {
            Ok(asked) => asked,
            Err((Asked::Message(incoming), denial)) if incoming.task.is_none() => {
                let task = self.reject(*incoming, &denial)?;
                if streams {
                    return Ok(Answer::Stream(self.follow(ticket, None, task, 0)));
                }
                return self.reply(&ticket, task).await.map(Answer::One);
            }
            Err((_, denial)) => return Err(denied("the request may not be acted on", &denial)),
        };
        let task = match asked {
            Asked::Message(incoming) => {
                let (waits, history) = (incoming.waits, incoming.history);
                let (entry, (task, seen)) = self.begin(*incoming)?;
                if streams {
                    return Ok(Answer::Stream(self.follow(ticket, Some(entry), task, seen)));
                }
                if waits {
                    entry.settle().await;
                    within(entry.now().0, history)
                } else {
                    within(task, history)
                }
            }
            Asked::Task { id, history } => {
                let entry = self.find(id)?;
                self.look_again(&entry).await;
                within(entry.now().0, history)
            }
            Asked::List(wanted) => {
                let now = self.agent.outside.now();
                let listed = self.tasks.list(self.owner.as_ref(), now);
                let page = wanted.page(listed, ticket.version);
                return self.let_out(&ticket, page).await.map(Answer::One);
            }
            Asked::Cancel { id } => {
                let entry = self.find(id)?;
                let message = self.say(&entry, vec![Part::Text("It was stopped.".to_owned())]);
                let waiting = entry.cancel(message, self.agent.outside.now()).map_err(|state| {
                    let state = ticket.version.state(state);
                    Fault::new(Kind::NotCancelable, format!("the task is over: {state}"))
                })?;
                if let Some(waiting) = waiting
                    && let Err(error) = waiting.cancel(&self.agent).await
                {
                    tracing::warn!(%error, "the run of a task that was stopped waits on");
                }
                entry.now().0
            }
            Asked::Follow { id } => {
                let entry = self.find(id)?;
                self.look_again(&entry).await;
                let (task, seen) = entry.now();
                if task.status.state.is_final() {
                    let state = ticket.version.state(task.status.state);
                    let text = format!("the task is over: {state}; ask for it");
                    return Err(Fault::new(Kind::Unsupported, text));
                }
                return Ok(Answer::Stream(self.follow(ticket, Some(entry), task, seen)));
            }
        };
        let written = match ticket.hook {
            A2aMethod::MessageSend => return self.reply(&ticket, task).await.map(Answer::One),
            _ => ticket.version.task(&task),
        };
        self.let_out(&ticket, written).await.map(Answer::One)
    }

    async fn reply(&self, ticket: &Ticket, task: Task) -> Result<Object, Fault> {
        self.let_out(ticket, ticket.version.reply(&Reply::Task(task))).await
    }

    /// Asks the guardians about a request, which may be acted on as it was or as they want it. They
    /// are not shown what may be secret.
    ///
    /// # Errors
    /// The request cannot be used, whatever they say.
    async fn let_in(
        &self,
        ticket: &Ticket,
        call: Call,
    ) -> Result<Result<Asked, (Asked, Denied)>, Fault> {
        let asked = Asked::read(&call)?;
        let (version, method, mut whole) = (call.version, call.method, call.whole);
        let hidden = self.hidden_inputs(&asked);
        hide_inputs(&mut whole, &hidden);
        let read = |payload: &Object| -> Result<Asked, Fault> {
            let call = Call::of(payload.clone(), None).map_err(|(_, fault)| fault)?;
            if (call.version, call.method) != (version, method) {
                return Err(Fault::new(Kind::Request, "the method differs"));
            }
            Asked::read(&call)
        };
        let fits = |payload: &Object| read(payload).map(drop).map_err(|fault| fault.message);
        let guard = &self.agent.guard;
        let guarded = guard.a2a(ticket.hook, Direction::Asked, whole, fits).await;
        let guarded = guarded.without_a_new_yes(|payload| {
            let yes = read(payload).ok().and_then(|wanted| self.yes_to(&wanted));
            yes.is_some() && yes != self.yes_to(&asked)
        });
        match guarded.outcome {
            Ok(payload) => {
                let mut wanted = read(&payload)?;
                wanted.reveal(&asked, &hidden);
                Ok(Ok(wanted))
            }
            Err(denial) => Ok(Err((asked, denial))),
        }
    }

    /// The task whose question a request says yes to.
    fn yes_to(&self, asked: &Asked) -> Option<Uuid> {
        let Asked::Message(incoming) = asked else { return None };
        let task = incoming.task.filter(|_| is_consent(&incoming.wish.text))?;
        self.find(task).is_ok_and(|entry| entry.asks_for_a_yes()).then_some(task)
    }

    /// The inputs of a message that guardians are not shown: which capability they are for is not
    /// known yet, so any may be secret but those that a question has asked for as none.
    fn hidden_inputs(&self, asked: &Asked) -> Hidden {
        let task = match asked {
            Asked::Message(incoming) => incoming.task,
            _ => None,
        };
        let entry = task.and_then(|id| self.find(id).ok());
        Hidden::but(entry.map(|entry| entry.open_inputs()).unwrap_or_default())
    }

    /// Asks the guardians about a result, which may be sent as it was or as they want it.
    async fn let_out(&self, ticket: &Ticket, result: Value) -> Result<Object, Fault> {
        let fits = |payload: &Object| match payload.get("result") {
            Some(Value::Object(_)) => Ok(()),
            _ => Err("it has no `result`".to_owned()),
        };
        let answer = rpc::result(&ticket.id, result);
        let guarded = self.agent.guard.a2a(ticket.hook, Direction::Answers, answer, fits).await;
        match guarded.outcome {
            Ok(mut used) => {
                let result = used.remove("result").unwrap_or_default();
                Ok(rpc::result(&ticket.id, result))
            }
            Err(denial) => Err(denied("the answer is withheld", &denial)),
        }
    }

    /// A task that is not taken on. Nothing of what was said is kept.
    fn reject(&self, incoming: Incoming, denial: &Denied) -> Result<Task, Fault> {
        let (id, now) = (self.agent.outside.new_id(), self.agent.outside.now());
        let context = incoming.context.unwrap_or_else(|| self.agent.outside.new_id().to_string());
        let entry =
            self.tasks.open(id, self.owner.clone(), context, now).map_err(|NoRoom| busy())?;
        let words = format!("I may not act on this: {denial}");
        let message = Some(self.say(&entry, vec![Part::Text(words)]));
        let status = Status { state: TaskState::Rejected, message, timestamp: Some(now) };
        entry.put(Update::Status(status), now);
        Ok(entry.now().0)
    }

    fn find(&self, id: Uuid) -> Result<Arc<Entry>, Fault> {
        let entry = self.tasks.get(id, self.owner.as_ref(), self.agent.outside.now());
        entry.ok_or_else(no_task)
    }

    /// The task as it is, and then what happens to it, until it is over or waits for somebody. An
    /// update that the guardians withhold is left out; when the first or the last is, the stream
    /// ends with an error.
    fn follow(
        self: &Arc<Self>,
        ticket: Ticket,
        entry: Option<Arc<Entry>>,
        task: Task,
        seen: usize,
    ) -> BoxStream<'static, Object> {
        struct Following {
            desk: Arc<Desk>,
            ticket: Ticket,
            entry: Option<Arc<Entry>>,
            ids: (String, String),
            first: Option<Task>,
            seen: usize,
            over: bool,
        }
        let ids = (task.id.clone(), task.context.clone());
        let (desk, first) = (Arc::clone(self), Some(task));
        let following = Following { desk, ticket, entry, ids, first, seen, over: false };
        let stream = futures::stream::unfold(following, |mut at| async move {
            while !at.over {
                let (update, needed) = if let Some(task) = at.first.take() {
                    (Update::Reply(Reply::Task(task)), true)
                } else {
                    let update = at.entry.as_ref()?.next(at.seen).await?;
                    at.seen += 1;
                    let ends =
                        matches!(&update, Update::Status(status) if status.state.is_settled());
                    at.over = ends;
                    (update, ends)
                };
                let (task, context) = &at.ids;
                let written = at.ticket.version.update(task, context, &update);
                match at.desk.let_out(&at.ticket, written).await {
                    Ok(answer) => return Some((answer, at)),
                    Err(fault) if needed => {
                        at.over = true;
                        return Some((fault.answer(&at.ticket.id), at));
                    }
                    Err(_) => {}
                }
            }
            None
        });
        stream.boxed()
    }

    /// A message of this agent about a task.
    fn say(&self, entry: &Entry, parts: Vec<Part>) -> Message {
        Message {
            id: self.agent.outside.new_id().to_string(),
            context: Some(entry.context.clone()),
            task: Some(entry.id.to_string()),
            role: Role::Agent,
            parts,
        }
    }
}

/// What is never done, whoever asks.
fn never(method: Method) -> Fault {
    match method {
        Method::ExtendedCard => Fault::new(Kind::NoExtendedCard, "there is one card, for all"),
        _ => Fault::new(Kind::NoPush, "nobody is notified: follow the task, or ask for it"),
    }
}

fn denied(what: &str, denial: &Denied) -> Fault {
    Fault::new(Kind::Denied, format!("{what}: {denial}"))
}

fn busy() -> Fault {
    Fault::new(Kind::Busy, "too much is done at once: try again later")
}

/// One answer for ids that were never given, are forgotten, belong to another party, or are no ids at
/// all.
fn no_task() -> Fault {
    Fault::new(Kind::NoTask, "there is no such task, or not any more")
}

/// A task with at most so many of the last messages of its history.
fn within(mut task: Task, history: Option<usize>) -> Task {
    if let Some(most) = history {
        let over = task.history.len().saturating_sub(most);
        task.history.drain(..over);
    }
    task
}
