//! The text that is indexed for a capability.

use a2s::split_name;

// How the weights were chosen: Recall@5 of the fused order on the tuning sets (`docs/search.md`,
// "Figures"). Name and description as equals instead of one text: API-Bank 82.9 to 83.8, ToolE
// multi 69.7 to 76.3, Azure commands 86.2 to 87.3.

/// The weight of each part of a capability in its vector.
const NAME_WEIGHT: f32 = 1.0;
const DESCRIPTION_WEIGHT: f32 = 1.0;
const PARAMETERS_WEIGHT: f32 = 0.2;
const PARAMETER_DESCRIPTIONS_WEIGHT: f32 = 0.4;
/// The weight of all intents together.
const INTENTS_WEIGHT: f32 = 1.0;
/// The maximum number of example intents of one capability that count.
pub const MAX_INTENTS: usize = 20;
/// Labels of a hostname that say nothing about the service.
const GENERIC_LABELS: &str = "api apis app co com dev edu example gov http io localhost net org rest \
                            service services uk us www";

/// The parts of a capability that its indexed texts are made from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EmbeddingSource<'a> {
    /// Its name, as an identifier.
    pub name: &'a str,
    /// Its function, in a sentence.
    pub description: &'a str,
    /// Name and description of each parameter; a description may be empty.
    pub parameters: &'a [(&'a str, &'a str)],
    /// Hostnames of its services, with or without a port.
    pub domains: &'a [&'a str],
    /// Example requests of users; the first [`MAX_INTENTS`] count.
    pub intents: &'a [&'a str],
}

/// The indexed texts of a capability. The two indexes use different parts of it.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedText {
    /// The parts for the vector, each with its weight, which does not depend on the length of the part.
    pub dense: Vec<(String, f32)>,
    /// The text for the term index: all parts, including descriptions of parameters and words of hostnames.
    pub sparse: String,
}

/// The index text of a capability.
///
/// Name, description, the names of parameters, their descriptions and intents are embedded separately and added, because each describes
/// the purpose in its own way. In one joined text, a long description would hide the name. Intents count as
/// their mean: if the nearest of them counted, many intents would bring a capability near to everything;
/// with the mean, they dilute each other.
pub fn index_text(described: &EmbeddingSource<'_>) -> IndexedText {
    let EmbeddingSource { name, description, parameters, domains, intents } = *described;
    let intents = &intents[..intents.len().min(MAX_INTENTS)];
    let name = split_name(name);
    let (mut named, mut explained) = (String::new(), String::new());
    for (parameter, description) in parameters {
        push_word(&mut named, &split_name(parameter));
        push_word(&mut explained, description);
    }
    let mut sparse = name.clone();
    push_word(&mut sparse, description);
    push_word(&mut sparse, &named);
    push_word(&mut sparse, &explained);
    for label in domains.iter().flat_map(|domain| name_labels(domain)) {
        push_word(&mut sparse, label);
    }
    for intent in intents {
        push_word(&mut sparse, intent);
    }
    let mut dense = vec![
        (name, NAME_WEIGHT),
        (description.to_owned(), DESCRIPTION_WEIGHT),
        (named, PARAMETERS_WEIGHT),
        (explained, PARAMETER_DESCRIPTIONS_WEIGHT),
    ];
    let each = INTENTS_WEIGHT / intents.len() as f32;
    dense.extend(intents.iter().map(|intent| ((*intent).to_owned(), each)));
    dense.retain(|(text, _)| !text.trim().is_empty());
    IndexedText { dense, sparse }
}

/// Parts of a hostname that may describe the service.
fn name_labels(domain: &str) -> impl Iterator<Item = &str> {
    let host = domain.split(':').next().unwrap_or(domain);
    host.split(['.', '-']).filter(|label| {
        label.chars().any(char::is_alphabetic)
            && !GENERIC_LABELS.split(' ').any(|empty| label.eq_ignore_ascii_case(empty))
    })
}

fn push_word(text: &mut String, more: &str) {
    let more = more.trim();
    if !more.is_empty() && !text.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_text_holds_what_a_query_may_name() {
        let text = index_text(&EmbeddingSource {
            name: "GetRiverLevel",
            description: "Latest level at a gauge",
            parameters: &[("stationId", "number of the gauge"), ("unit", "")],
            domains: &["api.pegel-online.example:8443", "127.0.0.1"],
            intents: &["how high is the Rhine", "is there a flood"],
        });
        let dense: Vec<_> =
            text.dense.iter().map(|(text, weight)| (text.as_str(), *weight)).collect();
        assert_eq!(
            dense,
            [
                ("Get River Level", 1.0),
                ("Latest level at a gauge", 1.0),
                ("station Id unit", 0.2),
                ("number of the gauge", 0.4),
                ("how high is the Rhine", 0.5),
                ("is there a flood", 0.5),
            ]
        );
        assert_eq!(
            text.sparse,
            "Get River Level Latest level at a gauge station Id unit number of the gauge pegel online \
             how high is the Rhine is there a flood"
        );
    }

    #[test]
    fn intents_are_bounded() {
        let intents = ["one more"; 100];
        let text = index_text(&EmbeddingSource {
            name: "Tool",
            intents: &intents,
            ..EmbeddingSource::default()
        });
        assert_eq!(text.dense.len(), 1 + MAX_INTENTS);
        assert_eq!(text.sparse.matches("one more").count(), MAX_INTENTS);
    }
}
