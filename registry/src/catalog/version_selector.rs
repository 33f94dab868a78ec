//! Selectors of a version of a capability.

use a2s::CapabilityName;
use semver::{Version, VersionReq};

use crate::Error;
use crate::store::VersionEntry;

/// The maximum number of versions that an error lists.
const MAX_LISTED: usize = 8;
/// The maximum length of the text of a version or range, in bytes.
const MAX_TEXT_LENGTH: usize = 128;

/// A selection of a version: an exact one, the newest in a range, or the newest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum VersionSelection {
    /// Exactly this version, even when it is yanked: a caller that pins a version gets it.
    Exact(Version),
    /// The newest version in the range that is not yanked; a stable one if there is one.
    Range(VersionReq),
    /// The live version: the newest stable one that is not yanked; when there is none, the newest
    /// pre-release that is not yanked.
    Latest,
}

impl VersionSelection {
    /// Parses `1.2.3`, a range such as `^1.2`, or `latest`.
    ///
    /// # Errors
    /// Fails when the text is none of them.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        if text == "latest" || text == "*" {
            return Ok(Self::Latest);
        }
        let malformed = || {
            let shown: String = text.chars().take(MAX_LISTED * 4).collect();
            Error::MalformedParameter(format!(
                "`{shown}` is neither a version such as `1.2.0`, nor a range such as `^1.2`, nor `latest`"
            ))
        };
        if text.len() > MAX_TEXT_LENGTH {
            return Err(malformed());
        }
        Version::parse(text)
            .map(Self::Exact)
            .or_else(|_| VersionReq::parse(text).map(Self::Range))
            .map_err(|_| malformed())
    }

    /// Returns the selected entry. All entries must be of one capability.
    pub(crate) fn select<'e>(&self, entries: &'e [VersionEntry]) -> Option<&'e VersionEntry> {
        match self {
            Self::Exact(version) => entries.iter().find(|entry| entry.version == *version),
            Self::Range(range) => a2s::select_version(range, entries),
            Self::Latest => {
                let offered = entries.iter().filter(|entry| !entry.yanked);
                offered.max_by_key(|entry| (entry.version.pre.is_empty(), &entry.version))
            }
        }
    }

    /// Creates the error for a selection that matches no version. It lists the known versions.
    pub(crate) fn missing_error(&self, name: &CapabilityName, entries: &[VersionEntry]) -> Error {
        if entries.is_empty() {
            return Error::CapabilityMissing(name.to_string());
        }
        let mut known: Vec<_> = entries
            .iter()
            .take(MAX_LISTED)
            .map(|entry| {
                format!("{}{}", entry.version, if entry.yanked { " (yanked)" } else { "" })
            })
            .collect();
        if entries.len() > MAX_LISTED {
            known.push("older versions".to_owned());
        }
        let wanted = match self {
            Self::Exact(version) => version.to_string(),
            Self::Range(range) => range.to_string(),
            Self::Latest => "latest".to_owned(),
        };
        Error::VersionMissing { name: name.clone(), wanted, known: known.join(", ") }
    }
}
