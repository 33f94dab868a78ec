//! The control of a step: `for_each`, `retry`, `timeout`, `on_error`, `catch`.

use std::time::Duration;

use super::StepDecoder;
use crate::diagnostic::Diagnostic;
use crate::document::{BackoffKind, ForEach, OnError, RetryPolicy, StepControl};
use crate::error_code;
use crate::field_reader::{DiagnosticSink, DocumentField, ObjectReader, shorten_for_message};
use crate::template::{Template, is_name};
use crate::tree::NodeValue;

/// The maximum length of a list that a step runs over, and the limit when the step does not state one.
const MAX_ITEMS: u64 = 1_000;
const DEFAULT_ITEMS: usize = 100;
/// The maximum number of steps or iterations that run at the same time.
pub(super) const MAX_CONCURRENCY: u64 = 64;
/// The maximum number of attempts of a request.
const MAX_ATTEMPTS: u64 = 10;
/// The maximum duration that a document may state: one day.
const MAX_DURATION: Duration = Duration::from_secs(86_400);

impl<'n> StepDecoder<'n, '_> {
    /// Reads the control fields of a step, next to its action.
    pub(super) fn decode_control(
        &mut self,
        fields: &mut ObjectReader<'n>,
        depth: usize,
    ) -> StepControl {
        let for_each = fields.take_since_1_1("for_each", self.findings);
        let for_each = for_each.and_then(|field| decode_for_each(&field, self.findings));
        let timeout = fields.take_since_1_1("timeout", self.findings);
        let timeout = timeout.and_then(|field| decode_duration(&field, self.findings));
        let on_error = fields.take_since_1_1("on_error", self.findings);
        let catch = fields.take_since_1_1("catch", self.findings);
        if let (Some(on_error), Some(catch)) = (&on_error, &catch) {
            let message = "a step must not have both `on_error` and `catch`".to_owned();
            let both = Diagnostic::error(error_code::BAD_VALUE, on_error.at_key(), message)
                .with_hint(
                    "Keep `catch` to handle a failure, or `on_error: continue` to ignore it.",
                )
                .with_related(catch.key, "`catch`");
            self.findings.diagnostics.push(both);
        }
        let on_error = on_error.and_then(|field| {
            let known = [("stop", OnErrorKeyword::Stop), ("continue", OnErrorKeyword::Continue)];
            field.word("value of `on_error`", &known, self.findings)
        });
        let on_error = match (catch, on_error) {
            (Some(catch), _) => self.decode_catch(&catch, depth),
            (None, Some(OnErrorKeyword::Continue)) => OnError::Continue,
            (None, Some(OnErrorKeyword::Stop) | None) => OnError::Stop,
        };
        StepControl { for_each, retry: None, timeout, on_error }
    }

    fn decode_catch(&mut self, field: &DocumentField<'n>, depth: usize) -> OnError {
        let Some(mut fields) = ObjectReader::open(field, "`catch`", self.findings) else {
            return OnError::Stop;
        };
        let name = fields.take("as").and_then(|field| decode_variable_name(&field, self.findings));
        let steps = self.require_steps(&mut fields, depth);
        fields.finish(self.findings);
        OnError::Catch { name: name.unwrap_or_else(|| "error".to_owned()), steps }
    }
}

