//! The MCP server of `a2s up`: its tools, what it makes of hostile callers and answers, guardians
//! in front of it, and the clients of others.

pub(crate) mod client;
mod crowd;
mod everything;
mod format;
mod guarded;
mod hostile;
mod limits;
mod others;
mod tools;
