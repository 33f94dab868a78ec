//! Errors of the registry, and the one table of codes, statuses and messages.
//!
//! A variant maps to a stable code, an HTTP status and a text for the caller. What an engine said
//! (a path, an SQL error) is the source of the error: it is logged once, where the answer is
//! made, and never shown.

use a2s::{CapabilityName, Diagnostic, Digest, ErrorCode};
use a2s_api::Problem;
use a2s_api::{AuthError, BrokenDependent, StreamRejection, TokenSubject};
use semver::Version;

use crate::{embed, store, vectors};

/// The maximum number of owners that an error names.
const MAX_LISTED: usize = 5;

a2s::error_table! {
    /// Every code of this crate, in order: A2S200 to A2S299.
    pub const CODES;
    /// The kinds of errors.
    pub(crate) enum ErrorKind;
    // The request itself.
    UnknownRoute = "A2S200", 404, "unknown path", "See `/openapi.json` for the paths of this service.";
    MethodNotAllowed = "A2S201", 405, "method not allowed here", "Use one of the methods in the header `Allow`.";
    UnsupportedMedia = "A2S202", 415, "unsupported media type", "Send documents as `application/yaml` or `application/json`, everything else as `application/json`.";
    NotAcceptable = "A2S203", 406, "representation not available", "Send `Accept: application/yaml` or `Accept: application/json`.";
    BodyTooLarge = "A2S204", 413, "body too large", "Keep documents under 1 MiB, descriptions of services under 4 MiB, and other requests under 64 KiB.";
    MalformedBody = "A2S205", 400, "malformed body", "Send one JSON object with the members that `/openapi.json` describes.";
    MalformedParameter = "A2S206", 400, "malformed path or query parameter", "Correct the parameter that the message names.";
    Unauthorised = "A2S207", 401, "token missing or wrong", "Send `Authorization: Bearer <token>` with the owner's token, or with a token from `a2s tokens create`.";
    TimedOut = "A2S208", 503, "request took too long", "Try again; send the body faster, or request less data.";
    ScopeLacking = "A2S209", 403, "token without the required scope", "Use a token with the scope that the message names: `a2s tokens create NAME --scope SCOPE`.";
    // Publishing.
    DocumentRefused = "A2S210", 422, "document rejected", "Fix every error in `diagnostics`, then publish again.";
    VersionTaken = "A2S211", 409, "version already published with other content", "Give the changed document a new version; a published one never changes.";
    NameTaken = "A2S212", 409, "id already taken by another capability", "Choose a name whose kebab-case form is not in use.";
    TooManyBelow = "A2S213", 422, "too many dependencies in one document", "Use fewer dependencies, or dependencies that have fewer dependencies themselves.";
    NotOwner = "A2S214", 403, "name owned by others", "Ask one of its owners to add you with `a2s owners NAME --add SUBJECT`, or choose another name.";
    BadDeprecation = "A2S215", 422, "invalid deprecation", "Correct the member that the message names.";
    NotMirrored = "A2S216", 403, "name or version not copied by this mirror", "The mirror leaves this name as it is. `docs/registry.md` describes how to hand a name over to a mirror.";
    MirrorPrivileged = "A2S217", 403, "token with too many scopes for a mirror", "Create a token for the mirror with `a2s tokens create mirror --scope publish`, and set it as A2S_TOKEN.";
    LookalikeName = "A2S218", 409, "name that looks like a published one", "Choose a more different name, or ask an owner of the published name to publish this one.";
    DescriptionRefused = "A2S219", 422, "description that gives no drafts", "Give an OpenAPI description, version 3.0 or 3.1, and operations that it has.";
    // Reading.
    CapabilityMissing = "A2S220", 404, "unknown capability", "Check the name; names are case-sensitive PascalCase.";
    VersionMissing = "A2S221", 404, "unknown version", "Request a version or range that matches a version in `/v1/capabilities/{name}`.";
    DocumentDamaged = "A2S222", 500, "stored document no longer matches its checksum", "Restore the registry's database from a backup; the document was changed outside the registry.";
    ServiceMissing = "A2S223", 404, "unknown service", "Request a host that `/v1/services` lists.";
    YankBreaks = "A2S224", 409, "yank that breaks other versions", "`a2s graph NAME@VERSION --impact` lists the effects. To yank the version all the same, use `a2s yank --force` or `?force=true`.";
    // Searching.
    BadSearch = "A2S230", 422, "invalid search", "Correct the member that the message names.";
    UnknownStrategy = "A2S231", 422, "unknown strategy", "Use a preset that the message lists, or give weights.";
    IndexNotReady = "A2S232", 503, "search index not ready", "Try again shortly; the registry is building the index from the stored documents.";
    BadCursor = "A2S233", 422, "cursor that cannot be used", "Start again without `cursor`, or send the cursor with the same intent, strategy and filters as the request that returned it.";
    BadTrim = "A2S234", 422, "audit log that cannot be trimmed", "Give a time in the past.";
    // Outcomes.
    BadOutcome = "A2S240", 422, "outcome that cannot be recorded", "Correct the member that the message names.";
    OutcomeDigest = "A2S241", 409, "outcome for another checksum", "Report the checksum of the version that ran.";
    // Engines.
    Internal = "A2S250", 500, "internal error", "See the registry's log for the cause.";
    StoreUnavailable = "A2S251", 503, "database not available", "Try again; if the error remains, see the registry's log.";
    IndexUnavailable = "A2S252", 503, "search index not available", "Try again; if the error remains, see the registry's log.";
    EmbedderUnavailable = "A2S253", 503, "embedder does not respond", "Check that the embeddings endpoint is up and accepts the model and the key; the registry's log contains its response. Searches continue to work.";
    TooManyFollowers = "A2S254", 429, "too many streams of changes", "Close a stream, request the changes in pages, or try again later. Callers with a token have their own limit.";
    TooManyImports = "A2S255", 429, "too many imports at once", "Wait until an earlier import has ended, then try again; or run `a2s import`, which needs no registry.";
    // Start.
    DatabaseUnusable = "A2S260", 500, "database cannot be opened", "Check the address, the password and the permissions, and check that it is the database of a registry; `docs/operations.md` lists the requirements for PostgreSQL.";
    DatabaseNewer = "A2S261", 500, "database from a newer version", "Use the newer version of the program, or restore an older database.";
    IndexUnusable = "A2S263", 500, "search index not in this build", "Use a build with the feature that the message names.";
    EmbedderUnusable = "A2S264", 500, "embedder cannot be used", "Use `builtin`, the address of an OpenAI-compatible API with `--embedding-model`, or the folder of an uncased BERT sentence transformer.";
    IndexServerUnusable = "A2S265", 503, "search index server cannot be used", "Check the address, key and version of the Qdrant server; `docs/operations.md` lists the requirements. Use the port of its gRPC API, usually 6334.";
    DatabaseMissing = "A2S266", 500, "database missing", "If you moved, replaced or removed the database on purpose, remove the lock file that the message names, and start again. Otherwise put back the database with its log (`-wal`), or restore a backup.";
    // Tokens and owners.
    BadToken = "A2S270", 422, "invalid token", "Correct the member that the message names.";
    TokenTaken = "A2S271", 409, "token name already taken", "Choose another name, or revoke that token first: `a2s tokens revoke NAME`.";
    TokenMissing = "A2S272", 404, "unknown token", "Use a name that `a2s tokens list` shows.";
    LastOwner = "A2S273", 409, "last owner of a name", "Add another owner first, or hand the name over with `--transfer`.";
    ShareUsedUp = "A2S274", 413, "share of the registry used up", "Ask the operator for a larger share (`--max-token-versions`, `--max-token-bytes`): published versions are never deleted.";
}

