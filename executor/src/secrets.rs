//! Masks secret values in everything that is recorded or reported.
//!
//! The steps of a run work with true values. Everything that goes to a journal, a guardian or an error is
//! masked here: a secret value in a text is replaced, in any encoding in which it is found, and the
//! guardian's changes to a masked value are applied to the true one.
//!
//! A value is recognized by its texts: strings and numbers of at least four characters. A shorter one would
//! be found everywhere; where it is used, the whole value is hidden instead.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use a2s::{Digest, HIDDEN};
use a2s_api::{DecisionRecord, EventKind, RunError, RunStarted};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};
use crate::request::{RawResponse, is_displayable};

mod credential_masking;
mod masked;
mod text_encodings;

pub(crate) use credential_masking::ADDRESS;
pub(crate) use masked::{HiddenPaths, Masked, MaskedInputs, join_pointer};

/// The minimum number of characters of a value that can be recognized again.
const MIN_CHARS: usize = 4;
/// The maximum total size of the secret values of one run, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// The secret values of one run. They are held in memory, and stored sealed with its events until it is
/// over.
#[derive(Default)]
pub(crate) struct RunSecrets {
    index: RwLock<SecretIndex>,
}

/// The secrets learned since they were last taken.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct NewSecrets {
    /// The key of digests; set when the first secret is learned.
    key: Option<[u8; 16]>,
    /// Secret texts.
    texts: BTreeSet<String>,
}

impl NewSecrets {
    /// Returns true when nothing was learned.
    pub(crate) fn is_empty(&self) -> bool {
        self.key.is_none() && self.texts.is_empty()
    }
}

#[derive(Default)]
struct SecretIndex {
    /// Random, and never revealed, so that reported data about a request cannot be used to guess a secret.
    key: [u8; 16],
    texts: BTreeSet<String>,
    bytes: usize,
    new_secrets: NewSecrets,
    /// True when there is any secret, including one that is too short to be recognized.
    has_any: bool,
    /// The credentials, in the spellings that responses may contain.
    credentials: BTreeSet<String>,
    credential_bytes: usize,
    credential_finder: Option<AhoCorasick>,
    /// The finder for all secret texts.
    finder: Option<AhoCorasick>,
}

