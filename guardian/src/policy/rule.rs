//! One rule: the messages that it matches, and its effect.

use aos::message::Method;
use jiff::SignedDuration;
use regex::Regex;

use super::expression::CelExpression;
use super::message_facts::{MessageFacts, RuleNames};
use super::rate_limit::RateLimit;
use super::redact_and_set::Modification;
use super::unknown_facts::Truth;

/// A rule of a policy.
#[derive(Debug)]
pub(super) struct PolicyRule {
    pub(super) id: String,
    /// The hooks of the rule; all hooks if `None`.
    pub(super) methods: Option<Vec<Method>>,
    /// The names that the rule requires; all of them must match.
    pub(super) named: Vec<(RuleSubject, Vec<Regex>)>,
    pub(super) when: Option<CelExpression>,
    pub(super) limit: Option<RateLimit>,
    pub(super) effect: RuleEffect,
    pub(super) message: Option<String>,
    pub(super) reason_codes: Vec<String>,
}

/// The kinds of names that a rule may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleSubject {
    Tool,
    Capability,
    Host,
    User,
    Agent,
    Session,
}

/// The effect of a rule on a message.
#[derive(Debug)]
pub(super) enum RuleEffect {
    Allow,
    Deny,
    Modify(Modification),
    /// A person must approve within this time.
    Approve {
        within: SignedDuration,
    },
}

impl PolicyRule {
    /// Returns the result of hook, names and condition.
    ///
    /// # Errors
    /// The condition fails on this message.
    pub(super) fn matches_message(&self, facts: &mut MessageFacts<'_>) -> Result<Truth, String> {
        let method = facts.call().method();
        if self.methods.as_ref().is_some_and(|methods| !methods.contains(&method)) {
            return Ok(Truth::False);
        }
        let mut names = Truth::True;
        for (subject, patterns) in &self.named {
            names = names.and(self.matches_name(*subject, patterns, facts));
            if names == Truth::False {
                return Ok(names);
            }
        }
        let Some(when) = &self.when else { return Ok(names) };
        // What permits does not apply, whatever the rest says.
        let is_without_user = reads_user(when) && !facts.names().has_user();
        if !self.effect.is_restriction() {
            if is_without_user {
                return Ok(Truth::Unknown("user".to_owned()));
            }
            if names != Truth::True {
                return Ok(names);
            }
        }
        Ok(names.and(facts.evaluate_bool(when)?))
    }

    /// Returns true when the result of the rule depends on the prepared request.
    pub(super) fn reads_request(&self) -> bool {
        let spend = self.limit.as_ref().and_then(RateLimit::spend);
        self.when.iter().chain(spend).any(CelExpression::reads_request)
    }

    /// Returns true when the rule depends on the user of a message.
    pub(super) fn depends_on_user(&self) -> bool {
        self.named.iter().any(|(subject, _)| *subject == RuleSubject::User)
            || self.when.as_ref().is_some_and(reads_user)
    }

    fn matches_name(
        &self,
        subject: RuleSubject,
        patterns: &[Regex],
        facts: &MessageFacts<'_>,
    ) -> Truth {
        let names = facts.names();
        if subject == RuleSubject::User && !names.has_user() {
            return Truth::Unknown("user".to_owned());
        }
        // A restriction of the token or of the end user it acts for is one of the pair.
        let caller =
            (subject == RuleSubject::User && self.effect.is_restriction()).then_some(names.caller);
        // A tool may have an empty name; nothing else that is empty has one.
        let is_said =
            |name: &str| subject == RuleSubject::Tool && names.has_tool || !name.is_empty();
        let fits = |name: &str| patterns.iter().any(|pattern| pattern.is_match(name));
        let found = subject.names_in(names).into_iter().flatten().chain(caller).any(|name| {
            // The patterns of a restriction by user have no dot at their end.
            is_said(name) && (fits(name) || caller.is_some() && fits(name.trim_end_matches('.')))
        });
        let hidden = subject.paths().iter().find(|path| facts.unknown().covers_name(**path));
        match hidden {
            Some([root, member]) => Truth::Unknown(format!("{root}.{member}")),
            None => found.into(),
        }
    }
}

fn reads_user(when: &CelExpression) -> bool {
    when.variables().any(|name| matches!(name, "user" | "caller"))
}

impl RuleEffect {
    /// Returns true when it restricts a message, instead of permitting it.
    pub(super) const fn is_restriction(&self) -> bool {
        match self {
            Self::Allow => false,
            Self::Deny | Self::Modify(_) | Self::Approve { .. } => true,
        }
    }
}

impl RuleSubject {
    /// Returns the facts that the names of this subject are.
    const fn paths(self) -> &'static [[&'static str; 2]] {
        match self {
            Self::Tool => &[["tool", ""]],
            Self::Capability => &[["capability", "name"]],
            Self::Host => &[["capability", "host"]],
            Self::User => &[["user", "id"], ["user", "email"], ["caller", "id"]],
            Self::Agent => &[["agent", "id"]],
            Self::Session => &[["session", "id"]],
        }
    }

    /// Returns the names in a message that belong to this subject.
    fn names_in<'c>(self, names: &RuleNames<'c>) -> [Option<&'c str>; 2] {
        match self {
            Self::Tool => [Some(names.tool), None],
            Self::Capability => [Some(names.capability), None],
            // With and without its port, and as it is written by those who end it with a dot.
            Self::Host => {
                let host = names.host;
                let bare = host.rsplit_once(':').map_or(host, |(host, _)| host);
                let bare = bare.trim_end_matches('.');
                [Some(host), Some(bare).filter(|bare| *bare != host)]
            }
            Self::User => [Some(names.user), Some(names.email)],
            Self::Agent => [Some(names.agent), None],
            Self::Session => [Some(names.session), None],
        }
    }
}
