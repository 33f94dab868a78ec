//! Clients that each thread has of its own.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use thread_local::ThreadLocal;

use crate::error::Error;

/// A client for each thread that asks for one.
///
/// A connection is served by the thread that opened it. If threads share a client, a run meets connections
/// of another thread, and each request wakes that thread and is woken by it again. For a short step, that
/// is a considerable cost. Therefore, each thread has its own pool of connections.
pub(crate) struct PerThread<C: Send> {
    /// The client of the thread that asks first.
    first: C,
    is_taken: AtomicBool,
    make: Box<dyn Fn() -> Result<C, Error> + Send + Sync>,
    own: ThreadLocal<C>,
}

impl<C: Clone + Send> PerThread<C> {
    /// Creates the clients: `first`, and further ones with `make`.
    pub(crate) fn new(
        first: C,
        make: impl Fn() -> Result<C, Error> + Send + Sync + 'static,
    ) -> Self {
        let (is_taken, make) = (AtomicBool::new(false), Box::new(make));
        Self { first, is_taken, make, own: ThreadLocal::new() }
    }

    /// Returns the client of this thread.
    pub(crate) fn current(&self) -> &C {
        self.own.get_or(|| {
            if !self.is_taken.swap(true, Ordering::Relaxed) {
                return self.first.clone();
            }
            (self.make)().unwrap_or_else(|error| {
                // One that is shared is slower, and as good.
                tracing::warn!(%error, "a thread could not create its own client");
                self.first.clone()
            })
        })
    }
}

impl<C: Send> fmt::Debug for PerThread<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerThread")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn each_thread_has_its_own_and_keeps_it() {
        let made = AtomicUsize::new(0);
        let make = move || Ok(Arc::new(made.fetch_add(1, Ordering::Relaxed)));
        let clients = PerThread::new(make().unwrap(), make);
        let here = Arc::clone(clients.current());
        assert_eq!(*here, 0, "the first thread has the one that is there");
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let there = Arc::clone(clients.current());
                assert!(Arc::ptr_eq(&there, clients.current()));
                there
            });
            assert!(!Arc::ptr_eq(&there.join().unwrap(), &here));
        });
        assert!(Arc::ptr_eq(&here, clients.current()));
    }

    #[test]
    fn where_no_other_can_be_made_the_first_one_is_shared() {
        let make = || Err(Error::new(crate::error::ErrorKind::Internal, "no more"));
        let clients = PerThread::new(Arc::new(()), make);
        let here = Arc::clone(clients.current());
        let shares = || Arc::ptr_eq(&here, clients.current());
        assert!(std::thread::scope(|scope| scope.spawn(shares).join().unwrap()));
    }
}
