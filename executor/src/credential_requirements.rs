//! The credentials that a request requires, and those that are available. Pure.
//!
//! A document names schemes; credentials are stored for a host and the name of a scheme. The first
//! way to be let in that is complete is taken. When none is, nothing is sent at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use a2s::{CapabilityName, Domain, SecurityRequirement, SecurityScheme, Task};
use a2s_api::{
    ClientAuthentication, Credential, CredentialKind, CredentialUsers, KeyLocation,
    PlannedCredential, StoredCredential,
};
use a2s_api::{Principal, TokenSubject};
use jiff::Timestamp;
use url::Url;

use crate::error::{Error, ErrorKind};

/// The credentials that are available.
#[derive(Debug, Clone, Default)]
pub(crate) struct AvailableCredentials {
    stored: BTreeMap<(Domain, String), CredentialInfo>,
    /// The hosts for which this executor has a client certificate.
    hosts_with_certificate: BTreeSet<Domain>,
    /// The owners of capabilities, if grants to publishers make them relevant.
    owners: BTreeMap<CapabilityName, Vec<TokenSubject>>,
}

/// The data about a credential that is known without opening it.
#[derive(Debug, Clone)]
struct CredentialInfo {
    kind: CredentialKind,
    set_at: Timestamp,
    users: CredentialUsers,
}

/// The user of a credential: a step of a capability, in a run of a principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CredentialUser {
    /// The principal that the run belongs to.
    pub(crate) principal: Principal,
    /// The capability with the document that contains the step.
    pub(crate) capability: CapabilityName,
}

impl AvailableCredentials {
    /// Creates the set from the stored credentials and the hosts with a client certificate.
    pub(crate) fn new(
        stored: Vec<StoredCredential>,
        certified: impl IntoIterator<Item = Domain>,
    ) -> Self {
        let stored = stored.into_iter().map(|row| {
            let StoredCredential { host, scheme, kind, set_at, users } = row;
            ((host, scheme), CredentialInfo { kind, set_at, users })
        });
        Self {
            stored: stored.collect(),
            hosts_with_certificate: certified.into_iter().collect(),
            owners: BTreeMap::new(),
        }
    }

    /// The capabilities for which the owners decide whether one of these requests may use a credential.
    pub(crate) fn unknown_publishers<'a>(
        &self,
        accesses: impl IntoIterator<Item = &'a CredentialRequirement>,
    ) -> BTreeSet<CapabilityName> {
        let depends = |access: &&CredentialRequirement| {
            let mut wanted = access.alternatives.iter().flatten();
            wanted.any(|wanted| {
                let stored = self.stored.get(&(access.host.clone(), wanted.name.clone()));
                stored.is_some_and(|stored| {
                    !stored.users.publishers.is_empty() && !self.allows(stored, &access.user)
                })
            })
        };
        let accesses = accesses.into_iter().filter(depends);
        accesses.map(|access| access.user.capability.clone()).collect()
    }

    /// Adds the owners of a capability's name.
    pub(crate) fn add_owners(&mut self, capability: CapabilityName, owners: Vec<TokenSubject>) {
        self.owners.insert(capability, owners);
    }

    fn allows(&self, stored: &CredentialInfo, user: &CredentialUser) -> bool {
        let publishers = self.owners.get(&user.capability).map_or(&[][..], Vec::as_slice);
        stored.users.allows(&user.principal, &user.capability, publishers)
    }
}

/// The security requirements that a document declares for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CredentialRequirement {
    /// The host, as credentials are stored for it.
    host: Domain,
    /// The alternative sets of credentials; the host accepts each of them.
    alternatives: Vec<Vec<SecurityRequirement>>,
    /// The token URLs, by the name of the scheme.
    token_urls: BTreeMap<String, TokenUrls>,
    /// The only hosts that the document addresses.
    domains: Vec<Domain>,
    /// The user of the credentials.
    user: CredentialUser,
}

/// The URLs of token endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct TokenUrls {
    client: Option<Url>,
    refresh: Option<Url>,
}

/// The grant with which the executor requests a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GrantType {
    /// Only with the client's own credentials (RFC 6749, section 4.4).
    Client,
    /// With a refresh token (RFC 6749, section 6).
    Refresh,
}

