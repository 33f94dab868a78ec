//! The table file: one small integer vector per word piece.
//!
//! `tools/embedding/table.py` writes it; its model card is `tools/embedding/README.md`. All
//! integers are little-endian; `P` = `S` + `C` is the number of pieces.
//!
//! | size | what |
//! |---|---|
//! | 4 | magic `A2SE` |
//! | 2 | format version, 1 |
//! | 1 | bits per value, 8 or 4 |
//! | 1 | zero |
//! | 4 | dimensions `D`, even |
//! | 4 | rows `R` |
//! | 4 | pieces `S` that start a word |
//! | 4 | pieces `C` that continue one |
//! | 4 | bytes `N` of vocabulary |
//! | 4 × `R` | scale of each row, `f32` |
//! | `R` × `D` | values, `i8`; with 4 bits half as many bytes, low nibble first, each value plus 8 |
//! | 4 × `P` | row of each piece, or `0xFFFF_FFFF` for a piece without meaning of its own |
//! | 4 × `P` | where each piece ends in the vocabulary |
//! | `N` | vocabulary, UTF-8: the `S` starting pieces sorted by bytes, then the `C` others likewise |
//!
//! A row's value times its scale is one coordinate. Nothing is copied or allocated: every lookup
//! reads the bytes in place.

use std::ops::Range;

use super::wordpiece_tokenizer::{PiecePosition, Vocabulary};

const MAGIC: &[u8] = b"A2SE";
const FORMAT: u16 = 1;
const HEADER: usize = 28;
const NO_ROW: u32 = u32::MAX;

/// The reason why bytes are not a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TableError {
    /// The magic number, the version or the width of values is wrong.
    #[error("this is not an embedding table of format {FORMAT}")]
    Format,
    /// The sections in the header do not fill the file exactly.
    #[error("the embedding table is {found} bytes long, its header says {expected}")]
    Length {
        /// The number of bytes that the header requires.
        expected: usize,
        /// The actual number of bytes.
        found: usize,
    },
}

/// The width of a stored value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueWidth {
    /// Four bits, two values in a byte.
    Int4,
    /// Eight bits.
    Int8,
}

/// A word piece in the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TablePiece(usize);

/// A read-only view of the bytes of a table.
#[derive(Clone, Copy)]
pub(crate) struct EmbeddingTable<'a> {
    dimensions: usize,
    width: ValueWidth,
    starts: usize,
    scales: &'a [u8],
    values: &'a [u8],
    rows: &'a [u8],
    ends: &'a [u8],
    vocabulary: &'a [u8],
}

impl std::fmt::Debug for EmbeddingTable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("dimensions", &self.dimensions)
            .field("width", &self.width)
            .field("pieces", &self.pieces())
            .field("rows", &(self.scales.len() / 4))
            .finish_non_exhaustive()
    }
}

