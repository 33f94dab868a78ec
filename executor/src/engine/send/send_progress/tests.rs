use bytes::Bytes;
use http::HeaderMap;
use proptest::prelude::*;

use super::*;
use crate::config::Limits;
use crate::error::{Error, ErrorKind};
use crate::request::RedirectTarget;

const MAX_ATTEMPTS: u32 = 3;
/// A request that only reads.
const READ: RequestTraits =
    RequestTraits { repeat_safe: true, is_hash_only: false, may_need_session: false };
/// A request that changes something each time.
const WRITE: RequestTraits = RequestTraits { repeat_safe: false, ..READ };
const READ_BY_HASH: RequestTraits = RequestTraits { is_hash_only: true, ..READ };
const WRITE_BY_HASH: RequestTraits = RequestTraits { is_hash_only: true, ..WRITE };
/// The call of a tool on an MCP server.
const CALL: RequestTraits = RequestTraits { may_need_session: true, ..WRITE };
const READING_CALL: RequestTraits = RequestTraits { may_need_session: true, ..READ };

/// The outcome of an action.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    /// The tokens are there. The value is true when the server is known to require a session.
    Tokens(bool),
    /// The authorization server could not be reached, or did not respond.
    NoTokens {
        sent: bool,
    },
    Session,
    /// The server opens no session, and responds with a status if there is one.
    NoSession(Option<u16>),
    Status(u16),
    /// The server responds that it requires a session.
    NeedsSession,
    /// The server responds that it does not know the session.
    SessionUnknown,
    /// The service responds that it does not know the query.
    NeedsQuery,
    Redirect,
    /// The last response after a redirect.
    Followed(&'static Self),
    /// There is no response.
    Lost {
        sent: bool,
    },
    /// The tokens were discarded. The value is true when one of them was kept from an earlier request.
    Discarded(bool),
}

use Outcome::{
    Discarded, Followed, Lost, NeedsQuery, NeedsSession, NoSession, NoTokens, Redirect, Session,
    SessionUnknown, Status, Tokens,
};

fn failure(kind: ErrorKind, sent: bool) -> SendError {
    SendError { sent, ..SendError::before_send(Error::new(kind, "no response")) }
}

fn response(status: u16, body: &'static str) -> RawResponse {
    let (headers, body) = (HeaderMap::new(), Bytes::from_static(body.as_bytes()));
    RawResponse { status, headers, body, redirects: 0 }
}

