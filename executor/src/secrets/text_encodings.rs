//! Secret texts in the spellings in which addresses, JSON texts and pages have them.

use a2s::HIDDEN;
use aho_corasick::AhoCorasick;

use super::MIN_CHARS;

/// A decoded text: its bytes, and the position of each in the original text.
type DecodedText = Vec<(u8, usize, usize)>;

/// An encoding that writes characters as other characters.
#[derive(Debug, Clone, Copy)]
enum TextEncoding {
    /// Percent-encoding, as in addresses and forms.
    Percent,
    /// Escapes, as in the strings of JSON.
    Escapes,
    /// Entities, as in HTML and XML.
    Entities,
}

impl TextEncoding {
    /// Returns the marker characters. A text without them does not change when it is decoded.
    fn marker_chars(self) -> &'static [char] {
        match self {
            Self::Percent => &['%', '+'],
            Self::Escapes => &['\\'],
            Self::Entities => &['&'],
        }
    }

    /// Calls `give` with each byte of the decoded `text`, and its position in `text`.
    fn decode_text(self, text: &str, give: &mut impl FnMut(u8, usize, usize)) {
        match self {
            Self::Percent => read_percent(text, give),
            Self::Escapes => read_marked(text, '\\', read_escape, give),
            Self::Entities => read_marked(text, '&', read_entity, give),
        }
    }
}

/// The encodings that a text may have, the outermost first: JSON is quoted in JSON that is quoted again,
/// and addresses appear in addresses, in JSON and in pages.
const LAYERS: [&[TextEncoding]; 15] = [
    &[TextEncoding::Percent],
    &[TextEncoding::Escapes],
    &[TextEncoding::Entities],
    &[TextEncoding::Percent, TextEncoding::Percent],
    &[TextEncoding::Escapes, TextEncoding::Escapes],
    &[TextEncoding::Entities, TextEncoding::Entities],
    &[TextEncoding::Escapes, TextEncoding::Percent],
    &[TextEncoding::Escapes, TextEncoding::Entities],
    &[TextEncoding::Percent, TextEncoding::Escapes],
    &[TextEncoding::Percent, TextEncoding::Entities],
    &[TextEncoding::Entities, TextEncoding::Percent],
    &[TextEncoding::Entities, TextEncoding::Escapes],
    &[TextEncoding::Entities, TextEncoding::Escapes, TextEncoding::Escapes],
    &[TextEncoding::Escapes, TextEncoding::Escapes, TextEncoding::Escapes],
    &[TextEncoding::Percent, TextEncoding::Escapes, TextEncoding::Escapes],
];

/// Returns the texts that a program gets from `text` when it reads its UTF-8 as Latin-1 or Windows-1252,
/// once or twice; an empty list when that changes nothing.
pub(super) fn misread_forms(text: &str) -> Vec<String> {
    if text.is_ascii() {
        return Vec::new();
    }
    let latin = |text: &str| text.bytes().map(char::from).collect::<String>();
    let windows = |text: &str| {
        let (read, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(text.as_bytes());
        read.into_owned()
    };
    let (once, once_windows) = (latin(text), windows(text));
    let (twice, twice_windows) = (latin(&once), windows(&once_windows));
    let mut all = vec![once, once_windows, twice, twice_windows];
    // Quoted parts of a response have no control characters.
    let shown = |text: &String| text.chars().filter(|c| !c.is_control()).collect::<String>();
    let stripped: Vec<String> = all.iter().map(shown).collect();
    all.extend(stripped.into_iter().filter(|text| MIN_CHARS <= text.chars().count()));
    all
}

/// Replaces everything that `finder` finds in `text`, in any spelling: unchanged, percent-encoded as in an
/// address, with the escapes of JSON or of a page, and with one inside another.
pub(super) fn replace_found(finder: &AhoCorasick, text: &str) -> String {
    let plain = |at: usize| (at, at + 1);
    let mut masked =
        replace_in(finder, text, text.as_bytes(), plain).unwrap_or_else(|| text.to_owned());
    for layers in LAYERS {
        // Where each byte is written takes many times the size of a text: it is only asked where
        // there is something to be replaced.
        let is_found =
            decode_bytes(&masked, layers).is_some_and(|decoded| finder.is_match(&decoded));
        if is_found
            && let Some(reading) = decode_with_positions(&masked, layers)
            && let Some(replaced) = replace_decoded(finder, &masked, &reading)
        {
            masked = replaced;
        }
    }
    masked
}

/// Decodes `text` layer by layer; `None` when one of the layers changes nothing.
fn decode_bytes(text: &str, layers: &[TextEncoding]) -> Option<Vec<u8>> {
    let mut decoded: Option<Vec<u8>> = None;
    for layer in layers {
        let now = match &decoded {
            None => text,
            Some(decoded) => std::str::from_utf8(decoded).ok()?,
        };
        if !now.contains(layer.marker_chars()) {
            return None;
        }
        let mut next = Vec::with_capacity(now.len());
        layer.decode_text(now, &mut |byte, _, _| next.push(byte));
        decoded = Some(next);
    }
    decoded
}

/// Decodes `text` in the same manner, with the position of each byte.
fn decode_with_positions(text: &str, layers: &[TextEncoding]) -> Option<DecodedText> {
    let mut reading: Option<DecodedText> = None;
    for layer in layers {
        let inner: Vec<u8>;
        let now = match &reading {
            None => text,
            Some(reading) => {
                inner = reading.iter().map(|(byte, ..)| *byte).collect();
                std::str::from_utf8(&inner).ok()?
            }
        };
        let mut next = DecodedText::with_capacity(now.len());
        layer.decode_text(now, &mut |byte, from, to| next.push((byte, from, to)));
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

fn replace_decoded(finder: &AhoCorasick, text: &str, reading: &DecodedText) -> Option<String> {
    let bytes: Vec<u8> = reading.iter().map(|(byte, ..)| *byte).collect();
    let place = |at: usize| reading.get(at).map_or((text.len(), text.len()), |(_, a, b)| (*a, *b));
    replace_in(finder, text, &bytes, place)
}

/// Replaces in `text` the matches that are found in `bytes`, its decoded form; `place` returns the range of
/// `text` that encodes a byte. `None` when there are no matches.
fn replace_in(
    finder: &AhoCorasick,
    text: &str,
    bytes: &[u8],
    place: impl Fn(usize) -> (usize, usize),
) -> Option<String> {
    let mut replaced = String::with_capacity(text.len());
    let mut end = 0;
    for found in finder.find_iter(bytes) {
        let (from, _) = place(found.start());
        let (_, to) = place(found.end().saturating_sub(1));
        // Secrets are whole characters, and so are escapes: this never cuts one.
        replaced.push_str(text.get(end..from)?);
        replaced.push_str(HIDDEN);
        end = to;
    }
    if end == 0 {
        return None;
    }
    replaced.push_str(text.get(end..)?);
    Some(replaced)
}

/// Decodes percent-encoding: `%41` is `A`, and `+` is a space.
fn read_percent(text: &str, give: &mut impl FnMut(u8, usize, usize)) {
    let bytes = text.as_bytes();
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let (read, next) = match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                (u8::try_from(high * 16 + low).unwrap_or_default(), at + 3)
            }
            (b'+', ..) => (b' ', at + 1),
            _ => (byte, at + 1),
        };
        give(read, at, next);
        at = next;
    }
}

