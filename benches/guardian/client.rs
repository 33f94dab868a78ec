//! As little of an HTTP client as measures a server: one connection that stays open.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// A connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    head: String,
    answer: Vec<u8>,
}

impl Client {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let head = format!(
            "POST /aos HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer bench\r\ncontent-type: application/json\r\ncontent-length: "
        );
        Self { stream, head, answer: Vec::new() }
    }

    /// Sends a message, and reads the answer to its end. It has to be one of HTTP 200 that is no error
    /// of JSON-RPC.
    pub(crate) fn ask(&mut self, message: &[u8]) {
        let mut request = Vec::with_capacity(self.head.len() + message.len() + 16);
        request.extend_from_slice(self.head.as_bytes());
        request.extend_from_slice(format!("{}\r\n\r\n", message.len()).as_bytes());
        request.extend_from_slice(message);
        self.stream.write_all(&request).unwrap();
        self.answer.clear();
        let mut chunk = [0; 16 << 10];
        loop {
            let read = self.stream.read(&mut chunk).unwrap();
            assert!(read > 0, "the connection was closed");
            self.answer.extend_from_slice(&chunk[..read]);
            if let Some(end) = end_of(&self.answer)
                && end <= self.answer.len()
            {
                break;
            }
        }
        assert!(self.answer.starts_with(b"HTTP/1.1 200"), "{}", self.answer.escape_ascii());
        let is_error = self.answer.windows(8).any(|part| part == b"\"error\":");
        assert!(!is_error, "{}", self.answer.escape_ascii());
    }
}

/// Where an answer ends, once its head is there.
fn end_of(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&answer[..head]).unwrap().to_ascii_lowercase();
    let length = text.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    Some(head + length.parse::<usize>().unwrap())
}
