//! Locks: the exact content of all dependencies of a capability, so that a later run does the same as a run
//! today.
//!
//! A lock is a small YAML (or JSON) document of its own:
//!
//! ```yaml
//! lock: 1
//! capability: {name: WeatherAlert, version: "1.0.0", checksum: "sha256:…"}
//! dependencies:
//!   - {name: GetWeather, version: "1.2.0", checksum: "sha256:…"}
//! checksum: "sha256:…"
//! ```
//!
//! Its own checksum is computed like that of a capability document: over the content without the field
//! `checksum`.

use std::fmt;

use a2s::{CapabilityRef, Diagnostic, Digest, PinError, check_pins, parse_value};
use semver::Version;
use serde::Deserialize;
use serde_json::{Value, json};

/// The version of the format.
const FORMAT: u64 = 1;

/// A capability and all its direct and indirect dependencies, each with its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    capability: CapabilityRef,
    /// The dependencies, sorted by name and version.
    dependencies: Vec<CapabilityRef>,
}

/// The error for a text that is not a lock, or a lock that does not lock the right content.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The text is not YAML or JSON.
    #[error("it cannot be parsed")]
    Unreadable(Vec<Diagnostic>),
    /// The content does not have the structure of a lock.
    #[error("it is not a lock: {0}")]
    Malformed(String),
    /// This program does not support the format of the lock.
    #[error("its format is {0}, but this program supports format {FORMAT}")]
    Format(String),
    /// The content does not match the checksum that the lock states.
    #[error("it was changed: it states the checksum {stated}, but its content has {computed}")]
    Changed {
        /// The checksum that it states.
        stated: Digest,
        /// The checksum of its content.
        computed: Digest,
    },
    /// The versions cannot form a lock.
    #[error(transparent)]
    Pins(#[from] PinError),
}

/// A lock in its written form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SerializedLock {
    #[serde(rename = "lock")]
    _format: u64,
    capability: SerializedPin,
    dependencies: Vec<SerializedPin>,
    checksum: Digest,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SerializedPin {
    name: a2s::CapabilityName,
    version: Version,
    checksum: Digest,
}

impl From<SerializedPin> for CapabilityRef {
    fn from(SerializedPin { name, version, checksum }: SerializedPin) -> Self {
        Self { name, version, checksum }
    }
}

impl LockFile {
    /// Creates the lock of `capability` and all that it uses.
    ///
    /// # Errors
    /// Fails when there are more than [`a2s::MAX_PINS`] dependencies, or when one version has two contents.
    pub fn new(
        capability: CapabilityRef,
        mut dependencies: Vec<CapabilityRef>,
    ) -> Result<Self, Error> {
        dependencies.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        check_pins(&dependencies)?;
        Ok(Self { capability, dependencies })
    }

    /// Reads a lock.
    ///
    /// # Errors
    /// Fails when the text is not a lock, or when the lock was changed.
    pub fn parse(source: &[u8]) -> Result<Self, Error> {
        let content = parse_value(source).map_err(Error::Unreadable)?;
        match content.get("lock") {
            None => return Err(Error::Malformed("it has no field `lock`".to_owned())),
            Some(format) if format.as_u64() != Some(FORMAT) => {
                return Err(Error::Format(format.to_string().chars().take(20).collect()));
            }
            Some(_) => {}
        }
        let malformed = |error: &dyn fmt::Display| Error::Malformed(error.to_string());
        let computed = Digest::of_document(&content).map_err(|error| malformed(&error))?;
        let written: SerializedLock =
            serde_json::from_value(content).map_err(|error| malformed(&error))?;
        if written.checksum != computed {
            return Err(Error::Changed { stated: written.checksum, computed });
        }
        let dependencies = written.dependencies.into_iter().map(CapabilityRef::from).collect();
        Self::new(written.capability.into(), dependencies)
    }

    /// Returns the locked capability.
    #[must_use]
    pub fn capability(&self) -> &CapabilityRef {
        &self.capability
    }

    /// Returns all direct and indirect dependencies, sorted by name and version.
    #[must_use]
    pub fn dependencies(&self) -> &[CapabilityRef] {
        &self.dependencies
    }

    /// Returns the digest of the lock.
    #[must_use]
    pub fn checksum(&self) -> Digest {
        // Names, versions and digests always have a canonical form.
        Digest::of_document(&self.content()).unwrap_or_else(|_| Digest::of_bytes(b""))
    }

    fn content(&self) -> Value {
        json!({
            "lock": FORMAT,
            "capability": self.capability,
            "dependencies": self.dependencies,
        })
    }
}

