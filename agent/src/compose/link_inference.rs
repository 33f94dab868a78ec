//! Inference of links from outputs of earlier capabilities to inputs of later ones.

use a2s::{InputField, JsonTypes, OutputField};
use a2s_authoring::{ChainStep, InputBinding, OutputRef};
use a2s_intent::coreference::{self, Coreferences};
use a2s_intent::entity::is_id_for;
use a2s_intent::{ExtractedInput, word_similarity};
use serde_json::Value;

use super::{ChainMember, ProposalLink};

/// The maximum number of outputs that are combined into one text.
const MAX_TEXT_PARTS: usize = 6;
/// The smallest confidence of a link.
const MIN_CONFIDENCE: f64 = 0.6;

/// The inference of links from earlier capabilities to a later one.
pub(super) struct LinkInference<'j, 'r> {
    pub(super) earlier: &'j [&'j ChainMember<'r>],
    pub(super) member: &'j ChainMember<'r>,
    /// The values that its own request gives to its inputs.
    pub(super) found: &'j [ExtractedInput<'j>],
    /// The references in its request.
    pub(super) coreferences: &'j Coreferences,
}

/// A possible link from an output to an input.
struct LinkHypothesis {
    feed: InputBinding,
    from: usize,
    sure: f64,
    because: String,
}

impl LinkInference<'_, '_> {
    /// Infers the links to the inputs of the later capability, at most one for each input.
    pub(super) fn infer_links(&self) -> Vec<(InputBinding, ProposalLink)> {
        let mut links = Vec::new();
        for field in self.member.interface().inputs.iter().filter(|field| !field.secret) {
            let Some(hypothesis) =
                self.find_link(field).filter(|hypothesis| hypothesis.sure >= MIN_CONFIDENCE)
            else {
                continue;
            };
            let Some(from) = self.earlier.get(hypothesis.from) else { continue };
            let outputs = match &hypothesis.feed {
                InputBinding::Output(given) => vec![given.output.clone()],
                InputBinding::Text { parts, .. } => {
                    parts.iter().map(|p| p.output.clone()).collect()
                }
                InputBinding::Shared { .. } => Vec::new(),
            };
            let link = ProposalLink {
                from: from.name().clone(),
                outputs,
                to: self.member.name().clone(),
                input: field.name.clone(),
                sure: hypothesis.sure,
                because: hypothesis.because,
            };
            links.push((hypothesis.feed, link));
        }
        links
    }

    /// Inputs that are the same as an input of an earlier capability: with the same specific name and the
    /// same type, if the request itself does not mention them.
    pub(super) fn shared_inputs(&self, steps: &[ChainStep<'_>]) -> Vec<(String, InputBinding)> {
        let mut shared = Vec::new();
        let open = self.member.interface().inputs.iter().filter(|field| {
            field.required
                && !field.secret
                && self.mention_of(field).is_none()
                && is_specific_name(&field.name)
        });
        for field in open {
            let same = self.earlier.iter().enumerate().find(|(step, part)| {
                part.interface().inputs.iter().any(|other| {
                    other.required
                        && !other.secret
                        && word_similarity::words_of_name(&other.name)
                            == word_similarity::words_of_name(&field.name)
                        && kinds(&other.schema).is_compatible_with(kinds(&field.schema))
                        && !steps.get(*step).is_some_and(|s| s.bindings.contains_key(&other.name))
                })
            });
            let Some((step, part)) = same else { continue };
            let name = word_similarity::words_of_name(&field.name);
            let mut inputs = part.interface().inputs.iter();
            let Some(other) =
                inputs.find(|other| word_similarity::words_of_name(&other.name) == name)
            else {
                continue;
            };
            let feed = InputBinding::Shared { step, input: other.name.clone() };
            shared.push((field.name.clone(), feed));
        }
        shared
    }

    fn mention_of(&self, field: &InputField) -> Option<&ExtractedInput<'_>> {
        self.found.iter().find(|found| found.name == field.name)
    }

    fn find_link(&self, field: &InputField) -> Option<LinkHypothesis> {
        if let Some(said) = self.mention_of(field) {
            if said.quoted {
                return self.link_after_quote(field, said);
            }
            if let Some(thing) = coreference::named_thing(said.text)
                && let Some(hypothesis) = self.link_by_thing(field, &thing, said.text)
            {
                return Some(hypothesis);
            }
            if said.value.is_some() {
                return None;
            }
            // A pattern says that the thing pointed at belongs here.
            let hypothesis = self.link_by_pronoun(field, said.text);
            return hypothesis.or_else(|| self.link_without_mention(field));
        }
        self.link_without_mention(field)
    }