/// The missing credentials for a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingCredentials {
    host: Domain,
    missing: Vec<MissingCredential>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MissingCredential {
    scheme: String,
    required: RequiredCredential,
}

/// The thing that would satisfy a requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RequiredCredential {
    Stored(CredentialKind, Option<KeyLocation>),
    Certificate,
    /// A grant for this user; the credential itself is stored.
    Grant(CredentialUser),
    /// A requirement that this executor does not support.
    Unsupported(String),
}

impl CredentialRequirement {
    /// The requirements of a task in a document with these `domains`; `None` when access is open to all.
    pub(crate) fn from_task(task: &Task, domains: &[Domain], user: CredentialUser) -> Option<Self> {
        let ways = task.security();
        if ways.iter().all(Vec::is_empty) {
            return None;
        }
        let url = task.url();
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut tokens = BTreeMap::new();
        for requirement in ways.iter().flatten() {
            if let Some(SecurityScheme::OAuth2(flows)) = &requirement.scheme {
                let address = |text: Option<&str>| task.token_address(text?);
                let client = address(flows.client_token_url());
                let refresh = address(flows.refresh_token_url());
                tokens.insert(requirement.name.clone(), TokenUrls { client, refresh });
            }
        }
        Some(Self {
            // Publishing has seen to it that the host is one of `domains`.
            host: Domain::new(&host).ok()?,
            alternatives: ways.to_vec(),
            token_urls: tokens,
            domains: domains.to_vec(),
            user,
        })
    }

    /// The host, as credentials are stored for it.
    pub(crate) fn host(&self) -> &Domain {
        &self.host
    }

    /// Returns true when the document may address the host of `url`.
    pub(crate) fn covers(&self, url: &Url) -> bool {
        self.domains.iter().any(|domain| domain.covers(url))
    }

    /// The token URL for one of the own requirements.
    pub(crate) fn token_url(&self, wanted: &SecurityRequirement, grant: GrantType) -> Option<&Url> {
        self.alternatives.iter().flatten().find(|requirement| *requirement == wanted)?;
        let urls = self.token_urls.get(&wanted.name)?;
        match grant {
            GrantType::Client => urls.client.as_ref(),
            GrantType::Refresh => urls.refresh.as_ref(),
        }
    }

    /// Returns the first alternative for which all credentials are available. Returns the empty alternative
    /// when the document has one and no other is complete.
    ///
    /// # Errors
    /// The missing credentials of the first alternative that could be made complete.
    pub(crate) fn choose_alternative(
        &self,
        held: &AvailableCredentials,
    ) -> Result<&[SecurityRequirement], MissingCredentials> {
        let complete = |way: &&Vec<SecurityRequirement>| {
            !way.is_empty() && way.iter().all(|requirement| self.is_available(requirement, held))
        };
        if let Some(way) = self.alternatives.iter().find(complete) {
            return Ok(way);
        }
        if self.alternatives.iter().any(Vec::is_empty) {
            return Ok(&[]);
        }
        let can_be_met = |way: &&Vec<SecurityRequirement>| {
            way.iter().all(|wanted| {
                !matches!(required_credential(wanted), RequiredCredential::Unsupported(_))
            })
        };
        let way = self.alternatives.iter().find(can_be_met).or_else(|| self.alternatives.first());
        let missing = way.into_iter().flatten().filter(|wanted| !self.is_available(wanted, held));
        let missing = missing
            .map(|wanted| {
                let want = match self.find_stored(wanted, held) {
                    Some(_) => RequiredCredential::Grant(self.user.clone()),
                    None => required_credential(wanted),
                };
                MissingCredential { scheme: wanted.name.clone(), required: want }
            })
            .collect();
        Err(MissingCredentials { host: self.host.clone(), missing })
    }

    fn is_available(&self, wanted: &SecurityRequirement, held: &AvailableCredentials) -> bool {
        if wanted.scheme == Some(SecurityScheme::MutualTls) {
            return held.hosts_with_certificate.contains(&self.host);
        }
        self.find_stored(wanted, held).is_some_and(|stored| held.allows(stored, &self.user))
    }

