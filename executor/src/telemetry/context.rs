//! W3C Trace Context (level 1): reading it, and writing that of a run. Pure.

use std::fmt;

use a2s_api::TraceContext;
use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The maximum length of a `tracestate` that is passed on, in bytes; every service has to pass on this much
/// (section 3.3.1.5).
const MAX_STATE: usize = 512;
/// The flag for a recorded trace.
const SAMPLED: u8 = 1;

/// The id of a trace: never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TraceId(pub(super) [u8; 16]);

/// The id of a span in a trace: never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpanId(pub(super) [u8; 8]);

/// The trace that a run is in, and the ids of its spans there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunTrace {
    run: Uuid,
    pub(super) trace: TraceId,
    /// The caller's span.
    pub(super) parent: Option<SpanId>,
    pub(super) sampled: bool,
    pub(super) state: Option<String>,
}

impl RunTrace {
    /// The trace of a run: the caller's, or else one of its own, with the id of the run. `exported` is true
    /// when spans of traces without a caller are recorded.
    pub(crate) fn from_caller(run: Uuid, caller: Option<&TraceContext>, exported: bool) -> Self {
        match caller.and_then(|caller| Some((parse_parent(&caller.traceparent)?, caller))) {
            Some(((trace, parent, flags), caller)) => Self {
                run,
                trace,
                parent: Some(parent),
                sampled: flags & SAMPLED != 0,
                state: caller.tracestate.clone(),
            },
            None => Self {
                run,
                trace: TraceId(run.into_bytes()),
                parent: None,
                sampled: exported,
                state: None,
            },
        }
    }

    /// Returns the span of the run itself.
    pub(crate) fn root(&self) -> SpanId {
        self.span("run")
    }

    /// Returns the span of a step or an iteration.
    pub(crate) fn step(&self, path: &str) -> SpanId {
        self.span(&format!("step {path}"))
    }

    /// Returns the span of a request.
    pub(crate) fn attempt(&self, path: &str, attempt: u32) -> SpanId {
        self.span(&format!("attempt {attempt} {path}"))
    }

    /// Returns the span of the request after a redirect, by the number of the redirect from 1.
    pub(crate) fn redirect(&self, path: &str, attempt: u32, number: u32) -> SpanId {
        self.span(&format!("attempt {attempt}.{number} {path}"))
    }

    /// Returns the span in which a result is judged.
    pub(super) fn result(&self, path: &str) -> SpanId {
        self.span(&format!("result {path}"))
    }

    /// Returns the span of something that is not a step of a run.
    pub(super) fn standalone_span(&self, name: &str) -> SpanId {
        self.span(&format!("aside {name}"))
    }

    /// The headers with which the receiver of a request on behalf of `span` continues the trace.
    pub(crate) fn headers(&self, span: SpanId) -> HeaderMap {
        let flags = u8::from(self.sampled);
        let parent = format!("00-{}-{span}-{flags:02x}", self.trace);
        let mut headers = HeaderMap::new();
        let state = self.state.clone().map(|state| (TRACESTATE, state));
        for (name, text) in [(TRACEPARENT, parent)].into_iter().chain(state) {
            // Text read from a header fits into one.
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            }
        }
        headers
    }

    /// Returns a part of a hash over the run and the name (UUID version 5), which contains a digit that is
    /// not zero. It is the same at any time, and on any machine.
    fn span(&self, name: &str) -> SpanId {
        let mut id = [0; 8];
        id.copy_from_slice(&Uuid::new_v5(&self.run, name.as_bytes()).as_bytes()[..8]);
        SpanId(id)
    }
}

/// The trace that a caller is in, from its headers. Invalid headers give no trace, and a `tracestate` that
/// could not be passed on is left out (sections 3.2 and 3.3).
pub(crate) fn read_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let (Some(parent), None) = (parents.next(), parents.next()) else { return None };
    let (trace, span, flags) = parse_parent(parent.to_str().ok()?.trim())?;
    let states = headers.get_all(TRACESTATE).iter().map(HeaderValue::to_str);
    // Several headers are one list.
    let state = states.collect::<Result<Vec<_>, _>>().ok().map(|states| states.join(","));
    let state = state.map(|state| state.trim().to_owned());
    Some(TraceContext {
        traceparent: format!("00-{trace}-{span}-{:02x}", flags & SAMPLED),
        tracestate: state.filter(|state| !state.is_empty() && state.len() <= MAX_STATE),
    })
}