    /// The link to an input that the request does not mention.
    fn link_without_mention(&self, field: &InputField) -> Option<LinkHypothesis> {
        let by_thing = || {
            self.coreferences.things.iter().find_map(|thing| {
                let hypothesis = self.link_by_thing(field, thing, &thing.join(" "))?;
                self.is_meant_for(field, thing).then_some(hypothesis)
            })
        };
        let by_pronoun = || {
            let pronoun = self.coreferences.pronoun.as_deref()?;
            self.is_content(field).then(|| self.link_to_content(field, false, 0.8, pronoun))?
        };
        let unsaid = || {
            let silent = self.coreferences.pronoun.is_none() && self.is_content(field);
            if !silent || !field.required || !self.member.changes() {
                return None;
            }
            let from = self.source()?;
            let reads = self.earlier.get(from).is_some_and(|part| !part.changes());
            let mut hypothesis = self.link_to_content(field, false, MIN_CONFIDENCE, "")?;
            hypothesis.because = format!(
                "the request does not mention `{}`, and {} is the step before",
                field.name,
                self.earlier.get(from)?.name()
            );
            reads.then_some(hypothesis)
        };
        by_thing()
            .or_else(by_pronoun)
            .or_else(|| self.link_by_name(field))
            .or_else(|| self.link_by_entity(field))
            .or_else(unsaid)
    }

    /// The link to an input with a quoted text before a reference: "tweet it saying 'Weather update:'".
    fn link_after_quote(
        &self,
        field: &InputField,
        said: &ExtractedInput<'_>,
    ) -> Option<LinkHypothesis> {
        said.value.as_ref().filter(|_| self.is_content(field))?;
        if let Some(pronoun) = self.coreferences.pronoun.as_deref() {
            return self.link_to_content(field, true, 0.75, pronoun);
        }
        let named = |thing: &Vec<String>| self.link_by_thing(field, thing, &thing.join(" "));
        let mut hypothesis = self.coreferences.things.iter().find_map(named)?;
        let parts = match hypothesis.feed {
            InputBinding::Output(given) => vec![given],
            InputBinding::Text { parts, .. } => parts,
            InputBinding::Shared { .. } => return None,
        };
        hypothesis.feed = InputBinding::Text { own: true, parts };
        Some(hypothesis)
    }