    /// The credential that is stored for a requirement, without a check of its users.
    fn find_stored<'h>(
        &self,
        wanted: &SecurityRequirement,
        held: &'h AvailableCredentials,
    ) -> Option<&'h CredentialInfo> {
        let stored = held.stored.get(&(self.host.clone(), wanted.name.clone()))?;
        wanted.credential_kinds().contains(&stored.kind).then_some(stored)
    }

    /// Returns the credentials that a request would use or lack, for a plan.
    pub(crate) fn plan_credentials(&self, held: &AvailableCredentials) -> Vec<PlannedCredential> {
        let entry = |scheme: &str, kind: &str, hint: Option<String>| PlannedCredential {
            host: self.host.to_string(),
            scheme: scheme.to_owned(),
            kind: kind.to_owned(),
            steps: Vec::new(),
            stored: hint.is_none(),
            set_at: None,
            hint,
        };
        match self.choose_alternative(held) {
            Ok(way) => way
                .iter()
                .map(|wanted| {
                    if wanted.scheme == Some(SecurityScheme::MutualTls) {
                        return entry(&wanted.name, "mutual_tls", None);
                    }
                    let stored = held.stored.get(&(self.host.clone(), wanted.name.clone()));
                    let kind = stored.map_or("", |stored| stored.kind.as_str());
                    let set_at = stored.map(|stored| stored.set_at);
                    PlannedCredential { set_at, ..entry(&wanted.name, kind, None) }
                })
                .collect(),
            Err(lack) => lack
                .missing
                .iter()
                .map(|missing| {
                    entry(
                        &missing.scheme,
                        missing.required.as_str(),
                        Some(lack.next_action(missing)),
                    )
                })
                .collect(),
        }
    }
}

impl MissingCredentials {
    /// The action that makes one of the missing credentials available.
    fn next_action(&self, missing: &MissingCredential) -> String {
        let Self { host, .. } = self;
        match &missing.required {
            RequiredCredential::Stored(kind, place) => {
                let mut command = store_command(host, &missing.scheme, *kind);
                if let Some(place) = place {
                    command.extend([" --in ", &ShellWord(&place.to_string()).to_string()]);
                }
                format!("Store the credential: `{command}`.")
            }
            RequiredCredential::Grant(CredentialUser { principal, capability }) => format!(
                "The credential is stored, but this run may not use it. An administrator of the executor can \
                 allow it: `a2s secrets allow {host} {scheme} --subject {principal}`, or \
                 `--capability {capability}`.",
                scheme = ShellWord(&missing.scheme),
                principal = ShellWord(&principal.to_string()),
            ),
            RequiredCredential::Certificate => format!(
                "Start the executor with `--client-certificate {host}=CERTIFICATE.pem,KEY.pem`."
            ),
            RequiredCredential::Unsupported(what) => {
                format!(
                    "The executor does not support {what}; ask the author of the capability for another security scheme."
                )
            }
        }
    }

    /// Creates the error of a step or run that lacks them.
    pub(crate) fn into_error(self) -> Error {
        let named: Vec<String> = self
            .missing
            .iter()
            .map(|missing| format!("`{}`", display_name(&missing.scheme)))
            .collect();
        let granted =
            |missing: &MissingCredential| matches!(missing.required, RequiredCredential::Grant(_));
        let message = match self.missing.iter().find(|missing| granted(missing)) {
            Some(MissingCredential { required: RequiredCredential::Grant(user), .. }) => format!(
                "runs of `{}` may not use the credential {} for {}",
                user.principal,
                named.join(", "),
                self.host
            ),
            _ => format!("the credential {} for {} is missing", named.join(", "), self.host),
        };
        let hints: Vec<String> =
            self.missing.iter().map(|missing| self.next_action(missing)).collect();
        Error::new(ErrorKind::CredentialMissing, message).with_hint(hints.join(" "))
    }
}

impl RequiredCredential {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Stored(kind, _) => kind.as_str(),
            Self::Certificate => "mutual_tls",
            Self::Grant(_) => "grant",
            Self::Unsupported(_) => "unsupported",
        }
    }
}

