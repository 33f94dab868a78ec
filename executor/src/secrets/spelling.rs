//! Secret texts in the spellings in which addresses and JSON texts have them.

use aho_corasick::AhoCorasick;

use super::PLACEHOLDER;

/// A text read in a certain spelling: its bytes, and where each of them is written.
type Reading = Vec<(u8, usize, usize)>;

/// A way of writing characters as others.
#[derive(Debug, Clone, Copy)]
enum Spelling {
    /// As in addresses and forms.
    Percent,
    /// As in the strings of JSON.
    Escapes,
}

impl Spelling {
    /// The characters without which a text reads as it is written.
    fn marks(self) -> &'static [char] {
        match self {
            Self::Percent => &['%', '+'],
            Self::Escapes => &['\\'],
        }
    }

    fn read(self, text: &str) -> Reading {
        match self {
            Self::Percent => read_percent(text),
            Self::Escapes => read_escapes(text),
        }
    }
}

/// What a text may be spelt in, the outermost first: JSON is quoted in JSON that is quoted again, and
/// addresses stand in addresses and in JSON.
const LAYERS: [&[Spelling]; 8] = [
    &[Spelling::Percent],
    &[Spelling::Escapes],
    &[Spelling::Percent, Spelling::Percent],
    &[Spelling::Escapes, Spelling::Escapes],
    &[Spelling::Escapes, Spelling::Percent],
    &[Spelling::Percent, Spelling::Escapes],
    &[Spelling::Escapes, Spelling::Escapes, Spelling::Escapes],
    &[Spelling::Percent, Spelling::Escapes, Spelling::Escapes],
];

/// `text` with everything that `finder` finds replaced, however it is spelt there: as it is,
/// percent-encoded as in an address, or with the escapes of JSON, one in another.
pub(super) fn replace(finder: &AhoCorasick, text: &str) -> String {
    let plain = text.bytes().enumerate().map(|(at, byte)| (byte, at, at + 1)).collect();
    let mut masked = replace_in(finder, text, &plain).unwrap_or_else(|| text.to_owned());
    for layers in LAYERS {
        if let Some(reading) = read(&masked, layers)
            && let Some(replaced) = replace_in(finder, &masked, &reading)
        {
            masked = replaced;
        }
    }
    masked
}

/// `text` read layer by layer; nothing when one of the layers changes nothing.
fn read(text: &str, layers: &[Spelling]) -> Option<Reading> {
    let mut reading: Option<Reading> = None;
    for layer in layers {
        let inner: Vec<u8>;
        let now = match &reading {
            None => text,
            Some(reading) => {
                inner = reading.iter().map(|(byte, ..)| *byte).collect();
                std::str::from_utf8(&inner).ok()?
            }
        };
        if !now.contains(layer.marks()) {
            return None;
        }
        let next = layer.read(now);
        reading = Some(match &reading {
            None => next,
            Some(outer) => {
                let place = |(byte, from, to): (u8, usize, usize)| {
                    let (_, from, _) = outer.get(from)?;
                    let (.., to) = outer.get(to.checked_sub(1)?)?;
                    Some((byte, *from, *to))
                };
                next.into_iter().map(place).collect::<Option<_>>()?
            }
        });
    }
    reading
}

/// Replaces what is found in `reading`, which is how `text` reads; nothing when nothing is found.
fn replace_in(finder: &AhoCorasick, text: &str, reading: &Reading) -> Option<String> {
    let bytes: Vec<u8> = reading.iter().map(|(byte, ..)| *byte).collect();
    let mut replaced = String::with_capacity(text.len());
    let mut end = 0;
    for found in finder.find_iter(&bytes) {
        let (Some((_, from, _)), Some((.., to))) =
            (reading.get(found.start()), reading.get(found.end().saturating_sub(1)))
        else {
            continue;
        };
        // Secrets are whole characters, and so are escapes: this never cuts one.
        replaced.push_str(text.get(end..*from)?);
        replaced.push_str(PLACEHOLDER);
        end = *to;
    }
    if end == 0 {
        return None;
    }
    replaced.push_str(text.get(end..)?);
    Some(replaced)
}

/// `%41` is `A`, and `+` a space.
fn read_percent(text: &str) -> Reading {
    let bytes = text.as_bytes();
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let mut reading = Reading::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let (read, next) = match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                (u8::try_from(high * 16 + low).unwrap_or_default(), at + 3)
            }
            (b'+', ..) => (b' ', at + 1),
            _ => (byte, at + 1),
        };
        reading.push((read, at, next));
        at = next;
    }
    reading
}

/// `\"` is `"`, `\n` a line feed and `\u0041` is `A` (RFC 8259, section 7).
fn read_escapes(text: &str) -> Reading {
    let bytes = text.as_bytes();
    let mut reading = Reading::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let (read, next) = match (byte, bytes.get(at + 1)) {
            (b'\\', Some(b'u')) => match read_unicode(text, at) {
                Some(read) => read,
                None => ('\\', at + 1),
            },
            (b'\\', Some(b'n')) => ('\n', at + 2),
            (b'\\', Some(b't')) => ('\t', at + 2),
            (b'\\', Some(b'r')) => ('\r', at + 2),
            (b'\\', Some(b'b')) => ('\u{8}', at + 2),
            (b'\\', Some(b'f')) => ('\u{c}', at + 2),
            (b'\\', Some(b'"' | b'\\' | b'/')) => (char::from(bytes[at + 1]), at + 2),
            _ => {
                reading.push((byte, at, at + 1));
                at += 1;
                continue;
            }
        };
        let mut buffer = [0; 4];
        for byte in read.encode_utf8(&mut buffer).bytes() {
            reading.push((byte, at, next));
        }
        at = next;
    }
    reading
}

/// The character of `\uXXXX` at `at`, two of them for characters beyond the first plane, and where
/// it ends.
fn read_unicode(text: &str, at: usize) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let first = unit(at)?;
    if let Some(read) = char::from_u32(first.into()) {
        return Some((read, at + 6));
    }
    let pair = [first, unit(at + 6)?];
    let read = char::decode_utf16(pair).next()?.ok()?;
    Some((read, at + 12))
}
