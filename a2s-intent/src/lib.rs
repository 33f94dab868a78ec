//! The English of intents: words and requests of a sentence, and the inputs that its words give.
//!
//! [`split_requests`] and [`split_clauses`] divide a sentence; [`extract_inputs`] reads a capability's
//! inputs from it by the `patterns` of its parameters, and [`understand_inputs`] also by countries,
//! currencies, dates, numbers and lists that the sentence names. [`reply`] reads the answer to a question,
//! and [`small_talk`] recognizes a message that asks for nothing. [`coreference`] finds what a request
//! refers to, and [`word_similarity`] compares words. [`effect`] finds what a request wants done, and which
//! capability surely does something else. [`entity`] finds the search for an id that an input takes.
//! Everything is pure and linear in the text.

pub mod coreference;
pub mod effect;
pub mod entity;
mod intent_text;
mod pattern;
pub mod reply;
pub mod small_talk;
mod understanding;
pub mod word_similarity;

pub use intent_text::{split_clauses, split_requests};
pub use pattern::{ExtractedInput, extract_inputs, extract_values};
pub use understanding::{UnderstoodInputs, missing_inputs, understand_inputs};
