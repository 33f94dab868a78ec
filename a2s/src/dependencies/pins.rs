//! The exact versions that a lock allows.

use std::collections::BTreeSet;

use crate::capability_ref::CapabilityRef;
use crate::document::Dependency;

/// The maximum number of capabilities in a lock.
pub const MAX_PINS: usize = 512;

/// The reason why versions do not form a lock, or do not lock a dependency.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PinError {
    /// The lock has too many entries.
    #[error("it has more than {MAX_PINS} capabilities")]
    TooMany,
    /// The lock contains one version with two contents.
    #[error("it contains `{}` {} twice", .0.name, .0.version)]
    Twice(Box<CapabilityRef>),
    /// The lock does not contain a dependency.
    #[error("it does not contain {0}")]
    Missing(String),
}

/// Checks that `pins` can form a lock.
///
/// # Errors
/// When there are too many, or one version has two contents.
pub fn check_pins(pins: &[CapabilityRef]) -> Result<(), PinError> {
    if pins.len() > MAX_PINS {
        return Err(PinError::TooMany);
    }
    let mut seen = BTreeSet::new();
    match pins.iter().find(|pin| !seen.insert((&pin.name, &pin.version))) {
        Some(twice) => Err(PinError::Twice(Box::new(twice.clone()))),
        None => Ok(()),
    }
}

/// The pin that `dependency` selects among `pins`. A locked version stays selected, even when it is yanked.
///
/// # Errors
/// When none of them fits.
pub fn choose_pin<'p>(
    dependency: &Dependency,
    pins: &'p [CapabilityRef],
) -> Result<&'p CapabilityRef, PinError> {
    let name = &dependency.capability;
    let of_name: Vec<&CapabilityRef> = pins.iter().filter(|pin| pin.name == *name).collect();
    dependency.select_version(&of_name).copied().ok_or_else(|| {
        let locked: Vec<_> = of_name.iter().map(|pin| pin.version.to_string()).collect();
        let instead =
            if locked.is_empty() { String::new() } else { format!(", but {}", locked.join(", ")) };
        PinError::Missing(match dependency.checksum {
            _ if locked.is_empty() => format!("`{name}`"),
            Some(digest) => format!("`{name}` with the checksum {digest}{instead}"),
            None => format!("a version of `{name}` in `{}`{instead}", dependency.range),
        })
    })
}
