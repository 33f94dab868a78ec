//! The state of a policy between messages: use of quotas, and approvals.
//!
//! Pure: the caller passes the time. [`SideEffects`] has the changes of a decision. The audit log records
//! them, and `audit::replay` restores the same state from them.

use std::collections::{BTreeMap, VecDeque};

use aos::message::ApprovalWithdrawal;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::approval::{
    Approval, ApprovalDecision, ApprovalQuota, ApprovalRequest, ApprovalSettlement, ApprovalState,
    MAX_OPEN,
};
use super::round_credits::RoundCredits;

/// The maximum number of counts that are stored at a time.
const MAX_COUNTS: usize = 100_000;
/// The maximum number of approvals that are stored after they were used, withdrawn or expired.
const MAX_HISTORY: usize = 1_000;
/// The maximum number of charges of one count. When there are more, the two oldest become one.
const MAX_CHARGES: usize = 1_024;
/// The maximum period of a limit, in hours.
pub(super) const MAX_WITHIN: SignedDuration = SignedDuration::from_hours(31 * 24);

/// Counts and approvals of one policy.
#[derive(Debug, Default)]
pub(crate) struct PolicyState {
    /// The times of use with their amounts in millionths, by rule and by counted key.
    spent: BTreeMap<(String, String), VecDeque<(Timestamp, u64)>>,
    approvals: BTreeMap<String, Approval>,
    /// The number of approvals ever requested, so that no two have the same id.
    asked: u64,
    /// The charges of executions that may come again. They are not saved: after a restart, an execution
    /// between two rounds is counted twice.
    pub(super) credits: RoundCredits,
}

/// The amount that a message uses up of one limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuotaCharge {
    pub(crate) rule: String,
    /// The key that the limit counts separately, such as `session:s-1`.
    pub(crate) key: String,
    /// The amount, in millionths.
    pub(crate) amount: u64,
}

/// The saved form of a policy state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedPolicyState {
    spent: Vec<SavedCount>,
    approvals: Vec<Approval>,
    asked: u64,
}

/// The saved form of one count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SavedCount {
    rule: String,
    key: String,
    charges: VecDeque<(Timestamp, u64)>,
}

impl From<&PolicyState> for SavedPolicyState {
    fn from(memory: &PolicyState) -> Self {
        let spent = memory.spent.iter().map(|((rule, key), charges)| SavedCount {
            rule: rule.clone(),
            key: key.clone(),
            charges: charges.clone(),
        });
        let approvals = memory.approvals.values().cloned().collect();
        Self { spent: spent.collect(), approvals, asked: memory.asked }
    }
}

impl From<SavedPolicyState> for PolicyState {
    fn from(SavedPolicyState { spent, approvals, asked }: SavedPolicyState) -> Self {
        let spent =
            spent.into_iter().map(|SavedCount { rule, key, charges }| ((rule, key), charges));
        let approvals = approvals.into_iter().map(|approval| (approval.id.clone(), approval));
        let credits = RoundCredits::default();
        Self { spent: spent.collect(), approvals: approvals.collect(), asked, credits }
    }
}

/// The side effects of a decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SideEffects {
    pub(crate) charges: Vec<QuotaCharge>,
    pub(crate) approval: Option<ApprovalEffect>,
}

/// The effect of a decision on an approval.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub(crate) enum ApprovalEffect {
    /// The approval is new: this message is the first that requires it.
    Asked(Box<Approval>),
    /// The approval is pending already, or was rejected.
    Known { id: String },
    /// This message uses the approval, and no other execution may use it.
    Used {
        id: String,
        /// The execution that the message belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        execution: Option<String>,
        /// Set when this execution had used it before.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
}

/// The error when no further count can be stored.
pub(super) const STATE_FULL: &str = "the guardian has reached its limit of stored counts";

/// The result of a request for an approval.
pub(super) enum ApprovalCheck {
    /// The approval was granted, and this message uses it.
    Used(ApprovalEffect),
    /// The approval is pending.
    Waiting(Approval, ApprovalEffect),
    /// The approval was rejected.
    Rejected(Approval),
    /// Too many approvals are pending to request another one.
    Full,
    /// This requester has the maximum number of approvals.
    QuotaReached(ApprovalQuota),
}

