//! `a2s secrets`: store, list and forget credentials. A secret comes from a prompt or from standard
//! input, never from the arguments, which other users of the machine can see.

use std::io::{self, IsTerminal as _, Read as _};

use a2s::{Domain, Secret};
use a2s_api::{
    ClientAuthentication, Credential, CredentialKind, CredentialSubject, CredentialUsers,
    StoredCredential, StoredCredentials,
};
use reqwest::Method;
use serde_json::json;
use zeroize::Zeroizing;

use crate::cli::{AllowSecretArgs, ClientAuth, SecretKind, SecretsCommand, SetSecretArgs};
use crate::cli_error::CliError;
use crate::client::{ServiceClient, require_private_connection};
use crate::output::{CommandOutput, DIM, NAME};

/// The maximum number of bytes that the command reads from standard input.
const MAX_INPUT: u64 = 64 << 10;

pub(super) async fn secrets(
    command: SecretsCommand,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    match command {
        SecretsCommand::Set(arguments) => set(arguments, client, output).await,
        SecretsCommand::Allow(arguments) => allow(arguments, client, output).await,
        SecretsCommand::List => list(client, output).await,
        SecretsCommand::Remove { host, scheme } => remove(&host, &scheme, client, output).await,
    }
}

async fn set(
    arguments: SetSecretArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    require_private_connection(client)?;
    let (host, scheme) = (arguments.host.clone(), arguments.scheme.clone());
    let credential = read_credential(arguments)?;
    let path = ["v1", "secrets", host.as_str(), &scheme];
    let stored: StoredCredential =
        client.json(client.request(Method::PUT, &path).json(&credential)).await?;
    if output.is_json() {
        output.json_line(&stored);
    } else {
        output.line(format_args!(
            "stored {NAME}{}{NAME:#} ({}) for {}, used by {}",
            stored.scheme,
            name_of(stored.kind),
            stored.host,
            describe_users(&stored.users)
        ));
    }
    Ok(())
}

async fn allow(
    arguments: AllowSecretArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let AllowSecretArgs { host, scheme, subjects, publishers, capabilities, owner_only: _ } =
        arguments;
    let users = CredentialUsers {
        subjects: subjects.into_iter().collect(),
        publishers: publishers.into_iter().collect(),
        capabilities: capabilities.into_iter().collect(),
    };
    let path = ["v1", "secrets", host.as_str(), &scheme, "users"];
    let stored: StoredCredential =
        client.json(client.request(Method::PUT, &path).json(&users)).await?;
    if output.is_json() {
        output.json_line(&stored);
    } else {
        output.line(format_args!(
            "{NAME}{}{NAME:#} for {} is used by {}",
            stored.scheme,
            stored.host,
            describe_users(&stored.users)
        ));
    }
    Ok(())
}

/// Describes the runs that may use a credential.
fn describe_users(users: &CredentialUsers) -> String {
    let subjects = users.subjects.iter().map(|subject| match subject {
        CredentialSubject::Everybody => "all runs".to_owned(),
        CredentialSubject::Principal(principal) => format!("runs of {principal}"),
    });
    let capabilities = users.capabilities.iter().map(|name| format!("steps of {name}"));
    let publishers =
        users.publishers.iter().map(|owner| format!("steps of capabilities that {owner} owns"));
    let grants = subjects.chain(capabilities).chain(publishers);
    ["the owner's runs".to_owned()].into_iter().chain(grants).collect::<Vec<_>>().join(", ")
}

async fn list(client: &ServiceClient, output: &mut CommandOutput) -> Result<(), CliError> {
    let StoredCredentials { secrets } = client.get(&["v1", "secrets"]).await?;
    if output.is_json() {
        output.json_line(&StoredCredentials { secrets });
        return Ok(());
    }
    if secrets.is_empty() {
        output.line(format_args!("no credentials are stored"));
    }
    let rows = secrets.iter().map(|stored| {
        vec![
            stored.host.to_string(),
            format!("{NAME}{}{NAME:#}", stored.scheme),
            name_of(stored.kind).to_owned(),
            format!("{DIM}set {:.0}{DIM:#}", stored.set_at),
            format!("{DIM}used by {}{DIM:#}", describe_users(&stored.users)),
        ]
    });
    output.table(["HOST", "SCHEME", "KIND", "SET", "USERS"], &rows.collect::<Vec<_>>());
    Ok(())
}

async fn remove(
    host: &Domain,
    scheme: &str,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let path = ["v1", "secrets", host.as_str(), scheme];
    client.bytes(client.request(Method::DELETE, &path)).await?;
    if output.is_json() {
        output.json_line(&json!({ "removed": { "host": host, "scheme": scheme } }));
    } else {
        output.line(format_args!("removed {NAME}{scheme}{NAME:#} for {host}"));
    }
    Ok(())
}