impl<'a> EmbeddingTable<'a> {
    /// Checks the header and splits the sections.
    ///
    /// # Errors
    /// Fails when the bytes are not a table of this format, or their number is wrong.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, TableError> {
        let header = bytes.get(..HEADER).ok_or(TableError::Format)?;
        let width = match header[6] {
            4 => ValueWidth::Int4,
            8 => ValueWidth::Int8,
            _ => return Err(TableError::Format),
        };
        if &header[..4] != MAGIC || u16::from_le_bytes([header[4], header[5]]) != FORMAT {
            return Err(TableError::Format);
        }
        let [dimensions, rows, starts, inside, letters] =
            [0, 1, 2, 3, 4].map(|i| number(&header[8..], i).map_or(0, |n| n as usize));
        if dimensions == 0 || dimensions % 2 == 1 {
            return Err(TableError::Format);
        }
        let row = match width {
            ValueWidth::Int4 => dimensions / 2,
            ValueWidth::Int8 => dimensions,
        };
        let pieces = starts.saturating_add(inside).saturating_mul(4);
        let sizes = [rows.saturating_mul(4), rows.saturating_mul(row), pieces, pieces, letters];
        let expected = sizes.iter().fold(HEADER, |sum, size| sum.saturating_add(*size));
        if expected != bytes.len() {
            return Err(TableError::Length { expected, found: bytes.len() });
        }
        let mut rest = &bytes[HEADER..];
        let [scales, values, rows, ends, vocabulary] = sizes.map(|size| {
            let (section, after) = rest.split_at(size);
            rest = after;
            section
        });
        Ok(Self { dimensions, width, starts, scales, values, rows, ends, vocabulary })
    }

    /// Returns the length of a vector.
    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns the width of a value.
    pub(crate) fn width(&self) -> ValueWidth {
        self.width
    }

    /// Adds the vector of `piece` to `sum`. Returns false when the piece has no vector.
    pub(crate) fn add_row(&self, piece: TablePiece, sum: &mut [f32]) -> bool {
        let Some(row) = number(self.rows, piece.0).filter(|row| *row != NO_ROW) else {
            return false;
        };
        let row = row as usize;
        let Some(scale) = number(self.scales, row).map(f32::from_bits) else { return false };
        let size = match self.width {
            ValueWidth::Int4 => self.dimensions / 2,
            ValueWidth::Int8 => self.dimensions,
        };
        let Some(values) = self.values.get(row * size..(row + 1) * size) else { return false };
        match self.width {
            ValueWidth::Int4 => {
                for (pair, byte) in sum.chunks_exact_mut(2).zip(values) {
                    pair[0] += (f32::from(byte & 15) - 8.0) * scale;
                    pair[1] += (f32::from(byte >> 4) - 8.0) * scale;
                }
            }
            ValueWidth::Int8 => {
                for (place, byte) in sum.iter_mut().zip(values) {
                    *place += f32::from(byte.cast_signed()) * scale;
                }
            }
        }
        true
    }

    /// Returns a piece as the reference tokenizer writes it.
    #[cfg(test)]
    pub(crate) fn spell(&self, piece: TablePiece) -> String {
        let mark = if piece.0 < self.starts { "" } else { "##" };
        format!("{mark}{}", String::from_utf8_lossy(self.text(piece.0)))
    }

    fn pieces(&self) -> usize {
        self.ends.len() / 4
    }

    /// The letters of the piece at an index; empty when there is none.
    fn text(&self, index: usize) -> &'a [u8] {
        let from = index.checked_sub(1).and_then(|before| number(self.ends, before)).unwrap_or(0);
        let to = number(self.ends, index).unwrap_or(0);
        self.vocabulary.get(from as usize..to as usize).unwrap_or_default()
    }

    /// Index after the last piece of `range` that is not greater than `word`.
    fn upper_bound(&self, range: Range<usize>, word: &[u8]) -> usize {
        let Range { mut start, mut end } = range;
        while start < end {
            let middle = start.midpoint(end);
            if self.text(middle) <= word {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }
}

impl Vocabulary for EmbeddingTable<'_> {
    type Piece = TablePiece;

    /// All pieces in sorted order between a prefix of `word` and `word` itself begin with that prefix too.
    /// So when a search fails, the common prefix of `word` and the piece before it bounds the result, and
    /// two or three searches are enough.
    fn find_longest(&self, place: PiecePosition, word: &str) -> Option<(TablePiece, usize)> {
        let Range { start, mut end } = match place {
            PiecePosition::Start => 0..self.starts,
            PiecePosition::Inside => self.starts..self.pieces(),
        };
        let mut word = word.as_bytes();
        while !word.is_empty() {
            let at = self.upper_bound(start..end, word);
            let before = at.checked_sub(1).filter(|before| *before >= start)?;
            let found = self.text(before);
            let shared = found.iter().zip(word).take_while(|(a, b)| a == b).count();
            if shared == found.len() {
                return Some((TablePiece(before), shared));
            }
            word = &word[..shared];
            end = before;
        }
        None
    }
}

/// The `index`-th little-endian number of a section.
fn number(section: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    let bytes = section.get(at..at.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_le_bytes)
}
