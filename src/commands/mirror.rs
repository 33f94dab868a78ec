//! `a2s mirror`: copy another registry, and follow it.
//!
//! The other registry is not trusted: it lists its changes, and every document is compiled, hashed and
//! compared with this list, before our registry compiles and links it again. A repeated change has no
//! effect. So the command can store its position after each change, and an interruption costs one
//! repetition.

mod report;
mod state;

use std::path::Path;
use std::time::Duration;

use a2s_api::{
    ChangePage, DeprecateRequest, MirrorList, MirroredRegistry, RegistryAction, RegistryChange,
};
use agent::{ClientError, RemoteRegistry};

use self::report::{ChangeOutcome, MirrorReport};
use self::state::MirrorState;
use crate::cli::MirrorArgs;
use crate::cli_error::{BAD_ANSWER, CliError, CliExitCode, NOT_REACHABLE};
use crate::client::{ServiceClient, TokenTransport, client};
use crate::output::{CommandOutput, NAME, sanitize};
use crate::serve::stop_signal;
use crate::settings::read_token;

/// The number of changes in one request.
const PAGE_SIZE: u32 = 200;
/// The maximum size of a response from the other registry, in bytes: a document has at most 1 MiB, a page
/// less.
const MAX_RESPONSE_BYTES: usize = 2 << 20;
/// The maximum length of a feed name, in bytes.
const MAX_FEED_NAME: usize = 256;
/// The longest time for one response of the other registry, however slowly it comes.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
/// The pause before a registry that does not answer is asked again: the first one, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The registry's code for a token without the required scope.
const TOKEN_LACKS_SCOPE: &str = "A2S209";
/// The registry's code for a mirror with a token that owns the names of others.
const TOKEN_OWNS_NAMES: &str = "A2S217";
/// The registry's code for a stored document that was changed from outside.
const DOCUMENT_DAMAGED: &str = "A2S222";

/// Shows the registries that this one has copies of.
async fn list(client: &ServiceClient, output: &mut CommandOutput) -> Result<(), CliError> {
    let list: MirrorList = client.get(&["v1", "mirrors"]).await?;
    if output.is_json() {
        output.json_line(&list);
        return Ok(());
    }
    if list.mirrors.is_empty() {
        output.line(format_args!("no copies of other registries"));
    }
    for MirroredRegistry { source, capabilities, versions, latest_at } in &list.mirrors {
        output.line(format_args!(
            "{NAME}{}{NAME:#}  {capabilities} capabilities, {versions} versions, the last of {latest_at:.0}",
            sanitize(source)
        ));
    }
    Ok(())
}

pub(super) async fn mirror(
    arguments: MirrorArgs,
    data: &Path,
    target: &ServiceClient,
    transport: TokenTransport,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let Some(address) = &arguments.source else { return list(target, output).await };
    let token = arguments.source_token_file.as_deref().map(read_token).transpose()?;
    if token.is_some() {
        transport.check(address, "the token of --source-token-file")?;
    }
    let source = client(address, None, None)?.with_token(token).with_max_bytes(MAX_RESPONSE_BYTES);
    if source.url() == target.url() {
        return Err(CliError::invalid_argument("a registry cannot mirror itself")
            .with_hint("Use --url for the registry that receives the copies."));
    }
    let origin = source.url().clone();
    let mut state = MirrorState::open(data, source.url(), target.url(), arguments.again)?;
    let mut mirror = RegistryMirror {
        source: RemoteRegistry::new(source),
        target: RemoteRegistry::new(target.clone()).with_mirror_source(&origin),
        report: MirrorReport::new(arguments.once, output),
        remaining: arguments.most,
    };
    let ended = if arguments.once {
        mirror.catch_up(&mut state).await.map_err(CliError::from)
    } else {
        tokio::select! {
            ended = mirror.follow(&mut state) => ended,
            () = stop_signal() => Ok(()),
        }
    };
    let RegistryMirror { report, remaining: left, .. } = mirror;
    let refused = report.finish(state.next());
    ended?;
    if left == 0 {
        let message = format!("stopped after {} changes; there may be more", arguments.most);
        return Err(CliError::new(CliExitCode::Bad, BAD_ANSWER, message)
            .with_hint("Start the command again to continue, or raise --most."));
    }
    if refused && arguments.once {
        Err(CliError::already_printed(CliExitCode::Bad))
    } else {
        Ok(())
    }
}