/// Trace, span and flags. A future version may have more fields after them.
fn parse_parent(text: &str) -> Option<(TraceId, SpanId, u8)> {
    let (version, rest) = text.split_once('-')?;
    let (trace, rest) = rest.split_once('-')?;
    let (span, rest) = rest.split_once('-')?;
    let (flags, more) = match rest.split_once('-') {
        Some((flags, _)) => (flags, true),
        None => (rest, false),
    };
    let [version] = read_hex(version)?;
    if version == 0xff || (version == 0 && more) {
        return None;
    }
    let (trace, span) = (read_hex(trace)?, read_hex(span)?);
    let [flags] = read_hex(flags)?;
    let is_nothing = trace == [0; 16] || span == [0; 8];
    (!is_nothing).then_some((TraceId(trace), SpanId(span), flags))
}

/// Reads exactly `N` bytes in lower-case hexadecimal digits.
fn read_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn read(pairs: &[(&'static str, &str)]) -> Option<(String, Option<String>)> {
        let context = read_headers(&headers(pairs))?;
        Some((context.traceparent, context.tracestate))
    }

    #[test]
    fn a_caller_is_in_the_trace_that_it_names() {
        let parent = |text: &str| Some((text.to_owned(), None));
        assert_eq!(read(&[("traceparent", PARENT)]), parent(PARENT));
        // Unknown flags are not passed on, nor are the additions of later versions.
        let unknown = PARENT.replace("-01", "-fe");
        assert_eq!(read(&[("traceparent", &unknown)]), parent(&PARENT.replace("-01", "-00")));
        let later = format!("{}-more-to-come", PARENT.replacen("00-", "cc-", 1));
        assert_eq!(read(&[("traceparent", &later)]), parent(PARENT));
        let states = [("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")];
        assert_eq!(read(&states), Some((PARENT.to_owned(), Some("a=1,b=2".to_owned()))));
        let long = "x".repeat(MAX_STATE + 1);
        assert_eq!(read(&[("traceparent", PARENT), ("tracestate", &long)]), parent(PARENT));
        assert_eq!(read(&[("traceparent", PARENT), ("tracestate", "")]), parent(PARENT));
    }

    #[test]
    fn nonsense_names_no_trace() {
        for nonsense in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-+1",
            "00 4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7 01",
        ] {
            assert_eq!(
                read(&[("traceparent", nonsense), ("tracestate", "a=1")]),
                None,
                "{nonsense}"
            );
        }
        assert_eq!(read(&[("tracestate", "a=1")]), None);
        assert_eq!(read(&[("traceparent", PARENT), ("traceparent", PARENT)]), None);
    }

    #[test]
    fn a_run_goes_on_with_the_trace_of_its_caller_or_is_one_itself() {
        let run = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0001);
        let own = RunTrace::from_caller(run, None, false);
        let text = |trace: &RunTrace, span| {
            let headers = trace.headers(span);
            let get =
                |name| headers.get(name).map(|v: &HeaderValue| v.to_str().unwrap().to_owned());
            (get("traceparent").unwrap(), get("tracestate"))
        };
        let attempt = own.attempt("a", 2);
        let parent = |flags| (format!("00-{}-{attempt}-{flags}", run.simple()), None);
        assert_eq!(text(&own, attempt), parent("00"));
        let exported = RunTrace::from_caller(run, None, true);
        assert_eq!(text(&exported, attempt), parent("01"));

        let caller = read_headers(&headers(&[("traceparent", PARENT), ("tracestate", "a=1")]));
        let trace = RunTrace::from_caller(run, caller.as_ref(), false);
        let step = trace.step("a");
        let expected = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{step}-01");
        assert_eq!(text(&trace, step), (expected, Some("a=1".to_owned())));
        assert_eq!(trace.parent.unwrap().to_string(), "00f067aa0ba902b7");
        assert_eq!(own.attempt("a", 2), trace.attempt("a", 2), "the same after a restart");
    }
}
