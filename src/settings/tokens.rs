//! The tokens that services show each other, and the registry that they are shown to.

use std::path::{Path, PathBuf};

use a2s::Secret;
use url::Url;

use super::{secret, settings_error};
use crate::cli_error::CliError;

/// The maximum length of a token, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

settings! {
    /// The registry of a service in another process.
    pub(crate) struct RegistryAccessSettings {
        /// The address of the registry [default: port 8741 of this machine]
        #[arg(long, env = "A2S_REGISTRY_URL")]
        registry: Option<Url>,
        /// The token of the scope `service` that the registry created for this service. Without it, this
        /// service does not accept tokens of the registry, and reports no outcomes to it
        #[arg(long, env = "A2S_REGISTRY_TOKEN", hide_env_values = true, value_name = "TOKEN", value_parser = secret())]
        registry_token: Option<Secret>,
        /// A file that contains this token
        #[arg(
            long,
            env = "A2S_REGISTRY_TOKEN_FILE",
            value_name = "FILE",
            conflicts_with = "registry_token"
        )]
        registry_token_file: Option<PathBuf>,
        /// Let the registry give rights at this executor beyond the scopes `execute` and `delegate`: its
        /// tokens of the scope `admin` then manage the credentials here
        #[arg(long)]
        registry_admins: bool,
    }
}

settings! {
    /// The token of a registry for its executors.
    pub(crate) struct ServiceTokenSettings {
        /// A token of the scope `service` for the executors of this registry, in addition to those that `a2s
        /// tokens create NAME --scope service` makes
        #[arg(long, env = "A2S_SERVICE_TOKEN", hide_env_values = true, value_name = "TOKEN", value_parser = secret())]
        service_token: Option<Secret>,
        /// A file that contains this token
        #[arg(
            long,
            env = "A2S_SERVICE_TOKEN_FILE",
            value_name = "FILE",
            conflicts_with = "service_token"
        )]
        service_token_file: Option<PathBuf>,
    }
}

/// A registry, and the token of the scope `service` for requests to it.
#[derive(Debug, Clone)]
pub(crate) struct RegistryAccess {
    pub(crate) url: Url,
    pub(crate) token: Option<Secret>,
    /// Set when its tokens have all their scopes at an executor with an owner of its own.
    pub(crate) admins: bool,
}

impl RegistryAccessSettings {
    /// Returns the registry, if there is one, and reads the token for it.
    pub(crate) fn resolve(
        self,
        file: Self,
        default: Option<Url>,
    ) -> Result<Option<RegistryAccess>, CliError> {
        let Some(url) = self.registry.or(file.registry).or(default) else { return Ok(None) };
        let admins = self.registry_admins || file.registry_admins;
        let flags = (self.registry_token, self.registry_token_file);
        let file = (file.registry_token, file.registry_token_file);
        Ok(Some(RegistryAccess { url, token: read_layered("registry", flags, file)?, admins }))
    }
}

impl ServiceTokenSettings {
    /// Reads the token, if there is one.
    pub(crate) fn resolve(self, file: Self) -> Result<Option<Secret>, CliError> {
        let flags = (self.service_token, self.service_token_file);
        let file = (file.service_token, file.service_token_file);
        read_layered("service", flags, file)
    }
}

/// A token, or the file that contains it.
type TokenSource = (Option<Secret>, Option<PathBuf>);

/// Reads the token from the flags `NAME-token` and `NAME-token-file`, else from the keys with these names.
fn read_layered(
    name: &str,
    flags: TokenSource,
    file: TokenSource,
) -> Result<Option<Secret>, CliError> {
    match (flags.0.filter(is_given), flags.1) {
        (Some(token), _) => return Ok(Some(token)),
        (None, Some(path)) => return read_token(&path).map(Some),
        (None, None) => {}
    }
    match file {
        (Some(_), Some(_)) => {
            let message = format!("`{name}-token` and `{name}-token-file` cannot be combined");
            Err(settings_error(message).with_hint("Remove one of the two."))
        }
        (token, None) => Ok(token),
        (None, Some(path)) => read_token(&path).map(Some),
    }
}

/// Returns true if the value is not empty: an empty variable is one that is not set.
pub(crate) fn is_given(secret: &Secret) -> bool {
    !secret.expose_secret().is_empty()
}

/// Reads a token from a file.
pub(crate) fn read_token(path: &Path) -> Result<Secret, CliError> {
    let failed = |reason: &dyn std::fmt::Display| {
        settings_error(format!("{}: {reason}", path.display())).with_hint(super::guarding::HINT)
    };
    let length = std::fs::metadata(path).map_err(|error| failed(&error))?.len();
    if length > MAX_TOKEN {
        return Err(failed(&"the file is too long for a token"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    match text.trim() {
        "" => Err(failed(&"the file has no token")),
        token => Ok(Secret::new(token)),
    }
}

/// Rejects the `token` of `setting` when it is the owner's token.
pub(crate) fn check_not_owner(
    token: Option<&Secret>,
    setting: &str,
    owner: &str,
) -> Result<(), CliError> {
    if token.is_none_or(|token| !token.matches(owner)) {
        return Ok(());
    }
    let message = format!("the token of {setting} is the owner's token");
    Err(CliError::invalid_argument(message).with_hint(
        "Choose another token: the owner's token has all scopes, and must not be sent to other services \
         (docs/operations.md, \"Three services on three machines\").",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owners_token_is_no_token_for_other_services() {
        let own = Secret::new("own");
        let refused = check_not_owner(Some(&own), "--guardian-token", "own").unwrap_err();
        assert!(format!("{refused:?}").contains("the owner's"), "{refused:?}");
        assert!(check_not_owner(Some(&own), "--guardian-token", "other").is_ok());
        assert!(check_not_owner(None, "--guardian-token", "own").is_ok());
    }
}