/// A version whose digest differs from the one in a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` {version} was published with the checksum {published}; the request names {given}"
)]
pub struct DigestMismatch {
    /// Name of the capability.
    pub name: CapabilityName,
    /// The version.
    pub version: Version,
    /// The digest that it was published with.
    pub published: Digest,
    /// The digest that was given.
    pub given: Digest,
}

/// An error of the registry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path does not exist.
    #[error("this path does not exist")]
    UnknownRoute,
    /// The path does not support the method.
    #[error("this path does not support this method")]
    MethodNotAllowed,
    /// The registry does not support the media type of the body.
    #[error("the media type `{0}` is not supported")]
    UnsupportedMedia(String),
    /// The caller accepts none of the available media types.
    #[error("a document is not available as `{0}`")]
    NotAcceptable(String),
    /// The body is too large.
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge {
        /// The maximum size, in bytes.
        limit: usize,
    },
    /// The body is malformed.
    #[error("{0}")]
    MalformedBody(String),
    /// The description of a service gives no drafts.
    #[error("{0}")]
    DescriptionRefused(String),
    /// A part of the path or the query is malformed.
    #[error("{0}")]
    MalformedParameter(String),
    /// The token of the request does not allow it.
    #[error("{0}")]
    Unauthorized(#[from] AuthError),
    /// The request was not finished in time.
    #[error("the request was not finished within {0} s")]
    TimedOut(u64),

    /// The document has errors; the list contains all of them.
    #[error("the document has {}", count_errors(.0))]
    DocumentRejected(Vec<Diagnostic>),
    /// The version exists with other content.
    #[error("{0}")]
    VersionTaken(Box<DigestMismatch>),
    /// A published version differs from the new one in build metadata alone.
    #[error(
        "`{name}` {version} differs from the published version {published} in build metadata (`+`) alone, \
         which version ranges ignore"
    )]
    SamePrecedence {
        /// Name of the capability.
        name: CapabilityName,
        /// The version that was to be published.
        version: Version,
        /// The published version.
        published: Version,
    },
    /// Another name has the same kebab-case form.
    #[error("`{name}` would have the id `{id}`, which belongs to `{owner}`")]
    NameTaken {
        /// The name that was to be published.
        name: CapabilityName,
        /// Its kebab-case form.
        id: String,
        /// The capability that has this form already.
        owner: String,
    },
    /// The name looks like that of another owner.
    #[error(
        "`{name}` differs from the published `{other}` only in case or in letters that look alike"
    )]
    LookalikeName {
        /// The name.
        name: CapabilityName,
        /// The similar published name.
        other: CapabilityName,
    },
    /// The name belongs to others.
    #[error("`{name}` belongs to {}", listed(.owners))]
    NotOwner {
        /// The name.
        name: CapabilityName,
        /// The owners, who may publish under it.
        owners: Vec<TokenSubject>,
    },
    /// The mirror did not copy this name or version from its source.
    #[error("{}", not_mirrored(.name, .version.as_ref(), .origin.as_deref()))]
    NotMirrored {
        /// The name.
        name: CapabilityName,
        /// The version, when the request changes a version.
        version: Option<Version>,
        /// The registry that it was copied from; none when it was published here.
        origin: Option<String>,
    },
    /// A mirror used a token that owns the names of others.
    #[error(
        "the token of `{0}` has the scope `admin`, so a mirror's source could change every name"
    )]
    MirrorPrivileged(TokenSubject),
    /// The request does not name exactly one version.
    #[error("name one version of `{0}` exactly, such as `1.2.0`")]
    NotExact(CapabilityName),
    /// Published versions need the version that was to be yanked.
    #[error("the yank of `{name}` {version} would break {}", broken_text(.broken))]
    YankBreaks {
        /// The name.
        name: CapabilityName,
        /// The version that was to be yanked.
        version: Version,
        /// The versions that would break.
        broken: Vec<BrokenDependent>,
    },
    /// The message or the successor of a deprecation is invalid.
    #[error("{0}")]
    BadDeprecation(String),
    /// The dependencies of the document have too many dependencies.
    #[error("the dependencies of the document have more than {most} versions in total")]
    TooManyDependencies {
        /// The maximum number of versions.
        most: usize,
    },

    /// No version of this name was ever published.
    #[error("unknown capability `{0}`")]
    CapabilityMissing(String),
    /// The capability exists, but no version matches the request.
    #[error("no version of `{name}` matches `{wanted}`; known versions: {known}")]
    VersionMissing {
        /// Name of the capability.
        name: CapabilityName,
        /// The requested version or range.
        wanted: String,
        /// Some of the known versions.
        known: String,
    },
    /// No live capability uses this host.
    #[error("no capability talks to `{0}`")]
    ServiceMissing(String),
    /// The stored text was changed outside the registry.
    #[error("the stored document of `{name}` {version} {reason}")]
    DocumentDamaged {
        /// Name of the capability.
        name: CapabilityName,
        /// The version.
        version: Version,
        /// The defect.
        reason: String,
    },

    /// The search request is invalid.
    #[error("{0}")]
    BadSearch(String),
    /// The preset is unknown.
    #[error("unknown strategy `{given}`; known strategies: {known}")]
    UnknownStrategy {
        /// The requested version or range.
        given: String,
        /// The known presets.
        known: String,
    },
    /// The cursor is malformed, or belongs to another search.
    #[error("{0}")]
    BadCursor(&'static str),
    /// The registry cannot remove entries before this time.
    #[error("{0}")]
    BadTrim(String),
    /// The index is being built.
    #[error("the search index is being built from the stored documents")]
    IndexNotReady,

    /// The report is invalid.
    #[error("{0}")]
    BadOutcome(String),
    /// The report names another checksum than the published one.
    #[error("{0}")]
    OutcomeDigest(Box<DigestMismatch>),

    /// The request for a token is invalid.
    #[error("{0}")]
    BadToken(String),
    /// A token with this name exists already.
    #[error("a token with the name `{0}` exists already")]
    TokenTaken(TokenSubject),
    /// A token with this name does not exist.
    #[error("unknown token `{0}`")]
    TokenMissing(TokenSubject),
    /// The name would have no owner.
    #[error("`{0}` would have no owner")]
    LastOwner(CapabilityName),
    /// The token has published as much as one token may.
    #[error("`{0}` has published as much as one token may")]
    ShareUsedUp(TokenSubject),
    /// Too many streams of changes are open.
    #[error("the registry cannot stream the changes now: {0}")]
    TooManyFollowers(StreamRejection),
    /// Too many imports are in progress.
    #[error("the registry cannot import the description now: {0}")]
    TooManyImports(StreamRejection),

    /// An unexpected error inside the registry.
    #[error("an unexpected error occurred in the registry")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store failed.
    #[error("{}", store_text(.0))]
    Store(#[from] store::Error),
    /// The database lacks data that was there before.
    #[error("{0}")]
    DatabaseMissing(String),
    /// The index failed.
    #[error("{}", vectors_text(.0))]
    Vectors(#[from] vectors::Error),
    /// The embedder failed.
    #[error("{}", embedder_text(.0))]
    Embedder(#[from] embed::Error),
}

impl Error {
    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> &'static ErrorCode {
        self.kind().code()
    }

    /// Returns the HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            // Others hold all streams: the caller cannot close one.
            Self::TooManyFollowers(StreamRejection::Total(_))
            | Self::TooManyImports(StreamRejection::Total(_)) => 503,
            _ => self.kind().status(),
        }
    }

    /// The response for the caller (RFC 9457).
    #[must_use]
    pub fn to_problem(&self) -> Problem {
        let mut problem = Problem::new(self.status(), self.code(), self.to_string());
        if let Self::DocumentRejected(diagnostics) = self {
            problem.diagnostics.clone_from(diagnostics);
        }
        problem
    }

    /// Returns the row of the table for each variant.
    fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownRoute => ErrorKind::UnknownRoute,
            Self::MethodNotAllowed => ErrorKind::MethodNotAllowed,
            Self::UnsupportedMedia(_) => ErrorKind::UnsupportedMedia,
            Self::NotAcceptable(_) => ErrorKind::NotAcceptable,
            Self::BodyTooLarge { .. } => ErrorKind::BodyTooLarge,
            Self::MalformedBody(_) => ErrorKind::MalformedBody,
            Self::DescriptionRefused(_) => ErrorKind::DescriptionRefused,
            Self::MalformedParameter(_) => ErrorKind::MalformedParameter,
            Self::Unauthorized(refusal) => match refusal {
                AuthError::MissingToken | AuthError::UnknownToken => ErrorKind::Unauthorised,
                AuthError::MissingScope { .. } => ErrorKind::ScopeLacking,
                AuthError::InvalidEndUser(_) | AuthError::RepeatedHeader(_) => {
                    ErrorKind::MalformedParameter
                }
                AuthError::Unavailable(_) => ErrorKind::StoreUnavailable,
            },
            Self::TimedOut(_) => ErrorKind::TimedOut,
            Self::DocumentRejected(_) => ErrorKind::DocumentRefused,
            Self::VersionTaken(_) | Self::SamePrecedence { .. } => ErrorKind::VersionTaken,
            Self::NameTaken { .. } => ErrorKind::NameTaken,
            Self::LookalikeName { .. } => ErrorKind::LookalikeName,
            Self::NotOwner { .. } => ErrorKind::NotOwner,
            Self::NotMirrored { .. } => ErrorKind::NotMirrored,
            Self::MirrorPrivileged(_) => ErrorKind::MirrorPrivileged,
            Self::NotExact(_) => ErrorKind::MalformedParameter,
            Self::YankBreaks { .. } => ErrorKind::YankBreaks,
            Self::BadDeprecation(_) => ErrorKind::BadDeprecation,
            Self::TooManyDependencies { .. } => ErrorKind::TooManyBelow,
            Self::CapabilityMissing(_) => ErrorKind::CapabilityMissing,
            Self::VersionMissing { .. } => ErrorKind::VersionMissing,
            Self::ServiceMissing(_) => ErrorKind::ServiceMissing,
            Self::DocumentDamaged { .. } => ErrorKind::DocumentDamaged,
            Self::BadSearch(_) => ErrorKind::BadSearch,
            Self::UnknownStrategy { .. } => ErrorKind::UnknownStrategy,
            Self::BadCursor(_) => ErrorKind::BadCursor,
            Self::BadTrim(_) => ErrorKind::BadTrim,
            Self::IndexNotReady => ErrorKind::IndexNotReady,
            Self::BadOutcome(_) => ErrorKind::BadOutcome,
            Self::OutcomeDigest(_) => ErrorKind::OutcomeDigest,
            Self::BadToken(_) => ErrorKind::BadToken,
            Self::TokenTaken(_) => ErrorKind::TokenTaken,
            Self::TokenMissing(_) => ErrorKind::TokenMissing,
            Self::LastOwner(_) => ErrorKind::LastOwner,
            Self::ShareUsedUp(_) => ErrorKind::ShareUsedUp,
            Self::TooManyFollowers(_) => ErrorKind::TooManyFollowers,
            Self::TooManyImports(_) => ErrorKind::TooManyImports,
            Self::Internal(_) => ErrorKind::Internal,
            Self::DatabaseMissing(_) => ErrorKind::DatabaseMissing,
            Self::Store(error) => match error.kind() {
                store::ErrorKind::Unavailable => ErrorKind::StoreUnavailable,
                store::ErrorKind::Unusable => ErrorKind::DatabaseUnusable,
                store::ErrorKind::Newer => ErrorKind::DatabaseNewer,
                store::ErrorKind::Lost => ErrorKind::DatabaseMissing,
            },
            Self::Vectors(error) => match error {
                vectors::Error::NotReady => ErrorKind::IndexNotReady,
                vectors::Error::Failed(_) | vectors::Error::Unavailable(_) => {
                    ErrorKind::IndexUnavailable
                }
                vectors::Error::Unusable(_) => ErrorKind::IndexServerUnusable,
                vectors::Error::NotBuilt(_) => ErrorKind::IndexUnusable,
            },
            Self::Embedder(error) => match error {
                embed::Error::Unavailable(_) => ErrorKind::EmbedderUnavailable,
                embed::Error::Unusable(_) => ErrorKind::EmbedderUnusable,
            },
        }
    }
}

