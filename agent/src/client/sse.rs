//! Server-sent events (HTML, "Server-sent events"), as our own services write them and other agents do.

use std::fmt;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::Response;

use super::{Error, ServiceClient};

/// The events of one response.
pub struct SseStream {
    chunks: BoxStream<'static, reqwest::Result<Vec<u8>>>,
    /// The received bytes of the next block.
    buffer: Vec<u8>,
    /// The number of bytes that were searched without finding the end of the block.
    searched: usize,
}

/// One event.
#[derive(Debug)]
pub struct SseEvent {
    /// The type of the event, if it has one.
    pub event: Option<String>,
    /// The data of the event.
    pub data: String,
}

/// The possible results of one step.
#[derive(Debug)]
pub enum SseItem {
    /// An event.
    Event(SseEvent),
    /// The response has ended.
    End,
    /// The connection broke.
    Broken(reqwest::Error),
}

impl SseStream {
    /// Creates the stream of events of a response.
    pub fn from_response(response: Response) -> Self {
        let chunks = response.bytes_stream().map(|chunk| chunk.map(Vec::from)).boxed();
        Self { chunks, buffer: Vec::new(), searched: 0 }
    }

    /// Returns the next event, and skips comments. No event is lost when the future is dropped.
    ///
    /// # Errors
    /// Fails when an event is too large.
    pub async fn next(&mut self, client: &ServiceClient) -> Result<SseItem, Error> {
        loop {
            while let Some(end) = find_blank_line(&self.buffer, self.searched) {
                self.searched = 0;
                let block: Vec<u8> = self.buffer.drain(..end).collect();
                if let Some(block) = parse_event(&block) {
                    return Ok(SseItem::Event(block));
                }
            }
            // The last three bytes may be the beginning of an end.
            self.searched = self.buffer.len().saturating_sub(3);
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(error)) => return Ok(SseItem::Broken(error)),
                None => return Ok(SseItem::End),
            }
            // An answer of a service may be in an event.
            if self.buffer.len() > client.max_bytes {
                return Err(client.bad_response("sent an event that is too large"));
            }
        }
    }
}

impl fmt::Debug for SseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sse").field("waiting", &self.buffer.len()).finish_non_exhaustive()
    }
}

/// Finds the end of the next block, with its blank line, if the end is after the first `searched` bytes.
/// Lines end with LF or with CR and LF.
fn find_blank_line(buffer: &[u8], searched: usize) -> Option<usize> {
    let ends = buffer.iter().enumerate().skip(searched).filter(|(_, byte)| **byte == b'\n');
    ends.map(|(at, _)| at + 1).find_map(|at| match buffer.get(at..)? {
        [b'\n', ..] => Some(at + 1),
        [b'\r', b'\n', ..] => Some(at + 2),
        _ => None,
    })
}

/// Reads the event of one block; returns none for comments and empty blocks.
fn parse_event(block: &[u8]) -> Option<SseEvent> {
    let text = String::from_utf8_lossy(block);
    let fields = |name: &'static str| {
        text.lines()
            .filter_map(move |line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|value| value.strip_prefix(' ').unwrap_or(value))
    };
    let data: Vec<&str> = fields("data").collect();
    if data.is_empty() {
        return None;
    }
    Some(SseEvent { event: fields("event").next_back().map(str::to_owned), data: data.join("\n") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(buffer: &str, expected: Option<&str>) {
        let end = find_blank_line(buffer.as_bytes(), 0);
        assert_eq!(end.map(|end| &buffer[..end]), expected, "{buffer:?}");
        let data =
            end.and_then(|end| parse_event(&buffer.as_bytes()[..end])).map(|block| block.data);
        assert_eq!(data.as_deref(), expected.map(|_| "1\n2"));
    }

    #[test]
    fn an_event_ends_with_a_blank_line_however_lines_end() {
        check("data: 1\ndata: 2\n\ndata: 3", Some("data: 1\ndata: 2\n\n"));
        check("data: 1\r\ndata: 2\r\n\r\ndata: 3", Some("data: 1\r\ndata: 2\r\n\r\n"));
        check("data: 1\r\ndata: 2\r\n\r", None);
        check("data: 1\ndata: 2\n", None);
    }
}
