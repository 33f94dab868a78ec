//! `NAME[@RANGE]`, as commands take it.

use std::path::Path;

use a2s::CapabilityName;

use crate::cli_error::CliError;

/// A capability and the accepted versions.
#[derive(Debug, Clone)]
pub(super) struct VersionSpec {
    pub(super) name: CapabilityName,
    pub(super) range: Option<String>,
}

impl VersionSpec {
    /// Returns the file that `text` names, if it names a file and not a capability.
    pub(super) fn find_file(text: &str) -> Option<&Path> {
        let path = Path::new(text);
        let is_file = text == "-" || path.is_file() || text.contains(['/', '\\']);
        let named_like_one = || super::document::is_document(path) && Self::parse(text).is_err();
        (is_file || named_like_one()).then_some(path)
    }

    pub(super) fn parse(text: &str) -> Result<Self, CliError> {
        let (name, range) = match text.split_once('@') {
            Some((name, range)) => (name, Some(range.to_owned())),
            None => (text, None),
        };
        let name = CapabilityName::new(name).map_err(|error| {
            CliError::invalid_argument(format!("`{name}` is not a capability name: {error}"))
                .with_hint("Write NAME or NAME@VERSION, such as ListDogBreeds@1.0.0.")
        })?;
        if let Some(range) = &range
            && range.parse::<semver::VersionReq>().is_err()
        {
            return Err(CliError::invalid_argument(format!(
                "`{range}` is not a version or a range"
            ))
            .with_hint("Write a version such as 1.0.0 or a range such as ^1.2."));
        }
        Ok(Self { name, range })
    }
}
