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

/// Returns the nearness of a text to operations elsewhere: the mean [height](SimilarityScale::height) of the
/// nearest ten.
///
/// `table` and `sentence` are the vectors of the text by the table and by the sentence encoder.
#[must_use]
pub fn elsewhere_height(table: &[f32], sentence: &[f32]) -> f64 {
    static BANK: LazyLock<OperationBank> = LazyLock::new(OperationBank::load);
    let bank = &*BANK;
    let heights = |cosines: Vec<f32>, scale: SimilarityScale| {
        cosines.into_iter().map(move |cosine| scale.height(f64::from(cosine)))
    };
    let of_table = heights(bank.table.apply(table), bank.table_scale);
    let of_sentence = heights(bank.sentence.apply(sentence), bank.sentence_scale);
    let mut heights: Vec<_> = of_table.zip(of_sentence).map(|(a, b)| f64::midpoint(a, b)).collect();
    heights.sort_by(|a, b| b.total_cmp(a));
    heights.truncate(NEARBY);
    heights.iter().sum::<f64>() / heights.len().max(1) as f64
}

impl OperationBank {
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
            elsewhere_height(&table, &sentence)
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
