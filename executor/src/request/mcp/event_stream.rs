//! The stream of events that a server may respond with (MCP, "Receiving Messages"). It is read only until
//! the response has arrived, because some servers never end their streams.
//!
//! The reader limits the number of bytes.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// A reader that finds the response in a stream of server-sent events.
#[derive(Debug, Default)]
pub(crate) struct EventStreamReader {
    /// The bytes after the last whole line.
    buffer: BytesMut,
    /// The number of these bytes that were already searched for the end of a line.
    seen: usize,
    /// The data of the event so far.
    data: Vec<u8>,
    has_data: bool,
    /// Set when the event has a name other than `message`, so that it does not belong to the protocol.
    is_other: bool,
    /// Set when the last line ended with a carriage return, so that a line feed may follow and belong to
    /// it.
    after_return: bool,
    began: bool,
}

impl EventStreamReader {
    /// Creates a reader for a response with these headers; `None` when it is not an event stream.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let named = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let named = a2s::MediaType::parse(named)?;
        named.is("text/event-stream").then(Self::default)
    }

    /// Reads the next bytes. Returns the message that ends the stream: a response to any request, a request
    /// of the server, or data that is not a message. Notifications and `ping` requests are skipped.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Option<Bytes> {
        self.buffer.extend_from_slice(bytes);
        while let Some(line) = self.take_line() {
            if let Some(event) = self.push_line(&line)
                && ends_stream(&event)
            {
                return Some(event);
            }
        }
        None
    }

    /// Returns the next complete line, without its end.
    fn take_line(&mut self) -> Option<BytesMut> {
        if std::mem::take(&mut self.after_return) {
            match self.buffer.first() {
                Some(b'\n') => drop(self.buffer.split_to(1)),
                Some(_) => {}
                None => {
                    self.after_return = true;
                    return None;
                }
            }
        }
        let unseen = self.buffer.get(self.seen..).unwrap_or_default();
        let Some(end) = unseen.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            self.seen = self.buffer.len();
            return None;
        };
        let mut line = self.buffer.split_to(self.seen + end + 1);
        self.seen = 0;
        self.after_return = line.last() == Some(&b'\r');
        line.truncate(line.len() - 1);
        Some(line)
    }

    /// Reads a line. An empty line ends an event, and its data is returned.
    fn push_line(&mut self, line: &[u8]) -> Option<Bytes> {
        let line = match std::mem::replace(&mut self.began, true) {
            true => line,
            false => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
        };
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            let is_other = std::mem::take(&mut self.is_other);
            let has_data = std::mem::take(&mut self.has_data);
            let is_message = has_data && !is_other && !data.trim_ascii().is_empty();
            return is_message.then(|| Bytes::from(data));
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.is_other = !matches!(value, b"" | b"message"),
            // A comment, or what belongs to the stream.
            _ => {}
        }
        None
    }
}

/// Returns true when the client waits for no more messages after this one.
fn ends_stream(event: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct MessageHead {
        #[serde(default)]
        method: Option<Value>,
        #[serde(default)]
        id: Option<IgnoredAny>,
    }
    match serde_json::from_slice::<MessageHead>(event) {
        Ok(MessageHead { method: Some(method), id }) => id.is_some() && method != "ping",
        Ok(MessageHead { method: None, .. }) | Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// The result for a text that arrives in pieces of `size` bytes.
    fn hear(text: &str, size: usize) -> Option<String> {
        let mut listener = EventStreamReader::default();
        let heard = text.as_bytes().chunks(size).find_map(|piece| listener.push_bytes(piece));
        heard.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

    #[test]
    fn the_answer_is_found_among_the_rest_however_it_comes_in() {
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;
        let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
        for end in ["\n", "\r\n", "\r"] {
            let lines = [
                "\u{feff}: hello",
                "id: 1",
                "data:",
                "",
                "event: endpoint",
                "data: /elsewhere",
                "",
                "retry: 5",
                "event: message",
                &format!("data: {notification}"),
                "",
                &format!("data:{ping}"),
                "",
                "data: {\"jsonrpc\":\"2.0\",",
                "data: \"id\":1,\"result\":{}}",
                "",
                "data: late",
                "",
                "",
            ];
            for size in [1, 2, 7, 10_000] {
                let heard = hear(&lines.join(end), size).unwrap();
                assert_eq!(heard.replace('\n', ""), ANSWER, "{end:?} {size}");
            }
        }
    }

    #[test]
    fn whatever_is_no_notification_ends_the_listening() {
        for last in [
            r#"{"jsonrpc":"2.0","id":"other","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage"}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            "[]",
            "no JSON",
        ] {
            let text = format!("data: {last}\n\ndata: {ANSWER}\n\n");
            assert_eq!(hear(&text, 3).as_deref(), Some(last));
        }
        for none in ["", "data: {}", "data: {}\n", ": a\n\n", "event: x\ndata: {}\n\n", "\n\n\n"] {
            assert_eq!(hear(none, 2), None, "{none:?}");
        }
    }

    #[test]
    fn only_a_stream_of_events_is_listened_to() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(text).unwrap());
            EventStreamReader::from_headers(&headers).is_some()
        };
        assert!(of("text/event-stream") && of("Text/Event-Stream; charset=utf-8"));
        assert!(!of("application/json") && !of("text/plain"));
        assert!(EventStreamReader::from_headers(&HeaderMap::new()).is_none());
    }

    proptest! {
        /// Any bytes in any pieces: no panic, and the pieces make no difference.
        #[test]
        fn pieces_make_no_difference(
            lines in proptest::collection::vec("(data:|event:|:|id)?[ {}a\\[\\]\":,0-9]{0,12}(\n|\r|\r\n)", 0..20),
            size in 1..9_usize,
        ) {
            let text = lines.concat();
            prop_assert_eq!(hear(&text, size), hear(&text, usize::MAX));
        }
    }
}
