//! What the language promises, held against any text: one binary, a module per promise.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its case has to fail")]

mod canonical;
mod expressions;
mod findings;
mod jsonpath;
mod literals;
mod publishing;
mod robust;
mod samples;
mod writer;
