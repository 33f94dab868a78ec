//! One rule: what it is about, and what it does.

use aos::message::Method;
use jiff::SignedDuration;
use regex::Regex;

use super::expression::Expression;
use super::message_facts::{Facts, Names};
use super::rate_limit::Limit;
use super::redact_and_set::Modification;

/// One rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: String,
    /// The hooks it is about; all of them if `None`.
    pub(super) methods: Option<Vec<Method>>,
    /// The names it is about, all of them to be met.
    pub(super) named: Vec<(Subject, Vec<Regex>)>,
    pub(super) when: Option<Expression>,
    pub(super) limit: Option<Limit>,
    pub(super) effect: Effect,
    pub(super) message: Option<String>,
    pub(super) reason_codes: Vec<String>,
}

/// What a rule may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Tool,
    Capability,
    Host,
    User,
    Agent,
    Session,
}

/// What a rule does with a message.
#[derive(Debug)]
pub(super) enum Effect {
    Allow,
    Deny,
    Modify(Modification),
    /// A person has to agree within this time.
    Approve {
        within: SignedDuration,
    },
}

impl Rule {
    /// Whether hook, names and condition fit.
    ///
    /// # Errors
    /// The condition fails on this message.
    pub(super) fn is_about(&self, facts: &mut Facts<'_>) -> Result<bool, String> {
        let method = facts.call().method();
        if self.methods.as_ref().is_some_and(|methods| !methods.contains(&method)) {
            return Ok(false);
        }
        let names = facts.names();
        if !self.named.iter().all(|(subject, patterns)| self.names(*subject, patterns, names)) {
            return Ok(false);
        }
        let Some(when) = &self.when else { return Ok(true) };
        // A condition about the user says nothing of a message without one: what restricts applies,
        // what permits does not.
        if reads_user(when) && !names.has_user() {
            return Ok(self.effect.restricts());
        }
        when.holds(facts.variables(when)?)
    }

    /// Whether the rule depends on the user of a message.
    pub(super) fn is_by_user(&self) -> bool {
        self.named.iter().any(|(subject, _)| *subject == Subject::User)
            || self.when.as_ref().is_some_and(reads_user)
    }

    fn names(&self, subject: Subject, patterns: &[Regex], names: &Names<'_>) -> bool {
        if subject == Subject::User && !names.has_user() {
            return self.effect.restricts();
        }
        // A restriction of the token or of the end user it acts for is one of the pair.
        let caller = (subject == Subject::User && self.effect.restricts()).then_some(names.caller);
        // A tool may have an empty name; nothing else that is empty has one.
        let is_said = |name: &str| subject == Subject::Tool && names.says_tool || !name.is_empty();
        subject
            .of(names)
            .into_iter()
            .flatten()
            .chain(caller)
            .any(|name| is_said(name) && patterns.iter().any(|pattern| pattern.is_match(name)))
    }
}

fn reads_user(when: &Expression) -> bool {
    when.variables().any(|name| matches!(name, "user" | "caller"))
}

impl Effect {
    /// Whether it takes something away from a message, instead of permitting it.
    const fn restricts(&self) -> bool {
        match self {
            Self::Allow => false,
            Self::Deny | Self::Modify(_) | Self::Approve { .. } => true,
        }
    }
}

impl Subject {
    /// Whatever goes by this subject in a message.
    fn of<'c>(self, names: &Names<'c>) -> [Option<&'c str>; 2] {
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
