//! What becomes of a connection whose request is answered before all of it was sent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use url::Url;

use crate::harness::World;

/// Twice what is taken.
const BODY: usize = 2 << 20;

/// A connection on which requests are written by hand.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(world: &World) -> Self {
        let url = Url::parse(world.url()).unwrap();
        let stream = TcpStream::connect((url.host_str().unwrap(), url.port().unwrap())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(BufReader::new(stream))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// The status of the next answer, whose body is left out.
    fn status(&mut self) -> u16 {
        let (mut length, mut status) = (0, None);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            let line = line.trim_end().to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(bytes) = line.strip_prefix("content-length: ") {
                length = bytes.parse().unwrap();
            }
            status = status.or_else(|| line.split(' ').nth(1)?.parse().ok());
        }
        self.0.read_exact(&mut vec![0; length]).unwrap();
        status.expect("an answer")
    }
}

/// A message to the MCP server that is too large, without its body.
fn too_large(world: &World) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         content-length: {BODY}\r\n\r\n",
        world.token()
    )
}

#[test]
fn early_response_keeps_the_connection_usable() {
    let world = World::up(&[]);
    let mut connection = Connection::open(&world);
    connection.write(too_large(&world).as_bytes());
    connection.write(&vec![b'x'; BODY - 1]);
    assert_eq!(connection.status(), 413);
    connection.write(b"x");
    connection.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(connection.status(), 200);
}
