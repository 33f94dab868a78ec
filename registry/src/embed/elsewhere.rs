//! The operations of many services elsewhere, as vectors of the built-in embedders.
//!
//! An intent that is nearer to one of these than to anything in the registry probably means something that
//! the registry does not have. `registry/data/NOTICE.md` names the source of the operations.
//!
//! A file has a header (`A2SB`, version, bits per value, zero, dimensions, rows), a scale for each row as
//! `f32`, and the values; with 4 bits the low nibble comes first, and each value is stored plus 8.

use std::sync::LazyLock;

use sentence_encoder::ByteMatrix;

use super::{BuiltIn, QualityEmbedder, SimilarityScale};

static TABLE_BANK: &[u8] = include_bytes!("../../data/elsewhere-table.a2sb");
static SENTENCE_BANK: &[u8] = include_bytes!("../../data/elsewhere-minilm.a2sb");

const MAGIC: &[u8] = b"A2SB";
const HEADER: usize = 16;
/// The number of the nearest operations whose mean counts.
const NEARBY: usize = 10;

struct OperationBank {
    table: ByteMatrix,
    table_scale: SimilarityScale,
    sentence: ByteMatrix,
    sentence_scale: SimilarityScale,
}

/// Returns the nearness of texts to operations elsewhere: of each, the mean
/// [height](SimilarityScale::height) of the nearest ten.
///
/// A text has its vectors by the table and by the sentence encoder.
#[must_use]
pub fn elsewhere_heights(texts: &[(&[f32], &[f32])]) -> Vec<f64> {
    static BANK: LazyLock<OperationBank> = LazyLock::new(OperationBank::load);
    if texts.is_empty() {
        return Vec::new();
    }
    let bank = &*BANK;
    // All texts at once: the bank is read once.
    let tables: Vec<_> = texts.iter().flat_map(|(table, _)| *table).copied().collect();
    let sentences: Vec<_> = texts.iter().flat_map(|(_, sentence)| *sentence).copied().collect();
    let (tables, sentences) = (bank.table.apply(&tables), bank.sentence.apply(&sentences));
    let by_text =
        tables.chunks_exact(bank.table.rows()).zip(sentences.chunks_exact(bank.sentence.rows()));
    by_text.map(|(tables, sentences)| bank.mean_of_nearest(tables, sentences)).collect()
}

impl OperationBank {
    /// Returns the mean height of the nearest operations, by the cosines of all.
    fn mean_of_nearest(&self, tables: &[f32], sentences: &[f32]) -> f64 {
        let height = |scale: SimilarityScale, cosine: &f32| scale.height(f64::from(*cosine));
        let pairs = tables.iter().zip(sentences);
        let mut heights: Vec<_> = pairs
            .map(|(table, sentence)| {
                f64::midpoint(
                    height(self.table_scale, table),
                    height(self.sentence_scale, sentence),
                )
            })
            .collect();
        if heights.len() > NEARBY {
            heights.select_nth_unstable_by(NEARBY, |a, b| b.total_cmp(a));
            heights.truncate(NEARBY);
            // The sum must not depend on how they were selected.
            heights.sort_by(|a, b| b.total_cmp(a));
        }
        heights.iter().sum::<f64>() / heights.len().max(1) as f64
    }

    fn load() -> Self {
        let read = |file| parse(file).expect("the banks in the binary are the committed ones");
        Self {
            table: read(TABLE_BANK),
            table_scale: BuiltIn::new().scale(),
            sentence: read(SENTENCE_BANK),
            sentence_scale: QualityEmbedder::new().scale(),
        }
    }
}

/// Reads a file of vectors. `None` when it is not one.
fn parse(file: &[u8]) -> Option<ByteMatrix> {
    let (header, rest) = file.split_at_checked(HEADER)?;
    let number = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let (columns, rows) = (number(8)? as usize, number(12)? as usize);
    if !header.starts_with(MAGIC) || header.get(4..6)? != [1, 0] {
        return None;
    }
    let (scales, values) = rest.split_at_checked(rows.checked_mul(4)?)?;
    let scales = scales.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let values: Vec<i8> = match header.get(6)? {
        8 => values.iter().map(|byte| byte.cast_signed()).collect(),
        4 => {
            let nibbles = values.iter().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| nibble.cast_signed() - 8).collect()
        }
        _ => return None,
    };
    ByteMatrix::new(&values, scales, columns).filter(|matrix| matrix.rows() == rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_elsewhere_is_near() {
        let compare = |text: &str| {
            let sentence = QualityEmbedder::new().embed(&[text]).remove(0).unwrap();
            let table = BuiltIn::new().embed(text).unwrap();
            elsewhere_heights(&[(&table, &sentence)])[0]
        };
        let (known, unknown) =
            (compare("list the repositories of a user"), compare("water my tomatoes"));
        assert!(known > unknown + 1.0, "{known} {unknown}");
    }

    #[test]
    fn other_bytes_are_no_bank() {
        assert!(parse(TABLE_BANK).is_some());
        assert!(parse(&TABLE_BANK[..TABLE_BANK.len() - 1]).is_none());
        assert!(parse(b"A2SB").is_none());
        assert!(parse(&[0; 64]).is_none());
    }
}
