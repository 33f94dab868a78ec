//! Decodes the body of a response that a service has compressed, although the executor asks for no
//! compression (RFC 9110, section 8.4). Pure.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// The maximum number of codings of one body. Common services apply one.
const MAX_CODINGS: usize = 4;

/// The reason for a body that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    /// The decoded body is larger than allowed.
    #[error("the decoded body is too large")]
    TooLarge,
    /// The body has a coding that the executor does not decode.
    #[error("the encoding `{0}`, which the executor does not support")]
    Unsupported(&'static str),
    /// The body has more codings than allowed.
    #[error("more than {MAX_CODINGS} encodings")]
    TooMany,
    /// The body is not valid in its coding.
    #[error("a body that is not valid in the encoding `{0}`")]
    Malformed(&'static str),
}

/// The codings that the executor decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentCoding {
    Gzip,
    Deflate,
}

/// A decoder for the codings of one body.
#[derive(Debug)]
pub(super) struct ContentDecoder {
    /// A layer for each coding; the service has applied the first one last.
    layers: Vec<CodingLayer>,
}

/// The decoder of one coding.
#[derive(Debug)]
struct CodingLayer {
    coding: ContentCoding,
    limit: usize,
    /// The first bytes, until they show the format.
    start: Vec<u8>,
    format: Option<CodingFormat>,
}

/// The format of the content under the name of a coding.
#[derive(Debug)]
enum CodingFormat {
    Gzip(MultiGzDecoder<BoundedBuffer>),
    Zlib(ZlibDecoder<BoundedBuffer>),
    Deflate(DeflateDecoder<BoundedBuffer>),
    /// The content is not encoded, although the service names an encoding.
    Plain(BoundedBuffer),
}

/// The decoded bytes since the last read. In total, it accepts no more than its limit.
#[derive(Debug)]
struct BoundedBuffer {
    bytes: Vec<u8>,
    remaining: usize,
    is_exceeded: bool,
}

impl ContentDecoder {
    /// Creates the decoder for a body after these headers, of which each coding decodes to at most `limit`
    /// bytes. Returns `None` when the body is not encoded. An empty element of the list names no coding
    /// (RFC 9110, section 5.6.1), and neither does an unknown word.
    ///
    /// # Errors
    /// Returns the coding that the executor does not support.
    pub(super) fn from_headers(
        headers: &HeaderMap,
        limit: usize,
    ) -> Result<Option<Self>, DecodeError> {
        let values = headers.get_all(CONTENT_ENCODING).iter();
        let words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let mut layers = Vec::new();
        for word in words {
            match word.trim_ascii().to_ascii_lowercase().as_slice() {
                b"gzip" | b"x-gzip" => layers.push(CodingLayer::new(ContentCoding::Gzip, limit)),
                b"deflate" => layers.push(CodingLayer::new(ContentCoding::Deflate, limit)),
                word => {
                    // Another word may be a credential, and must not be shown.
                    let known = ["br", "compress", "dcb", "dcz", "x-compress", "zstd"];
                    if let Some(known) = known.into_iter().find(|known| word == known.as_bytes()) {
                        return Err(DecodeError::Unsupported(known));
                    }
                }
            }
        }
        if MAX_CODINGS < layers.len() {
            return Err(DecodeError::TooMany);
        }
        layers.reverse();
        Ok((!layers.is_empty()).then_some(Self { layers }))
    }

    /// Decodes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut bytes = bytes.to_vec();
        for layer in &mut self.layers {
            bytes = layer.push(&bytes)?;
        }
        Ok(bytes)
    }

    /// Ends the body, and returns the bytes that are left.
    pub(super) fn finish(&mut self) -> Result<Vec<u8>, DecodeError> {
        let mut bytes = Vec::new();
        for layer in &mut self.layers {
            let mut decoded = layer.push(&bytes)?;
            decoded.append(&mut layer.finish()?);
            bytes = decoded;
        }
        Ok(bytes)
    }
}

