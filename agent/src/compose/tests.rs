use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use a2s::DependencyIndex;
use a2s_intent::split_requests;
use proptest::prelude::*;

use super::*;

/// Every shipped document.
fn shipped() -> &'static BTreeMap<String, Arc<Document>> {
    static SHIPPED: OnceLock<BTreeMap<String, Arc<Document>>> = OnceLock::new();
    SHIPPED.get_or_init(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capabilities");
        let files = std::fs::read_dir(folder).unwrap();
        files
            .map(|file| {
                let document = Document::open(&std::fs::read(file.unwrap().path()).unwrap());
                let document = document.unwrap();
                (document.capability().name.to_string(), Arc::new(document))
            })
            .collect()
    })
}

fn shelf() -> DependencyIndex {
    let mut shelf = DependencyIndex::default();
    shipped().values().for_each(|document| shelf.add_document(document));
    shelf
}

fn requests(sentence: &str, candidates: &[&[&str]]) -> Vec<ChainRequest> {
    let texts = split_requests(sentence);
    assert_eq!(texts.len(), candidates.len(), "{texts:?}");
    let found = |names: &[&str]| {
        let score = |at: usize| 0.9 - 0.05 * f64::from(u32::try_from(at).unwrap());
        let named = names.iter().enumerate().map(|(at, name)| ChainCandidate {
            document: Arc::clone(&shipped()[*name]),
            score: score(at),
        });
        named.collect()
    };
    let texts = texts.into_iter().zip(candidates);
    texts
        .map(|(text, names)| ChainRequest { text: text.to_owned(), candidates: found(names) })
        .collect()
}

fn told(proposal: &ChainProposal) -> Vec<String> {
    let link = |link: &ProposalLink| {
        format!("{}.{} -> {}.{}", link.from, link.outputs.join("+"), link.to, link.input)
    };
    proposal.links.iter().map(link).collect()
}

/// A sentence of several requests, what a search finds for each, and the links of the chain.
type Case = (&'static str, &'static [&'static [&'static str]], &'static [&'static str]);