    /// Links the only output that a thing names, such as "its capital", or the output of the only
    /// capability that the thing is about, such as "the forecast".
    fn link_by_thing(
        &self,
        field: &InputField,
        thing: &[String],
        phrase: &str,
    ) -> Option<LinkHypothesis> {
        let mut named =
            self.outputs().filter(|(_, output)| coreference::names_output(thing, &output.name));
        if let Some((from, output)) = named.next() {
            if named.next().is_some() {
                return None;
            }
            let because = format!("\"{phrase}\" is the output `{}`", output.name);
            return self.link_from_output(field, from, output, 0.9, because);
        }
        let is_of = |part: &ChainMember<'_>| {
            let capability = part.document.capability();
            let mut about = word_similarity::words_of_text(&capability.description);
            about
                .extend(word_similarity::words_of_text(&a2s::split_name(capability.name.as_str())));
            thing.first().is_some_and(|word| about.contains(&word_similarity::singular(word)))
        };
        let mut of = (0..self.earlier.len()).filter(|at| is_of(self.earlier[*at]));
        let from = of.next()?;
        if of.next().is_some() || !self.is_content(field) || self.part_is_about(thing) {
            return None;
        }
        let because = format!("\"{phrase}\" is the output of {}", self.earlier[from].name());
        self.link_from_content(from, field, false, 0.8, because)
    }

    /// Returns true when a thing is the subject of the later capability itself: "push the notification".
    fn part_is_about(&self, thing: &[String]) -> bool {
        let capability = self.member.document.capability();
        let about = word_similarity::words_of_text(&a2s::split_name(capability.name.as_str()));
        thing.first().is_some_and(|word| about.contains(&word_similarity::singular(word)))
    }

    /// Returns true when a thing that no pattern assigns belongs to an input: the input takes the content,
    /// or is the only input with a word of the thing in its name.
    fn is_meant_for(&self, field: &InputField, thing: &[String]) -> bool {
        if self.is_content(field) {
            return true;
        }
        let has_words = |field: &&InputField| {
            let name = word_similarity::words_of_name(&field.name);
            thing.first().is_some_and(|word| {
                name.iter().any(|other| {
                    word_similarity::singular(other) == word_similarity::singular(word)
                })
            })
        };
        let mut fields = self.member.interface().inputs.iter().filter(has_words);
        fields.next() == Some(field) && fields.next().is_none()
    }

    /// The link that a bare pronoun for an input means.
    fn link_by_pronoun(&self, field: &InputField, phrase: &str) -> Option<LinkHypothesis> {
        let pronoun = self.coreferences.pronoun.as_deref()?;
        if self.is_content(field) {
            return self.link_to_content(field, false, 0.85, pronoun);
        }
        // It is called by its name.
        let from = self.source()?;
        let mut called = self
            .earlier
            .get(from)?
            .interface()
            .outputs
            .iter()
            .filter(|output| matches!(output.name.as_str(), "name" | "title"));
        let output = called.next().filter(|_| phrase == pronoun)?;
        if called.next().is_some() {
            return None;
        }
        let because = format!("\"{pronoun}\" is called `{}`", output.name);
        self.link_from_output(field, from, output, 0.65, because)
    }

    /// Links an output of the same name and type.
    fn link_by_name(&self, field: &InputField) -> Option<LinkHypothesis> {
        let name = word_similarity::words_of_name(&field.name);
        let mut same = self
            .outputs()
            .filter(|(_, output)| word_similarity::words_of_name(&output.name) == name);
        let (from, output) = same.next()?;
        let typed = kinds(&field.schema).is_known() && kinds(&output.schema).is_known();
        let sure = match (is_specific_name(&field.name), typed, field.required) {
            (true, true, _) => 0.9,
            (true, false, true) => 0.7,
            (false, _, true) if share_words(field, output) => 0.7,
            _ => return None,
        };
        if same.next().is_some() {
            return None;
        }
        let because = format!("an output and an input have the name `{}`", field.name);
        self.link_from_output(field, from, output, sure, because)
    }

    /// Links the id that a search finds: `id` of `SearchPerson` to `person_id`.
    fn link_by_entity(&self, field: &InputField) -> Option<LinkHypothesis> {
        let name = |at: usize| self.earlier.get(at).map_or("", |part| part.name().as_str());
        let mut ids =
            self.outputs().filter(|(at, output)| is_id_for(name(*at), &output.name, &field.name));
        let (from, output) = ids.next()?;
        if ids.next().is_some() {
            return None;
        }
        let because = format!("{} finds the id that `{}` takes", name(from), field.name);
        self.link_from_output(field, from, output, 0.8, because)
    }

    /// Returns true when an input takes the text that the capability is about: the most likely input with
    /// such a name.
    fn is_content(&self, field: &InputField) -> bool {
        let rank = |field: &InputField| {
            let name = word_similarity::words_of_name(&field.name);
            let place = word_similarity::CONTENT_INPUTS
                .iter()
                .position(|word| name.iter().any(|n| n == word));
            place.filter(|_| {
                field.required && kinds(&field.schema).is_compatible_with(JsonTypes::STRING)
            })
        };
        let own = rank(field);
        let inputs = self.member.interface().inputs.iter().filter(|field| !field.secret);
        own.is_some() && inputs.filter_map(rank).min() == own
    }

    /// Returns the last capability that reads something, or else the last one.
    fn source(&self) -> Option<usize> {
        let reads = (0..self.earlier.len()).rev().find(|at| !self.earlier[*at].changes());
        reads.or_else(|| self.earlier.len().checked_sub(1))
    }

    fn link_to_content(
        &self,
        field: &InputField,
        own: bool,
        sure: f64,
        phrase: &str,
    ) -> Option<LinkHypothesis> {
        let from = self.source()?;
        let because = format!("\"{phrase}\" is the output of {}", self.earlier[from].name());
        self.link_from_content(from, field, own, sure, because)
    }

    /// The main content of a capability, as a text.
    fn link_from_content(
        &self,
        from: usize,
        field: &InputField,
        own: bool,
        sure: f64,
        because: String,
    ) -> Option<LinkHypothesis> {
        let outputs = &self.earlier.get(from)?.interface().outputs;
        let main = word_similarity::MAIN_OUTPUTS.iter().find_map(|name| {
            outputs.iter().find(|output| output.name == *name && is_text(&output.schema))
        });
        let only = || Some(outputs.first()?).filter(|o| outputs.len() == 1 && is_text(&o.schema));
        if let Some(output) = main.or_else(only) {
            if own {
                let parts = vec![OutputRef { step: from, output: output.name.clone() }];
                return Some(LinkHypothesis {
                    feed: InputBinding::Text { own, parts },
                    from,
                    sure,
                    because,
                });
            }
            return self.link_from_output(field, from, output, sure, because);
        }
        let parts: Vec<OutputRef> = outputs
            .iter()
            .filter(|output| is_showable(output))
            .take(MAX_TEXT_PARTS)
            .map(|output| OutputRef { step: from, output: output.name.clone() })
            .collect();
        let is_text =
            !parts.is_empty() && kinds(&field.schema).is_compatible_with(JsonTypes::STRING);
        // Several outputs are less surely meant than one text output.
        let sure = (sure - 0.1).max(MIN_CONFIDENCE);
        is_text.then_some(LinkHypothesis {
            feed: InputBinding::Text { own, parts },
            from,
            sure,
            because,
        })
    }

    /// Links one output to an input if their types fit; a number is converted if the input accepts a text.
    fn link_from_output(
        &self,
        field: &InputField,
        from: usize,
        output: &OutputField,
        sure: f64,
        because: String,
    ) -> Option<LinkHypothesis> {
        let given = OutputRef { step: from, output: output.name.clone() };
        let (gives, takes) = (kinds(&output.schema), kinds(&field.schema));
        if gives.is_compatible_with(takes) {
            let sure = if items_meet(&output.schema, &field.schema)? { sure } else { sure - 0.1 };
            return Some(LinkHypothesis { feed: InputBinding::Output(given), from, sure, because });
        }
        let becomes_text = takes.is_compatible_with(JsonTypes::STRING)
            && (gives.is_compatible_with(JsonTypes::SCALAR)
                || (self.is_content(field) && is_showable(output)));
        let feed = InputBinding::Text { own: false, parts: vec![given] };
        becomes_text.then_some(LinkHypothesis { feed, from, sure, because })
    }

    fn outputs(&self) -> impl Iterator<Item = (usize, &OutputField)> {
        let parts = self.earlier.iter().enumerate();
        parts.flat_map(|(at, part)| part.interface().outputs.iter().map(move |output| (at, output)))
    }
}