impl CodingLayer {
    fn new(coding: ContentCoding, limit: usize) -> Self {
        Self { coding, limit, start: Vec::new(), format: None }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let Some(format) = &mut self.format else {
            self.start.extend_from_slice(bytes);
            return if self.start.len() < 2 { Ok(Vec::new()) } else { self.begin() };
        };
        format.write(bytes).map_err(|()| format.error(self.coding))
    }

    /// Chooses the format by the first bytes, and decodes them.
    fn begin(&mut self) -> Result<Vec<u8>, DecodeError> {
        let start = std::mem::take(&mut self.start);
        let format = CodingFormat::new(self.coding, &start, self.limit);
        let format = self.format.insert(format);
        format.write(&start).map_err(|()| format.error(self.coding))
    }

    fn finish(&mut self) -> Result<Vec<u8>, DecodeError> {
        // The response to a `HEAD` request has no body, whatever its headers say.
        if self.format.is_none() && self.start.is_empty() {
            return Ok(Vec::new());
        }
        let mut decoded = if self.format.is_none() { self.begin()? } else { Vec::new() };
        if let Some(format) = &mut self.format {
            let mut rest = format.finish().map_err(|()| format.error(self.coding))?;
            decoded.append(&mut rest);
        }
        Ok(decoded)
    }
}