fn required_credential(wanted: &SecurityRequirement) -> RequiredCredential {
    match (wanted.credential_kinds().first(), &wanted.scheme) {
        (Some(kind), Some(SecurityScheme::ApiKey { location: place, name })) => {
            RequiredCredential::Stored(*kind, Some(KeyLocation::new(*place, name)))
        }
        (Some(kind), _) => RequiredCredential::Stored(*kind, None),
        (None, Some(SecurityScheme::MutualTls)) => RequiredCredential::Certificate,
        (None, Some(scheme)) => RequiredCredential::Unsupported(scheme.describe()),
        (None, None) => RequiredCredential::Unsupported("an undefined security scheme".to_owned()),
    }
}

/// Returns the command that stores a credential. Names come from documents, so they are quoted.
pub(crate) fn store_command(host: &Domain, scheme: &str, kind: CredentialKind) -> String {
    let kind = match kind {
        CredentialKind::ApiKey => "api-key",
        CredentialKind::Basic => "basic --user USER",
        CredentialKind::Bearer => "bearer",
        CredentialKind::Oauth2 => "oauth2 --client-id ID",
    };
    format!("a2s secrets set {host} {} --kind {kind}", ShellWord(scheme))
}

/// Returns the command that replaces a credential with another one of the same form.
pub(crate) fn replace_command(host: &Domain, scheme: &str, like: &Credential) -> String {
    let mut command = store_command(host, scheme, like.kind());
    if let Credential::Oauth2 { refresh_token, token_hosts, client_authentication, .. } = like {
        for host in token_hosts {
            command.extend([" --token-host ", host.as_str()]);
        }
        if refresh_token.is_some() {
            command.push_str(" --refresh-token");
        }
        if *client_authentication == ClientAuthentication::Body {
            command.push_str(" --client-auth body");
        }
    }
    command
}

/// A word in the syntax of a POSIX shell.
struct ShellWord<'t>(&'t str);

impl fmt::Display for ShellWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if !self.0.is_empty() && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        write!(f, "'{}'", self.0.replace('\'', r"'\''"))
    }
}

/// Returns a name as an error shows it.
fn display_name(name: &str) -> String {
    a2s::to_single_line(name, 100)
}

#[cfg(test)]
mod tests {
    use a2s::HttpScheme;

    use super::*;

    fn requirement(name: &str, scheme: SecurityScheme) -> SecurityRequirement {
        SecurityRequirement { name: name.to_owned(), scopes: Vec::new(), scheme: Some(scheme) }
    }

    fn http(name: &str, scheme: HttpScheme) -> SecurityRequirement {
        requirement(name, SecurityScheme::Http { scheme, bearer_format: None })
    }

    fn access(ways: Vec<Vec<SecurityRequirement>>) -> CredentialRequirement {
        let host = Domain::new("api.example").unwrap();
        let user = user("owner");
        CredentialRequirement {
            domains: vec![host.clone()],
            host,
            alternatives: ways,
            token_urls: BTreeMap::new(),
            user,
        }
    }

    fn user(principal: &str) -> CredentialUser {
        CredentialUser {
            principal: principal.parse().unwrap(),
            capability: CapabilityName::new("PostTweet").unwrap(),
        }
    }

    fn held(stored: &[(&str, CredentialKind)]) -> AvailableCredentials {
        let host = Domain::new("api.example").unwrap();
        let stored = stored.iter().map(|(name, kind)| StoredCredential {
            host: host.clone(),
            scheme: (*name).to_owned(),
            kind: *kind,
            set_at: Timestamp::UNIX_EPOCH,
            users: CredentialUsers::default(),
        });
        AvailableCredentials::new(stored.collect(), [])
    }

    fn chosen(
        access: &CredentialRequirement,
        held: &AvailableCredentials,
    ) -> Result<Vec<String>, String> {
        let names = |way: &[SecurityRequirement]| way.iter().map(|r| r.name.clone()).collect();
        access.choose_alternative(held).map(names).map_err(|lack| lack.into_error().hint)
    }

