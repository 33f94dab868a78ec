//! The start of foreign bytes, made fit to be shown.

pub(crate) use a2s::{is_displayable, to_single_line};

/// Returns the start of a body.
pub(super) fn excerpt_start(body: &[u8], limit: usize) -> String {
    // A character has at most four bytes; one more shows that the text goes on.
    let start = &body[..body.len().min((limit + 1) * 4)];
    to_single_line(&String::from_utf8_lossy(start), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_body_is_text_within_bounds() {
        assert_eq!(excerpt_start("é".repeat(500).as_bytes(), 3), "ééé…");
        assert_eq!(excerpt_start(&[0xff, 0xfe, b'x', 0], 9), "x");
    }
}
