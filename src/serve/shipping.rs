//! The shipped documents on their way into a registry: one by one, and again at each start.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::services::error_chain;

/// The first pause after a round with a failure. It doubles, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The name and source of a document.
pub(super) type Shipment = (&'static str, Vec<u8>);

/// A registry that receives the shipped documents.
pub(super) trait DocumentPublisher: Send + Sync {
    /// Publishes a document, unless the same document is published already. Returns true when it is new.
    fn publish(
        &self,
        source: Vec<u8>,
    ) -> impl Future<Output = Result<bool, registry::Error>> + Send;
}

/// The progress of publishing the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShippingProgress {
    /// No error so far.
    UnderWay,
    /// An error occurred, and the publication is tried again.
    Delayed,
    /// Each document is published, or the registry rejects it permanently.
    Complete,
}

/// Starts to publish `documents`, which are in order of dependency. It retries a failed document until it
/// succeeds; it leaves out a document that the registry rejects permanently.
pub(super) fn start_shipping(
    registry: impl DocumentPublisher + 'static,
    documents: Vec<Shipment>,
    stop: CancellationToken,
) -> watch::Receiver<ShippingProgress> {
    let (progress, receiver) = watch::channel(ShippingProgress::UnderWay);
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = publish_all(&registry, documents, &progress, FIRST_PAUSE) => {}
        }
    });
    receiver
}

async fn publish_all(
    registry: &impl DocumentPublisher,
    mut documents: Vec<Shipment>,
    progress: &watch::Sender<ShippingProgress>,
    mut pause: Duration,
) {
    let mut created = 0usize;
    loop {
        let mut left = Vec::new();
        // A document may lack one that could not be published before it.
        let mut refused = Vec::new();
        for (name, source) in documents {
            match registry.publish(source.clone()).await {
                Ok(is_new) => created += usize::from(is_new),
                Err(error) if is_permanent(&error) => {
                    tracing::info!(
                        name,
                        error = error_chain(&error),
                        "the registry left out a shipped document"
                    );
                }
                Err(error) => {
                    if let registry::Error::DocumentRejected(_) = error {
                        refused.push(name);
                    }
                    tracing::warn!(
                        name,
                        error = error_chain(&error),
                        "a shipped document could not be published"
                    );
                    progress.send_replace(ShippingProgress::Delayed);
                    left.push((name, source));
                }
            }
        }
        if left.len() == refused.len() {
            if !refused.is_empty() {
                tracing::error!(?refused, "shipped documents are not valid and were left out");
            }
            if created > 0 {
                tracing::info!(documents = created, "published the shipped documents");
            }
            progress.send_replace(ShippingProgress::Complete);
            return;
        }
        tracing::warn!(documents = left.len(), ?pause, "shipped documents will be published later");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        documents = left;
    }
}

/// Returns true when the registry has another document under this name or version, which stays.
fn is_permanent(error: &registry::Error) -> bool {
    use registry::Error;
    matches!(
        error,
        Error::VersionTaken(_)
            | Error::SamePrecedence { .. }
            | Error::NameTaken { .. }
            | Error::LookalikeName { .. }
            | Error::NotOwner { .. }
            | Error::NotMirrored { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A registry that returns given responses, and accepts everything after that.
    #[derive(Clone, Default)]
    struct Script {
        answers: Arc<Mutex<VecDeque<Result<bool, registry::Error>>>>,
        asked: Arc<Mutex<Vec<String>>>,
    }

    impl DocumentPublisher for Script {
        async fn publish(&self, source: Vec<u8>) -> Result<bool, registry::Error> {
            self.asked.lock().unwrap().push(String::from_utf8(source).unwrap());
            self.answers.lock().unwrap().pop_front().unwrap_or(Ok(true))
        }
    }

    async fn check(answers: Vec<Result<bool, registry::Error>>, asked: &[&str]) {
        let script = Script::default();
        script.answers.lock().unwrap().extend(answers);
        let documents = ["a", "b", "c"].map(|name| (name, name.as_bytes().to_vec()));
        let progress = watch::Sender::new(ShippingProgress::UnderWay);
        publish_all(&script, documents.to_vec(), &progress, Duration::ZERO).await;
        assert_eq!(*progress.borrow(), ShippingProgress::Complete);
        assert_eq!(*script.asked.lock().unwrap(), asked);
    }

    fn away() -> registry::Error {
        registry::Error::TimedOut(1)
    }

    #[tokio::test]
    async fn what_fails_is_published_again_and_the_rest_is_not() {
        check(vec![Ok(false), Ok(false), Ok(false)], &["a", "b", "c"]).await;
        check(vec![Ok(true), Err(away()), Ok(true), Err(away())], &["a", "b", "c", "b", "b"]).await;
    }

    #[tokio::test]
    async fn what_is_never_taken_is_left_out() {
        let taken = || registry::Error::NameTaken {
            name: a2s::CapabilityName::new("Dogs").unwrap(),
            id: "dogs".to_owned(),
            owner: "DOGS".to_owned(),
        };
        check(vec![Err(taken())], &["a", "b", "c"]).await;
        // Until nothing else fails it may only lack another one.
        let refused = || registry::Error::DocumentRejected(Vec::new());
        check(
            vec![Err(away()), Err(refused()), Ok(true), Ok(true), Err(refused())],
            &["a", "b", "c", "a", "b"],
        )
        .await;
    }

    #[tokio::test]
    async fn whoever_waits_learns_of_the_first_failure() {
        let script = Script::default();
        script.answers.lock().unwrap().push_back(Err(away()));
        let stop = CancellationToken::new();
        let mut progress = start_shipping(script, vec![("a", b"a".to_vec())], stop);
        progress.wait_for(|progress| *progress != ShippingProgress::UnderWay).await.unwrap();
        assert_eq!(*progress.borrow(), ShippingProgress::Delayed);
    }
}