impl PolicyState {
    /// Adds a charge if it still fits. Returns true when it does.
    pub(super) fn reserve_quota(
        &mut self,
        charge: &QuotaCharge,
        most: u64,
        within: SignedDuration,
        now: Timestamp,
    ) -> Result<bool, String> {
        let place = (charge.rule.clone(), charge.key.clone());
        if !self.spent.contains_key(&place) {
            if MAX_COUNTS <= self.spent.len() {
                self.remove_expired_counts(now);
            }
            if MAX_COUNTS <= self.spent.len() {
                return Err(STATE_FULL.to_owned());
            }
        }
        let since = now.saturating_sub(within).unwrap_or(Timestamp::MIN);
        let charges = self.spent.entry(place).or_default();
        let used = charges.iter().filter(|(time, _)| since < *time);
        let used = used.fold(0_u64, |sum, (_, amount)| sum.saturating_add(*amount));
        let fits = used.saturating_add(charge.amount) <= most;
        if fits {
            add_charge(charges, now, charge.amount);
        }
        Ok(fits)
    }

    /// Returns true when a charge would still fit. It is not added.
    pub(super) fn has_quota_for(
        &self,
        charge: &QuotaCharge,
        most: u64,
        within: SignedDuration,
        now: Timestamp,
    ) -> bool {
        let since = now.saturating_sub(within).unwrap_or(Timestamp::MIN);
        let charges = self.spent.get(&(charge.rule.clone(), charge.key.clone()));
        let used = charges.into_iter().flatten().filter(|(time, _)| since < *time);
        let used = used.fold(0_u64, |sum, (_, amount)| sum.saturating_add(*amount));
        used.saturating_add(charge.amount) <= most
    }

    /// Reverts the side effects of a decision that does not take effect.
    pub(crate) fn undo_effects(&mut self, traces: &SideEffects) {
        for charge in &traces.charges {
            self.credits.forget(charge);
            let place = (charge.rule.clone(), charge.key.clone());
            let Some(charges) = self.spent.get_mut(&place) else { continue };
            // The newest of this amount is this one, or an equal one.
            match charges.iter().rposition(|(_, amount)| *amount == charge.amount) {
                Some(at) => drop(charges.remove(at)),
                None => continue,
            }
            if charges.is_empty() {
                self.spent.remove(&place);
            }
        }
        match &traces.approval {
            Some(ApprovalEffect::Asked(approval)) => drop(self.approvals.remove(&approval.id)),
            Some(ApprovalEffect::Used { id, again: false, .. }) => {
                if let Some(approval) = self.approvals.get_mut(id) {
                    approval.state = ApprovalState::Approved;
                    approval.used_by = None;
                }
            }
            Some(ApprovalEffect::Known { .. } | ApprovalEffect::Used { .. }) | None => {}
        }
    }

    fn remove_expired_counts(&mut self, now: Timestamp) {
        let since = now.saturating_sub(MAX_WITHIN).unwrap_or(Timestamp::MIN);
        self.spent.retain(|_, charges| charges.back().is_some_and(|(time, _)| since < *time));
    }

    /// Returns the state of the approval that a rule requests. If no person was asked yet, it asks now.
    pub(super) fn request_approval(
        &mut self,
        wanted: ApprovalRequest<'_>,
        now: Timestamp,
    ) -> ApprovalCheck {
        self.trim_history(now);
        if let Some(used) = self.approvals.values().find(|one| one.was_used_by(&wanted, now)) {
            let (id, execution) = (used.id.clone(), used.used_by.clone());
            return ApprovalCheck::Used(ApprovalEffect::Used { id, execution, again: true });
        }
        let known = self.approvals.values_mut().find(|one| one.is_open_for(&wanted, now));
        if let Some(approval) = known {
            return match approval.state {
                ApprovalState::Waiting => {
                    let trace = ApprovalEffect::Known { id: approval.id.clone() };
                    ApprovalCheck::Waiting(approval.clone(), trace)
                }
                ApprovalState::Rejected => ApprovalCheck::Rejected(approval.clone()),
                // An open one is not in another state.
                ApprovalState::Approved
                | ApprovalState::Used
                | ApprovalState::Expired
                | ApprovalState::Withdrawn => {
                    approval.state = ApprovalState::Used;
                    approval.used_by.clone_from(&wanted.execution);
                    let (id, execution) = (approval.id.clone(), wanted.execution);
                    ApprovalCheck::Used(ApprovalEffect::Used { id, execution, again: false })
                }
            };
        }
        let open = self.approvals.values().filter(|approval| approval.is_open(now));
        if MAX_OPEN <= open.clone().count() {
            return ApprovalCheck::Full;
        }
        if let Some(quota) = wanted.requester.exceeded_quota(open) {
            return ApprovalCheck::QuotaReached(quota);
        }
        self.asked += 1;
        let approval = Approval::from_request(wanted, now, self.asked);
        self.approvals.insert(approval.id.clone(), approval.clone());
        let trace = ApprovalEffect::Asked(Box::new(approval.clone()));
        ApprovalCheck::Waiting(approval, trace)
    }

