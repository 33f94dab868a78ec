//! Text of an answer, in the charset that it came in.

use std::borrow::Cow;

use a2s::MediaType;
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// The number of bytes of an XML document that are searched for its declaration.
const MAX_DECLARATION: usize = 256;

/// Decodes a body. A byte order mark takes precedence, then the charset of the media type, then that of an
/// XML declaration. Text without any of them is UTF-8 when it is valid, else Windows-1252, as in the
/// Encoding Standard. Bytes that are invalid in the charset become U+FFFD.
pub(crate) fn decode(media_type: Option<&MediaType>, body: &[u8]) -> String {
    let named = media_type.and_then(|media_type| media_type.parameter("charset"));
    let named = named.and_then(|label| Encoding::for_label(label.as_bytes()));
    let encoding = named.or_else(|| declared_encoding(media_type?, body)).unwrap_or_else(|| {
        match std::str::from_utf8(body) {
            Ok(_) => UTF_8,
            Err(_) => WINDOWS_1252,
        }
    });
    let (text, _, _) = encoding.decode(body);
    text.into_owned()
}

/// Decodes the value of a header: UTF-8 when it is valid, else Windows-1252, which contains the ISO-8859-1 of
/// older services (RFC 9110, section 5.5).
pub(crate) fn decode_header(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => WINDOWS_1252.decode_without_bom_handling(value).0,
    }
}

/// Returns the encoding that an XML document declares.
fn declared_encoding(media_type: &MediaType, body: &[u8]) -> Option<&'static Encoding> {
    if !media_type.essence().ends_with("xml") {
        return None;
    }
    let start = body.get(..body.len().min(MAX_DECLARATION))?;
    let start = String::from_utf8_lossy(start);
    let (declaration, _) = start.strip_prefix("<?xml")?.split_once("?>")?;
    let (_, value) = declaration.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (label, _) = value.get(1..)?.split_once(quote)?;
    Encoding::for_label(label.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(media_type: &str, body: &[u8], expected: &str) {
        assert_eq!(decode(MediaType::parse(media_type).as_ref(), body), expected);
    }

    #[test]
    fn the_charset_is_honoured() {
        check("text/plain", "Zürich".as_bytes(), "Zürich");
        check("text/plain; charset=iso-8859-1", b"Z\xfcrich", "Zürich");
        check("text/plain; charset=\"UTF-16LE\"", b"h\0i\0", "hi");
        check("text/plain; charset=shift_jis", b"\x83e", "テ");
        check("text/plain; charset=unheard-of", "é".as_bytes(), "é");
        check("text/plain", b"Z\xfcrich", "Zürich");
        check("", b"\xef\xbb\xbfhi", "hi");
    }

    #[test]
    fn a_byte_order_mark_counts_more_than_what_is_said() {
        check("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf\xc3\xa9", "é");
    }

    #[test]
    fn a_header_in_latin_1_keeps_its_letters() {
        assert_eq!(decode_header(b"M\xfcller"), "Müller");
        assert_eq!(decode_header("Müller".as_bytes()), "Müller");
        assert_eq!(decode_header(b"\xff\xfe"), "ÿþ");
    }

    #[test]
    fn xml_says_its_encoding_itself() {
        // Otherwise, it would be read as Windows-1252.
        let body = b"<?xml version='1.0' encoding='ISO-8859-2'?><a>\xf5</a>";
        let text = "<?xml version='1.0' encoding='ISO-8859-2'?><a>ő</a>";
        check("application/xml", body, text);
        check("application/atom+xml", body, text);
    }
}
