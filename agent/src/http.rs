//! `POST /v1/agent`: a turn in, an answer out, or the events of the turn as they happen.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use a2s::Secret;
use a2s_api::{AgentEvent, AgentRequest, AgentResponse, PROBLEM_JSON, Problem};
use a2s_api::{AuthGuard, AuthenticatedCaller, CallerHeaders, TokenIntrospector, TokenScope};
use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::agent::Agent;
use crate::error::Error;
use crate::requester::Requester;
use crate::state_store::EmptyState;

/// The largest body of a request, in bytes: a message, inputs and a pending question.
const MAX_BODY: usize = 1 << 20;
/// The most turns that run at once.
const MAX_TURNS: usize = 64;
/// The interval at which a silent stream sends a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// An agent as a service. Clones are handles on the same one.
#[derive(Debug, Clone)]
pub struct App {
    agent: Arc<Agent>,
    /// The check of the callers' tokens.
    auth_guard: AuthGuard,
    turns: Arc<Semaphore>,
}

#[derive(OpenApi)]
#[openapi(components(schemas(AgentEvent, Problem)))]
struct AgentApiDoc;

impl App {
    /// Creates the service for callers with `token`. Shared backends get the credentials of each caller.
    /// The others get those of the agent, so a service without a token gives everybody the rights of these
    /// credentials.
    #[must_use]
    pub fn new(agent: Agent, token: Option<Secret>) -> Self {
        let auth_guard = AuthGuard::new(token);
        let turns = Arc::new(Semaphore::new(MAX_TURNS));
        Self { agent: Arc::new(agent), auth_guard, turns }
    }

    /// Also accepts tokens that `others` knows and that allow runs.
    #[must_use]
    pub fn with_introspector(self, others: Arc<dyn TokenIntrospector>) -> Self {
        Self { auth_guard: self.auth_guard.with_introspector(others), ..self }
    }

    /// Returns the agent.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Returns the permits of simultaneous turns, which all protocols of the agent share.
    #[must_use]
    pub fn turns(&self) -> &Arc<Semaphore> {
        &self.turns
    }

    /// Authorizes the callers of `router`, and adds their [`Requester`] to the extensions of requests.
    pub fn authorize<S: Clone + Send + Sync + 'static>(&self, router: Router<S>) -> Router<S> {
        router.route_layer(middleware::from_fn_with_state(self.clone(), require_token))
    }

    /// Returns `POST /v1/agent`, for the router of a larger service.
    pub fn routes(&self) -> Router {
        let (router, _) = routes().split_for_parts();
        self.authorize(router.layer(DefaultBodyLimit::max(MAX_BODY))).with_state(self.clone())
    }

    /// The description of the routes.
    #[must_use]
    pub fn openapi() -> utoipa::openapi::OpenApi {
        let mut openapi = routes().into_openapi();
        a2s_api::add_error_responses(&mut openapi);
        openapi
    }

    fn reserve_turn(&self) -> Result<OwnedSemaphorePermit, Error> {
        Arc::clone(&self.turns).try_acquire_owned().map_err(|_| Error::Busy(MAX_TURNS))
    }
}

fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(AgentApiDoc::openapi()).routes(routes!(ask_agent))
}

async fn require_token(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let shown =
        CallerHeaders::from_headers(|name| headers.get_all(name).iter().map(HeaderValue::as_bytes));
    let known = request.extensions().get::<AuthenticatedCaller>();
    match app.auth_guard.authorize(known, shown, TokenScope::Execute).await {
        Ok(caller) => {
            let requester = Requester::from_caller(&caller, shown);
            request.extensions_mut().insert(requester);
            next.run(request).await
        }
        Err(refusal) => Error::Auth(refusal).into_response(),
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let problem = self.to_problem();
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let later = problem.retry_after().map(|seconds| [(RETRY_AFTER, seconds)]);
        (status, [(CONTENT_TYPE, PROBLEM_JSON)], later, Json(problem)).into_response()
    }
}

/// Take a turn with the agent
///
/// The user states a request; the agent searches, verifies, asks for missing inputs, runs, and reports the
/// result. With `Accept: text/event-stream`, each event is sent as it happens (`data` is an `AgentEvent`,
/// `event` its type). The response is the last event, or an event `problem` if there is none. A client that
/// disconnects stops the runs of the turn.
#[utoipa::path(
    post, path = "/v1/agent", tag = "agent", security(("token" = [])),
    request_body = AgentRequest,
    responses(
        (status = 200, description = "The response, or a stream of events: the data of each event is an `AgentEvent`", content(
            (AgentResponse = "application/json"),
            (String = "text/event-stream"),
        )),
        (status = 502),
    ),
)]
async fn ask_agent(
    State(app): State<App>,
    Extension(requester): Extension<Requester>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Error> {
    let request: AgentRequest =
        serde_json::from_slice(&body).map_err(|error| Error::BadRequest(error.to_string()))?;
    let permit = app.reserve_turn()?;
    let agent = app.agent.with_requester(&requester);
    let wants = |value: &str| value.contains("text/event-stream");
    if !headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(wants) {
        let answer = agent.handle(request, &EmptyState, &mut |_| {}).await?;
        return Ok(Json(answer).into_response());
    }
    // The turn is driven by its own stream: when the client goes away, it is dropped with it.
    let (sender, mut events) = mpsc::unbounded_channel();
    let turn = async move {
        let mut emit = |event| {
            // The other end is this very stream.
            let _ = sender.send(event);
        };
        let answered = agent.handle(request, &EmptyState, &mut emit).await;
        drop(permit);
        answered.err()
    };
    let messages = futures::stream::poll_fn(move |context| events.poll_recv(context));
    let messages = messages.map(|event| to_sse_event(&event));
    let ended = futures::stream::once(turn).filter_map(async |error: Option<Error>| {
        let problem = error?.to_problem();
        Event::default().event("problem").json_data(problem).ok().map(Ok::<_, Infallible>)
    });
    let stream = futures::stream::select(messages.filter_map(async |event| event.map(Ok)), ended);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(stream).keep_alive(keep_alive).into_response())
}

/// Converts an event to its form in the stream.
fn to_sse_event(event: &AgentEvent) -> Option<Event> {
    let value = serde_json::to_value(event).ok()?;
    let kind = value.get("type")?.as_str()?.to_owned();
    Some(Event::default().event(kind).data(value.to_string()))
}