fn kinds(schema: &Value) -> JsonTypes {
    JsonTypes::from_schema(schema)
}

/// Returns true when an output is a text and has no other type, as far as is known.
fn is_text(schema: &Value) -> bool {
    let kinds = kinds(schema);
    kinds.is_known() && kinds.is_compatible_with(JsonTypes::STRING)
}

/// Returns true when an output reads well inside a text: a scalar or a list of scalars that is not an id.
fn is_showable(output: &OutputField) -> bool {
    let name = word_similarity::words_of_name(&output.name);
    let is_id = name.last().is_some_and(|word| word == "id");
    let is_scalar = |schema: &Value| {
        let kinds = kinds(schema);
        // Of what comes from other capabilities often nothing is known.
        kinds.is_compatible_with(JsonTypes::SCALAR)
            && (!kinds.is_known() || !kinds.is_compatible_with(JsonTypes::OBJECT))
    };
    let items = output.schema.get("items");
    !is_id && (is_scalar(&output.schema) || items.is_some_and(is_scalar))
}

/// Compares the items of two lists: true when they are compatible, false when the type of one side is not
/// known, none when they are certainly not compatible.
fn items_meet(gives: &Value, takes: &Value) -> Option<bool> {
    if !kinds(gives).is_compatible_with(JsonTypes::ARRAY)
        || !kinds(takes).is_compatible_with(JsonTypes::ARRAY)
    {
        return Some(kinds(gives).is_known() && kinds(takes).is_known());
    }
    match (gives.get("items").map(kinds), takes.get("items").map(kinds)) {
        (Some(gives), Some(takes)) => gives.is_compatible_with(takes).then_some(true),
        // Objects are taken by who says so.
        (Some(gives), None) => {
            (!gives.is_known() || !gives.is_compatible_with(JsonTypes::OBJECT)).then_some(false)
        }
        (None, _) => Some(false),
    }
}

/// Returns true when a name shows the meaning of its value.
fn is_specific_name(name: &str) -> bool {
    let words = word_similarity::words_of_name(name);
    words.len() > 1
        || words
            .first()
            .is_some_and(|word| !word_similarity::GENERIC_NAMES.contains(&word.as_str()))
}

/// Returns true when the descriptions of an input and an output have at least two words in common.
fn share_words(field: &InputField, output: &OutputField) -> bool {
    let about = |text: Option<&String>, schema: &Value| {
        let text = text.map(String::as_str).or_else(|| schema.get("description")?.as_str());
        word_similarity::words_of_text(text.unwrap_or_default())
    };
    let given = about(output.description.as_ref(), &output.schema);
    let taken = about(field.description.as_ref(), &field.schema);
    // Two of them: one alone is a coincidence too often.
    taken.iter().filter(|word| given.contains(word)).count() >= 2
}
