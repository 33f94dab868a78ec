//! Request bodies with a deadline, and response bodies that record their end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use super::activity::RequestExchange;

/// The body of a request, which fails when it is incomplete at its deadline.
#[derive(Debug)]
pub(super) struct DeadlineBody {
    body: Incoming,
    deadline: Pin<Box<Sleep>>,
    late: Arc<AtomicBool>,
}

impl DeadlineBody {
    /// Wraps a body that must be complete within `time`; otherwise it sets `late`.
    pub(super) fn wrap(body: Incoming, time: Duration, late: Arc<AtomicBool>) -> Body {
        // Most requests have none.
        match body.is_end_stream() {
            true => Body::empty(),
            false => Body::new(Self { body, deadline: Box::pin(sleep(time)), late }),
        }
    }
}

impl HttpBody for DeadlineBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // The deadline is looked at first: a body that never pauses has one, too.
        if self.deadline.as_mut().poll(context).is_ready() {
            self.late.store(true, Ordering::Relaxed);
            let error = io::Error::new(io::ErrorKind::TimedOut, "the body took too long");
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map(|frame| frame.map(|frame| frame.map_err(axum::Error::new)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response. The exchange ends when the body ends.
#[derive(Debug)]
pub(super) struct ExchangeBody {
    body: Body,
    _exchange: RequestExchange,
}

impl ExchangeBody {
    pub(super) fn new(body: Body, exchange: RequestExchange) -> Self {
        Self { body, _exchange: exchange }
    }
}

impl HttpBody for ExchangeBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
