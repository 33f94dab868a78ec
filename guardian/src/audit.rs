//! The audit log: the decisions of the guardian, in a tamper-evident file.
//!
//! The log has one JSON object per line. Each record has a number, the digest of the record before it, and
//! as its last member its own digest: SHA-256 over the line without that member. A record cannot be
//! changed, removed from the middle or moved without breaking the chain. The chain alone does not show that
//! its end was cut off: keep [`VerifiedLog::head`] somewhere else to detect that.
//!
//! A decision and its outcome are separate records: `decision` has the result of the rules and the
//! response, `outcome` the result of a tool call that the agent reports afterwards. Both have the
//! `execution`. `policy` states which rules came into force, `approval` the decision of a person,
//! `recovery` the rest that a crash had left.
//!
//! The log is in segments. The current one is `audit.jsonl`. When it is long enough it is closed as
//! `audit.000001.jsonl`, and the next one begins with a record `segment` that continues the chain.
//!
//! The state of the rules, counts and approvals, is the fold of the log. `audit.checkpoint` has the fold of
//! the closed segments, so that a start reads only the records after it. The checkpoint is derived: the
//! guardian rebuilds a damaged one from the segments.
//!
//! A record is on disk before its response is sent, except for permissions of steps that change nothing,
//! or of an agent in the same process that waits for the record itself; these follow within milliseconds
//! ([`AuditWriter::append_soon`]). It is flushed in `audit.redo`, which has a fixed
//! length, so that the log itself need not be flushed each time. When the log is opened again, records that a
//! crash lost are restored from there, a line that it left unfinished is moved to a separate file in the same
//! folder, and the chain records that.

mod audit_record;
mod checkpoint;
mod copy;
#[cfg(test)]
mod disk_model;
mod hash_chain;
mod log_file;
mod newest_records;
mod record_filter;
mod records;
mod redo_file;
mod restore_state;
mod segments;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use audit_record::{AuditRecord, DecidedStep, leaves_out};
pub use copy::{copy, has_log};
pub(crate) use hash_chain::{HashChain, Options};
pub(crate) use newest_records::{NewestRecords, RecordRange, read_newest};
pub use record_filter::RecordFilter;
pub use records::{LogCorruption, LogStart, RecordReader, VerifiedLog, verify, verify_from};
pub(crate) use restore_state::restore_state;
pub(crate) use writer::AuditWriter;