fn listed(owners: &[TokenSubject]) -> String {
    let more = if owners.len() > MAX_LISTED { " and others" } else { "" };
    join_first(owners, |owner| format!("`{owner}`")) + more
}

fn broken_text(broken: &[BrokenDependent]) -> String {
    let more = match broken.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let describe = |it: &BrokenDependent| format!("{} ({})", it.id, it.because.join("; "));
    join_first(broken, describe) + &more
}

/// Joins the texts of the first items.
fn join_first<T>(items: &[T], describe: impl Fn(&T) -> String) -> String {
    items.iter().take(MAX_LISTED).map(describe).collect::<Vec<_>>().join(", ")
}

fn not_mirrored(name: &CapabilityName, version: Option<&Version>, origin: Option<&str>) -> String {
    let what = version.map_or_else(|| format!("`{name}`"), |version| format!("`{name}` {version}"));
    let from = match origin {
        Some(origin) => format!("was copied from {origin}"),
        None => "was published here".to_owned(),
    };
    let whole = if version.is_some() { ", or its checksum differs" } else { "" };
    format!("{what} {from}{whole}, so this mirror does not change it")
}

fn count_errors(diagnostics: &[Diagnostic]) -> String {
    match diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count() {
        1 => "1 error".to_owned(),
        errors => format!("{errors} errors"),
    }
}