/// Where a chain is right.
#[rustfmt::skip]
const CHAINS: [Case; 21] = [
    ("tell me a joke and tweet it", &[&["GetJoke", "QuoteLovecraft"], &["PostTweet", "ShareMessage"]],
        &["GetJoke.joke -> PostTweet.text"]),
    ("get the weather in Oslo and tweet it", &[&["GetCityWeather", "GetWeatherOfCities"], &["PostTweet"]],
        &["GetCityWeather.place+temperature+wind_speed -> PostTweet.text"]),
    ("What's the weather like in Paris, and can you tweet it saying 'Weather update:'?", &[&["GetCityWeather"], &["PostTweet"]],
        &["GetCityWeather.place+temperature+wind_speed -> PostTweet.text"]),
    ("look up the country JP and get the weather in its capital", &[&["GetCountry", "DescribePlace"], &["GetCityWeather"]],
        &["GetCountry.capital -> GetCityWeather.city"]),
    ("look up the country FR and explain its capital", &[&["GetCountry"], &["GetWikipediaSummary", "DefineWord"]],
        &["GetCountry.capital -> GetWikipediaSummary.topic"]),
    ("explain Alan Turing and send the summary to topic history", &[&["GetWikipediaSummary"], &["SendNotification"]],
        &["GetWikipediaSummary.summary -> SendNotification.message"]),
    ("find concerts of Coldplay and get the weather in each of the cities", &[&["FindConcerts"], &["GetWeatherOfCities", "GetCityWeather"]],
        &["FindConcerts.cities -> GetWeatherOfCities.cities"]),
    ("look up the country JP and list what its currency is worth", &[&["GetCountry"], &["ListExchangeRates"]],
        &["GetCountry.currency -> ListExchangeRates.base_currency"]),
    ("get the exchange rate from EUR to USD, then push it to the topic money", &[&["GetExchangeRate"], &["SendNotification", "ReachFollowers"]],
        &["GetExchangeRate.text -> SendNotification.message"]),
    ("quote Lovecraft and check its grammar", &[&["QuoteLovecraft"], &["CheckGrammar"]],
        &["QuoteLovecraft.sentence -> CheckGrammar.text"]),
    ("get a joke, tweet it and send it to the topic fun", &[&["GetJoke"], &["PostTweet"], &["SendNotification"]],
        &["GetJoke.joke -> PostTweet.text", "GetJoke.joke -> SendNotification.message"]),
    ("what is the latest version of ripgrep by BurntSushi and tweet the notes", &[&["GetLatestRelease"], &["PostTweet"]],
        &["GetLatestRelease.notes -> PostTweet.text"]),
    ("check for severe weather alerts in TX and notify topic storms about them", &[&["GetWeatherAlert"], &["SendNotification"]],
        &["GetWeatherAlert.events+severe_headlines+severities -> SendNotification.message"]),
    ("get the weather in the cities Paris and Oslo and draw a chart of the temperatures", &[&["GetWeatherOfCities"], &["CreateChart"]],
        &["GetWeatherOfCities.temperatures -> CreateChart.values"]),
    ("get the exchange rate from EUR to USD and post a tweet", &[&["GetExchangeRate"], &["PostTweet"]],
        &["GetExchangeRate.text -> PostTweet.text"]),
    // A second lot.
    ("describe Kyoto, country JP, and share the summary with the public", &[&["DescribePlace"], &["ShareMessage"]],
        &["DescribePlace.summary -> ShareMessage.message"]),
    ("convert EUR into USD and tell the followers of money about it", &[&["GetExchangeRate"], &["ReachFollowers"]],
        &["GetExchangeRate.text -> ReachFollowers.message"]),
    ("look up the country IT and find books about its capital", &[&["GetCountry"], &["SearchBooks"]],
        &["GetCountry.capital -> SearchBooks.query"]),
    ("show the repository serde by serde-rs and tweet its description", &[&["GetRepository"], &["PostTweet"]],
        &["GetRepository.description -> PostTweet.text"]),
    ("get the weather in Rome, then send a notification saying 'Rome:' with the temperature to topic home", &[&["GetCityWeather"], &["SendNotification"]],
        &["GetCityWeather.temperature -> SendNotification.message"]),
    ("find earthquakes above magnitude 6 and tweet the places", &[&["FindEarthquakes"], &["PostTweet"]],
        &["FindEarthquakes.places -> PostTweet.text"]),
];

/// Sentences of several requests that have nothing to do with each other, or where it is not clear
/// what.
#[rustfmt::skip]
const NO_CHAINS: [(&str, &[&[&str]]); 16] = [
    ("get the weather in Oslo and tweet 'good morning'", &[&["GetCityWeather"], &["PostTweet"]]),
    ("list dog breeds and tell me a joke", &[&["ListDogBreeds"], &["GetJoke"]]),
    ("show the repository serde by serde-rs and check the grammar of 'She go'", &[&["GetRepository"], &["CheckGrammar"]]),
    ("quote Lovecraft and list public holidays in DE", &[&["QuoteLovecraft"], &["GetPublicHolidays"]]),
    // A breed is an object: a text of them would be JSON.
    ("list dog breeds and tweet them", &[&["ListDogBreeds"], &["PostTweet"]]),
    ("look up the country JP and convert EUR to USD", &[&["GetCountry"], &["GetExchangeRate"]]),
    ("get the latest version of ripgrep by BurntSushi and find characters called Rick", &[&["GetLatestRelease"], &["FindRickAndMortyCharacters"]]),
    ("explain Alan Turing and find books about chess", &[&["GetWikipediaSummary"], &["SearchBooks"]]),
    // From it, or into it?
    ("look up the country JP and get the exchange rate of its currency", &[&["GetCountry"], &["GetExchangeRate"]]),
    ("show the weather in Paris and get the weather in Rome", &[&["GetCityWeather"], &["GetCityWeather"]]),
    ("define serendipity and find concerts of Coldplay", &[&["DefineWord"], &["FindConcerts"]]),
    // A second lot.
    ("find books about Rome and get the weather in Rome", &[&["SearchBooks"], &["GetCityWeather"]]),
    ("what does ad hoc mean, and tell me a joke", &[&["DefineWord"], &["GetJoke"]]),
    ("find domains with pizza and describe Naples, country IT", &[&["SearchDomainNames"], &["DescribePlace"]]),
    ("get the news about health and notify topic ops, title Disk, message: the disk is full", &[&["ReadGovernmentNews"], &["SendNotification"]]),
    ("compare Paris and London and list the holidays of GB", &[&["CompareCityWeather"], &["GetPublicHolidays"]]),
];