    /// Returns the approval for a request, without using it or requesting a new one.
    pub(super) fn find_approval(
        &self,
        wanted: &ApprovalRequest<'_>,
        now: Timestamp,
    ) -> Option<&Approval> {
        let used = self.approvals.values().find(|approval| approval.was_used_by(wanted, now));
        used.or_else(|| self.approvals.values().find(|approval| approval.is_open_for(wanted, now)))
    }

    /// Deletes the oldest of the used and expired approvals when there are too many.
    fn trim_history(&mut self, now: Timestamp) {
        let closed = self.approvals.values().filter(|approval| !approval.is_open(now));
        let Some(more) = closed.clone().count().checked_sub(MAX_HISTORY + 1) else { return };
        let mut closed: Vec<_> = closed.map(|one| (one.expires_at, one.id.clone())).collect();
        closed.sort();
        for (_, id) in closed.into_iter().take(more + 1) {
            self.approvals.remove(&id);
        }
    }

    /// Returns the approvals that a person may still decide, or that are decided and not used, the oldest
    /// first.
    pub(crate) fn open_approvals(&self, now: Timestamp) -> Vec<Approval> {
        self.approvals_that(now, |approval| approval.is_open(now))
    }

    /// Returns the approvals that are in one state now, or all of them; the oldest first.
    pub(crate) fn approvals_in_state(
        &self,
        state: Option<ApprovalState>,
        now: Timestamp,
    ) -> Vec<Approval> {
        self.approvals_that(now, |approval| {
            state.is_none_or(|is| approval.at_time(now).state == is)
        })
    }

    fn approvals_that(&self, now: Timestamp, is: impl Fn(&Approval) -> bool) -> Vec<Approval> {
        let approvals = self.approvals.values().filter(|approval| is(approval));
        let mut approvals: Vec<_> = approvals.map(|approval| approval.at_time(now)).collect();
        approvals.sort_by(|a, b| (a.requested_at, &a.id).cmp(&(b.requested_at, &b.id)));
        approvals
    }

    /// Returns the effect of a decision on the approval with this id, if there is one.
    pub(crate) fn settle_approval(
        &self,
        id: &str,
        decided: &ApprovalDecision,
        now: Timestamp,
    ) -> Option<ApprovalSettlement> {
        self.approvals.get(id).map(|approval| approval.settle(decided, now))
    }

    /// Returns the open approvals that these notices withdraw, as they become.
    pub(crate) fn withdrawn_approvals(
        &self,
        notices: &[ApprovalWithdrawal],
        now: Timestamp,
    ) -> Vec<Approval> {
        let withdraw =
            |notice: &ApprovalWithdrawal| self.approvals.get(&notice.id)?.withdraw(notice, now);
        notices.iter().filter_map(withdraw).collect()
    }

    /// Returns the approval with this id, in any state.
    pub(crate) fn approval(&self, id: &str) -> Option<&Approval> {
        self.approvals.get(id)
    }

    /// Replaces the approval with the same id.
    pub(crate) fn set_approval(&mut self, approval: Approval) {
        self.approvals.insert(approval.id.clone(), approval);
    }

    /// Restores a charge from the log.
    pub(crate) fn replay_charge(&mut self, charge: QuotaCharge, time: Timestamp) {
        if MAX_COUNTS <= self.spent.len() {
            self.remove_expired_counts(time);
        }
        add_charge(self.spent.entry((charge.rule, charge.key)).or_default(), time, charge.amount);
    }

    /// Restores a requested approval from the log.
    pub(crate) fn replay_request(&mut self, approval: Approval) {
        self.asked += 1;
        self.set_approval(approval);
    }

    /// Restores the use of an approval from the log.
    pub(crate) fn replay_use(&mut self, id: &str, execution: Option<&str>) {
        if let Some(approval) = self.approvals.get_mut(id) {
            approval.state = ApprovalState::Used;
            approval.used_by = execution.map(str::to_owned);
        }
    }

    /// Removes the counts and approvals that are over.
    pub(crate) fn remove_expired(&mut self, now: Timestamp) {
        self.remove_expired_counts(now);
        self.trim_history(now);
    }
}