/// Returns the name of a kind in the arguments.
fn name_of(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::ApiKey => "api-key",
        CredentialKind::Basic => "basic",
        CredentialKind::Bearer => "bearer",
        CredentialKind::Oauth2 => "oauth2",
    }
}

fn read_credential(arguments: SetSecretArgs) -> Result<Credential, CliError> {
    let SetSecretArgs {
        kind, place, user, client_id, token_hosts, refresh_token, client_auth, ..
    } = arguments;
    if kind != SecretKind::Oauth2
        && (client_id.is_some() || refresh_token || !token_hosts.is_empty())
    {
        let message = "--client-id, --token-host and --refresh-token require --kind oauth2";
        return Err(CliError::invalid_argument(message));
    }
    if kind != SecretKind::Basic && user.is_some() {
        return Err(CliError::invalid_argument("--user requires --kind basic"));
    }
    if kind != SecretKind::ApiKey && place.is_some() {
        return Err(CliError::invalid_argument("--in requires --kind api-key"));
    }
    let asked: &[&str] = match kind {
        SecretKind::ApiKey => &["key"],
        SecretKind::Basic => &["password"],
        SecretKind::Bearer => &["token"],
        SecretKind::Oauth2 if refresh_token => &["client secret", "refresh token"],
        SecretKind::Oauth2 => &["client secret"],
    };
    let mut given = read_secrets(asked)?.into_iter();
    // As many as were asked for.
    let mut next = || given.next().unwrap_or_else(|| Secret::new(""));
    Ok(match kind {
        SecretKind::ApiKey => Credential::ApiKey { value: next(), place },
        SecretKind::Basic => Credential::Basic { user: user.unwrap_or_default(), password: next() },
        SecretKind::Bearer => Credential::Bearer { token: next() },
        SecretKind::Oauth2 => Credential::Oauth2 {
            client_id: client_id.unwrap_or_default(),
            client_secret: next(),
            refresh_token: refresh_token.then(next),
            token_hosts,
            client_authentication: match client_auth {
                ClientAuth::Basic => ClientAuthentication::Basic,
                ClientAuth::Body => ClientAuthentication::Body,
            },
        },
    })
}

/// Reads a secret for each name: with a prompt on a terminal, else from standard input.
fn read_secrets(names: &[&str]) -> Result<Vec<Secret>, CliError> {
    if io::stdin().is_terminal() {
        let ask = |name: &&str| {
            let text = rpassword::prompt_password(format!("{name} (not shown): "));
            text.map(Secret::new).map_err(|error| cannot_read(&error))
        };
        return names.iter().map(ask).collect();
    }
    let mut text = Zeroizing::new(String::new());
    io::stdin().take(MAX_INPUT).read_to_string(&mut text).map_err(|error| cannot_read(&error))?;
    split_lines(&text, names)
}

/// Splits `text` into lines, one for each name. A byte order mark at the start belongs to the file, like
/// the line ends.
fn split_lines(text: &str, names: &[&str]) -> Result<Vec<Secret>, CliError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<_> = text.lines().map(Secret::new).collect();
    if lines.len() == names.len() && lines.iter().all(|line| !line.expose_secret().is_empty()) {
        return Ok(lines);
    }
    let message = format!(
        "standard input has {} lines, but must have one line each for the {}",
        lines.len(),
        names.join(", then the ")
    );
    Err(CliError::invalid_argument(message).with_hint("Give each secret on its own line."))
}

fn cannot_read(error: &io::Error) -> CliError {
    CliError::invalid_argument(format!("the secret cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_secret_is_a_line() {
        let read = |text, names: &[&str]| {
            let lines = split_lines(text, names).ok()?;
            Some(lines.iter().map(|line| line.expose_secret().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(read("a b \r\n", &["key"]), Some(vec!["a b ".to_owned()]));
        assert_eq!(read("a", &["key"]), Some(vec!["a".to_owned()]));
        assert_eq!(read("\u{feff}a\r\n", &["key"]), Some(vec!["a".to_owned()]));
        assert_eq!(read("a\nb\n", &["x", "y"]).map(|lines| lines.len()), Some(2));
        for (text, names) in [
            ("", &["key"][..]),
            ("\u{feff}", &["key"]),
            ("\n", &["key"]),
            ("a\nb", &["key"]),
            ("a\n", &["x", "y"]),
        ] {
            assert_eq!(read(text, names), None, "{text:?}");
        }
    }
}