impl fmt::Debug for RunSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl RunSecrets {
    /// Starts without secrets; `key` must not be known elsewhere.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self { index: RwLock::new(SecretIndex { key, ..SecretIndex::default() }) }
    }

    /// Treats `value` as a secret from now on.
    ///
    /// # Errors
    /// Returns [`ErrorKind::BudgetExceeded`] when there are more secrets than can be searched for.
    pub(crate) fn learn(&self, value: &Value) -> Result<(), Error> {
        let mut texts = BTreeSet::new();
        collect_texts(value, &mut texts);
        let mut known = self.write();
        if !known.has_any && !value.is_null() {
            known.has_any = true;
            known.new_secrets.key = Some(known.key);
        }
        texts.retain(|text| !known.texts.contains(text));
        known.new_secrets.texts.extend(texts.iter().cloned());
        known.learn(texts)
    }

    /// The secrets learned since the last call.
    pub(crate) fn take_new(&self) -> NewSecrets {
        // Most runs have nothing to hide.
        if self.read().new_secrets.is_empty() {
            return NewSecrets::default();
        }
        let mut known = self.write();
        std::mem::take(&mut known.new_secrets)
    }

    /// Adds the secrets that another process has learned.
    ///
    /// # Errors
    /// Returns [`ErrorKind::BudgetExceeded`] when there are more secrets than can be searched for.
    pub(crate) fn restore_secrets(&self, news: NewSecrets) -> Result<(), Error> {
        let NewSecrets { key, mut texts } = news;
        let mut known = self.write();
        if let Some(key) = key {
            known.key = key;
        }
        known.has_any = true;
        texts.retain(|text| !known.texts.contains(text));
        known.learn(texts)
    }

    /// Locks for reading. The guarded data is complete, even if a holder of the lock has panicked.
    fn read(&self) -> RwLockReadGuard<'_, SecretIndex> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SecretIndex> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true when there are no secrets.
    pub(crate) fn is_empty(&self) -> bool {
        let known = self.read();
        !known.has_any && known.credentials.is_empty()
    }

    /// Returns `text` without secrets.
    pub(crate) fn mask_text(&self, text: &str) -> String {
        let known = self.read();
        known
            .finder
            .as_ref()
            .map_or_else(|| text.to_owned(), |f| text_encodings::replace_found(f, text))
    }

    /// Returns `value` without secrets: in its texts, in the names of members, and as numbers.
    pub(crate) fn mask(&self, value: &Value) -> Value {
        let known = self.read();
        match &known.finder {
            Some(_) => known.mask(value),
            None => value.clone(),
        }
    }

    /// Returns a value from outside, with the form of it in which all secrets are masked.
    pub(crate) fn find_masked(&self, value: Value) -> Masked<Value> {
        if self.is_empty() {
            return value.into();
        }
        let shown = self.mask(&value);
        Masked::new(value, shown)
    }

    /// Returns a response as an error may quote it: without characters that a quotation does not show,
    /// because they could occur in the middle of a secret.
    pub(crate) fn mask_response(&self, response: &RawResponse) -> RawResponse {
        let mask = |bytes: &[u8]| {
            // A secret may have such characters of its own.
            let text = self.mask_text(&String::from_utf8_lossy(bytes));
            let text: String = text.chars().filter(|c| is_displayable(*c)).collect();
            self.mask_text(&text)
        };
        let mut masked = response.clone();
        masked.body = mask(&response.body).into();
        for value in masked.headers.values_mut() {
            let text = HeaderValue::try_from(mask(value.as_bytes()));
            *value = text.unwrap_or_else(|_| HeaderValue::from_static(HIDDEN));
        }
        masked
    }

    /// Returns an error without secrets.
    pub(crate) fn mask_error(&self, error: Error) -> Error {
        if self.is_empty() {
            return error;
        }
        Error {
            message: self.mask_text(&error.message),
            hint: self.mask_text(&error.hint),
            ..error
        }
    }

    /// Masks the secrets in an event. Names, ids, paths of steps and digests do not change.
    pub(crate) fn mask_event(&self, event: &mut EventKind) {
        if self.is_empty() {
            return;
        }
        match event {
            EventKind::RunStarted(started) => {
                let RunStarted { inputs, session, decisions, intent, trace, .. } = &mut **started;
                self.mask_members(inputs);
                decisions.iter_mut().for_each(|decision| self.mask_decision(decision));
                // A list with a masked part is not a list any more.
                if let Some(trace) = trace {
                    trace.tracestate.take_if(|state| self.mask_text(state) != *state);
                }
                *session = self.mask_text(session);
                if let Some(intent) = intent {
                    *intent = self.mask_text(intent);
                }
            }
            EventKind::Decided { decision, .. } => self.mask_decision(decision),
            EventKind::Requesting { url, .. } => *url = self.mask_text(url),
            EventKind::Retrying { reason, .. } | EventKind::StepSkipped { reason, .. } => {
                *reason = self.mask_text(reason);
            }
            EventKind::TokenRequested { failure, .. }
            | EventKind::SessionOpened { failure, .. } => {
                if let Some(failure) = failure {
                    failure.message = self.mask_text(&failure.message);
                }
            }
            EventKind::Warned { warning, .. } => {
                warning.message = self.mask_text(&warning.message);
            }
            EventKind::StepFinished { outputs, .. } | EventKind::StepResolved { outputs, .. } => {
                self.mask_members(outputs);
            }
            EventKind::StepFailed { error, .. } | EventKind::RunWaiting { error } => {
                self.mask_run_error(error);
            }
            EventKind::RunFinished { output, error, .. } => {
                if let Some(output) = output {
                    *output = self.mask(output);
                }
                if let Some(error) = error {
                    self.mask_run_error(error);
                }
            }
            EventKind::RunQueued {}
            | EventKind::RunResumed {}
            | EventKind::StepStarted { .. }
            | EventKind::BranchTaken { .. }
            | EventKind::ApprovalRequested { .. }
            | EventKind::ItemsTaken { .. }
            | EventKind::Throttled { .. }
            // Its address is made of masked inputs.
            | EventKind::Sending { .. }
            | EventKind::Received { .. }
            | EventKind::ErrorHandled { .. } => {}
        }
    }

    /// A digest from which its input cannot be guessed: it depends on the key of the run as soon as there
    /// are secrets. Credentials do not count: no digest is computed from them.
    pub(crate) fn blind_digest(&self, digest: Digest) -> Digest {
        let known = self.read();
        if !known.has_any {
            return digest;
        }
        let mut text = known.key.to_vec();
        text.extend_from_slice(digest.to_string().as_bytes());
        Digest::of_bytes(&text)
    }

    fn mask_members(&self, members: &mut Map<String, Value>) {
        members.values_mut().for_each(|value| *value = self.mask(value));
    }

    /// Masks the secrets in a decision.
    pub(crate) fn mask_decision(&self, decision: &mut DecisionRecord) {
        decision.message = self.mask_text(&decision.message).into();
        decision.reason_codes.iter_mut().for_each(|code| *code = self.mask_text(code));
        for change in &mut decision.changes {
            change.name = self.mask_text(&change.name);
            change.from = self.mask(&change.from);
            change.to = self.mask(&change.to);
        }
    }

    fn mask_run_error(&self, error: &mut RunError) {
        error.message = self.mask_text(&error.message);
        error.hint = self.mask_text(&error.hint);
    }
}

