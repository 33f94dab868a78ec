//! Several guardians, one verdict: asked in order, the first denial wins, modifications chain.

use std::collections::BTreeSet;

use reqwest::header::HeaderMap;

use super::{
    BuildError, FailMode, GuardianClient, GuardianError, GuardianOutcome, Verdict, VerdictSource,
};
use crate::message::Request;

/// Guardians that must all agree, each with a name for records.
///
/// Each guardian judges the step as the guardians before it have changed it, so a later guardian judges the
/// real effect and not the first intention. After a denial, no further guardian is asked. Every guardian
/// has its own [`Options`](super::Options), and so its own fail mode.
///
/// ```
/// use aos::{GuardianClient, GuardianChain, Options};
///
/// let company = GuardianClient::new("https://guardian.example/aos".parse()?, Options::default())?;
/// let team = GuardianClient::new("http://127.0.0.1:8743/aos".parse()?, Options::default())?;
/// let guardians = GuardianChain::new("company", company).and("team", team);
/// assert_eq!(guardians.names().collect::<Vec<_>>(), ["company", "team"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct GuardianChain {
    first: NamedGuardian,
    others: Vec<NamedGuardian>,
}

#[derive(Clone, Debug)]
struct NamedGuardian {
    name: String,
    client: GuardianClient,
}

impl NamedGuardian {
    fn with_own_pool(&self) -> Result<Self, BuildError> {
        Ok(Self { name: self.name.clone(), client: self.client.with_own_pool()? })
    }
}

/// The result of a question to several guardians.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainVerdict {
    /// The verdict of all guardians together.
    pub verdict: Verdict,
    /// The outcome of each guardian that was asked, in order. The list is never empty; after a denial, the
    /// last entry is the denial. Each [`GuardianOutcome::origin`] shows whether the guardian failed.
    pub outcomes: Vec<(String, GuardianOutcome)>,
}

impl GuardianChain {
    /// Creates a chain of one guardian, with a name for records.
    pub fn new(name: impl Into<String>, client: GuardianClient) -> Self {
        Self { first: NamedGuardian { name: name.into(), client }, others: Vec::new() }
    }

    /// Adds a guardian to the end of the chain.
    #[must_use]
    pub fn and(mut self, name: impl Into<String>, client: GuardianClient) -> Self {
        self.others.push(NamedGuardian { name: name.into(), client });
        self
    }

    /// Returns the chain with its own connections: see [`GuardianClient::with_own_pool`].
    ///
    /// # Errors
    /// Fails when the HTTP client of one guardian cannot be created.
    pub fn with_own_pools(&self) -> Result<Self, BuildError> {
        let others =
            self.others.iter().map(NamedGuardian::with_own_pool).collect::<Result<_, _>>()?;
        Ok(Self { first: self.first.with_own_pool()?, others })
    }

    /// Returns the chain for an agent that calls [`flush`](Self::flush): see
    /// [`GuardianClient::with_early_responses`].
    #[must_use]
    pub fn with_early_responses(self) -> Self {
        let early = |NamedGuardian { name, client }| NamedGuardian {
            name,
            client: client.with_early_responses(),
        };
        Self { first: early(self.first), others: self.others.into_iter().map(early).collect() }
    }

    /// Waits until the records of all guardians are durable.
    ///
    /// # Errors
    /// The name of the first guardian that fails, and its error: see [`GuardianClient::flush`].
    pub async fn flush(&self) -> Result<(), (&str, GuardianError)> {
        for (name, client) in self.clients() {
            client.flush().await.map_err(|error| (name, error))?;
        }
        Ok(())
    }

