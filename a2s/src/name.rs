//! Names that are checked once, when they are read.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The error for a text that is not a valid name. The message is complete English for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidName(pub(crate) String);

/// The name of a capability: `PascalCase`, ASCII letters and digits, at most 100 characters
/// (A2S, "Capability Header").
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(max_length = 100, pattern = "^[A-Z][A-Za-z0-9]*$", example = "GetWeather")]
pub struct CapabilityName(String);

/// The id of a step: a letter or `_`, then letters, digits, `_` and `-`, at most 100 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StepId(String);

/// A host name with an optional port, in lower case: `api.weather.com`, `localhost:9101`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(
    max_length = 259,
    pattern = r"^(([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?|(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3})(:([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5]))?$",
    example = "api.weather.com"
)]
pub struct Domain(String);

/// A permission that a caller must hold: `weather.read`, `social:write`; at most 100 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(max_length = 100, pattern = "^[a-z0-9][a-z0-9._:/-]*$", example = "weather.read")]
pub struct Permission(String);

const MAX_NAME: usize = 100;

/// Returns the letters and digits of `text`, with each word capitalised.
pub fn pascal_case(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let capitalised = words.map(|word| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    });
    capitalised.collect()
}

impl CapabilityName {
    /// Checks `text` and creates a name from it.
    ///
    /// # Errors
    /// Fails when the text is empty, too long, or not `PascalCase`.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let shaped = text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_alphanumeric());
        if !shaped || text.len() > MAX_NAME {
            return Err(InvalidName(format!(
                "a capability name is PascalCase: at most {MAX_NAME} letters and digits, starting with an upper-case letter"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// A placeholder for a name that could not be read, in a document with errors.
    pub(crate) fn substitute() -> Self {
        Self("Unnamed".to_owned())
    }

    /// Suggests a valid name that consists of the letters and digits of `text`.
    pub(crate) fn suggest(text: &str) -> Option<Self> {
        Self::new(&pascal_case(text)).ok()
    }

    /// Returns the name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name in kebab-case, which is the `id` of a search hit: `WeatherAlert` is
    /// `weather-alert`, `HTTPCheck2` is `http-check2`.
    #[must_use]
    pub fn to_kebab(&self) -> String {
        let letters: Vec<char> = self.0.chars().collect();
        let mut kebab = String::with_capacity(self.0.len() + 8);
        for (index, letter) in letters.iter().enumerate() {
            let starts_word = letter.is_ascii_uppercase()
                && index > 0
                && (!letters[index - 1].is_ascii_uppercase()
                    || letters.get(index + 1).is_some_and(char::is_ascii_lowercase));
            if starts_word {
                kebab.push('-');
            }
            kebab.push(letter.to_ascii_lowercase());
        }
        kebab
    }

    /// Returns true when a reader may confuse this name with the other: they differ only by case, or by
    /// letters that look alike (`0` and `O`, `1`, `l` and `I`, `rn` and `m`). A name is not a look-alike of
    /// itself.
    #[must_use]
    pub fn is_lookalike(&self, other: &Self) -> bool {
        self != other
            && (self.0.eq_ignore_ascii_case(&other.0) || self.to_skeleton() == other.to_skeleton())
    }

    /// Returns the name in lower case, with one common letter for all letters that look alike. The registry
    /// stores the same form to find look-alikes by an index.
    #[must_use]
    pub fn to_skeleton(&self) -> String {
        let letter = |c: char| match c {
            '1' | 'l' | 'I' => 'l',
            '0' | 'O' => 'o',
            other => other.to_ascii_lowercase(),
        };
        self.0.chars().map(letter).collect::<String>().replace("rn", "m")
    }
}

impl StepId {
    /// A placeholder for an id that could not be read, in a document with errors.
    pub(crate) fn substitute() -> Self {
        Self("unnamed".to_owned())
    }

    /// Checks `text` and creates an id from it.
    ///
    /// # Errors
    /// Fails when the text is empty, too long, or contains a character other than letters, digits, `_` and
    /// `-`.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let shaped = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !shaped || text.len() > MAX_NAME {
            return Err(InvalidName(format!(
                "a step id starts with a letter and has at most {MAX_NAME} letters, digits, `_` and `-`"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the id as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Permission {
    /// Checks `text` and creates a permission from it.
    ///
    /// # Errors
    /// Fails when the text is empty, too long, or contains a character other than lower-case letters,
    /// digits and `. _ : / -`.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let shaped = text.starts_with(plain)
            && text.chars().all(|c| plain(c) || matches!(c, '.' | '_' | ':' | '/' | '-'));
        if !shaped || text.len() > MAX_NAME {
            return Err(InvalidName(format!(
                "a permission is a name such as `weather.read`: at most {MAX_NAME} lower-case letters, digits and `.`, `_`, `:`, `/`, `-`"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the permission as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Domain {
    /// Checks `text` and creates a domain from it.
    ///
    /// # Errors
    /// Fails when the text is not a host name or an IPv4 address with an optional port. An address must be
    /// four decimal numbers with dots, because other spellings would compare as other hosts.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        if text.contains("://") {
            return Err(InvalidName(
                "a domain is a host name such as `api.example.com`; write only the host, without scheme and path"
                    .to_owned(),
            ));
        }
        let lower = text.to_ascii_lowercase();
        let (host, port) = match lower.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (lower.as_str(), None),
        };
        let label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        if host.is_empty() || host.len() > 253 || !host.split('.').all(label) {
            return Err(InvalidName(
                "a domain is a host name such as `api.example.com`, optionally with a port"
                    .to_owned(),
            ));
        }
        let numeric = |label: &str| {
            label.chars().all(|c| c.is_ascii_digit())
                || label
                    .strip_prefix("0x")
                    .is_some_and(|hex| hex.chars().all(|c| c.is_ascii_hexdigit()))
        };
        let is_address = host.parse::<Ipv4Addr>().is_ok_and(|address| address.to_string() == host);
        if !is_address && host.rsplit('.').next().is_some_and(numeric) {
            return Err(InvalidName(
                "an IP address is written as four numbers, such as `192.0.2.1`".to_owned(),
            ));
        }
        if let Some(port) = port
            && (port.is_empty()
                || !port.bytes().all(|b| b.is_ascii_digit())
                || port.parse::<u16>().is_ok_and(|port| port == 0)
                || port.parse::<u16>().is_err())
        {
            return Err(InvalidName("a port is a number from 1 to 65535".to_owned()));
        }
        Ok(Self(lower))
    }

    /// Returns the domain as text, in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the host without the port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.split(':').next().unwrap_or(&self.0)
    }

    /// Returns the port, if the domain contains one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.0.split_once(':').and_then(|(_, port)| port.parse().ok())
    }

    /// Returns true when a URL is in this domain: it has the same host, and the same port when the domain
    /// has one; without one, the port must be the default of the URL's scheme.
    #[must_use]
    pub fn covers(&self, url: &url::Url) -> bool {
        url.host_str().is_some_and(|host| host.eq_ignore_ascii_case(self.host()))
            && match self.port() {
                Some(port) => url.port_or_known_default() == Some(port),
                None => url.port().is_none(),
            }
    }
}

/// The words of an identifier, with spaces between them and their case kept.
///
/// ```
/// # use a2s::split_name;
/// assert_eq!(split_name("ListDogBreeds"), "List Dog Breeds");
/// assert_eq!(split_name("HTTPServer2"), "HTTP Server 2");
/// assert_eq!(split_name("get_user-IDs"), "get user IDs");
/// ```
#[must_use]
pub fn split_name(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut words = String::with_capacity(name.len() + 8);
    for (at, character) in characters.iter().enumerate() {
        if !character.is_alphanumeric() {
            push_space(&mut words);
            continue;
        }
        if at > 0 && begins_word(characters[at - 1], *character, &characters[at + 1..]) {
            push_space(&mut words);
        }
        words.push(*character);
    }
    words.truncate(words.trim_end().len());
    words
}

/// Returns true when a new word of an identifier begins at `character`.
fn begins_word(before: char, character: char, after: &[char]) -> bool {
    let lower_next = after.first().is_some_and(|c| c.is_lowercase());
    if character.is_numeric() {
        // `Server2` is two words, `S3` and `HTTP2` are one.
        return before.is_lowercase();
    }
    if !character.is_uppercase() {
        return false;
    }
    if before.is_uppercase() {
        // `HTTPServer` ends an abbreviation, the plural in `userIDs` does not.
        let plural = after.first() == Some(&'s') && !after.get(1).is_some_and(|c| c.is_lowercase());
        return lower_next && !plural;
    }
    before.is_lowercase() || (before.is_numeric() && lower_next)
}

fn push_space(text: &mut String) {
    if !text.is_empty() && !text.ends_with(' ') {
        text.push(' ');
    }
}

macro_rules! text_type {
    ($type:ident) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $type {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }
        impl TryFrom<String> for $type {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(&text)
            }
        }
        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }
    };
}
text_type!(CapabilityName);
text_type!(StepId);
text_type!(Domain);
text_type!(Permission);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_name(name: &str, expected: &str) {
        assert_eq!(split_name(name), expected, "{name:?}");
    }

    #[test]
    fn names_that_a_reader_may_confuse_are_lookalikes() {
        let name = |text: &str| CapabilityName::new(text).unwrap();
        for other in ["GETJOKE", "GetJ0ke", "GetJoKe", "Getjoke"] {
            assert!(name("GetJoke").is_lookalike(&name(other)), "{other}");
        }
        for (one, other) in [("GetMail", "GetMaiI"), ("Sort", "S0rt"), ("Modern", "Modem")] {
            assert!(name(one).is_lookalike(&name(other)), "{one} {other}");
        }
        assert!(name("GetMall").is_lookalike(&name("GetMa1l")));
        for (one, other) in [("GetJoke", "GetJoke"), ("GetJoke", "GetJokes"), ("Mail", "Mall")] {
            assert!(!name(one).is_lookalike(&name(other)), "{one} {other}");
        }
    }

    #[test]
    fn identifiers_become_words() {
        check_name("ListDogBreeds", "List Dog Breeds");
        check_name("HTTPServer2", "HTTP Server 2");
        check_name("getUserIDs", "get User IDs");
        check_name("GetURLsByTag", "Get URLs By Tag");
        check_name("S3Bucket", "S3 Bucket");
        check_name("2FACode", "2FA Code");
        check_name("snake_case-and.dots", "snake case and dots");
        check_name("__private__", "private");
        check_name("ÉtatDuColis", "État Du Colis");
        check_name("already split", "already split");
        check_name("", "");
        check_name("_-", "");
    }

    #[test]
    fn kebab_splits_at_words_and_keeps_acronyms_whole() {
        let kebab = |name| CapabilityName::new(name).unwrap().to_kebab();
        assert_eq!(kebab("WeatherAlertCapability"), "weather-alert-capability");
        assert_eq!(kebab("HTTPCheck2"), "http-check2");
        assert_eq!(kebab("A"), "a");
    }

    #[test]
    fn domains_are_hosts_and_addresses_in_one_spelling() {
        for good in [
            "dogapi.dog",
            "API.Weather.com",
            "localhost:9101",
            "a-b.example",
            "10.0.0.5:8080",
            "192.0.2.1",
        ] {
            assert!(Domain::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "https://x.y",
            "127.1",
            "010.0.0.1",
            "1.2.3.256",
            "0x7f.1",
            "a..b",
            "-a.b",
            "a.b:0",
            "a.b:70000",
            "::1",
            "a.b:",
        ] {
            assert!(Domain::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_domain_covers_its_own_host_and_port_only() {
        let covers =
            |domain, url| Domain::new(domain).unwrap().covers(&url::Url::parse(url).unwrap());
        assert!(covers("api.weather.com", "https://API.weather.com/x"));
        assert!(covers("api.weather.com", "https://api.weather.com:443/x"));
        assert!(!covers("api.weather.com", "https://api.weather.com:8443/x"));
        assert!(!covers("weather.com", "https://api.weather.com/x"));
        assert!(covers("localhost:9101", "http://localhost:9101/"));
    }

    proptest::proptest! {
        #[test]
        fn splitting_a_name_keeps_its_letters(name in proptest::prelude::any::<String>()) {
            let letters =
                |s: &str| s.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            let words = split_name(&name);
            proptest::prop_assert_eq!(letters(&words), letters(&name));
            proptest::prop_assert_eq!(split_name(&words), words);
        }
    }
}