/// The reason why the mirror cannot continue.
enum MirrorStop {
    /// A registry does not respond; a retry may succeed.
    Unreachable(String),
    /// A retry cannot succeed.
    Fatal(CliError),
}

impl From<MirrorStop> for CliError {
    fn from(stop: MirrorStop) -> Self {
        match stop {
            MirrorStop::Unreachable(message) => {
                Self::new(CliExitCode::Unreachable, NOT_REACHABLE, message)
            }
            MirrorStop::Fatal(failure) => failure,
        }
    }
}

impl From<ClientError> for MirrorStop {
    fn from(error: ClientError) -> Self {
        let is_away = match &error {
            ClientError::Unreachable { .. } => true,
            ClientError::Refused { problem } => problem.status >= 500 || problem.status == 429,
            ClientError::BadResponse { .. } => false,
        };
        if is_away { Self::Unreachable(error.to_string()) } else { Self::Fatal(error.into()) }
    }
}

struct RegistryMirror<'o> {
    source: RemoteRegistry,
    target: RemoteRegistry,
    report: MirrorReport<'o>,
    /// The number of changes that may still be made.
    remaining: u64,
}

impl RegistryMirror<'_> {
    /// Copies all existing changes and then each new one, until the maximum number of changes is reached.
    async fn follow(&mut self, state: &mut MirrorState) -> Result<(), CliError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let before = state.next();
            let ended = match self.catch_up(state).await {
                Ok(()) => self.listen(state).await,
                Err(stop) => Err(stop),
            };
            match ended {
                Ok(()) if self.remaining == 0 => return Ok(()),
                Ok(()) => {}
                Err(MirrorStop::Unreachable(why)) => self.report.print_waiting(&why, pause),
                Err(MirrorStop::Fatal(failure)) => return Err(failure),
            }
            pause = if before < state.next() { FIRST_PAUSE } else { pause };
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Copies page by page until all existing changes are copied, or until the maximum number of changes is
    /// reached.
    async fn catch_up(&mut self, state: &mut MirrorState) -> Result<(), MirrorStop> {
        let mut is_new = false;
        loop {
            let page = with_timeout(self.source.changes(state.next(), PAGE_SIZE)).await??;
            let ChangePage { feed, changes, next: _, has_more: more } = page;
            if !state.is_of(&feed) {
                if state.next() > 0 {
                    self.report.print_restart();
                }
                if std::mem::replace(&mut is_new, true) || feed.len() > MAX_FEED_NAME {
                    return Err(invalid_response("returned an invalid name of its feed"));
                }
                state.restart(&feed)?;
                continue;
            }
            if changes.len() > PAGE_SIZE as usize || (more && changes.is_empty()) {
                return Err(invalid_response("returned an invalid page of changes"));
            }
            for change in &changes {
                self.apply_change(change, state).await?;
                if self.remaining == 0 {
                    return Ok(());
                }
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Applies changes as they happen, until the stream ends.
    async fn listen(&mut self, state: &mut MirrorState) -> Result<(), MirrorStop> {
        let mut stream = self.source.stream_changes(state.next()).await?;
        while self.remaining > 0 {
            match stream.next().await? {
                Some(change) => self.apply_change(&change, state).await?,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Applies one change to this registry, and records its number.
    async fn apply_change(
        &mut self,
        change: &RegistryChange,
        state: &mut MirrorState,
    ) -> Result<(), MirrorStop> {
        if change.seq <= state.next() {
            return Err(invalid_response("returned changes in the wrong order"));
        }
        let outcome = self.send_change(change).await?;
        state.advance(change.seq)?;
        self.remaining = self.remaining.saturating_sub(1);
        self.report.add_change(change, &outcome);
        Ok(())
    }

    async fn send_change(&self, change: &RegistryChange) -> Result<ChangeOutcome, MirrorStop> {
        let RegistryChange { name, version, checksum, .. } = change;
        let checksum = Some(*checksum);
        let done = match change.action {
            RegistryAction::Publish => return self.copy_document(change).await,
            RegistryAction::Yank => self.target.yank(name, version, true, checksum).await,
            RegistryAction::Unyank => self.target.yank(name, version, false, checksum).await,
            RegistryAction::Deprecate | RegistryAction::Undeprecate => {
                let undo = change.action == RegistryAction::Undeprecate;
                let words = change.deprecated.clone().unwrap_or_default();
                let (message, successor) = (words.message, words.successor);
                let request = DeprecateRequest { message, successor, undo };
                self.target.deprecate(name, version, &request, checksum).await
            }
            other => {
                let what = format!(
                    "returned the change `{}`, which is not a change of a version",
                    other.as_str()
                );
                return Err(invalid_response(&what));
            }
        };
        to_outcome(done.map(|answer| answer.changed))
    }

    /// Copies one document, if it is the one that the other registry listed.
    async fn copy_document(&self, change: &RegistryChange) -> Result<ChangeOutcome, MirrorStop> {
        let RegistryChange { name, version, checksum, .. } = change;
        let text = version.to_string();
        let (document, bytes) =
            match with_timeout(self.source.get_document(name, &text, Some(*checksum))).await? {
                Ok(got) => got,
                // What this one document is like says nothing of the next.
                Err(error @ ClientError::BadResponse { .. }) => {
                    return Ok(ChangeOutcome::Refused(error.to_string()));
                }
                Err(ClientError::Refused { problem }) if problem.code == DOCUMENT_DAMAGED => {
                    return Ok(ChangeOutcome::Refused(problem.detail));
                }
                Err(error) => return to_outcome(Err(error)),
            };
        let stated = &document.capability().version;
        if stated != version {
            return Ok(ChangeOutcome::Refused(format!(
                "the received document has the version {stated}"
            )));
        }
        to_outcome(self.target.publish(bytes).await.map(|answer| answer.created))
    }
}

/// Converts the response of our registry to a change into an outcome.
fn to_outcome(done: Result<bool, ClientError>) -> Result<ChangeOutcome, MirrorStop> {
    match done {
        Ok(true) => Ok(ChangeOutcome::Made),
        Ok(false) => Ok(ChangeOutcome::Same),
        Err(ClientError::Refused { problem })
            if (400..500).contains(&problem.status)
                && ![401, 429].contains(&problem.status)
                && ![TOKEN_LACKS_SCOPE, TOKEN_OWNS_NAMES].contains(&problem.code.as_str()) =>
        {
            let found = problem.diagnostics.iter().find(|found| found.is_error());
            let why = found.map_or_else(String::new, |found| format!(": {}", found.message));
            Ok(ChangeOutcome::Refused(format!("{}{why}", problem.detail)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits for a response, at most [`RESPONSE_TIMEOUT`].
async fn with_timeout<T>(answer: impl Future<Output = T>) -> Result<T, MirrorStop> {
    let late = |_| {
        MirrorStop::Unreachable(format!(
            "no complete response within {} s",
            RESPONSE_TIMEOUT.as_secs()
        ))
    };
    tokio::time::timeout(RESPONSE_TIMEOUT, answer).await.map_err(late)
}

fn invalid_response(what: &str) -> MirrorStop {
    let message = format!("the other registry {what}");
    MirrorStop::Fatal(CliError::new(CliExitCode::Bad, BAD_ANSWER, message))
}

impl From<CliError> for MirrorStop {
    fn from(failure: CliError) -> Self {
        Self::Fatal(failure)
    }
}
