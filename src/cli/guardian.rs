//! The arguments of `a2s guardian`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(super) const AFTER_GUARDIAN: &str = "\
docs/guardian.md describes policies. `test` and `audit` read files; the other commands
call the guardian at --url with the owner's token.";

const AFTER_TRY: &str = "\
The guardian builds the messages of its latest decisions again from its audit log and decides on them by
the policy. It records nothing. The log leaves out secrets, long texts and redacted parts: decisions that
may depend on them are marked.

Exit codes:
  0  every decision stays the same
  1  a decision changes, or the policy has errors";

const AFTER_TEST: &str = "\
The command sends nothing: each case starts without counted calls and without approvals.
A file of cases:
  cases:
    - name: small amounts pass
      request: {tool: bank.pay, inputs: {body: {amount: 20}}}
      expect: allow

Exit codes:
  0  every case passed
  1  a case failed, or a file has errors
  2  usage error";

const AFTER_AUDIT: &str = "\
The log has segments: audit.jsonl, and closed ones next to it (audit.000001.jsonl). The command
checks all of them; with --after, from the oldest existing segment.

A chain alone cannot show that its end was cut off: store the digest that `verify` prints at another
location, and pass it with --head later: the log must still contain it.

Exit codes:
  0  every record follows the one before it
  1  a record does not, or the log cannot be read";

/// Policies, approvals and the audit log of the reference guardian.
#[derive(Debug, Subcommand)]
pub(crate) enum GuardianCommand {
    /// Test a policy with cases
    #[command(after_help = AFTER_TEST)]
    Test(TestPolicyArgs),
    /// Try a policy on the latest decisions, before it is in force
    #[command(after_help = AFTER_TRY)]
    Try(TryPolicyArgs),
    /// Show the policy in force
    Policy,
    /// Show the latest decisions, the newest first
    Decisions(Box<DecisionsArgs>),
    /// List requests that wait for approval: requester, action, tool and times
    Approvals(ApprovalsArgs),
    /// Approve a waiting request: the action is allowed once, until the approval expires
    Approve(SettleArgs),
    /// Reject a waiting request: the action is denied until the rejection expires
    Reject(SettleArgs),
    /// Check the audit log, or read it
    #[command(after_help = AFTER_AUDIT)]
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TestPolicyArgs {
    /// The policy
    pub(crate) policy: PathBuf,
    /// The cases, in YAML
    pub(crate) cases: PathBuf,
    /// Only run cases with TEXT in their name
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TryPolicyArgs {
    /// The policy
    pub(crate) policy: PathBuf,
    /// The number of decisions to try it on, the latest ones
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub(crate) last: u32,
}

#[derive(Debug, Args)]
pub(crate) struct DecisionsArgs {
    #[command(flatten)]
    pub(crate) filter: RecordFilterArgs,
    /// The maximum number of decisions
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    /// Approvals that are pending, approved, rejected, used or expired, or all; the latest 1,000 of those
    /// that are over are kept [default: those that wait, or are decided and not used yet]
    #[arg(long, value_name = "STATUS", conflicts_with = "watch")]
    pub(crate) status: Option<String>,
    /// Show the waiting requests, then each change as it happens
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SettleArgs {
    /// The approval id in the denial
    pub(crate) id: String,
    /// The person who decides, for the record
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true)]
    pub(crate) by: Option<String>,
    /// The reason, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that no record was changed, removed or moved
    Verify {
        /// The log: its current segment, with the closed ones in the same folder [default: audit.jsonl in
        /// the data folder]
        log: Option<PathBuf>,
        /// A digest that was at the end of the log earlier, as `sha256:…`
        #[arg(long, value_name = "DIGEST")]
        head: Option<String>,
        /// The digest at the end of the last archived segment: the oldest existing segment has to follow
        /// it. Without this flag, all segments must exist
        #[arg(long, value_name = "DIGEST")]
        after: Option<String>,
    },
    /// Show records, the oldest first; the command also checks the log
    Show(Box<ShowAuditArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct ShowAuditArgs {
    /// The log [default: audit.jsonl in the data folder]
    pub(crate) log: Option<PathBuf>,
    /// Only this event: decision, outcome, approval, policy, `shadow_policy`, recovery or segment
    #[arg(long)]
    pub(crate) event: Option<String>,
    #[command(flatten)]
    pub(crate) filter: RecordFilterArgs,
    /// Show only the last N of these records
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<usize>,
}

/// The records of the audit log to show.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordFilterArgs {
    /// Only this decision: allow, deny or modify
    #[arg(long)]
    pub(crate) decision: Option<String>,
    /// Only tools with TEXT in their name
    #[arg(long, value_name = "TEXT")]
    pub(crate) tool: Option<String>,
    /// Only this capability
    #[arg(long, value_name = "NAME")]
    pub(crate) capability: Option<String>,
    /// Only records that this rule took part in
    #[arg(long, value_name = "ID")]
    pub(crate) rule: Option<String>,
    /// Only this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only this user, or this token that acts for one
    #[arg(long, value_name = "ID")]
    pub(crate) user: Option<String>,
    /// Only this execution: the decisions about a call, and its outcome
    #[arg(long, value_name = "ID")]
    pub(crate) execution: Option<String>,
    /// Only this run
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Only records from this time on, such as 2026-05-06T07:08:09Z
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<jiff::Timestamp>,
    /// Only records that the policy of `--shadow` would have decided differently
    #[arg(long)]
    pub(crate) differs: bool,
}