impl Outcome {
    fn to_outcome(self) -> SendOutcome {
        match self {
            Status(status) => Ok(response(status, "{}")),
            NeedsSession => Ok(response(400, "no session")),
            SessionUnknown => Ok(response(
                404,
                r#"{"jsonrpc": "2.0", "error": {"code": -32001, "message": "Session not found"}}"#,
            )),
            NeedsQuery => {
                Ok(response(200, r#"{"errors": [{"message": "PersistedQueryNotFound"}]}"#))
            }
            Followed(last) => {
                last.to_outcome().map(|response| RawResponse { redirects: 1, ..response })
            }
            Lost { sent: true } => Err(failure(ErrorKind::ConnectionLost, true)),
            Lost { sent: false } => Err(failure(ErrorKind::ConnectFailed, false)),
            other => panic!("{other:?} is not the outcome of a request"),
        }
    }

    fn to_reply(self) -> Result<ServiceReply, SendError> {
        let Redirect = self else { return self.to_outcome().map(ServiceReply::Response) };
        let (method, url) = (http::Method::GET, "https://api.example.com/".parse().unwrap());
        let target = RedirectTarget { method, url, keeps_body: false };
        Ok(ServiceReply::Redirect(response(307, ""), Box::new(target)))
    }
}

fn new_progress(request: RequestTraits, max_attempts: u32, attempts: u32) -> SendProgress {
    let limits = Limits { max_attempts, ..Limits::default() };
    SendProgress::new(request, RetrySchedule::from_limits(&limits), attempts)
}

/// Continues after an action that needs something from outside.
fn perform(progress: &mut SendProgress, action: SendAction, outcome: Outcome) -> SendAction {
    match (action, outcome) {
        (SendAction::FetchTokens, Tokens(requires_session)) => {
            progress.on_tokens(Ok(requires_session))
        }
        (SendAction::FetchTokens, NoTokens { sent }) => {
            progress.on_tokens(Err(failure(ErrorKind::ConnectionLost, sent)))
        }
        (SendAction::OpenSession, Session) => progress.on_session(Ok(true)),
        (SendAction::OpenSession, NoSession(status)) => {
            let kind = status.map_or(ErrorKind::ConnectFailed, |_| ErrorKind::McpError);
            progress.on_session(Err(SessionError { failure: failure(kind, false), status }))
        }
        (SendAction::Send, reply) => progress.on_reply(reply.to_reply()),
        (SendAction::FollowRedirect(_), Followed(last)) => {
            progress.on_outcome(Followed(last).to_outcome())
        }
        (SendAction::DiscardTokens(rejection), Discarded(was_kept)) => {
            progress.on_tokens_discarded(rejection, was_kept)
        }
        (action, outcome) => panic!("{outcome:?} is not an outcome of {action:?}"),
    }
}

/// Performs the actions that need nothing from outside but time and randomness.
fn settle(progress: &mut SendProgress, action: SendAction) -> SendAction {
    match action {
        SendAction::CloseSession(outcome) => {
            let next = progress.on_session_closed(outcome);
            settle(progress, next)
        }
        SendAction::AskPolicy(outcome) => {
            progress.apply_policy(outcome, Timestamp::UNIX_EPOCH, [0; 16])
        }
        action => action,
    }
}

fn describe(action: &SendAction) -> String {
    let word = match action {
        SendAction::FetchTokens => "tokens",
        SendAction::OpenSession => "session",
        SendAction::Send => "send",
        SendAction::FollowRedirect(_) => "follow",
        SendAction::CloseSession(_) => "close",
        SendAction::DiscardTokens(_) => "discard",
        SendAction::AskPolicy(_) => "policy",
        SendAction::End(AttemptEnd::Repeat { reason, takes_back_effect: false }) => {
            return format!("{reason:?}");
        }
        SendAction::End(AttemptEnd::Repeat { reason, takes_back_effect: true }) => {
            return format!("{reason:?} without effect");
        }
        SendAction::End(AttemptEnd::Pause(_)) => "pause",
        SendAction::End(AttemptEnd::Done(Ok(response))) => {
            return format!("done: {}", response.status);
        }
        SendAction::End(AttemptEnd::Done(Err(failure))) => {
            return format!("done: {:?}", failure.error.kind);
        }
    };
    word.to_owned()
}

/// Checks that a request whose actions have these outcomes leads to `expected` actions. The beginning of an
/// attempt, and what needs nothing from outside, is left out.
#[track_caller]
fn check(request: RequestTraits, outcomes: &[Outcome], expected: &str) {
    check_after(0, request, outcomes, expected);
}

/// Checks the same for a request with `attempts` in an earlier walk.
#[track_caller]
fn check_after(attempts: u32, request: RequestTraits, outcomes: &[Outcome], expected: &str) {
    let mut progress = new_progress(request, MAX_ATTEMPTS, attempts);
    let mut action = SendAction::FetchTokens;
    progress.begin_attempt();
    let mut actions = Vec::new();
    for outcome in outcomes {
        let next = perform(&mut progress, action, *outcome);
        action = settle(&mut progress, next);
        actions.push(describe(&action));
        if let SendAction::End(AttemptEnd::Repeat { .. } | AttemptEnd::Pause(_)) = action {
            progress.begin_attempt();
            action = SendAction::FetchTokens;
        }
    }
    assert_eq!(actions.join(", "), expected, "{request:?}: {outcomes:?}");
}

#[test]
fn response_ends_the_request() {
    for request in [READ, WRITE, CALL, READ_BY_HASH] {
        check(request, &[Tokens(false), Status(200)], "send, done: 200");
        check(request, &[Tokens(false), Status(403)], "send, done: 403");
    }
}

#[test]
fn rejected_token_is_renewed_once() {
    let rejected = [Tokens(false), Status(401), Discarded(true)];
    let again = [rejected, [Tokens(false), Status(200), Discarded(true)]].concat();
    check(READ, &again[..5], "send, discard, RenewToken, send, done: 200");
    let twice = [rejected, rejected].concat();
    check(READ, &twice, "send, discard, RenewToken, send, discard, done: 401");
    // A new token would not help, or the request may have had an effect.
    let fresh = [Tokens(false), Status(401), Discarded(false)];
    check(READ, &fresh, "send, discard, done: 401");
    check(WRITE, &rejected, "send, discard, done: 401");
}

#[test]
fn rejected_token_of_a_session_is_renewed_once() {
    let rejected = [Tokens(true), NoSession(Some(401)), Discarded(true)];
    for request in [CALL, READING_CALL] {
        let twice = [rejected, rejected].concat();
        let renewed = "session, discard, RenewToken, session, discard, done: McpError";
        check(request, &twice, renewed);
        let fresh = [Tokens(true), NoSession(Some(401)), Discarded(false)];
        check(request, &fresh, "session, discard, done: McpError");
    }
}

#[test]
fn missing_token_is_retried_in_each_case() {
    for (request, sent) in [(READ, true), (READ, false), (WRITE, true), (WRITE, false)] {
        let none = [NoTokens { sent }; 3];
        check(request, &none, "pause, pause, done: ConnectionLost");
    }
}

#[test]
fn known_server_gets_a_session_first() {
    check(CALL, &[Tokens(true), Session, Status(200)], "session, send, done: 200");
    // Inside a session, no response asks for another one.
    check(CALL, &[Tokens(true), Session, NeedsSession], "session, send, done: 400");
}

#[test]
fn session_is_closed_before_the_response_is_judged() {
    let mut progress = new_progress(CALL, MAX_ATTEMPTS, 0);
    progress.begin_attempt();
    progress.on_tokens(Ok(true));
    progress.on_session(Ok(true));
    for outcome in [Status(200), Status(401), Lost { sent: true }] {
        assert_eq!(describe(&progress.on_reply(outcome.to_reply())), "close");
    }
    assert_eq!(describe(&progress.on_outcome(Followed(&Status(200)).to_outcome())), "close");
}

#[test]
fn required_session_is_opened_in_the_next_attempt() {
    let refused = [Tokens(false), NeedsSession, Tokens(false)];
    let inside = [&refused[..], &[Session, Status(200)]].concat();
    check(CALL, &inside, "send, OpenSession without effect, session, send, done: 200");
    check(READING_CALL, &inside, "send, OpenSession, session, send, done: 200");
    // The same status of another request is its response.
    check(WRITE, &[Tokens(false), NeedsSession], "send, done: 400");
    // A redirected call may have had an effect.
    let redirected = [Tokens(false), Redirect, Followed(&NeedsSession)];
    check(CALL, &redirected, "send, follow, done: 400");
}

#[test]
fn lost_session_is_opened_again_once() {
    let lost = [Tokens(true), Session, SessionUnknown];
    let again = [&lost[..], &[Tokens(true), Session, Status(200)]].concat();
    let expected = "session, send, RenewSession without effect, session, send, done: 200";
    check(CALL, &again, expected);
    check(READING_CALL, &again, "session, send, RenewSession, session, send, done: 200");
    let expected = "session, send, RenewSession without effect, session, send, done: 404";
    check(CALL, &[lost, lost].concat(), expected);
    let closed = [&lost[..], &[Tokens(true), NoSession(Some(400))]].concat();
    check(CALL, &closed, "session, send, RenewSession without effect, session, done: 404");
    // A server that gave the session no id does not mean the session.
    let mut progress = new_progress(CALL, MAX_ATTEMPTS, 0);
    progress.begin_attempt();
    progress.on_tokens(Ok(true));
    progress.on_session(Ok(false));
    let closing = progress.on_reply(SessionUnknown.to_reply());
    assert_eq!(describe(&settle(&mut progress, closing)), "done: 404");
}

#[test]
fn first_rejection_is_final_without_a_session() {
    for status in [400, 401, 500] {
        let refused = [Tokens(false), NeedsSession, Tokens(false), NoSession(Some(status))];
        check(CALL, &refused, "send, OpenSession without effect, session, done: 400");
    }
}

#[test]
fn unreachable_session_is_retried() {
    let lost = [Tokens(true), NoSession(None)];
    check(CALL, &[lost, lost].concat(), "session, pause, session, pause");
    // The next attempt finds out again that the server requires a session.
    let refused = [Tokens(false), NeedsSession, Tokens(false), NoSession(None)];
    let again = [&refused[..], &[Tokens(false)]].concat();
    check(CALL, &again, "send, OpenSession without effect, session, pause, send");
}

#[test]
fn unknown_query_is_expanded_once() {
    let unknown = [Tokens(false), NeedsQuery];
    let twice = [unknown, unknown].concat();
    check(READ_BY_HASH, &twice, "send, ExpandQuery, send, done: 200");
    check(WRITE_BY_HASH, &twice, "send, ExpandQuery without effect, send, done: 200");
    check(READ, &unknown, "send, done: 200");
    // A redirected request may have had an effect.
    let redirected = [Tokens(false), Redirect, Followed(&NeedsQuery)];
    check(READ_BY_HASH, &redirected, "send, follow, ExpandQuery");
    check(WRITE_BY_HASH, &redirected, "send, follow, done: 200");
}

#[test]
fn policy_repeats_safe_requests_until_it_is_exhausted() {
    let busy = [Tokens(false), Status(503)];
    check(READ, &[busy; 3].concat(), "send, pause, send, pause, send, done: 503");
    check_after(1, READ, &[busy; 2].concat(), "send, pause, send, done: 503");
    check_after(7, READ, &busy, "send, done: 503");
    check(WRITE, &busy, "send, done: 503");
    let lost = [Tokens(false), Lost { sent: true }];
    check(READ, &lost, "send, pause");
    check(WRITE, &lost, "send, done: ConnectionLost");
    let unsent = [Tokens(false), Lost { sent: false }];
    check(WRITE, &[unsent; 3].concat(), "send, pause, send, pause, send, done: ConnectFailed");
}

#[test]
fn redirect_is_followed_before_its_response_is_judged() {
    let redirected = |last| [Tokens(false), Redirect, Followed(last)];
    check(WRITE, &redirected(&Status(200)), "send, follow, done: 200");
    check(READ, &redirected(&Status(503)), "send, follow, pause");
    check(READ, &redirected(&Status(401)), "send, follow, discard");
    check(WRITE, &redirected(&Lost { sent: true }), "send, follow, done: ConnectionLost");
}

/// One of the possible outcomes of an action.
fn choose(action: &SendAction, choice: usize) -> Outcome {
    const TOKENS: [Outcome; 4] =
        [Tokens(false), Tokens(true), NoTokens { sent: true }, NoTokens { sent: false }];
    const SESSIONS: [Outcome; 4] =
        [Session, NoSession(None), NoSession(Some(400)), NoSession(Some(401))];
    const REPLIES: [Outcome; 9] = [
        Redirect,
        Status(200),
        Status(401),
        Status(503),
        NeedsSession,
        SessionUnknown,
        NeedsQuery,
        Lost { sent: true },
        Lost { sent: false },
    ];
    const FOLLOWED: [Outcome; 6] = [
        Followed(&Status(200)),
        Followed(&Status(401)),
        Followed(&Status(503)),
        Followed(&NeedsSession),
        Followed(&NeedsQuery),
        // The first request was sent, whatever fails after it.
        Followed(&Lost { sent: true }),
    ];
    let outcomes: &[Outcome] = match action {
        SendAction::FetchTokens => &TOKENS,
        SendAction::OpenSession => &SESSIONS,
        SendAction::Send => &REPLIES,
        SendAction::FollowRedirect(_) => &FOLLOWED,
        SendAction::DiscardTokens(_) => &[Discarded(true), Discarded(false)],
        action => panic!("{action:?} needs nothing from outside"),
    };
    outcomes[choice % outcomes.len()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// A service may do its work twice only if the first time is known to have had no effect.
    #[test]
    fn any_request_ends_and_has_at_most_one_unsafe_effect(
        (repeat_safe, is_hash_only, may_need_session) in any::<(bool, bool, bool)>(),
        max_attempts in 1_u32..6,
        earlier in 0_u32..4,
        choices in proptest::collection::vec(any::<usize>(), 1..40),
    ) {
        let request = RequestTraits { repeat_safe, is_hash_only, may_need_session };
        let mut progress = new_progress(request, max_attempts, earlier);
        // Each pause needs an attempt below the maximum. A token, a session, a lost session and a query need
        // one more each.
        let last = max_attempts.max(earlier + 1) + 4;
        let mut choices = choices.into_iter().cycle();
        let mut has_effect = false;
        let outcome = loop {
            prop_assert!(progress.begin_attempt() <= last, "{:?}", progress);
            let mut action = SendAction::FetchTokens;
            // The longest attempt: tokens, session, request, redirect, tokens again.
            for _ in 0..5 {
                let is_sending = matches!(action, SendAction::Send);
                let outcome = choose(&action, choices.next().unwrap());
                if is_sending && !matches!(outcome, Lost { sent: false }) {
                    prop_assert!(!has_effect, "{:?}", progress);
                    has_effect = !repeat_safe;
                }
                let next = perform(&mut progress, action, outcome);
                action = settle(&mut progress, next);
                if matches!(action, SendAction::End(_)) {
                    break;
                }
            }
            match action {
                SendAction::End(AttemptEnd::Done(outcome)) => break outcome,
                SendAction::End(AttemptEnd::Pause(_)) => {}
                SendAction::End(AttemptEnd::Repeat { takes_back_effect, .. }) => {
                    prop_assert!(has_effect || !takes_back_effect, "{:?}", progress);
                    has_effect &= !takes_back_effect;
                }
                action => {
                    let message = format!("the attempt goes on with {action:?}");
                    return Err(TestCaseError::fail(message));
                }
            }
        };
        prop_assert!(outcome.is_ok() || !has_effect || outcome.is_err_and(|failure| failure.sent));
    }
}