/// Adds a charge. When there are too many, the two oldest become one at the later time, so that they count
/// longer and never shorter.
fn add_charge(charges: &mut VecDeque<(Timestamp, u64)>, now: Timestamp, amount: u64) {
    charges.push_back((now, amount));
    if MAX_CHARGES < charges.len()
        && let Some((_, oldest)) = charges.pop_front()
        && let Some((_, next)) = charges.front_mut()
    {
        *next = next.saturating_add(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::approval::ApprovalRequester;
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn charge(amount: u64) -> QuotaCharge {
        QuotaCharge { rule: "r".to_owned(), key: "session:s".to_owned(), amount }
    }

    #[test]
    fn what_is_used_comes_back_with_time() {
        let mut memory = PolicyState::default();
        let minute = SignedDuration::from_mins(1);
        let mut take =
            |amount, second| memory.reserve_quota(&charge(amount), 10, minute, at(second)).unwrap();
        assert!(take(6, 0) && take(4, 30) && !take(1, 59));
        assert!(take(6, 60), "the first is a minute old");
        assert!(!take(1, 89) && take(4, 90));
    }

    fn wanted(binding: &str) -> ApprovalRequest<'static> {
        wanted_by(binding, Some("u"), None)
    }

    fn wanted_by(
        binding: &str,
        user: Option<&str>,
        execution: Option<&str>,
    ) -> ApprovalRequest<'static> {
        let text = |text: &str| text.to_owned();
        ApprovalRequest {
            rule: "r",
            binding: binding.to_owned(),
            earlier_binding: binding.to_owned(),
            within: SignedDuration::from_hours(1),
            requester: ApprovalRequester { user: user.map(text), caller: None },
            execution: execution.map(text),
        }
    }

    #[test]
    fn there_is_an_end_to_what_waits() {
        let mut memory = PolicyState::default();
        for n in 0..MAX_OPEN {
            let user = format!("u-{}", n / 100);
            let wanted = wanted_by(&n.to_string(), Some(&user), None);
            assert!(matches!(memory.request_approval(wanted, at(0)), ApprovalCheck::Waiting(..)));
        }
        assert!(matches!(memory.request_approval(wanted("more"), at(1)), ApprovalCheck::Full));
        assert!(matches!(memory.request_approval(wanted("7"), at(1)), ApprovalCheck::Waiting(..)));
        assert!(matches!(
            memory.request_approval(wanted("more"), at(3_600)),
            ApprovalCheck::Waiting(..)
        ));
    }

    #[test]
    fn one_asker_cannot_fill_the_room_of_others() {
        let mut memory = PolicyState::default();
        for (user, quota) in [(Some("a"), 100), (None, 10), (Some("b"), 100)] {
            let mut ask = |n: usize, second| {
                memory.request_approval(wanted_by(&format!("{user:?}{n}"), user, None), at(second))
            };
            assert!((0..quota).all(|n| matches!(ask(n, 0), ApprovalCheck::Waiting(..))));
            assert!(
                matches!(ask(quota, 1), ApprovalCheck::QuotaReached(reached) if reached.most == quota)
            );
            assert!(
                matches!(ask(0, 1), ApprovalCheck::Waiting(..)),
                "what waits already still waits"
            );
            assert!(matches!(ask(quota, 3_600), ApprovalCheck::Waiting(..)));
            memory.approvals.clear();
        }
    }

    #[test]
    fn users_of_one_token_leave_room_for_other_tokens() {
        let mut memory = PolicyState::default();
        let mut ask = |user: usize, caller: &str, n: usize| {
            let user = format!("u{user}");
            let wanted = wanted_by(&format!("{user}{n}"), Some(&user), None);
            let requester =
                ApprovalRequester { caller: Some(caller.to_owned()), ..wanted.requester.clone() };
            memory.request_approval(ApprovalRequest { requester, ..wanted }, at(0))
        };
        for user in 0..5 {
            assert!((0..100).all(|n| matches!(ask(user, "t", n), ApprovalCheck::Waiting(..))));
        }
        assert!(
            matches!(ask(6, "t", 0), ApprovalCheck::QuotaReached(reached) if reached.most == 500)
        );
        assert!(matches!(ask(6, "other", 0), ApprovalCheck::Waiting(..)));
    }

    #[test]
    fn quota_used_by_an_execution_is_its_own() {
        let mut memory = PolicyState::default();
        let ask = |memory: &mut PolicyState, execution, second| {
            memory.request_approval(wanted_by("b", Some("u"), execution), at(second))
        };
        let approve = |memory: &mut PolicyState, id: &str| {
            let decided = ApprovalDecision { is_approved: true, decided_by: None, reason: None };
            let settled = memory.settle_approval(id, &decided, at(0));
            let Some(ApprovalSettlement::Decided(approved)) = settled else { panic!() };
            memory.set_approval(approved);
        };
        let ApprovalCheck::Waiting(first, _) = ask(&mut memory, Some("x"), 0) else { panic!() };
        approve(&mut memory, &first.id);
        let is_again = |standing| match standing {
            ApprovalCheck::Used(ApprovalEffect::Used { again, .. }) => Some(again),
            _ => None,
        };
        assert_eq!(is_again(ask(&mut memory, Some("x"), 1)), Some(false));
        assert_eq!(is_again(ask(&mut memory, Some("x"), 2)), Some(true));
        let ApprovalCheck::Waiting(second, _) = ask(&mut memory, Some("y"), 3) else { panic!() };
        assert_ne!(first.id, second.id);
        approve(&mut memory, &second.id);
        assert_eq!(is_again(ask(&mut memory, Some("x"), 4)), Some(true), "not that of the other");
        assert_eq!(is_again(ask(&mut memory, Some("y"), 5)), Some(false));
        assert_eq!(is_again(ask(&mut memory, None, 6)), None, "no id, no repetition");
        assert_eq!(is_again(ask(&mut memory, Some("x"), 3_600)), None, "its time is over");
    }

    #[test]
    fn there_is_an_end_to_history() {
        let mut memory = PolicyState::default();
        for n in 0..3_000 {
            let _ = memory.request_approval(wanted(&n.to_string()), at(n * 3_600));
        }
        assert!(memory.approvals.len() <= MAX_HISTORY + 1, "{}", memory.approvals.len());
        assert_eq!(
            memory.approvals_in_state(Some(ApprovalState::Expired), at(3_000 * 3_600)).len(),
            MAX_HISTORY + 1
        );
    }

    #[test]
    fn what_comes_to_nothing_leaves_an_approval_as_it_was() {
        let mut memory = PolicyState::default();
        let undone = |trace| SideEffects { charges: Vec::new(), approval: Some(trace) };
        let ApprovalCheck::Waiting(_, trace) = memory.request_approval(wanted("b"), at(0)) else {
            panic!()
        };
        memory.undo_effects(&undone(trace));
        assert!(memory.open_approvals(at(0)).is_empty(), "nobody is asked");
        let ApprovalCheck::Waiting(asked, _) = memory.request_approval(wanted("b"), at(1)) else {
            panic!()
        };
        let decided = ApprovalDecision { is_approved: true, decided_by: None, reason: None };
        let settled = memory.settle_approval(&asked.id, &decided, at(2));
        let Some(ApprovalSettlement::Decided(approved)) = settled else { panic!() };
        memory.set_approval(approved);
        let ApprovalCheck::Used(trace) = memory.request_approval(wanted("b"), at(3)) else {
            panic!()
        };
        memory.undo_effects(&undone(trace));
        assert!(
            matches!(memory.request_approval(wanted("b"), at(4)), ApprovalCheck::Used(_)),
            "it is still good"
        );
    }

    #[test]
    fn what_is_taken_back_was_never_used() {
        let mut memory = PolicyState::default();
        let hour = SignedDuration::from_hours(1);
        assert!(memory.reserve_quota(&charge(10), 10, hour, at(0)).unwrap());
        assert!(!memory.has_quota_for(&charge(1), 10, hour, at(1)));
        memory.undo_effects(&SideEffects { charges: vec![charge(10)], approval: None });
        assert!(memory.has_quota_for(&charge(10), 10, hour, at(1)));
        assert!(memory.spent.is_empty(), "a count that is nothing is not kept");
    }

    #[test]
    fn many_charges_are_kept_in_little_room_and_none_is_lost() {
        let mut memory = PolicyState::default();
        let hour = SignedDuration::from_hours(1);
        for second in 0..3_000 {
            assert!(memory.reserve_quota(&charge(1), 3_000, hour, at(second)).unwrap());
        }
        assert!(!memory.reserve_quota(&charge(1), 3_000, hour, at(3_000)).unwrap());
        assert_eq!(memory.spent.values().map(VecDeque::len).sum::<usize>(), MAX_CHARGES);
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let mut memory = PolicyState::default();
        let hour = SignedDuration::from_hours(1);
        let of = |n: usize| QuotaCharge { key: format!("session:{n}"), ..charge(1) };
        for n in 0..MAX_COUNTS {
            assert!(memory.reserve_quota(&of(n), 1, hour, at(0)).unwrap());
        }
        assert_eq!(
            memory.reserve_quota(&of(MAX_COUNTS), 1, hour, at(1)),
            Err(STATE_FULL.to_owned())
        );
        let later = at(0) + MAX_WITHIN + SignedDuration::from_secs(1);
        assert_eq!(memory.reserve_quota(&of(MAX_COUNTS), 1, hour, later), Ok(true));
    }
}
