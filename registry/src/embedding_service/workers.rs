//! The threads of the sentence encoder. Each does one job at a time, alone.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that take jobs from one queue. They end when this is dropped.
#[derive(Debug)]
pub(super) struct EncoderWorkers {
    jobs: Sender<Job>,
}

impl EncoderWorkers {
    /// Starts so many threads.
    ///
    /// # Errors
    /// The system starts no threads.
    pub(super) fn start(count: usize) -> io::Result<Self> {
        let (jobs, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..count {
            let waiting = Arc::clone(&waiting);
            let name = format!("sentences-{number}");
            thread::Builder::new().name(name).spawn(move || work(&waiting))?;
        }
        Ok(Self { jobs })
    }

    /// Does `job` on the next thread that is free.
    pub(super) fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        // They wait as long as this exists.
        let _ = self.jobs.send(Box::new(job));
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    // The encoder would share its small products with other threads of a larger pool, and wait for them.
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    if let Err(error) = &alone {
        tracing::warn!(%error, "the sentence encoder uses the threads of all");
    }
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            // When a job panics, its sender is dropped, so whoever waits for its result is told.
            Ok(job) => drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job))),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_by_the_threads_in_pools_of_one() {
        let workers = EncoderWorkers::start(2).unwrap();
        let (sender, receiver) = channel();
        workers.spawn(|| panic!("one job fails"));
        for number in 0..20 {
            let sender = sender.clone();
            workers.spawn(move || {
                let name = thread::current().name().map(str::to_owned);
                let _ = sender.send((number, rayon::current_num_threads(), name));
            });
        }
        drop(sender);
        let mut done: Vec<_> = receiver.into_iter().collect();
        done.sort();
        assert_eq!(done.len(), 20);
        assert!(done.iter().all(|(_, threads, name)| {
            *threads == 1 && name.as_ref().is_some_and(|name| name.starts_with("sentences-"))
        }));
    }
}