/// Reads `retry`, which only tasks have.
pub(super) fn decode_retry(
    fields: &mut ObjectReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<RetryPolicy> {
    let field = fields.take_since_1_1("retry", findings)?;
    let mut fields = ObjectReader::open(&field, "`retry`", findings)?;
    let attempts = fields.require("max_attempts", findings);
    let attempts = attempts
        .and_then(|field| field.integer("the number of attempts", 1..=MAX_ATTEMPTS, findings));
    let mut delay = |key| {
        let field = fields.take(key)?;
        Some((decode_duration(&field, findings)?, field))
    };
    let (initial, longest) = (delay("initial_delay"), delay("max_delay"));
    if let (Some((initial, _)), Some((longest, field))) = (&initial, &longest)
        && longest < initial
    {
        let message = "`max_delay` is shorter than `initial_delay`";
        let hint = "Make `max_delay` at least as long as `initial_delay`.";
        findings.error_with_hint(error_code::BAD_VALUE, field.at_value(), message, hint);
    }
    let backoff = fields.take("backoff").and_then(|field| {
        let known =
            [("exponential", BackoffKind::Exponential), ("constant", BackoffKind::Constant)];
        field.word("kind of backoff", &known, findings)
    });
    let on_status = fields.take("on_status");
    let on_status = on_status.map_or_else(Vec::new, |field| {
        let items = field.items(findings);
        let statuses = items.iter().take(200);
        let status =
            statuses.filter_map(|item| item.integer("a status to retry on", 400..=599, findings));
        status.filter_map(|status| u16::try_from(status).ok()).collect()
    });
    fields.finish(findings);
    Some(RetryPolicy {
        max_attempts: attempts.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        initial_delay: initial.map(|(length, _)| length),
        max_delay: longest.map(|(length, _)| length),
        backoff: backoff.unwrap_or_default(),
        on_status,
    })
}

/// Reads `max_concurrency` of steps or iterations that run at the same time.
pub(super) fn decode_concurrency(
    fields: &mut ObjectReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<usize> {
    let field = fields.take_since_1_1("max_concurrency", findings)?;
    decode_count(&field, "the number of steps at the same time", MAX_CONCURRENCY, findings)
}

/// Reads `for_each: "${list}"`, or a mapping with `in`.
fn decode_for_each(field: &DocumentField<'_>, findings: &mut DiagnosticSink) -> Option<ForEach> {
    if !matches!(field.node.kind, NodeValue::Object(_)) {
        let items = decode_list(field, findings);
        return Some(ForEach {
            items,
            name: "item".to_owned(),
            max_items: DEFAULT_ITEMS,
            max_concurrency: 1,
        });
    }
    let mut fields = ObjectReader::open(field, "`for_each`", findings)?;
    let items = fields.require("in", findings).map(|field| decode_list(&field, findings));
    let name = fields.take("as").and_then(|field| decode_variable_name(&field, findings));
    let max_items = fields
        .take("max_items")
        .and_then(|field| decode_count(&field, "the number of items", MAX_ITEMS, findings));
    let max_concurrency = fields.take("max_concurrency").and_then(|field| {
        let what = "the number of iterations at the same time";
        decode_count(&field, what, MAX_CONCURRENCY, findings)
    });
    fields.finish(findings);
    Some(ForEach {
        items: items?,
        name: name.unwrap_or_else(|| "item".to_owned()),
        max_items: max_items.unwrap_or(DEFAULT_ITEMS),
        max_concurrency: max_concurrency.unwrap_or(1),
    })
}

/// Reads a template that may produce a list: one reference, or a list.
fn decode_list(field: &DocumentField<'_>, findings: &mut DiagnosticSink) -> Template {
    let template = Template::decode(field.node, &field.path, findings);
    if !matches!(template, Template::Reference(_) | Template::Array(_)) {
        let message = format!("this is {}; `for_each` requires a list", field.node.describe());
        let hint =
            "Write a list, or `\"${name}\"` with the name of a variable that contains a list.";
        findings.error_with_hint(error_code::WRONG_TYPE, field.at_value(), message, hint);
    }
    template
}

fn decode_variable_name(
    field: &DocumentField<'_>,
    findings: &mut DiagnosticSink,
) -> Option<String> {
    let text = field.string(findings)?;
    if is_name(text) {
        return Some(text.to_owned());
    }
    let message = format!("`{}` is not a valid name of a variable", shorten_for_message(text));
    let hint = "Start with a letter and use only letters, digits, `_` and `-`.";
    findings.error_with_hint(error_code::BAD_NAME, field.at_value(), message, hint);
    None
}

#[derive(Clone, Copy)]
enum OnErrorKeyword {
    Stop,
    Continue,
}

fn decode_count(
    field: &DocumentField<'_>,
    what: &str,
    most: u64,
    findings: &mut DiagnosticSink,
) -> Option<usize> {
    field.integer(what, 1..=most, findings).and_then(|number| usize::try_from(number).ok())
}

/// `500ms`, `10s`, `2m`.
fn decode_duration(field: &DocumentField<'_>, findings: &mut DiagnosticSink) -> Option<Duration> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000)];
    let (message, hint) = match &field.node.kind {
        NodeValue::String(text) => {
            let read = units.iter().find_map(|(unit, length)| {
                let digits = text.strip_suffix(unit)?;
                let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                let number: u64 = digits.parse().ok().filter(|_| plain)?;
                number.checked_mul(*length).map(Duration::from_millis)
            });
            match read {
                Some(length) if !length.is_zero() && length <= MAX_DURATION => return Some(length),
                _ => (
                    format!("`{}` is not a duration", shorten_for_message(text)),
                    "Write digits and `ms`, `s` or `m`, such as `10s`; the range is `1ms` to `1440m`."
                        .to_owned(),
                ),
            }
        }
        NodeValue::Number(number) => (
            format!("{number} has no unit"),
            format!("Write `{number}s`, `{number}ms` or `{number}m`."),
        ),
        _ => (
            format!("this is {}; a duration is required here", field.node.describe()),
            "Write digits and a unit, such as `10s`.".to_owned(),
        ),
    };
    findings.error_with_hint(error_code::BAD_VALUE, field.at_value(), message, hint);
    None
}