/// Writes the lock as YAML.
impl fmt::Display for LockFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CapabilityRef { name, version, checksum } = &self.capability;
        writeln!(f, "# The lock of {name} {version}. Written by `a2s lock`; do not edit.")?;
        writeln!(f, "lock: {FORMAT}\ncapability:\n  name: {name}\n  version: \"{version}\"")?;
        writeln!(f, "  checksum: \"{checksum}\"")?;
        if self.dependencies.is_empty() {
            writeln!(f, "dependencies: []")?;
        } else {
            writeln!(f, "dependencies:")?;
        }
        for CapabilityRef { name, version, checksum } in &self.dependencies {
            writeln!(f, "  - name: {name}\n    version: \"{version}\"")?;
            writeln!(f, "    checksum: \"{checksum}\"")?;
        }
        writeln!(f, "checksum: \"{}\"", self.checksum())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use a2s::{Dependency, MAX_PINS};

    use super::*;

    fn pin(name: &str, version: &str) -> CapabilityRef {
        CapabilityRef {
            name: a2s::CapabilityName::new(name).unwrap(),
            version: version.parse().unwrap(),
            checksum: Digest::of_bytes(format!("{name} {version}").as_bytes()),
        }
    }

    fn dependency(name: &str, range: &str, checksum: Option<Digest>) -> Dependency {
        Dependency {
            capability: a2s::CapabilityName::new(name).unwrap(),
            range: range.parse().unwrap(),
            checksum,
            pointer: String::new(),
            position: a2s::SourcePosition::default(),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let pins = vec![pin("Low", "1.0.0-rc.1+5"), pin("High", "10.2.0"), pin("High", "2.0.0")];
        for pins in [Vec::new(), pins] {
            let lock = LockFile::new(pin("Top", "1.0.0"), pins).unwrap();
            assert_eq!(LockFile::parse(lock.to_string().as_bytes()).unwrap(), lock);
            let json = parse_value(lock.to_string().as_bytes()).unwrap().to_string();
            assert_eq!(LockFile::parse(json.as_bytes()).unwrap(), lock, "layout means nothing");
        }
    }

    #[test]
    fn a_lock_that_was_changed_is_none() {
        let text =
            LockFile::new(pin("Top", "1.0.0"), vec![pin("Low", "1.0.0")]).unwrap().to_string();
        let parse = |from: &str, to: &str| {
            assert!(text.contains(from), "{text}");
            LockFile::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
        };
        assert!(parse("name: Low", "name: Lox").starts_with("it was changed"));
        assert!(parse("version: \"1.0.0\"", "version: \"1.0.1\"").starts_with("it was changed"));
        assert!(parse("lock: 1", "lock: 2").starts_with("its format is 2"));
        assert!(parse("lock: 1", "lack: 1").contains("no field `lock`"));
        assert!(parse("name: Low", "name: low").starts_with("it is not a lock"));
        assert!(parse("capability:", "more: 1\ncapability:").starts_with("it is not a lock"));
        assert!(parse("dependencies:", "dependencies").starts_with("it cannot be parsed"));
        let without: String = text.lines().filter(|line| !line.starts_with("checksum")).collect();
        assert!(LockFile::parse(without.as_bytes()).is_err());
    }

    #[test]
    fn a_lock_has_bounds_and_does_not_contradict_itself() {
        let many = (0..=MAX_PINS).map(|index| pin("Low", &format!("{index}.0.0"))).collect();
        assert_eq!(LockFile::new(pin("Top", "1.0.0"), many), Err(PinError::TooMany.into()));
        let mut twice = vec![pin("Low", "1.0.0"), pin("Low", "1.0.0")];
        twice[1].checksum = Digest::of_bytes(b"other");
        let refused = LockFile::new(pin("Top", "1.0.0"), twice).unwrap_err().to_string();
        assert_eq!(refused, "it contains `Low` 1.0.0 twice");
    }

    #[test]
    fn a_dependency_means_what_is_locked_and_nothing_else() {
        let pins = [pin("Low", "1.0.0"), pin("Low", "2.0.0"), pin("Other", "1.0.0")];
        let choose = |name, range, checksum| {
            let chosen = a2s::choose_pin(&dependency(name, range, checksum), &pins);
            chosen.map(|pin| pin.version.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(choose("Low", "^1.0.0", None).unwrap(), "1.0.0");
        assert_eq!(choose("Low", "*", None).unwrap(), "2.0.0");
        assert_eq!(choose("Low", "*", Some(pins[0].checksum)).unwrap(), "1.0.0");
        let missing = choose("Low", "^3.0.0", None).unwrap_err();
        assert_eq!(missing, "it does not contain a version of `Low` in `^3.0.0`, but 1.0.0, 2.0.0");
        assert!(choose("Low", "*", Some(pins[2].checksum)).is_err());
        assert_eq!(choose("New", "*", None).unwrap_err(), "it does not contain `New`");
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_refused_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(LockFile::parse(&bytes).is_err());
        }

        #[test]
        fn a_lock_with_one_byte_changed_is_the_same_or_none(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let lock = LockFile::new(pin("Top", "1.0.0"), vec![pin("Low", "1.0.0")]).unwrap();
            let mut text = lock.to_string().into_bytes();
            let at = at.index(text.len());
            text[at] = byte;
            if let Ok(read) = LockFile::parse(&text) {
                prop_assert_eq!(read, lock);
            }
        }
    }
}
