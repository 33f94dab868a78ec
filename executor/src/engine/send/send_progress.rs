//! The progress of a request through its attempts, and the next action. Pure.
//!
//! A sender performs an action and passes its outcome to the transition with the same subject
//! (`OpenSession` to `on_session`, …), which returns the next action.

use jiff::Timestamp;

use crate::outbound::{RetryPause, RetrySchedule, SendError, ServiceReply, SessionError};
use crate::request::{
    PreparedRequest, RawResponse, asks_for_query, is_session_unknown, wants_session,
};

/// The outcome of an attempt: the last response, or the reason for a missing one.
pub(super) type SendOutcome = Result<RawResponse, SendError>;

/// The properties of a request that limit its repetition.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestTraits {
    /// True when sending it twice has the same effect as sending it once.
    repeat_safe: bool,
    /// True when it contains the hash of its query instead of the query.
    is_hash_only: bool,
    /// True when its server may require a session.
    may_need_session: bool,
}

/// The attempts of a step to get a response.
#[derive(Debug)]
pub(super) struct SendProgress {
    retries: RetrySchedule,
    request: RequestTraits,
    /// The number of the current attempt, from 1.
    attempt: u32,
    /// Set when a rejected token was replaced. A second replacement would not help.
    is_token_renewed: bool,
    /// The response with which an MCP server rejected the call, because it requires a session or does not
    /// know the one of the call any more.
    rejection: Option<RawResponse>,
    /// Set when the current attempt has opened a session.
    is_in_session: bool,
    /// Set when the server recognizes this session by an id.
    has_session_id: bool,
    /// Set when a session was opened in place of one that the server did not know any more. Another one
    /// would not help.
    is_session_renewed: bool,
}

/// The next action of a sender.
#[derive(Debug)]
pub(super) enum SendAction {
    /// Gets the tokens that the request needs.
    FetchTokens,
    /// Opens a session with the server of the request.
    OpenSession,
    /// Waits for a permit, and sends the request.
    Send,
    /// Follows the redirect that the service has responded with.
    FollowRedirect(ServiceReply),
    /// Closes the session in which the request was sent.
    CloseSession(SendOutcome),
    /// Discards the tokens that were rejected.
    DiscardTokens(TokenRejection),
    /// Asks the retry policy, which is the only reason left for another attempt.
    AskPolicy(SendOutcome),
    /// Ends the attempt.
    End(AttemptEnd),
}

/// The end of an attempt.
#[derive(Debug)]
pub(super) enum AttemptEnd {
    /// Another attempt follows at once.
    Repeat {
        /// The reason.
        reason: RepeatReason,
        /// Set when the request of this attempt counts as one that may have changed something, but it
        /// certainly has not.
        takes_back_effect: bool,
    },
    /// Another attempt follows after a pause.
    Pause(RetryPause),
    /// The outcome is final.
    Done(SendOutcome),
}

/// The reason for another attempt without a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepeatReason {
    /// The service rejected a token that the executor had kept.
    RenewToken,
    /// The server rejected the call, because it requires a session.
    OpenSession,
    /// The server rejected the call, because it does not know its session any more.
    RenewSession,
    /// The service knows only the hash of the query.
    ExpandQuery,
}

/// The outcome of an attempt with a rejected token.
#[derive(Debug)]
pub(super) enum TokenRejection {
    /// The server did not open a session. The request itself was not sent.
    Session(SendError),
    /// The service responded to the request.
    Request(RawResponse),
}

impl From<&PreparedRequest> for RequestTraits {
    fn from(request: &PreparedRequest) -> Self {
        Self {
            repeat_safe: request.is_repeat_safe(),
            is_hash_only: request.is_hash_only(),
            may_need_session: request.may_need_session(),
        }
    }
}

impl RepeatReason {
    /// The reason as the journal shows it.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::RenewToken => "the service rejected the token; the executor fetches a new one",
            Self::OpenSession => "the server requires a session",
            Self::RenewSession => {
                "the server does not know the session any more; the executor opens a new one"
            }
            Self::ExpandQuery => "the service requires the full query",
        }
    }

    /// Returns true when the rejected request had no effect: the server rejected it before it ran a tool,
    /// or did not know the query. A request with a rejected token is repeated only if that is safe.
    fn is_without_effect(self) -> bool {
        match self {
            Self::RenewToken => false,
            Self::OpenSession | Self::RenewSession | Self::ExpandQuery => true,
        }
    }
}

impl SendProgress {
    /// The progress of a request before its next attempt. Earlier walks have made `attempts` attempts.
    pub(super) fn new(request: RequestTraits, retries: RetrySchedule, attempts: u32) -> Self {
        Self {
            retries,
            request,
            attempt: attempts,
            is_token_renewed: false,
            rejection: None,
            is_in_session: false,
            has_session_id: false,
            is_session_renewed: false,
        }
    }

    /// Begins another attempt, and returns its number.
    pub(super) fn begin_attempt(&mut self) -> u32 {
        self.attempt += 1;
        self.is_in_session = false;
        self.has_session_id = false;
        self.attempt
    }

