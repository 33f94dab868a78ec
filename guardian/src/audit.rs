//! The audit log: what was decided, in a file that shows when it was changed.
//!
//! One JSON object per line. Each record has a number, the digest of the record before it, and as
//! its last member its own digest: SHA-256 over the line without that member. So a record cannot
//! be changed, removed from the middle or put elsewhere without breaking the chain. What a chain
//! alone cannot show is that its end was cut off: keep [`VerifiedLog::head`] somewhere else for that.
//!
//! A decision and what came of it are records of their own: `decision` is what a rule said and what
//! was answered, and `outcome` what the agent tells of a tool call afterwards. Both have the
//! `execution`. `policy` says which rules came into force, `approval` what a person decided, `recovery`
//! what a crash had left.
//!
//! The log is in segments. The one in use is `audit.jsonl`; when it is long enough it is closed as
//! `audit.000001.jsonl`, and the next begins with a record `segment` that carries the chain on.
//!
//! What rules remember, counts and approvals, is the fold of the log. `audit.checkpoint` has the fold
//! of the closed segments, so that a start reads what came after it; it is derived, and is made again
//! from the segments where it is damaged.
//!
//! A record is on disk before its answer goes out. A line that a crash left unfinished is moved to
//! a file beside the log when it is opened again, and the chain records that.

mod audit_record;
mod checkpoint;
mod copy;
mod hash_chain;
mod records;
mod restore_state;
mod segments;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use audit_record::{AuditRecord, DecidedStep};
pub use copy::copy;
pub(crate) use hash_chain::{HashChain, Options};
pub use records::{LogCorruption, LogStart, RecordReader, VerifiedLog, verify, verify_from};
pub(crate) use restore_state::restore_state;
pub(crate) use writer::AuditWriter;
