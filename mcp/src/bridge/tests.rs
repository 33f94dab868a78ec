//! What a client says on standard input, and what of it reaches the server.

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;

/// A server that takes messages into a queue of one place, or none at all, and says what comes out of
/// another queue, or nothing.
struct Far {
    heard: Option<mpsc::Sender<ClientJsonRpcMessage>>,
    says: Option<mpsc::Receiver<ServerJsonRpcMessage>>,
}

impl Transport<RoleClient> for Far {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let queue = self.heard.clone();
        async move {
            let queue = queue.ok_or_else(|| io::Error::other("nobody is there"))?;
            queue.send(message).await.map_err(io::Error::other)
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        match &mut self.says {
            Some(says) => says.recv().await,
            None => std::future::pending().await,
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A bridge to `far`, and its client's side.
fn bridged(far: Far) -> (DuplexStream, JoinHandle<Result<(), BridgeError>>) {
    bridged_for(far, Duration::from_secs(60))
}

/// The same, which waits so long for answers when its client says nothing more.
fn bridged_for(
    far: Far,
    answering: Duration,
) -> (DuplexStream, JoinHandle<Result<(), BridgeError>>) {
    let (client, side) = duplex(1 << 10);
    let (input, output) = tokio::io::split(side);
    let near = line_transport(input, output);
    (client, tokio::spawn(join(near, far, answering)))
}

/// A call with this number.
fn call(id: usize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "a"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_hears_in_the_order_in_which_the_client_speaks() {
    const CALLS: usize = 3_000;
    let (queue, mut heard) = mpsc::channel(1);
    let (mut client, joined) = bridged(Far { heard: Some(queue), says: None });
    let speaking = tokio::spawn(async move {
        for id in 0..CALLS {
            client.write_all(format!("{}\n", call(id)).as_bytes()).await.unwrap();
        }
        client
    });
    for id in 0..CALLS {
        let message = serde_json::to_value(heard.recv().await.unwrap()).unwrap();
        assert_eq!(message["id"], id);
    }
    drop(speaking.await.unwrap());
    joined.abort();
}

#[tokio::test]
async fn a_request_that_does_not_reach_the_server_is_answered() {
    let (client, joined) = bridged(Far { heard: None, says: None });
    let (read, mut write) = tokio::io::split(client);
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    write.write_all(format!("{ready}\n{}\n", call(7)).as_bytes()).await.unwrap();
    let mut line = String::new();
    BufReader::new(read).read_line(&mut line).await.unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    // The notification before it was not delivered either, and nobody waits for its answer.
    assert_eq!(answer["id"], 7);
    let words = answer["error"]["message"].as_str().unwrap();
    assert!(words.contains("is not reachable: nobody is there"), "{words}");
    write.shutdown().await.unwrap();
    joined.await.unwrap().unwrap();
}

#[tokio::test]
async fn requests_before_the_end_of_the_input_get_responses() {
    for ending in ["\n", "\r\n", "", "\r", "\n\n"] {
        let (queue, mut heard) = mpsc::channel(1);
        let (say, says) = mpsc::channel(1);
        let (client, joined) = bridged(Far { heard: Some(queue), says: Some(says) });
        let (read, mut write) = tokio::io::split(client);
        write.write_all(format!("{}{ending}", call(7)).as_bytes()).await.unwrap();
        write.shutdown().await.unwrap();
        assert!(heard.recv().await.is_some(), "{ending:?}");
        let result = json!({"jsonrpc": "2.0", "id": 7, "result": {"content": []}});
        say.send(serde_json::from_value(result).unwrap()).await.unwrap();
        let mut line = String::new();
        BufReader::new(read).read_line(&mut line).await.unwrap();
        let response: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(response["id"], 7);
        joined.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_client_that_has_gone_is_not_waited_for_without_end() {
    let (queue, mut heard) = mpsc::channel(1);
    let far = Far { heard: Some(queue), says: None };
    let (mut client, joined) = bridged_for(far, Duration::ZERO);
    client.write_all(format!("{}\n", call(7)).as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    heard.recv().await.unwrap();
    joined.await.unwrap().unwrap();
}
