//! `a2s mirror`: copy another registry, and follow it.
//!
//! The other registry is not trusted: it says what there is, and every document is compiled, hashed
//! and compared with what was said, before ours compiles and links it again. Doing a change twice
//! changes nothing, so how far the copy is can be written down after each of them, and whatever ends
//! the command costs one repetition.

mod report;
mod state;

use std::path::Path;
use std::time::Duration;

use a2s::api::{Action, ChangePage, DeprecateRequest, RegistryChange};
use agent::{ClientError, Registry};

use self::report::{Outcome, Report};
use self::state::State;
use crate::cli::MirrorArgs;
use crate::cli_error::{BAD_ANSWER, Exit, Failure, NOT_REACHABLE};
use crate::client::{Client, TokenTransport, client};
use crate::output::Output;
use crate::serve::{read_token, stop_signal};

/// Changes that are asked for at a time.
const PAGE: u32 = 200;
/// The largest answer of the other registry, in bytes: a document has 1 MiB at most, a page less.
const MAX_ANSWER: usize = 2 << 20;
/// The longest name of a feed, in bytes.
const LONGEST_FEED: usize = 256;
/// How long one answer of the other registry may take, however slowly it comes.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long to wait for a registry that does not answer: the first time, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// What a registry says to a token that does not open what is asked for.
const SHUT: &str = "A2S209";
/// What a registry says to a mirror with a token that owns the names of others.
const PRIVILEGED: &str = "A2S217";
/// What a registry says of a document that was changed behind its back.
const DAMAGED: &str = "A2S222";

pub(super) async fn mirror(
    arguments: MirrorArgs,
    data: &Path,
    target: &Client,
    transport: TokenTransport,
    output: &mut Output,
) -> Result<(), Failure> {
    let token = arguments.source_token_file.as_deref().map(read_token).transpose()?;
    if token.is_some() {
        transport.check(&arguments.source, "the token of --source-token-file")?;
    }
    let source = client(&arguments.source, None, None)?.with_token(token).up_to(MAX_ANSWER);
    if source.url() == target.url() {
        return Err(Failure::argument("a registry is no mirror of itself")
            .with_hint("--url names the registry that is copied to."));
    }
    let origin = source.url().clone();
    let mut state = State::open(data, source.url(), target.url(), arguments.again)?;
    let mut mirror = Mirror {
        source: Registry::new(source),
        target: Registry::new(target.clone()).mirroring(&origin),
        report: Report::new(arguments.once, output),
        left: arguments.most,
    };
    let ended = if arguments.once {
        mirror.catch_up(&mut state).await.map_err(Failure::from)
    } else {
        tokio::select! {
            ended = mirror.follow(&mut state) => ended,
            () = stop_signal() => Ok(()),
        }
    };
    let Mirror { report, left, .. } = mirror;
    let refused = report.finish(state.next());
    ended?;
    if left == 0 {
        let message = format!("stopped after {} changes, and there may be more", arguments.most);
        return Err(Failure::new(Exit::Bad, BAD_ANSWER, message)
            .with_hint("Start it again to go on, or raise --most."));
    }
    if refused && arguments.once { Err(Failure::told(Exit::Bad)) } else { Ok(()) }
}

/// Why it cannot go on.
enum Stop {
    /// A registry does not answer; it may later.
    Away(String),
    /// It never will.
    Ended(Failure),
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Away(message) => Self::new(Exit::Unreachable, NOT_REACHABLE, message),
            Stop::Ended(failure) => failure,
        }
    }
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Self {
        let is_away = match &error {
            ClientError::Unreachable { .. } => true,
            ClientError::Refused { problem } => problem.status >= 500 || problem.status == 429,
            ClientError::BadAnswer { .. } => false,
        };
        if is_away { Self::Away(error.to_string()) } else { Self::Ended(error.into()) }
    }
}

struct Mirror<'o> {
    source: Registry,
    target: Registry,
    report: Report<'o>,
    /// How many changes may still be made.
    left: u64,
}

