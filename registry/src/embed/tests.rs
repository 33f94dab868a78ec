//! The built-in embedder against the reference tokenizer, and against plain sense.

use proptest::prelude::*;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::static_table::TableError;
use super::*;

/// What the reference says: written by `tools/embedding/fixture.py`.
#[derive(Deserialize)]
struct Fixture {
    texts: Vec<Cut>,
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Cut {
    text: String,
    pieces: Vec<String>,
}

#[derive(Deserialize)]
struct Pair {
    a: String,
    b: String,
    cosine: f32,
}

fn read_fixture() -> Fixture {
    serde_json::from_str(include_str!("../../data/embedding.fixture.json")).unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn the_digest_beside_the_table_is_its_own() {
    let actual: String = Sha256::digest(TABLE).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(TABLE_DIGEST.split_whitespace().next(), Some(actual.as_str()));
    assert_eq!(Embedder::built_in().id(), format!("builtin-256-int4-{}-3", &actual[..12]));
}

#[test]
fn pieces_are_those_of_the_reference_tokenizer() {
    let table = EmbeddingTable::parse(TABLE).unwrap();
    for Cut { text, pieces } in read_fixture().texts {
        let mut found = Vec::new();
        wordpiece_tokenizer::visit_pieces(&table, &text, usize::MAX, |piece| {
            found.push(piece.map_or_else(|| "[UNK]".to_owned(), |piece| table.spell(piece)));
        });
        assert_eq!(found, pieces, "{text:?}");
    }
}

#[test]
fn similarities_are_those_of_the_recipe() {
    let embedder = BuiltIn::new();
    for Pair { a, b, cosine: expected } in read_fixture().pairs {
        let found = cosine(&embedder.embed(&a).unwrap(), &embedder.embed(&b).unwrap());
        assert!((found - expected).abs() < 1e-4, "{a:?}, {b:?}: {found}, expected {expected}");
    }
}

#[test]
fn vectors_have_length_one_and_the_promised_dimensions() {
    let embedder = BuiltIn::new();
    let vector = embedder.embed("Retrieve a list of dog breeds").unwrap();
    assert_eq!(vector.len(), embedder.dimensions());
    assert!((cosine(&vector, &vector) - 1.0).abs() < 1e-5);
}

#[test]
fn a_part_counts_by_its_weight_and_not_by_its_length() {
    let embedder = BuiltIn::new();
    let (dogs, bill) = ("dog breeds", "an invoice for a customer, with all of its lines and taxes");
    let nearness = |weight| {
        let parts = [(dogs.to_owned(), weight), (bill.to_owned(), 1.0), ("…".to_owned(), 9.0)];
        let vector = embedder.embed_parts(&parts).unwrap();
        assert!((cosine(&vector, &vector) - 1.0).abs() < 1e-5);
        let to = |text| cosine(&vector, &embedder.embed(text).unwrap());
        to(dogs) - to(bill)
    };
    assert!(nearness(1.0).abs() < 1e-5);
    assert!(nearness(2.0) > 0.1 && nearness(0.5) < -0.1);
    assert_eq!(embedder.embed_parts(&[("…".to_owned(), 1.0)]), None);
    assert_eq!(embedder.embed_parts(&[]), None);
}

#[test]
fn a_text_without_meaning_has_no_vector() {
    let embedder = BuiltIn::new();
    for text in ["", "  \n", "?!… —", "\u{5929}\u{6c14}", "\0", &"a".repeat(101)] {
        assert_eq!(embedder.embed(text), None, "{text:?}");
    }
}

#[test]
fn case_accents_punctuation_and_layout_do_not_matter() {
    let embedder = BuiltIn::new();
    let plain = embedder.embed("cafe menu in paris").unwrap();
    for text in ["Café MENU, in Paris!", "  cafe\u{301}\tmenu\n(in) “Paris”…"] {
        assert_eq!(embedder.embed(text).unwrap(), plain, "{text:?}");
    }
}

#[test]
fn only_the_beginning_of_a_long_text_counts() {
    let embedder = BuiltIn::new();
    let dogs = "dog ".repeat(512);
    let long = format!("{dogs}{}", "invoice ".repeat(100_000));
    assert_eq!(embedder.embed(&long), embedder.embed(&dogs));
    let far = format!("{}dog", "\u{301}".repeat(100_000));
    assert_eq!(embedder.embed(&far), None);
}

#[test]
fn bytes_that_are_no_table_are_refused() {
    assert_eq!(EmbeddingTable::parse(b"").unwrap_err(), TableError::Format);
    assert_eq!(EmbeddingTable::parse(&[0; 64]).unwrap_err(), TableError::Format);
    let length = |found| TableError::Length { expected: TABLE.len(), found };
    assert_eq!(EmbeddingTable::parse(&TABLE[..1000]).unwrap_err(), length(1000));
    let longer = [TABLE, b"x"].concat();
    assert_eq!(EmbeddingTable::parse(&longer).unwrap_err(), length(longer.len()));
    // Counts that do not fit in memory must not overflow.
    let mut huge = TABLE[..64].to_vec();
    huge[8..28].fill(0xfe);
    assert!(matches!(EmbeddingTable::parse(&huge), Err(TableError::Length { .. })));
}

/// Names and descriptions as people write them.
pub(crate) const CAPABILITIES: [(&str, &str); 20] = [
    ("ListDogBreeds", "Retrieve a list of dog breeds"),
    ("PostWeatherTweet", "Gets weather for a location and posts it to Twitter"),
    ("GetWeatherForecast", "Get the hourly weather forecast for a place"),
    ("GetCountryInfo", "Get the name, capital, currency and languages of a country"),
    ("GetGitHubRepository", "Get the description, stars and language of a GitHub repository"),
    ("GetWikipediaSummary", "Get the summary of a Wikipedia article"),
    ("GetExchangeRate", "Convert an amount from one currency to another at the latest rate"),
    ("GetRiverLevel", "Get the latest water level measured at a river gauge"),
    ("SendSms", "Send a text message to a phone number"),
    ("FindRecipes", "Search recipes by ingredients"),
    ("SearchBooks", "Search books by title or author"),
    ("TranslateText", "Translate text from one language into another"),
    ("SearchFlights", "Search flights between two airports on a date"),
    ("GetAirQuality", "Get the current air quality index of a city"),
    ("CreateInvoice", "Create an invoice for a customer"),
    ("ListCalendarEvents", "List the events of a calendar in a time range"),
    ("GetStockQuote", "Get the latest price of a stock"),
    ("ResizeImage", "Resize an image to a width and height"),
    ("TrackParcel", "Get the delivery status of a parcel"),
    ("ListSchoolHolidays", "List the school holidays of a region"),
];

fn rank_by_meaning(query: &str) -> Vec<&'static str> {
    let embedder = BuiltIn::new();
    let query = embedder.embed(query).unwrap();
    let mut ranked: Vec<(f32, &str)> = CAPABILITIES
        .iter()
        .map(|(name, description)| {
            let text =
                index_text(&EmbeddingSource { name, description, ..EmbeddingSource::default() });
            (cosine(&query, &embedder.embed_parts(&text.dense).unwrap()), *name)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn a_paraphrase_without_a_common_word_finds_its_capability() {
    assert_eq!(rank_by_meaning("pooch kinds")[0], "ListDogBreeds");
}

#[test]
fn paraphrases_find_their_capabilities() {
    let wrong: Vec<_> = [
        ("capital city of a nation", "GetCountryInfo"),
        ("will it rain tomorrow", "GetWeatherForecast"),
        ("how many stars does this open source project have", "GetGitHubRepository"),
        ("look something up in the encyclopedia", "GetWikipediaSummary"),
        ("how many euros do I get for a hundred dollars", "GetExchangeRate"),
        ("is the stream about to flood", "GetRiverLevel"),
        ("text my mother on her mobile", "SendSms"),
        ("tell my followers on social media about the temperature", "PostWeatherTweet"),
        ("cooking instructions for dinner", "FindRecipes"),
        ("novels by an author", "SearchBooks"),
        ("say this in French", "TranslateText"),
        ("plane tickets to Rome", "SearchFlights"),
        ("is the smog bad today", "GetAirQuality"),
    ]
    .into_iter()
    .map(|(query, expected)| (query, expected, rank_by_meaning(query)))
    .filter(|(_, expected, ranked)| ranked[0] != *expected)
    .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Written down before their ranks were looked at, and none taken back: two of them come second.
#[test]
fn unseen_paraphrases_come_first_or_nearly() {
    let wrong: Vec<_> = [
        ("hound varieties", "ListDogBreeds", 1),
        ("population of a land", "GetCountryInfo", 1),
        ("do I need an umbrella this afternoon", "GetWeatherForecast", 1),
        ("popularity of a code repo", "GetGitHubRepository", 1),
        ("short article about Albert Einstein", "GetWikipediaSummary", 1),
        ("yen to pounds", "GetExchangeRate", 1),
        ("height of the Danube", "GetRiverLevel", 2),
        ("message a cell phone", "SendSms", 1),
        ("what can I bake with flour and eggs", "FindRecipes", 1),
        ("German version of this sentence", "TranslateText", 1),
        ("fly from Oslo to Madrid", "SearchFlights", 1),
        ("pollution in the town", "GetAirQuality", 1),
        ("bill a client", "CreateInvoice", 1),
        ("my appointments next week", "ListCalendarEvents", 1),
        ("share value of a company", "GetStockQuote", 1),
        ("make a picture smaller", "ResizeImage", 1),
        ("where is my package", "TrackParcel", 2),
        ("when do pupils have vacation", "ListSchoolHolidays", 1),
    ]
    .into_iter()
    .map(|(query, expected, place)| (query, expected, place, rank_by_meaning(query)))
    .filter(|(_, expected, place, ranked)| !ranked[..*place].contains(expected))
    .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

proptest! {
    #[test]
    fn any_text_has_no_vector_or_one_of_length_one(text in any::<String>()) {
        if let Some(vector) = BuiltIn::new().embed(&text) {
            prop_assert!((cosine(&vector, &vector) - 1.0).abs() < 1e-4);
        }
    }
}

#[test]
fn id_source_of_prefixes_never_changes() {
    let prefixes = PromptPrefixes { query: Some("query: ".to_owned()), document: None };
    assert_eq!(prefixes.to_id_source(), r#"Prefixes { query: Some("query: "), document: None }"#);
}