fn store_text(error: &store::Error) -> String {
    let predicate = match error.kind() {
        store::ErrorKind::Lost => "lacks data that was there before",
        store::ErrorKind::Unavailable => match error.disk_fault() {
            Some(fault) => return format!("the database {fault}"),
            None => "did not respond",
        },
        store::ErrorKind::Unusable => "cannot be opened",
        store::ErrorKind::Newer => "is from a newer version of the program",
    };
    format!("the database {predicate}")
}

fn vectors_text(error: &vectors::Error) -> &'static str {
    match error {
        vectors::Error::NotReady => "the search index is being built from the stored documents",
        vectors::Error::Failed(_) | vectors::Error::Unavailable(_) => {
            "the search index did not respond"
        }
        vectors::Error::Unusable(_) => "the server of the search index cannot be used",
        vectors::Error::NotBuilt(_) => "this build has no engine for this search index",
    }
}

fn embedder_text(error: &embed::Error) -> &'static str {
    match error {
        embed::Error::Unavailable(_) => "the embedder did not respond",
        embed::Error::Unusable(_) => "the embedder cannot be used",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_ordered_and_explained() {
        assert!(CODES.is_sorted_by(|a, b| a.id < b.id));
        for code in CODES {
            assert!(code.id.len() == 6 && code.id.starts_with("A2S2"), "{}", code.id);
            assert!(!code.title.is_empty() && !code.remedy.is_empty(), "{}", code.id);
        }
    }

    #[test]
    fn an_inner_cause_is_never_shown() {
        let secret = "/home/someone/registry.sqlite: disk I/O error";
        for error in [
            Error::Internal(secret.into()),
            Error::Store(store::Error::unavailable(secret)),
            Error::Vectors(vectors::Error::Failed(secret.to_owned())),
            Error::Vectors(vectors::Error::Unavailable(secret.to_owned())),
            Error::Vectors(vectors::Error::Unusable(secret.to_owned())),
            Error::Embedder(embed::Error::Unavailable(secret.to_owned())),
        ] {
            let problem = serde_json::to_string(&error.to_problem()).unwrap();
            assert!(!problem.contains("someone"), "{problem}");
        }
    }
}