    /// Returns the names of the guardians, in the order in which they are asked.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.clients().map(|(name, _)| name)
    }

    /// Returns the clients with their names, in the order in which they are asked, for instance to ping
    /// each.
    pub fn clients(&self) -> impl Iterator<Item = (&str, &GuardianClient)> {
        let named = std::iter::once(&self.first).chain(&self.others);
        named.map(|named| (named.name.as_str(), &named.client))
    }

    /// Asks about one step. There is always a verdict.
    pub async fn ask(&self, question: &Request) -> ChainVerdict {
        self.ask_with(question, &HeaderMap::new()).await
    }

    /// Asks like [`Self::ask`], with headers for this question only, such as those of a trace.
    pub async fn ask_with(&self, question: &Request, headers: &HeaderMap) -> ChainVerdict {
        self.ask_and_apply(question, headers, |_| Ok(())).await
    }

    /// Asks like [`Self::ask_with`], for an agent that cannot apply every modification. `follow` applies a
    /// modification before the next guardian is asked, or returns the reason why it cannot. Then the
    /// modification is unusable ([`GuardianError::Modification`]), which is a denial with any fail mode.
    ///
    /// The next guardian is asked about the request as `follow` leaves it. So an agent can state again what
    /// depends on the changed parts.
    pub async fn ask_and_apply(
        &self,
        question: &Request,
        headers: &HeaderMap,
        mut follow: impl FnMut(&mut Request) -> Result<(), String>,
    ) -> ChainVerdict {
        let mut outcomes = Vec::new();
        let mut current: Option<Box<Request>> = None;
        for (name, client) in self.clients() {
            let asked = current.as_deref().unwrap_or(question);
            let mut outcome = client.ask_with(asked, headers.clone()).await;
            if let Verdict::Modify(modified) = &mut outcome.verdict
                && let Err(reason) = follow(modified)
            {
                let failure = GuardianError::Modification(reason);
                outcome = GuardianOutcome::from_failure(failure, FailMode::Closed);
            }
            let verdict = outcome.verdict.clone();
            outcomes.push((name.to_owned(), outcome));
            match verdict {
                Verdict::Allow => {}
                Verdict::Deny => return ChainVerdict { verdict: Verdict::Deny, outcomes },
                Verdict::Modify(modified) => current = Some(modified),
            }
        }
        let verdict = current.map_or(Verdict::Allow, Verdict::Modify);
        ChainVerdict { verdict, outcomes }
    }
}

impl ChainVerdict {
    /// Merges the verdict into one outcome, for callers that record one. A denial stays as it is. Otherwise
    /// the outcome has the messages of the guardians that changed the step, or that failed and let it pass.
    pub fn into_outcome(self) -> GuardianOutcome {
        let Self { verdict, mut outcomes } = self;
        if (outcomes.len() == 1 || verdict == Verdict::Deny)
            && let Some((_, outcome)) = outcomes.pop()
        {
            return GuardianOutcome { verdict, ..outcome };
        }
        let has_failed = |outcome: &GuardianOutcome| outcome.origin != VerdictSource::Guardian;
        let origin = outcomes.iter().map(|(_, outcome)| outcome).find(|o| has_failed(o));
        let origin = origin.map_or(VerdictSource::Guardian, |outcome| outcome.origin.clone());
        let is_relevant =
            |outcome: &GuardianOutcome| has_failed(outcome) || outcome.verdict != Verdict::Allow;
        let relevant: Vec<_> =
            outcomes.iter().filter(|(_, outcome)| is_relevant(outcome)).collect();
        // If none is relevant, all have allowed: the last one represents them.
        let relevant =
            if relevant.is_empty() { outcomes.last().into_iter().collect() } else { relevant };
        let messages: Vec<_> =
            relevant.iter().map(|(_, outcome)| outcome.message.as_str()).collect();
        let reasonings: Vec<_> =
            relevant.iter().filter_map(|(_, outcome)| outcome.reasoning.as_deref()).collect();
        let codes = relevant.iter().flat_map(|(_, outcome)| &outcome.reason_codes);
        let mut seen = BTreeSet::new();
        GuardianOutcome {
            verdict,
            message: messages.join(" "),
            reasoning: (!reasonings.is_empty()).then(|| reasonings.join(" ")),
            reason_codes: codes.filter(|code| seen.insert(code.as_str())).cloned().collect(),
            data: relevant.iter().find_map(|(_, outcome)| outcome.data.clone()),
            origin,
        }
    }
}
