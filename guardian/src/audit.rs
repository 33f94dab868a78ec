//! The audit log: what was decided, in a file that shows when it was changed.
//!
//! One JSON object per line. Each record has a number, the digest of the record before it, and as
//! its last member its own digest: SHA-256 over the line without that member. So a record cannot
//! be changed, removed from the middle or put elsewhere without breaking the chain. What a chain
//! alone cannot show is that its end was cut off: keep [`Verified::head`] somewhere else for that.
//!
//! A record is on disk before its answer goes out. A line that a crash left unfinished is moved to
//! a file beside the log when it is opened again, and the chain records that.

mod chain;
mod record;
mod writer;

pub use chain::{Broken, Verified, verify};
pub(crate) use chain::{Chain, Options};
pub(crate) use record::Entry;
pub(crate) use writer::Writer;
