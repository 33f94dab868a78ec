//! The deadline of one connection, by what its client does.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

/// The state of a connection that determines its deadline.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    header_timeout: Duration,
    idle_timeout: Duration,
    state: Mutex<ActivityState>,
}

#[derive(Debug)]
struct ActivityState {
    /// The number of requests with a response that has not ended.
    in_flight: usize,
    awaited: AwaitedInput,
    /// The beginning of the wait.
    since: Instant,
    is_http2: bool,
    /// The time since which the client has not read the data that waits for it.
    unread_since: Option<Instant>,
}

/// The input that the server waits for when no request is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AwaitedInput {
    /// The rest of the head of a request.
    Head,
    /// The first byte of the next request.
    Request,
}

impl ConnectionActivity {
    pub(super) fn new(header_timeout: Duration, idle_timeout: Duration) -> Arc<Self> {
        let state = ActivityState {
            in_flight: 0,
            awaited: AwaitedInput::Head,
            since: Instant::now(),
            is_http2: false,
            unread_since: None,
        };
        Arc::new(Self { header_timeout, idle_timeout, state: Mutex::new(state) })
    }

    /// Records that a request arrived. Its response ends when the exchange is dropped.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> RequestExchange {
        let mut state = self.lock();
        state.in_flight += 1;
        state.is_http2 = version == Version::HTTP_2;
        drop(state);
        RequestExchange(Arc::clone(self))
    }

    /// Waits until a deadline has passed.
    pub(super) async fn expire(&self) {
        loop {
            let now = Instant::now();
            // No deadline that comes up meanwhile is earlier.
            let next = now + self.header_timeout.min(self.idle_timeout);
            match self.deadline() {
                Some(deadline) if deadline <= now => return,
                Some(deadline) => sleep_until(deadline.min(next)).await,
                None => sleep_until(next).await,
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let state = self.lock();
        let unread = state.unread_since.map(|since| since + self.idle_timeout);
        let waiting = (state.in_flight == 0).then(|| match state.awaited {
            AwaitedInput::Head => state.since + self.header_timeout,
            AwaitedInput::Request => state.since + self.idle_timeout,
        });
        unread.into_iter().chain(waiting).min()
    }

    fn end(&self) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        if state.in_flight == 0 {
            state.awaited = AwaitedInput::Request;
            state.since = Instant::now();
        }
    }

    fn record_read(&self) {
        let mut state = self.lock();
        // Frames of HTTP/2 come without any request, too: the client acknowledges pings.
        if state.in_flight == 0 && state.awaited == AwaitedInput::Request && !state.is_http2 {
            state.awaited = AwaitedInput::Head;
            state.since = Instant::now();
        }
    }

    fn record_write(&self, is_pending: bool) {
        let mut state = self.lock();
        state.unread_since = match is_pending {
            true => state.unread_since.or_else(|| Some(Instant::now())),
            false => None,
        };
    }

    /// Locks the state. Its counters are still valid after a panic.
    fn lock(&self) -> MutexGuard<'_, ActivityState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request with its response.
#[derive(Debug)]
pub(super) struct RequestExchange(Arc<ConnectionActivity>);

impl Drop for RequestExchange {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A connection that records the reads and writes of its client.
#[derive(Debug)]
pub(super) struct WatchedStream {
    stream: TcpStream,
    activity: Arc<ConnectionActivity>,
}

impl WatchedStream {
    pub(super) fn new(stream: TcpStream, activity: Arc<ConnectionActivity>) -> Self {
        Self { stream, activity }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(self.as_mut().stream().poll_read(context, buffer))?;
        if before < buffer.filled().len() {
            self.activity.record_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write(context, bytes);
        self.activity.record_write(written.is_pending());
        written
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write_vectored(context, slices);
        self.activity.record_write(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
