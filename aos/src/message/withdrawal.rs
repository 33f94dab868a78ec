//! Withdrawals of approvals, an extension of `ping`: AOS has no message about a step that will not happen.
//! A guardian that does not know the member ignores it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Object, Ping};

/// The member of [`Ping::metadata`] with the withdrawals.
const MEMBER: &str = "withdrawnApprovals";

/// The notice of an agent that an execution will not use its approval.
///
/// ```
/// use aos::message::{ApprovalWithdrawal, Ping};
///
/// let withdrawal = ApprovalWithdrawal {
///     id: "1c9e6a91f0f9".to_owned(),
///     execution_id: "x-1".to_owned(),
///     reason: "the run was cancelled".to_owned(),
/// };
/// let ping = Ping::default().with_withdrawals(std::slice::from_ref(&withdrawal));
/// assert_eq!(ping.withdrawals(), [withdrawal]);
/// assert_eq!(Ping::default().withdrawals(), []);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalWithdrawal {
    /// The id of the approval.
    pub id: String,
    /// The execution that the approval was for.
    pub execution_id: String,
    /// The reason, in words for a person.
    pub reason: String,
}

impl Ping {
    /// Adds withdrawals of approvals. A guardian that cannot record them responds with an error status;
    /// the same withdrawals again have no further effect.
    #[must_use]
    pub fn with_withdrawals(mut self, withdrawals: &[ApprovalWithdrawal]) -> Self {
        let withdrawals = serde_json::to_value(withdrawals).unwrap_or_default();
        self.metadata.get_or_insert_with(Object::new).insert(MEMBER.to_owned(), withdrawals);
        self
    }

    /// Returns the withdrawals of approvals that the ping states. Others than well-formed ones are left out.
    pub fn withdrawals(&self) -> Vec<ApprovalWithdrawal> {
        let stated = self.metadata.as_ref().and_then(|metadata| metadata.get(MEMBER));
        let stated = stated.and_then(Value::as_array).into_iter().flatten();
        stated.filter_map(|notice| ApprovalWithdrawal::deserialize(notice).ok()).collect()
    }
}