    /// Continues after the tokens were fetched. The value is true when the server is known to require a
    /// session.
    pub(super) fn on_tokens(&self, fetched: Result<bool, SendError>) -> SendAction {
        match fetched {
            Ok(requires_session) if requires_session || self.rejection.is_some() => {
                SendAction::OpenSession
            }
            Ok(_) => SendAction::Send,
            // The authorization server was sent something, but the service was not.
            Err(failure) => SendAction::AskPolicy(Err(SendError { sent: false, ..failure })),
        }
    }

    /// Continues after the server was asked for a session. The value is true when the server recognizes the
    /// session by an id.
    pub(super) fn on_session(&mut self, opened: Result<bool, SessionError>) -> SendAction {
        let SessionError { failure, status } = match opened {
            Ok(has_id) => {
                self.is_in_session = true;
                self.has_session_id = has_id;
                return SendAction::Send;
            }
            Err(error) => error,
        };
        match (self.rejection.take(), status) {
            // The server opens no session, so its first response was final.
            (Some(rejection), Some(_)) => SendAction::done(Ok(rejection)),
            (_, Some(401)) => SendAction::DiscardTokens(TokenRejection::Session(failure)),
            _ => SendAction::AskPolicy(Err(failure)),
        }
    }

    /// Continues after the request was sent.
    pub(super) fn on_reply(&mut self, reply: Result<ServiceReply, SendError>) -> SendAction {
        match reply {
            Ok(ServiceReply::Response(response)) => self.on_outcome(Ok(response)),
            Ok(redirect @ ServiceReply::Redirect(..)) => SendAction::FollowRedirect(redirect),
            Err(failure) => self.on_outcome(Err(failure)),
        }
    }

    /// Continues after the last request of an attempt, with or without redirects.
    pub(super) fn on_outcome(&mut self, outcome: SendOutcome) -> SendAction {
        match self.is_in_session {
            true => SendAction::CloseSession(outcome),
            false => self.judge(outcome),
        }
    }

    /// Continues after the session was closed.
    pub(super) fn on_session_closed(&mut self, outcome: SendOutcome) -> SendAction {
        self.judge(outcome)
    }

    /// Continues after the tokens of a request were discarded. A new token may help if one of them `was_kept`
    /// from an earlier request, because the service may have revoked it since then.
    pub(super) fn on_tokens_discarded(
        &mut self,
        rejection: TokenRejection,
        was_kept: bool,
    ) -> SendAction {
        let may_repeat = match &rejection {
            TokenRejection::Session(_) => true,
            TokenRejection::Request(_) => self.request.repeat_safe,
        };
        if was_kept && may_repeat && !self.is_token_renewed {
            self.is_token_renewed = true;
            return self.repeat(RepeatReason::RenewToken);
        }
        match rejection {
            TokenRejection::Session(failure) => SendAction::AskPolicy(Err(failure)),
            TokenRejection::Request(response) => self.judge_response(response),
        }
    }

    /// Ends an attempt as the retry policy decides.
    pub(super) fn apply_policy(
        &self,
        outcome: SendOutcome,
        now: Timestamp,
        random: [u8; 16],
    ) -> SendAction {
        let (repeat_safe, attempt) = (self.request.repeat_safe, self.attempt);
        let pause = self.retries.next_pause(repeat_safe, attempt, outcome.as_ref(), now, random);
        SendAction::End(match pause {
            Some(pause) => AttemptEnd::Pause(pause),
            None => AttemptEnd::Done(outcome),
        })
    }

    fn judge(&mut self, outcome: SendOutcome) -> SendAction {
        match outcome {
            Ok(response) if response.status == 401 => {
                SendAction::DiscardTokens(TokenRejection::Request(response))
            }
            Ok(response) => self.judge_response(response),
            Err(failure) => SendAction::AskPolicy(Err(failure)),
        }
    }

    /// Decides about a response that does not need another token.
    fn judge_response(&mut self, response: RawResponse) -> SendAction {
        // After a redirect, the first request may have had an effect.
        let is_direct = response.redirects == 0;
        let RequestTraits { repeat_safe, is_hash_only, may_need_session } = self.request;
        let may_open_session = may_need_session && !self.is_in_session && self.rejection.is_none();
        if may_open_session && is_direct && wants_session(&response) {
            self.rejection = Some(response);
            return self.repeat(RepeatReason::OpenSession);
        }
        let may_renew_session = self.has_session_id && !self.is_session_renewed;
        if may_renew_session && is_direct && is_session_unknown(&response) {
            self.is_session_renewed = true;
            self.rejection = Some(response);
            return self.repeat(RepeatReason::RenewSession);
        }
        if is_hash_only && (repeat_safe || is_direct) && asks_for_query(&response) {
            self.request.is_hash_only = false;
            return self.repeat(RepeatReason::ExpandQuery);
        }
        SendAction::AskPolicy(Ok(response))
    }

    fn repeat(&self, reason: RepeatReason) -> SendAction {
        let takes_back_effect = reason.is_without_effect() && !self.request.repeat_safe;
        SendAction::End(AttemptEnd::Repeat { reason, takes_back_effect })
    }
}

impl SendAction {
    /// Ends the request with a final outcome.
    pub(super) fn done(outcome: SendOutcome) -> Self {
        Self::End(AttemptEnd::Done(outcome))
    }
}

#[cfg(test)]
mod tests;
