//! Approvals as server-sent events.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use tokio::sync::broadcast::error::RecvError;

use crate::App;
use crate::error::RejectionCode;
use crate::feed::FeedSubscription;
use crate::policy::{Approval, ApprovalState};

/// The interval between the signs of life on a quiet stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The interval at which a follower looks for expired approvals.
const TICK: Duration = Duration::from_millis(500);

/// A follower of approvals.
struct ApprovalFollower {
    app: App,
    followed: FeedSubscription,
    /// The events to send: the number of each change, and its approval.
    queue: VecDeque<(Option<u64>, Approval)>,
    /// The approvals that this follower knows as still to be decided or used.
    open: BTreeMap<String, Approval>,
}

pub(super) fn stream_approvals(
    app: &App,
    last_id: Option<&str>,
) -> Result<Response, RejectionCode> {
    let mut followed = app.feed.subscribe(last_id).ok_or(RejectionCode::TooManyFollowers)?;
    let number = Some(followed.number);
    let queue = match followed.missed.take() {
        Some(missed) => missed.into_iter().map(|one| (Some(one.number), one.approval)).collect(),
        None => {
            let waiting = app.approval_history(Some(ApprovalState::Waiting)).into_iter();
            waiting.map(|approval| (number, approval)).collect()
        }
    };
    let open = app.approvals().into_iter().map(|one| (one.id.clone(), one)).collect();
    let follower = ApprovalFollower { app: app.clone(), followed, queue, open };
    let events = stream::unfold(follower, async |mut follower| {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

impl ApprovalFollower {
    /// Returns the next event. The stream ends for a follower that is too slow; it then reconnects with its
    /// last id.
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some((number, approval)) = self.queue.pop_front() {
                return self.event(number, &approval);
            }
            self.note_expired();
            if !self.queue.is_empty() {
                continue;
            }
            tokio::select! {
                change = self.followed.changes.recv() => match change {
                    Ok(change) => self.queue.push_back((Some(change.number), change.approval)),
                    Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
                },
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// Sends an event for each approval that has expired. The log has no record of that, so each follower
    /// detects it.
    fn note_expired(&mut self) {
        let now = self.app.now();
        let over = self.open.values().map(|approval| approval.at_time(now));
        let over: Vec<_> = over.filter(|approval| approval.expires_at <= now).collect();
        for approval in over {
            self.open.remove(&approval.id);
            if approval.state == ApprovalState::Expired {
                self.queue.push_back((None, approval));
            }
        }
    }

    fn event(&mut self, number: Option<u64>, approval: &Approval) -> Option<sse::Event> {
        match approval.state {
            ApprovalState::Waiting | ApprovalState::Approved => {
                self.open.insert(approval.id.clone(), approval.clone());
            }
            ApprovalState::Rejected
            | ApprovalState::Used
            | ApprovalState::Expired
            | ApprovalState::Withdrawn => {
                self.open.remove(&approval.id);
            }
        }
        let event = sse::Event::default().event(approval.state.status());
        let event = event.data(serde_json::to_string(approval).ok()?);
        Some(match number {
            Some(number) => event.id(self.app.feed.change_id(number)),
            None => event,
        })
    }
}
