//! Reads `security` and the schemes that it names.

use std::collections::BTreeMap;

use openapiv3 as oas;

use super::CredentialKind;
use super::{SecurityRequirement, SecurityScheme};
use crate::error_code::{self, ErrorCode};
use crate::field_reader::{DiagnosticSink, DocumentField, shorten_for_message};
use crate::task::located_value::LocatedValue;

/// The maximum number of authentication alternatives.
const MAX_WAYS: usize = 500;
/// The maximum number of schemes of one alternative.
const MAX_SCHEMES: usize = 50;
/// The maximum number of schemes that one diagnostic names.
const MAX_NAMED: usize = 5;

/// The authentication alternatives of a task that states them in OpenAPI's words: `security`, and the
/// schemes by name next to it.
pub(in crate::task) fn read_security(
    task: &DocumentField<'_>,
    security: Option<&DocumentField<'_>>,
    schemes: Option<&DocumentField<'_>>,
    code: ErrorCode,
    findings: &mut DiagnosticSink,
) -> Vec<Vec<SecurityRequirement>> {
    let Some(security) = security else { return Vec::new() };
    let alternatives = security.items(findings);
    let alternatives: Vec<_> = alternatives.iter().map(LocatedValue::from_field).collect();
    let reader = SecurityReader {
        root: LocatedValue::from_field(task),
        schemes: schemes.map(LocatedValue::from_field),
        location: "securitySchemes",
        code,
        findings,
    };
    reader.read(&alternatives, &LocatedValue::from_field(security))
}

/// A reader of security requirements, with the scheme definitions and the findings for its diagnostics.
pub(in crate::task) struct SecurityReader<'n, 'f> {
    /// The value that `$ref`s point into.
    pub(in crate::task) root: LocatedValue<'n>,
    /// The schemes by name.
    pub(in crate::task) schemes: Option<LocatedValue<'n>>,
    /// The path of the schemes, for messages.
    pub(in crate::task) location: &'static str,
    /// The code of the errors that are reported.
    pub(in crate::task) code: ErrorCode,
    /// The findings that receive the diagnostics.
    pub(in crate::task) findings: &'f mut DiagnosticSink,
}

impl<'n> SecurityReader<'n, '_> {
    /// Reads the authentication alternatives in `security`. `holder` is the location of `security`.
    pub(in crate::task) fn read(
        mut self,
        security: &[LocatedValue<'n>],
        holder: &LocatedValue<'n>,
    ) -> Vec<Vec<SecurityRequirement>> {
        if security.len() > MAX_WAYS {
            let count = security.len();
            let message =
                format!("`security` has {count} alternatives; at most {MAX_WAYS} are allowed");
            self.error(holder, message, "Keep only the alternative that the step uses.");
            return Vec::new();
        }
        let mut known = BTreeMap::new();
        let mut ways = Vec::new();
        for alternative in security {
            let requirements = alternative.entries();
            if requirements.len() > MAX_SCHEMES {
                let count = requirements.len();
                let message = format!(
                    "an alternative has {count} security schemes; at most {MAX_SCHEMES} are allowed"
                );
                self.error(alternative, message, "Keep only the schemes that the step uses.");
                return Vec::new();
            }
            let mut wanted = Vec::new();
            for (name, scopes) in requirements {
                let scheme = match known.get(name) {
                    Some(scheme) => Option::clone(scheme),
                    None => {
                        let scheme = self.read_scheme(name, &scopes);
                        known.insert(name, scheme.clone());
                        scheme
                    }
                };
                let scopes = scopes.items().into_iter();
                let scopes = scopes.filter_map(|scope| scope.node.as_str().map(str::to_owned));
                wanted.push(SecurityRequirement {
                    name: name.to_owned(),
                    scopes: scopes.collect(),
                    scheme,
                });
            }
            ways.push(wanted);
        }
        self.warn_of_limits(&ways);
        ways
    }

    /// Reads the scheme `name`. Warns at `place`, or at the scheme itself, when it is not correctly
    /// defined.
    fn read_scheme(&mut self, name: &str, place: &LocatedValue<'n>) -> Option<SecurityScheme> {
        let Some(holder) = self.schemes.as_ref().and_then(|schemes| schemes.get(name)) else {
            let message = format!("unknown security scheme `{}`", shorten_for_message(name));
            self.warn(place, message, format!("Define it under `{}`.", self.location));
            return None;
        };
        let found = holder.follow(&self.root);
        let found = found.map_err(|(message, _)| message).and_then(|scheme| {
            if scheme.text("type") == Some("mutualTLS") {
                return Ok(SecurityScheme::MutualTls);
            }
            let typed = serde_json::from_value::<oas::SecurityScheme>(scheme.to_value());
            typed.map(SecurityScheme::from).map_err(|error| error.to_string())
        });
        match found {
            Ok(scheme) => Some(scheme),
            Err(reason) => {
                let message = format!(
                    "the security scheme `{}` is malformed: {reason}",
                    shorten_for_message(name)
                );
                self.warn(&holder, message, "Write the scheme in the form that OpenAPI requires.");
                None
            }
        }
    }

    /// Warns when the supported credentials meet none of the alternatives, or only with a token that a
    /// person must get.
    fn warn_of_limits(&mut self, ways: &[Vec<SecurityRequirement>]) {
        if ways.is_empty() || ways.iter().any(Vec::is_empty) {
            return;
        }
        let unmet = |requirement: &SecurityRequirement| {
            requirement.credential_kinds().is_empty()
                && requirement.scheme != Some(SecurityScheme::MutualTls)
        };
        let by_hand = |requirement: &SecurityRequirement| {
            let is_token = matches!(
                requirement.scheme,
                Some(SecurityScheme::OAuth2(_) | SecurityScheme::OpenIdConnect { .. })
            );
            is_token && requirement.credential_kinds() == [CredentialKind::Bearer]
        };
        let sendable: Vec<_> = ways.iter().filter(|way| !way.iter().any(unmet)).collect();
        let message = if sendable.is_empty() {
            // An undefined scheme was reported already.
            let all = ways.iter().flatten();
            let named = name_all(all.filter(|r| unmet(r) && r.scheme.is_some()));
            if named.is_empty() {
                return;
            }
            format!("the operation requires credentials that the executor does not send: {named}")
        } else if sendable.iter().all(|way| way.iter().any(by_hand)) {
            let named = name_all(sendable.into_iter().flatten().filter(|r| by_hand(r)));
            format!("the executor cannot fetch tokens for {named}; store a token as a bearer token")
        } else {
            return;
        };
        self.findings.warning(error_code::UNSUPPORTED, self.root.location(), message);
    }

    fn error(&mut self, spot: &LocatedValue<'n>, message: String, hint: &str) {
        self.findings.error_with_hint(self.code, spot.location(), message, hint);
    }

    fn warn(&mut self, spot: &LocatedValue<'n>, message: String, hint: impl Into<String>) {
        self.findings.warning_with_hint(self.code, spot.location(), message, hint);
    }
}

/// The schemes by name, each with its kind.
fn name_all<'r>(requirements: impl Iterator<Item = &'r SecurityRequirement>) -> String {
    let mut named: Vec<String> = Vec::new();
    for requirement in requirements {
        let kind = requirement.scheme.as_ref().map_or_else(String::new, SecurityScheme::describe);
        let text = format!("`{}` ({kind})", shorten_for_message(&requirement.name));
        if !named.contains(&text) {
            named.push(text);
        }
    }
    if named.len() > MAX_NAMED {
        named.truncate(MAX_NAMED);
        named.push("…".to_owned());
    }
    named.join(", ")
}
