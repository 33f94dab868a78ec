//! Checks of a credential before it is stored: it has to fit where it will go, and to be found
//! again where it turns up. Names fields, never values.

use a2s_api::Credential;

use crate::error::{Error, ErrorKind};

/// The maximum length of a part of a credential, in bytes.
const MAX_PART: usize = 8 << 10;
/// The fewest characters of a secret: a shorter one would be found everywhere, and so could not be masked.
const MIN_SECRET: usize = 4;
/// The mark that some editors write at the start of a file. It is invisible, and no service expects it.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// The maximum number of hosts that may issue tokens.
const MAX_TOKEN_HOSTS: usize = 16;

pub(super) fn check(credential: &Credential) -> Result<(), Error> {
    match credential {
        Credential::ApiKey { value, .. } => check_secret("value", value.expose_secret()),
        Credential::Basic { user, password } => {
            check_text("user", user)?;
            if user.contains(':') {
                // The first colon ends the user (RFC 7617, section 2).
                return Err(refused("`user` must not contain a colon"));
            }
            check_secret("password", password.expose_secret())
        }
        Credential::Bearer { token } => check_token("token", token.expose_secret()),
        Credential::Oauth2 { client_id, client_secret, refresh_token, token_hosts, .. } => {
            check_text("client_id", client_id)?;
            check_secret("client_secret", client_secret.expose_secret())?;
            if let Some(token) = refresh_token {
                check_secret("refresh_token", token.expose_secret())?;
            }
            if token_hosts.len() > MAX_TOKEN_HOSTS {
                return Err(refused(format!(
                    "`token_hosts` has more than {MAX_TOKEN_HOSTS} hosts"
                )));
            }
            Ok(())
        }
    }
}

fn check_secret(field: &str, text: &str) -> Result<(), Error> {
    check_text(field, text)?;
    if text.chars().count() < MIN_SECRET {
        return Err(refused(format!("`{field}` has fewer than {MIN_SECRET} characters")));
    }
    Ok(())
}

/// Checks a bearer token, which must be valid in a header without encoding (RFC 6750, section 2.1).
fn check_token(field: &str, text: &str) -> Result<(), Error> {
    check_secret(field, text)?;
    let scheme = text.split_once(' ').map(|(scheme, _)| scheme);
    if scheme.is_some_and(|scheme| {
        ["bearer", "basic", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
    }) {
        return Err(refused(format!("`{field}` begins with the name of a scheme"))
            .with_hint("Give the token alone, without the word before it, such as `Bearer`."));
    }
    if text.contains(' ') {
        return Err(refused(format!(
            "`{field}` contains a space, which a bearer token cannot have"
        )));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refused(format!("`{field}` has characters that are not allowed in a header")));
    }
    Ok(())
}

fn check_text(field: &str, text: &str) -> Result<(), Error> {
    if text.is_empty() || text.len() > MAX_PART {
        return Err(refused(format!("`{field}` must have 1 to {MAX_PART} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(refused(format!("`{field}` has a control character, such as a line end")));
    }
    if text.contains(BYTE_ORDER_MARK) {
        return Err(refused(format!("`{field}` has a byte order mark")).with_hint(
            "Save the file as UTF-8 without a byte order mark, and set the credential again.",
        ));
    }
    Ok(())
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadRequest, message)
        .with_hint("Check the pasted value, and set the credential again.")
}
