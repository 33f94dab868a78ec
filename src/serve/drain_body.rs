//! Drains the rest of a request's body when its response is known.
//!
//! A connection that is closed while its client still sends is reset, and with it the answer that
//! says why (RFC 9112, section 9.6); one that was kept open for the next request would be closed
//! under it. So the rest is read and thrown away, within bounds.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures::StreamExt as _;
use http_body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// The most unwanted bytes that are read. It is a few times the most that any service accepts.
const MAX_DRAINED_BYTES: usize = 8 << 20;

/// The longest time for a client to send them.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(5);

/// Wraps a body: the rest that the service leaves is read and discarded.
pub(super) fn drain_on_drop(body: Body) -> Body {
    // Most requests have no body, and nothing to watch.
    match body.is_end_stream() {
        true => body,
        false => Body::new(DrainedBody(body)),
    }
}

/// A body that reads its rest when it is dropped.
struct DrainedBody(Body);

impl HttpBody for DrainedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        if self.0.is_end_stream() {
            return;
        }
        let rest = std::mem::take(&mut self.0);
        // Without a runtime the connection is gone.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(timeout(MAX_DRAIN_TIME, discard(rest)));
        }
    }
}

/// Reads a body up to its end, an error or the size limit.
async fn discard(body: Body) {
    let mut read = 0;
    let mut frames = body.into_data_stream();
    while let Some(Ok(bytes)) = frames.next().await {
        read += bytes.len();
        if read > MAX_DRAINED_BYTES {
            break;
        }
    }
}