impl CodingFormat {
    /// Creates the decoder for the content that begins with `start`. Some services mark plain content as
    /// compressed, and some send DEFLATE without the frame of zlib.
    fn new(coding: ContentCoding, start: &[u8], limit: usize) -> Self {
        let buffer = BoundedBuffer { bytes: Vec::new(), remaining: limit, is_exceeded: false };
        match (coding, start) {
            (ContentCoding::Gzip, [0x1f, 0x8b, ..]) => Self::Gzip(MultiGzDecoder::new(buffer)),
            (ContentCoding::Gzip, _) => Self::Plain(buffer),
            (ContentCoding::Deflate, &[first, second, ..])
                if first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31) =>
            {
                Self::Zlib(ZlibDecoder::new(buffer))
            }
            (ContentCoding::Deflate, _) => Self::Deflate(DeflateDecoder::new(buffer)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Vec<u8>, ()> {
        let written = match self {
            Self::Gzip(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
            Self::Zlib(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
            Self::Deflate(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
            Self::Plain(buffer) => buffer.write_all(bytes),
        };
        written.map(|()| std::mem::take(&mut self.buffer().bytes)).map_err(|_| ())
    }

    fn finish(&mut self) -> Result<Vec<u8>, ()> {
        // A decoder of DEFLATE accepts no more bytes after the end of the content, which it does not check.
        let has_ended = match self {
            Self::Zlib(decoder) => matches!(decoder.write(&[0]), Ok(0)),
            Self::Deflate(decoder) => matches!(decoder.write(&[0]), Ok(0)),
            Self::Gzip(_) | Self::Plain(_) => true,
        };
        if !has_ended {
            return Err(());
        }
        let finished = match self {
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zlib(decoder) => decoder.try_finish(),
            Self::Deflate(decoder) => decoder.try_finish(),
            Self::Plain(_) => Ok(()),
        };
        finished.map(|()| std::mem::take(&mut self.buffer().bytes)).map_err(|_| ())
    }

    fn buffer(&mut self) -> &mut BoundedBuffer {
        match self {
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zlib(decoder) => decoder.get_mut(),
            Self::Deflate(decoder) => decoder.get_mut(),
            Self::Plain(buffer) => buffer,
        }
    }

    /// Returns the reason for a failed write.
    fn error(&mut self, coding: ContentCoding) -> DecodeError {
        match (self.buffer().is_exceeded, coding) {
            (true, _) => DecodeError::TooLarge,
            (false, ContentCoding::Gzip) => DecodeError::Malformed("gzip"),
            (false, ContentCoding::Deflate) => DecodeError::Malformed("deflate"),
        }
    }
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.remaining.checked_sub(bytes.len()) {
            Some(remaining) => {
                self.remaining = remaining;
                self.bytes.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            None => {
                self.is_exceeded = true;
                Err(io::Error::other("the limit is exceeded"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use http::HeaderValue;

    use super::*;

    const LIMIT: usize = 10_000;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Decodes a body that arrives in pieces of `size` bytes; `None` when it is not encoded.
    fn decode(
        encodings: &[&str],
        body: &[u8],
        size: usize,
    ) -> Result<Option<Vec<u8>>, DecodeError> {
        let mut headers = HeaderMap::new();
        for encoding in encodings {
            headers.append(CONTENT_ENCODING, HeaderValue::from_str(encoding).unwrap());
        }
        let Some(mut decoder) = ContentDecoder::from_headers(&headers, LIMIT)? else {
            return Ok(None);
        };
        let mut decoded = Vec::new();
        for piece in body.chunks(size) {
            decoded.extend(decoder.push(piece)?);
        }
        decoded.extend(decoder.finish()?);
        Ok(Some(decoded))
    }

    #[test]
    fn compressed_content_is_decoded_in_pieces_of_any_size() {
        let text = br#"{"v": "some text, some text, some text"}"#;
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(text).unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
        raw.write_all(text).unwrap();
        let (zlib, raw) = (zlib.finish().unwrap(), raw.finish().unwrap());
        let members = [gzip(&text[..9]), gzip(&text[9..])].concat();
        for size in [1, 2, 7, 1_000] {
            for (encodings, body) in [
                (&["gzip"][..], gzip(text)),
                (&["X-GZIP"], gzip(text)),
                (&[" identity, GZip ,"], gzip(text)),
                (&["gzip"], members.clone()),
                (&["deflate"], zlib.clone()),
                (&["deflate"], raw.clone()),
                (&["deflate, gzip"], gzip(&zlib)),
                (&["deflate", "gzip"], gzip(&zlib)),
                // Some services name an encoding that they have not applied.
                (&["gzip"], text.to_vec()),
            ] {
                let decoded = decode(encodings, &body, size);
                assert_eq!(decoded, Ok(Some(text.to_vec())), "{encodings:?} {size}");
            }
        }
        assert_eq!(decode(&["gzip"], b"", 1), Ok(Some(Vec::new())));
        assert_eq!(decode(&["gzip"], b"7", 1), Ok(Some(b"7".to_vec())));
    }

    #[test]
    fn words_that_name_no_coding_are_ignored() {
        for encodings in [
            &[""][..],
            &[", "],
            &["identity, identity"],
            &["UTF-8"],
            &["none"],
            &["binary"],
            &["aws-chunked"],
            &["identity", ""],
        ] {
            assert_eq!(decode(encodings, b"{}", 1), Ok(None), "{encodings:?}");
        }
        assert_eq!(decode(&["gzip, br"], b"", 1), Err(DecodeError::Unsupported("br")));
        assert_eq!(decode(&["gzip,gzip,gzip", "gzip,gzip"], b"", 1), Err(DecodeError::TooMany));
    }

    #[test]
    fn a_decompression_bomb_ends_at_the_limit() {
        let bomb = gzip(&vec![0; 2_000_000]);
        assert!(bomb.len() < 60_000);
        assert_eq!(decode(&["gzip"], &bomb, 60_000), Err(DecodeError::TooLarge));
        let twice = gzip(&bomb);
        assert_eq!(decode(&["gzip, gzip"], &twice, 60_000), Err(DecodeError::TooLarge));
        let fits = gzip(&vec![0; LIMIT]);
        assert_eq!(decode(&["gzip"], &fits, 60_000).unwrap().unwrap().len(), LIMIT);
    }

    #[test]
    fn damaged_content_is_an_error() {
        let whole = gzip(b"some text");
        let mut changed = whole.clone();
        let end = changed.len() - 6;
        changed[end] ^= 1;
        for body in [&whole[..whole.len() - 1], &whole[..12], &changed] {
            assert_eq!(decode(&["gzip"], body, 5), Err(DecodeError::Malformed("gzip")));
        }
        let deflate = DecodeError::Malformed("deflate");
        assert_eq!(decode(&["deflate"], b"{\"v\": 1}", 5), Err(deflate));
    }
}