impl SecretIndex {
    /// Adds these texts to the search.
    fn learn(&mut self, texts: BTreeSet<String>) -> Result<(), Error> {
        if texts.is_empty() {
            return Ok(());
        }
        self.bytes += texts.iter().map(String::len).sum::<usize>();
        if self.bytes > MAX_BYTES {
            let message =
                format!("the secrets of the run have more than {MAX_BYTES} bytes in total");
            return Err(Error::new(ErrorKind::BudgetExceeded, message));
        }
        self.texts.extend(texts);
        self.rebuild()
    }

    fn mask(&self, value: &Value) -> Value {
        let Some(finder) = &self.finder else { return value.clone() };
        mask_with(finder, &self.texts, value)
    }

    fn rebuild(&mut self) -> Result<(), Error> {
        let all = self.texts.union(&self.credentials).cloned().collect();
        self.finder = Some(build(&all)?);
        Ok(())
    }
}

fn build(texts: &BTreeSet<String>) -> Result<AhoCorasick, Error> {
    let misread = texts.iter().flat_map(|text| text_encodings::misread_forms(text));
    let texts: BTreeSet<String> = misread.chain(texts.iter().cloned()).collect();
    let mut builder = AhoCorasick::builder();
    // Small, and quick to build, however long a secret is.
    builder.kind(Some(AhoCorasickKind::NoncontiguousNFA));
    // The longest first: what contains another secret is replaced as a whole.
    let finder = builder.match_kind(MatchKind::LeftmostLongest).build(texts);
    finder.map_err(|error| {
        Error::new(
            ErrorKind::Internal,
            format!("the search for secrets could not be prepared: {error}"),
        )
    })
}

/// Returns `value` without everything that `finder` finds, and without numbers that are one of `texts`.
fn mask_with(finder: &AhoCorasick, texts: &BTreeSet<String>, value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Number(number) if texts.contains(&number.to_string()) => secret_placeholder(),
        Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(text_encodings::replace_found(finder, text)),
        Value::Array(items) => items.iter().map(|item| mask_with(finder, texts, item)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| {
                (text_encodings::replace_found(finder, name), mask_with(finder, texts, member))
            })
            .collect::<Map<_, _>>()
            .into(),
    }
}

/// The placeholder for a value that is secret as a whole.
pub(crate) fn secret_placeholder() -> Value {
    Value::String(HIDDEN.to_owned())
}

/// Returns true when every part of `value` that carries information is recognized wherever it appears.
pub(crate) fn is_maskable(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => false,
        Value::Number(number) => number.to_string().len() >= MIN_CHARS,
        Value::String(text) => text.is_empty() || text.chars().count() >= MIN_CHARS,
        Value::Array(items) => items.iter().all(is_maskable),
        Value::Object(members) => members.values().all(is_maskable),
    }
}

fn collect_texts(value: &Value, texts: &mut BTreeSet<String>) {
    let mut add = |text: &str| {
        if text.chars().count() >= MIN_CHARS {
            texts.insert(text.to_owned());
        }
    };
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => add(&number.to_string()),
        Value::String(text) => add(text),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(members) => members.values().for_each(|member| collect_texts(member, texts)),
    }
}

#[cfg(test)]
mod tests;
