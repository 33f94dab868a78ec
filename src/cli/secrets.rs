//! The arguments of `a2s secrets`.

use clap::{Args, Subcommand, ValueEnum};

pub(super) const AFTER_SECRETS: &str = "\
A credential belongs to one host and to the name of a security scheme. The executor sends it
only to that host. `a2s run NAME --dry-run` shows the required credentials, and how to
store missing credentials.

Only the owner's runs use a credential until `a2s secrets allow` grants it to others.

The executor stores credentials encrypted in its database and never shows them again.";

const AFTER_SET: &str = "\
The command asks for the secret without showing it, or reads it from standard input, one per line:
  api-key  the key
  basic    the password
  bearer   the token
  oauth2   the client's secret; with --refresh-token the refresh token after it

Examples:
  a2s secrets set api.weather.example key --in query:appid
  a2s secrets set api.shop.example login --kind basic --user jane < password.txt
  a2s secrets set api.crm.example oauth --kind oauth2 --client-id me --token-host login.crm.example";

const AFTER_ALLOW: &str = "\
A new credential is only for the owner's runs. The grants of this command replace the earlier
grants; a run needs one matching grant.

Examples:
  a2s secrets allow api.shop.example login --subject billing
  a2s secrets allow api.shop.example login --subject billing/ann --subject reports
  a2s secrets allow api.weather.example key --subject '*'
  a2s secrets allow api.x.example oauth --capability PostTweet --publisher social-team
  a2s secrets allow api.shop.example login --owner-only";

/// The actions on stored credentials.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Store a credential for a service
    #[command(after_help = AFTER_SET)]
    Set(SetSecretArgs),
    /// Allow other runs than the owner's to use a credential
    #[command(after_help = AFTER_ALLOW)]
    Allow(AllowSecretArgs),
    /// List the stored credentials; the secrets themselves are never shown
    List,
    /// Remove a credential
    Remove {
        /// The host of the credential
        host: a2s::Domain,
        /// The name of the security scheme
        scheme: String,
    },
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("grants").required(true).multiple(true))]
pub(crate) struct AllowSecretArgs {
    /// The host that the credential is for
    pub(crate) host: a2s::Domain,
    /// The name of the security scheme
    pub(crate) scheme: String,
    /// A token: its runs may use the credential; `TOKEN/END-USER` for one end user of that token, or `*`
    /// for all callers
    #[arg(long = "subject", value_name = "SUBJECT", group = "grants")]
    pub(crate) subjects: Vec<a2s_api::CredentialSubject>,
    /// An owner of capabilities in the registry: steps of these capabilities may use it
    #[arg(long = "publisher", value_name = "TOKEN", group = "grants")]
    pub(crate) publishers: Vec<a2s_api::TokenSubject>,
    /// A capability: its steps may use the credential, in every version
    #[arg(long = "capability", value_name = "NAME", group = "grants")]
    pub(crate) capabilities: Vec<a2s::CapabilityName>,
    /// Remove all grants
    #[arg(long, group = "grants", conflicts_with_all = ["subjects", "publishers", "capabilities"])]
    pub(crate) owner_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SetSecretArgs {
    /// The host of the credential, with its port unless it is the default port
    pub(crate) host: a2s::Domain,
    /// The name of the security scheme in documents
    pub(crate) scheme: String,
    /// The kind of credential
    #[arg(long, value_enum, default_value_t = SecretKind::ApiKey)]
    pub(crate) kind: SecretKind,
    /// The only location for the key, of api-key: `header:NAME`, `query:NAME` or `cookie:NAME` [default:
    /// the location in the document]
    #[arg(long = "in", value_name = "PLACE")]
    pub(crate) place: Option<a2s_api::KeyLocation>,
    /// The user, of basic
    #[arg(long, required_if_eq("kind", "basic"))]
    pub(crate) user: Option<String>,
    /// The client's id, of oauth2
    #[arg(long, required_if_eq("kind", "oauth2"))]
    pub(crate) client_id: Option<String>,
    /// A host that may receive the client's secret in token requests, of oauth2; it may be given several
    /// times [default: only HOST]
    #[arg(long = "token-host", value_name = "HOST")]
    pub(crate) token_hosts: Vec<a2s::Domain>,
    /// Enter a refresh token, too, of oauth2
    #[arg(long)]
    pub(crate) refresh_token: bool,
    /// The authentication of the client, of oauth2: by a header, or in the body for servers that need that
    #[arg(long, value_enum, default_value_t = ClientAuth::Basic)]
    pub(crate) client_auth: ClientAuth,
}

/// The kinds of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SecretKind {
    /// A key; the document says where it goes
    #[value(alias = "api_key")]
    ApiKey,
    /// A user and a password
    Basic,
    /// A token
    Bearer,
    /// An OAuth 2.0 client; the executor requests tokens for it
    Oauth2,
}

/// The authentication of an OAuth 2.0 client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientAuth {
    Basic,
    Body,
}
