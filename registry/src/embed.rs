//! Meaning as vectors: the built-in embedder, and the text it is given.
//!
//! The built-in embedder needs no network, no model file and no second process. It is a table with
//! one small vector per word piece, part of the binary; the vector of a text is the sum of the rows
//! of its pieces, scaled to length one. The rows were fitted so that such sums point where a
//! sentence transformer points: `tools/embedding` holds the recipe and the model card.
//!
//! ```
//! use registry::embed::Embedder;
//!
//! let embedder = Embedder::built_in();
//! let breeds = embedder.embed("List Dog Breeds Retrieve a list of dog breeds").unwrap();
//! let river = embedder.embed("Get River Level Latest water level of a river").unwrap();
//! let query = embedder.embed("pooch kinds").unwrap();
//! let cosine = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
//! assert!(cosine(&query, &breeds) > cosine(&query, &river));
//! assert_eq!(embedder.embed("…"), None);
//! ```

use self::table::{Table, Width};

mod table;
mod text;
mod wordpiece;

pub use self::text::{Described, IndexText, MOST_INTENTS, index_text, split_clauses, split_name};

static TABLE: &[u8] = include_bytes!("../data/embedding.a2se");
/// `sha256sum` of the table: a test holds the two together.
static TABLE_DIGEST: &str = include_str!("../data/embedding.a2se.sha256");

/// Raised whenever other code than the table changes stored vectors: how text is cut into pieces, or
/// what [`index_text`] gives to the vector.
const RULES: u32 = 2;

/// What turns text into vectors.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Embedder {
    /// The table in the binary.
    BuiltIn(BuiltIn),
}

impl Embedder {
    /// The embedder that is always there.
    pub fn built_in() -> Self {
        Self::BuiltIn(BuiltIn::new())
    }

    /// Length of its vectors.
    pub fn dimensions(&self) -> usize {
        match self {
            Self::BuiltIn(built_in) => built_in.table.dimensions(),
        }
    }

    /// A name that changes whenever the vectors would, such as `builtin-256-int4-0123456789ab-2`.
    /// An index keeps it beside its vectors and is rebuilt when it differs.
    pub fn id(&self) -> &str {
        match self {
            Self::BuiltIn(built_in) => &built_in.id,
        }
    }

    /// The vector of a text, of length one.
    ///
    /// `None` when the text has no meaning to this embedder: it is empty, has only punctuation or
    /// a script the table does not cover. Such a text has no direction, so there is nothing to
    /// compare; rank it by its terms alone. Of a long text the first 64 KiB and 512 word pieces
    /// count.
    pub fn embed(&self, text: &str) -> Option<Vec<f32>> {
        match self {
            Self::BuiltIn(built_in) => built_in.embed(text),
        }
    }

    /// The vector of a text in parts, of length one: each part counts by its weight, not by its
    /// length. `None` when no part has a meaning.
    pub fn embed_parts(&self, parts: &[(String, f32)]) -> Option<Vec<f32>> {
        let mut sum = vec![0.0; self.dimensions()];
        for (text, weight) in parts {
            for (place, value) in sum.iter_mut().zip(self.embed(text).unwrap_or_default()) {
                *place += weight * value;
            }
        }
        to_unit(sum)
    }
}

/// The table in the binary. Copies share it.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    table: Table<'static>,
    id: String,
}

impl BuiltIn {
    fn new() -> Self {
        let table = Table::parse(TABLE).expect("the table in the binary is the committed one");
        let width = match table.width() {
            Width::Int4 => "int4",
            Width::Int8 => "int8",
        };
        let digest = TABLE_DIGEST.get(..12).unwrap_or(TABLE_DIGEST);
        Self { table, id: format!("builtin-{}-{width}-{digest}-{RULES}", table.dimensions()) }
    }

    fn embed(&self, text: &str) -> Option<Vec<f32>> {
        let mut vector = vec![0.0; self.table.dimensions()];
        wordpiece::visit_pieces(&self.table, text, |piece| {
            if let Some(piece) = piece {
                self.table.add_row(piece, &mut vector);
            }
        });
        to_unit(vector)
    }
}

/// A vector of length one in the same direction, if it has one.
fn to_unit(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length <= f32::EPSILON {
        return None;
    }
    vector.iter_mut().for_each(|x| *x /= length);
    Some(vector)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::tests::CAPABILITIES;