impl Mirror<'_> {
    /// Copies everything that there is, and then whatever comes, until it may make no more changes.
    async fn follow(&mut self, state: &mut State) -> Result<(), Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            let before = state.next();
            let ended = match self.catch_up(state).await {
                Ok(()) => self.listen(state).await,
                Err(stop) => Err(stop),
            };
            match ended {
                Ok(()) if self.left == 0 => return Ok(()),
                Ok(()) => {}
                Err(Stop::Away(why)) => self.report.waits(&why, pause),
                Err(Stop::Ended(failure)) => return Err(failure),
            }
            pause = if before < state.next() { FIRST_PAUSE } else { pause };
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Copies page by page until there is nothing more, or no more may be made.
    async fn catch_up(&mut self, state: &mut State) -> Result<(), Stop> {
        let mut is_new = false;
        loop {
            let page = in_time(self.source.changes(state.next(), PAGE)).await??;
            let ChangePage { feed, changes, next: _, has_more: more } = page;
            if !state.is_of(&feed) {
                if state.next() > 0 {
                    self.report.starts_over();
                }
                if std::mem::replace(&mut is_new, true) || feed.len() > LONGEST_FEED {
                    return Err(nonsense("gives its feed a name that no registry gives"));
                }
                state.restart(&feed)?;
                continue;
            }
            if changes.len() > PAGE as usize || (more && changes.is_empty()) {
                return Err(nonsense("gave a page of changes that no registry gives"));
            }
            for change in &changes {
                self.take(change, state).await?;
                if self.left == 0 {
                    return Ok(());
                }
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Takes changes as they happen, until the stream ends.
    async fn listen(&mut self, state: &mut State) -> Result<(), Stop> {
        let mut stream = self.source.follow(state.next()).await?;
        while self.left > 0 {
            match stream.next().await? {
                Some(change) => self.take(&change, state).await?,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Makes one change here, and writes down that it was made.
    async fn take(&mut self, change: &RegistryChange, state: &mut State) -> Result<(), Stop> {
        if change.seq <= state.next() {
            return Err(nonsense("numbers its changes backwards"));
        }
        let outcome = self.apply(change).await?;
        state.advance(change.seq)?;
        self.left = self.left.saturating_sub(1);
        self.report.tell(change, &outcome);
        Ok(())
    }

    async fn apply(&self, change: &RegistryChange) -> Result<Outcome, Stop> {
        let RegistryChange { name, version, checksum, .. } = change;
        let checksum = Some(*checksum);
        let done = match change.action {
            Action::Publish => return self.copy(change).await,
            Action::Yank => self.target.yank(name, version, true, checksum).await,
            Action::Unyank => self.target.yank(name, version, false, checksum).await,
            Action::Deprecate | Action::Undeprecate => {
                let undo = change.action == Action::Undeprecate;
                let words = change.deprecated.clone().unwrap_or_default();
                let (message, successor) = (words.message, words.successor);
                let request = DeprecateRequest { message, successor, undo };
                self.target.deprecate(name, version, &request, checksum).await
            }
            other => {
                let what =
                    format!("tells of `{}`, which is no change of a version", other.as_str());
                return Err(nonsense(&what));
            }
        };
        judge(done.map(|answer| answer.changed))
    }

    /// Copies one document, if it is what the other registry said.
    async fn copy(&self, change: &RegistryChange) -> Result<Outcome, Stop> {
        let RegistryChange { name, version, checksum, .. } = change;
        let text = version.to_string();
        let (document, bytes) =
            match in_time(self.source.document(name, &text, Some(*checksum))).await? {
                Ok(got) => got,
                // What this one document is like says nothing of the next.
                Err(error @ ClientError::BadAnswer { .. }) => {
                    return Ok(Outcome::Refused(error.to_string()));
                }
                Err(ClientError::Refused { problem }) if problem.code == DAMAGED => {
                    return Ok(Outcome::Refused(problem.detail));
                }
                Err(error) => return judge(Err(error)),
            };
        let told = &document.capability().version;
        if told != version {
            return Ok(Outcome::Refused(format!("what came is version {told}")));
        }
        judge(self.target.publish(bytes).await.map(|answer| answer.created))
    }
}

/// What our registry has made of a change.
fn judge(done: Result<bool, ClientError>) -> Result<Outcome, Stop> {
    match done {
        Ok(true) => Ok(Outcome::Made),
        Ok(false) => Ok(Outcome::Same),
        Err(ClientError::Refused { problem })
            if (400..500).contains(&problem.status)
                && ![401, 429].contains(&problem.status)
                && ![SHUT, PRIVILEGED].contains(&problem.code.as_str()) =>
        {
            let found = problem.diagnostics.iter().find(|found| found.is_error());
            let why = found.map_or_else(String::new, |found| format!(": {}", found.message));
            Ok(Outcome::Refused(format!("{}{why}", problem.detail)))
        }
        Err(error) => Err(error.into()),
    }
}

/// An answer, however slowly the other registry sends it.
async fn in_time<T>(answer: impl Future<Output = T>) -> Result<T, Stop> {
    let late = |_| Stop::Away(format!("no whole answer within {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)
}

fn nonsense(what: &str) -> Stop {
    let message = format!("the other registry {what}");
    Stop::Ended(Failure::new(Exit::Bad, BAD_ANSWER, message))
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Ended(failure)
    }
}
