//! The start of foreign bytes, made fit to be shown.

pub(crate) use a2s::{is_shown, one_line};

/// The start of a body.
pub(super) fn start_of(body: &[u8], limit: usize) -> String {
    // A character has at most four bytes, and one more tells that the text goes on.
    let start = &body[..body.len().min((limit + 1) * 4)];
    one_line(&String::from_utf8_lossy(start), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_body_is_text_within_bounds() {
        assert_eq!(start_of("é".repeat(500).as_bytes(), 3), "ééé…");
        assert_eq!(start_of(&[0xff, 0xfe, b'x', 0], 9), "x");
    }
}
