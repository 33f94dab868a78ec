//! Documents to begin with.

use a2s::CapabilityName;

use crate::naming;

/// The content of a starter document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StarterTemplate {
    /// One request to an HTTP API.
    OpenApi,
    /// One query to a GraphQL service.
    Graphql,
    /// Two requests, one after another.
    Sequence,
}

/// A document called `name` to begin with. It has example values and comments, and the compiler
/// takes it as it is, apart from the checksum, which is filled in when the document is finished.
///
/// ```
/// let name = "GetWeather".parse().expect("a name");
/// let text = a2s_authoring::starter_document(&name, a2s_authoring::StarterTemplate::OpenApi);
/// assert!(a2s::compile(text.as_bytes()).document.is_some());
/// ```
#[must_use]
pub fn starter_document(name: &CapabilityName, starter: StarterTemplate) -> String {
    let template = match starter {
        StarterTemplate::OpenApi => include_str!("scaffold/openapi.yaml"),
        StarterTemplate::Graphql => include_str!("scaffold/graphql.yaml"),
        StarterTemplate::Sequence => include_str!("scaffold/sequence.yaml"),
    };
    template
        .replace("StarterCapability", name.as_str())
        .replace("starterStep", &naming::step_id(name.as_str()))
}

/// Returns the capability name that is closest to a text: `get-weather` is `GetWeather`. `None` when the
/// text has no letter.
#[must_use]
pub fn suggest_name(text: &str) -> Option<CapabilityName> {
    CapabilityName::new(&naming::capability_name(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_document;

    #[test]
    fn starters_are_good_but_for_their_checksum_and_laid_out() {
        for starter in
            [StarterTemplate::OpenApi, StarterTemplate::Graphql, StarterTemplate::Sequence]
        {
            let name = CapabilityName::new("GetThing").unwrap();
            let text = starter_document(&name, starter);
            let compilation = a2s::compile(text.as_bytes());
            let codes: Vec<_> =
                compilation.diagnostics.iter().map(|d| (d.code.as_str(), d.is_error())).collect();
            assert_eq!(codes, [("A2S030", false)], "{:?}", compilation.diagnostics);
            assert_eq!(compilation.name.as_deref(), Some("GetThing"));
            assert_eq!(format_document(text.as_bytes()).as_deref(), Ok(text.as_str()));
        }
    }
}