/// Reads a text in which characters are escaped by a mark; `read_one` decodes one escape.
fn read_marked(
    text: &str,
    mark: char,
    read_one: impl Fn(&str) -> Option<(char, usize)>,
    give: &mut impl FnMut(u8, usize, usize),
) {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let plain = rest.find(mark).unwrap_or(rest.len());
        for (index, byte) in rest.bytes().take(plain).enumerate() {
            give(byte, at + index, at + index + 1);
        }
        at += plain;
        let Some(marked) = rest.get(plain..).filter(|marked| !marked.is_empty()) else { break };
        let (read, length) = read_one(marked).unwrap_or_else(|| (mark, mark.len_utf8()));
        let mut buffer = [0; 4];
        for byte in read.encode_utf8(&mut buffer).bytes() {
            give(byte, at, at + length);
        }
        at += length;
    }
}

/// Returns the character of an escape at the beginning of `text`, and the length of the escape: `\"` is
/// `"`, `\n` is a line feed and `\u0041` is `A`. Characters beyond the first plane have two of these (RFC
/// 8259, section 7).
fn read_escape(text: &str) -> Option<(char, usize)> {
    let short = |c| Some((c, 2));
    match text.as_bytes().get(1)? {
        b'n' => short('\n'),
        b't' => short('\t'),
        b'r' => short('\r'),
        b'b' => short('\u{8}'),
        b'f' => short('\u{c}'),
        byte @ (b'"' | b'\\' | b'/') => short(char::from(*byte)),
        b'u' => {
            let unit = |at: usize| {
                let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
                u16::from_str_radix(digits, 16).ok()
            };
            let first = unit(0)?;
            if let Some(read) = char::from_u32(first.into()) {
                return Some((read, 6));
            }
            let read = char::decode_utf16([first, unit(6)?]).next()?.ok()?;
            Some((read, 12))
        }
        _ => None,
    }
}

/// The HTML names for ASCII characters that are not letters or digits; XML has five of them.
const NAMES: [(&str, char); 33] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", '\u{a0}'),
    ("excl", '!'),
    ("num", '#'),
    ("dollar", '$'),
    ("percnt", '%'),
    ("lpar", '('),
    ("rpar", ')'),
    ("ast", '*'),
    ("plus", '+'),
    ("comma", ','),
    ("period", '.'),
    ("sol", '/'),
    ("colon", ':'),
    ("semi", ';'),
    ("equals", '='),
    ("quest", '?'),
    ("commat", '@'),
    ("lsqb", '['),
    ("bsol", '\\'),
    ("rsqb", ']'),
    ("Hat", '^'),
    ("lowbar", '_'),
    ("grave", '`'),
    ("lcub", '{'),
    ("verbar", '|'),
    ("rcub", '}'),
    ("Tab", '\t'),
    ("NewLine", '\n'),
];

/// Returns the character of an entity at the beginning of `text`, and the length of the entity: `&amp;` is
/// `&`, `&#65;` and `&#x41;` are `A`.
fn read_entity(text: &str) -> Option<(char, usize)> {
    const LONGEST: usize = 12;
    let (name, _) = text.get(1..)?.split_at_checked(text.len().min(LONGEST) - 1)?;
    let (name, _) = name.split_once(';')?;
    let read = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
        None => NAMES.iter().find(|(known, _)| *known == name)?.1,
    };
    Some((read, name.len() + 2))
}