#[test]
fn a_chain_is_proposed_where_one_feeds_another() {
    let mut wrong = Vec::new();
    for (sentence, candidates, expected) in CHAINS {
        let proposals = compose(&requests(sentence, candidates), "Jane Smith");
        let found = proposals.first().map(told).unwrap_or_default();
        if found != expected {
            wrong.push(format!("{sentence}\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CHAINS.len(), wrong.join("\n"));
}

#[test]
fn no_chain_is_proposed_where_nothing_feeds_another() {
    let mut wrong = Vec::new();
    for (sentence, candidates) in NO_CHAINS {
        let proposals = compose(&requests(sentence, candidates), "Jane Smith");
        if let Some(proposal) = proposals.first() {
            wrong.push(format!("{sentence}\n  found {:?}", proposal.links));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), NO_CHAINS.len(), wrong.join("\n"));
}

#[test]
fn a_proposal_is_a_document_that_says_what_it_does_and_why() {
    let sentence =
        "What's the weather like in Paris, and can you tweet it saying 'Weather update:'?";
    let requests = requests(sentence, &[&["GetCityWeather"], &["PostTweet"]]);
    let proposal = compose(&requests, "Jane Smith").remove(0);
    let interface = proposal.document.interface();
    let inputs = a2s_intent::extract_values(sentence, &interface.inputs);
    assert_eq!(
        serde_json::Value::Object(inputs),
        serde_json::json!({"city": "Paris", "text": "Weather update:"}),
        "the sentence that asked for it gives its inputs"
    );
    assert_eq!(proposal.name.as_str(), "GetCityWeatherThenPostTweet");
    assert_eq!(
        proposal.description,
        "Gives the current weather and the forecast for a city by its name, then posts a text as a tweet on Twitter"
    );
    assert_eq!(proposal.links[0].because, "\"it\" is the output of GetCityWeather");
    let mapped = &proposal.document.content()["execution"]["steps"][1]["input_mapping"]["text"];
    let text = "${text} place: ${place}, temperature: ${temperature}, wind speed: ${wind_speed}";
    assert_eq!(mapped, text);
    assert_eq!(
        proposal.capabilities[0].checksum,
        shipped()["GetCityWeather"].digest(),
        "the content that was looked at is the one that runs"
    );
    assert_eq!(shelf().check_dependencies(proposal.document.capability()), []);
}

#[test]
fn one_request_and_too_many_have_no_chain() {
    let one = requests("tweet a joke", &[&["PostTweet"]]);
    assert_eq!(compose(&one, "Jane Smith"), []);
    let five: Vec<_> = std::iter::repeat_n(one[0].clone(), 5).collect();
    assert_eq!(compose(&five, "Jane Smith"), []);
    assert_eq!(compose(&[], "Jane Smith"), []);
}

/// A document of one request, whose inputs and outputs are these.
fn document(name: &str, parameters: &str, outputs: &str, method: &str) -> Arc<Document> {
    let text = format!(
        r#"a2s: 1.1.0
name: {name}
description: Does what its name says
charset: utf-8
domains: [api.example.com]
version: "1.0.0"
checksum: "<sha256>"
authors: [{{name: A2S authors}}]
parameters: [{parameters}]
execution:
  type: sequence
  steps:
    - id: ask
      format: OpenAPI
      task:
        openapi: "3.0.3"
        info: {{title: Example, version: "1.0.0"}}
        servers: [{{url: "https://api.example.com"}}]
        paths:
          /ask:
            {method}:
              parameters:
                - {{name: session_token, in: query, schema: {{type: string}}}}
                - {{name: city, in: query, schema: {{type: string}}}}
                - {{name: text, in: query, schema: {{type: string}}}}
              responses:
                "200":
                  description: An answer
                  content:
                    application/json:
                      schema:
                        type: object
                        properties:
                          session_token: {{type: string}}
                          sight: {{type: string}}
      input_mapping: {{{inputs}}}
      output_mapping: {{{outputs}}}
"#,
        inputs = ["session_token", "city", "text"]
            .into_iter()
            .filter(|input| parameters.contains(&format!("name: {input}")))
            .map(|input| format!("{input}: \"${{{input}}}\""))
            .collect::<Vec<_>>()
            .join(", "),
    );
    let compilation = a2s::compile(text.as_bytes());
    Arc::new(compilation.document.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics)))
}

fn asked(text: &str, document: Arc<Document>) -> ChainRequest {
    ChainRequest {
        text: text.to_owned(),
        candidates: vec![ChainCandidate { document, score: 0.9 }],
    }
}

#[test]
fn a_secret_input_is_fed_by_nothing() {
    let give = document("GiveToken", "", "session_token: $.session_token", "get");
    let secret = |secret: &str| {
        let parameters =
            format!("{{name: session_token, type: string, patterns: ['token *']{secret}}}");
        let take = document("OpenDoor", &parameters, "sight: $.sight", "get");
        compose(
            &[asked("give me a session token", Arc::clone(&give)), asked("open the door", take)],
            "A",
        )
    };
    assert_eq!(told(&secret("")[0]), ["GiveToken.session_token -> OpenDoor.session_token"]);
    assert_eq!(secret(", secret: true"), []);
}

#[test]
fn what_is_said_of_an_input_makes_it_one_of_its_own() {
    let city = "{name: city, type: string, patterns: ['in *', 'at *']}";
    let text = "{name: text, type: string, patterns: ['post *']}";
    let look = document("LookAround", city, "sight: $.sight", "get");
    let tell = document("PostSight", &format!("{city}, {text}"), "", "post");
    let inputs = |second: &str| {
        let requests =
            [asked("look around at Oslo", Arc::clone(&look)), asked(second, Arc::clone(&tell))];
        let proposal = compose(&requests, "A").remove(0);
        assert_eq!(told(&proposal), ["LookAround.sight -> PostSight.text"]);
        proposal.document.interface().inputs.len()
    };
    assert_eq!(inputs("post it"), 1, "it is the same city");
    assert_eq!(inputs("post it in Rome"), 2);
}

fn part<'r>(text: &'r str, document: &'r Document) -> ChainMember<'r> {
    ChainMember { text, document }
}

/// What feeds the inputs of a part, as a judge sees it.
fn judged(earlier: &[&ChainMember<'_>], part: &ChainMember<'_>) -> Vec<String> {
    let found = extract_inputs(part.text, &part.interface().inputs);
    let refers = Coreferences::from_text(part.text);
    let judge = LinkInference { earlier, member: part, found: &found, coreferences: &refers };
    let links = judge.infer_links().into_iter();
    links.map(|(_, link)| format!("{} -> {}", link.outputs.join("+"), link.input)).collect()
}

#[test]
fn a_list_feeds_what_takes_a_list_and_nothing_else() {
    let text = "get the weather in the cities";
    let [concerts, one, several] =
        ["FindConcerts", "GetCityWeather", "GetWeatherOfCities"].map(|name| &*shipped()[name]);
    let concerts = part("find concerts of Coldplay", concerts);
    assert_eq!(judged(&[&concerts], &part(text, one)), [""; 0]);
    assert_eq!(judged(&[&concerts], &part(text, several)), ["cities -> cities"]);
}

#[test]
fn what_is_given_twice_under_one_name_feeds_nothing() {
    let give = |name| document(name, "", "session_token: $.session_token", "get");
    let (one, other) = (give("GiveToken"), give("GiveAnother"));
    let take = document("OpenDoor", "{name: session_token, type: string}", "", "get");
    let (one, other) = (part("give a token", &one), part("give another", &other));
    for text in ["open the door", "open it with the session token"] {
        let take = part(text, &take);
        assert_eq!(judged(&[&one], &take), ["session_token -> session_token"], "{text}");
        assert_eq!(judged(&[&one, &other], &take), [""; 0], "{text}");
    }
}

#[test]
fn what_is_not_sure_enough_is_no_link() {
    let city = "{name: city, type: string, patterns: ['in *']}";
    let stay = document("GetStay", city, "sight: $.sight", "get");
    let stay = part("get a stay in it", &stay);
    // Of the one it is known that it is a text.
    for (output, links) in [("name: $.sight", &["name -> city"][..]), ("name: $.name", &[])] {
        let look = document("LookAround", "", output, "get");
        assert_eq!(judged(&[&part("look around", &look)], &stay), links, "{output}");
    }
}

#[test]
fn inputs_are_the_same_when_their_types_are() {
    let look = |name, kind| {
        document(name, &format!("{{name: city, type: {kind}}}"), "sight: $.sight", "get")
    };
    let first = look("LookAround", "string");
    let shared = |kind| {
        let second = look("LookAgain", kind);
        let (earlier, later) = (part("look around", &first), part("look again", &second));
        let refers = Coreferences::default();
        let judge = LinkInference {
            earlier: &[&earlier],
            member: &later,
            found: &[],
            coreferences: &refers,
        };
        judge.shared_inputs(&[ChainStep { document: &first, bindings: BTreeMap::new() }]).len()
    };
    assert_eq!(shared("string"), 1);
    assert_eq!(shared("integer"), 0);
}

#[test]
fn of_two_that_fit_alike_the_one_that_lacks_nothing_comes_first() {
    let text = "{name: text, type: string}";
    let look = document("LookAround", "", "sight: $.sight", "get");
    let lacks = document("PostThere", &format!("{text}, {{name: city, type: string}}"), "", "post");
    let mut post = asked("post it", lacks);
    post.candidates.extend(asked("post it", document("PostHere", text, "", "post")).candidates);
    let proposals = compose(&[asked("look around", look), post], "A");
    let to: Vec<_> = proposals.iter().map(|proposal| proposal.links[0].to.as_str()).collect();
    assert_eq!(to, ["PostHere", "PostThere"]);
}

/// What people might say of any two capabilities.
const WAYS: [&str; 8] = [
    "tweet it",
    "send the result to topic x",
    "and its name",
    "use the cities",
    "do that",
    "explain the summary",
    "check them",
    "saying 'hello' about it",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn every_proposal_compiles_and_links(
        picks in proptest::collection::vec((0..41_usize, 0..41_usize, 0..WAYS.len()), 2..5),
    ) {
        let documents: Vec<_> = shipped().values().collect();
        let requests: Vec<ChainRequest> = picks
            .iter()
            .map(|(one, other, way)| ChainRequest {
                text: WAYS[*way].to_owned(),
                candidates: [one, other]
                    .map(|at| ChainCandidate { document: Arc::clone(documents[at % documents.len()]), score: 0.8 })
                    .to_vec(),
            })
            .collect();
        let shelf = shelf();
        for proposal in compose(&requests, "Jane Smith") {
            let read = Document::open(proposal.text.as_bytes());
            prop_assert_eq!(read.as_ref(), Ok(&proposal.document));
            let remarks = shelf.check_dependencies(proposal.document.capability());
            prop_assert!(remarks.iter().all(|remark| !remark.is_error()), "{:?}", remarks);
            prop_assert!(proposal.description.chars().count() <= 200);
            let names: BTreeSet<_> = proposal.capabilities.iter().map(|pin| &pin.name).collect();
            prop_assert_eq!(names.len(), requests.len());
        }
    }
}