    #[test]
    fn the_first_complete_way_is_taken_and_the_empty_one_last() {
        let (basic, bearer) = (http("login", HttpScheme::Basic), http("token", HttpScheme::Bearer));
        let mut ways = vec![vec![], vec![basic.clone(), bearer.clone()], vec![bearer]];
        let both = held(&[("login", CredentialKind::Basic), ("token", CredentialKind::Bearer)]);
        let token = held(&[("token", CredentialKind::Bearer)]);
        let open = access(ways.clone());
        assert_eq!(chosen(&open, &both).unwrap(), ["login", "token"]);
        assert_eq!(chosen(&open, &token).unwrap(), ["token"]);
        assert_eq!(chosen(&open, &AvailableCredentials::default()).unwrap(), [""; 0]);
        ways.remove(0);
        let closed = access(ways);
        assert_eq!(
            chosen(&closed, &token).unwrap(),
            ["token"],
            "the way before it lacks one of its two"
        );
        let hint = chosen(&closed, &AvailableCredentials::default()).unwrap_err();
        assert_eq!(
            hint,
            "Store the credential: `a2s secrets set api.example login --kind basic --user USER`. \
             Store the credential: `a2s secrets set api.example token --kind bearer`."
        );
        // A credential of another kind is none.
        let wrong = held(&[("login", CredentialKind::ApiKey), ("token", CredentialKind::ApiKey)]);
        assert!(chosen(&closed, &wrong).is_err());
        // The hint does not name an alternative that cannot be met.
        let digest = http("digest", HttpScheme::Other("digest".to_owned()));
        let either = access(vec![vec![digest.clone()], vec![basic]]);
        assert!(
            chosen(&either, &AvailableCredentials::default())
                .unwrap_err()
                .contains("set api.example login")
        );
        let never =
            chosen(&access(vec![vec![digest]]), &AvailableCredentials::default()).unwrap_err();
        assert!(never.contains("does not support HTTP digest"), "{never}");
    }

    #[test]
    fn a_credential_is_lacking_for_a_run_that_may_not_use_it() {
        let bearer = http("token", HttpScheme::Bearer);
        let access = CredentialRequirement { user: user("bob"), ..access(vec![vec![bearer]]) };
        let mut held = held(&[("token", CredentialKind::Bearer)]);
        let error = access.choose_alternative(&held).unwrap_err().into_error();
        assert_eq!(
            error.message,
            "runs of `bob` may not use the credential `token` for api.example"
        );
        assert!(
            error.hint.contains("`a2s secrets allow api.example token --subject bob`"),
            "{}",
            error.hint
        );
        assert!(held.unknown_publishers([&access]).is_empty(), "no publisher has a grant");
        for stored in held.stored.values_mut() {
            stored.users.publishers.insert("ann".parse().unwrap());
        }
        let unknown = held.unknown_publishers([&access]);
        assert_eq!(unknown, BTreeSet::from([access.user.capability.clone()]));
        assert!(chosen(&access, &held).is_err(), "an owner who is not known has no grant");
        held.add_owners(access.user.capability.clone(), vec!["ann".parse().unwrap()]);
        assert_eq!(chosen(&access, &held).unwrap(), ["token"]);
        assert!(held.unknown_publishers([&access]).is_empty());
    }

    #[test]
    fn a_certificate_meets_mutual_tls_on_its_host() {
        let access = access(vec![vec![requirement("card", SecurityScheme::MutualTls)]]);
        let hint = chosen(&access, &AvailableCredentials::default()).unwrap_err();
        assert!(hint.contains("--client-certificate api.example="), "{hint}");
        let certified =
            |host: &str| AvailableCredentials::new(Vec::new(), [Domain::new(host).unwrap()]);
        assert!(chosen(&access, &certified("other.example")).is_err());
        assert_eq!(chosen(&access, &certified("api.example")).unwrap(), ["card"]);
    }

    #[test]
    fn a_name_cannot_add_to_the_command() {
        let host = Domain::new("api.example").unwrap();
        let kind = CredentialKind::ApiKey;
        assert_eq!(
            store_command(&host, "a'; rm -rf ~; echo '$(b)", kind),
            r"a2s secrets set api.example 'a'\''; rm -rf ~; echo '\''$(b)' --kind api-key"
        );
        assert_eq!(
            store_command(&host, "key_1", kind),
            "a2s secrets set api.example key_1 --kind api-key"
        );
    }
}
