//! Sentences as people write them, and what the shipped capabilities get out of them.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its case has to fail")]

use a2s::{Document, InputField};
use a2s_intent::{extract_inputs, extract_values};
use proptest::prelude::*;
use serde_json::{Value, json};

fn fields(name: &str) -> Vec<InputField> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capabilities");
    let source = std::fs::read(format!("{folder}/{name}.yaml")).unwrap();
    Document::open(&source).unwrap().interface().inputs.clone()
}

/// Sentences for capabilities, and the inputs that they give. What cannot be told is left out.
fn sentences() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        // The sentences of the A2S text.
        (
            "PostWeatherTweet",
            "What's the weather like in Paris, and can you tweet it saying 'Weather update:'?",
            json!({"location": "Paris", "message": "Weather update:"}),
        ),
        (
            "PostWeatherTweet",
            "check the weather forecast in Central Park and share it on Twitter",
            json!({"location": "Central Park"}),
        ),
        (
            "PostWeatherTweet",
            "Hey, I'm planning a picnic this weekend in Central Park. Could you help me check the weather forecast and share it on Twitter?",
            json!({"location": "Central Park"}),
        ),
        ("ListDogBreeds", "list dog breeds", json!({})),
        // Weather.
        ("PostWeatherTweet", "tweet the weather in Rome", json!({"location": "Rome"})),
        (
            "PostWeatherTweet",
            "post \"Good morning!\" with the weather for New York City",
            json!({"location": "New York City", "message": "Good morning!"}),
        ),
        ("PostWeatherTweet", "get the weather in Oslo and tweet it", json!({"location": "Oslo"})),
        (
            "PostWeatherTweet",
            "Tweet “Guten Morgen” and the weather at München, please",
            json!({"location": "München", "message": "Guten Morgen"}),
        ),
        ("GetCityWeather", "weather in Paris", json!({"city": "Paris"})),
        (
            "GetCityWeather",
            "what's the weather in São Paulo tomorrow?",
            json!({"city": "São Paulo"}),
        ),
        (
            "GetCityWeather",
            "How will the weather be in the Hague this weekend",
            json!({"city": "the Hague"}),
        ),
        ("GetCityWeather", "what will the weather in Berlin be like", json!({"city": "Berlin"})),
        (
            "GetCityWeather",
            "forecast for Trinidad and Tobago",
            json!({"city": "Trinidad and Tobago"}),
        ),
        ("GetCityWeather", "is it raining in St. Louis right now?", json!({"city": "St. Louis"})),
        ("GetCityWeather", "forecast for tomorrow in Lyon", json!({"city": "Lyon"})),
        ("GetCityWeather", "weather for the next three days", json!({})),
        ("GetCityWeather", "will it rain in the afternoon?", json!({})),
        ("GetCityWeather", "WEATHER IN LONDON PLEASE", json!({"city": "LONDON"})),
        (
            "GetCityWeather",
            "do I need an umbrella in Frankfurt am Main on Friday",
            json!({"city": "Frankfurt am Main"}),
        ),
        ("GetCityWeather", "city: Kyiv", json!({"city": "Kyiv"})),
        (
            "GetCityWeather",
            "temperature in Washington D.C. and tell me if I need a coat",
            json!({"city": "Washington D.C."}),
        ),
        (
            "GetWeatherForecast",
            "weather at latitude 48.85, longitude -2.35",
            json!({"latitude": 48.85, "longitude": -2.35}),
        ),
        (
            "GetWeatherForecast",
            "forecast for latitude=59.9 longitude=10.7",
            json!({"latitude": 59.9, "longitude": 10.7}),
        ),
        ("GetWeatherForecast", "weather at latitude north, longitude east", json!({})),
        (
            "GetSunTimes",
            "when does the sun set at latitude 59.91, longitude 10.75",
            json!({"latitude": 59.91, "longitude": 10.75}),
        ),
        (
            "GetSunTimes",
            "sunrise for the next 3 days at latitude 52.5° and longitude 13.4° in time zone Europe/Berlin",
            json!({"latitude": 52.5, "longitude": 13.4, "days": 3, "timezone": "Europe/Berlin"}),
        ),
        (
            "GetWeatherOfCities",
            "what is the weather in the cities Nairobi, Atlantis and Oslo?",
            json!({"cities": ["Nairobi", "Atlantis", "Oslo"]}),
        ),
        (
            "GetWeatherOfCities",
            "temperature in each of Paris, Rome, and Madrid",
            json!({"cities": ["Paris", "Rome", "Madrid"]}),
        ),
        (
            "CompareCityWeather",
            "compare the weather between Paris and London",
            json!({"first_city": "Paris", "second_city": "London"}),
        ),
        (
            "CompareCityWeather",
            "compare Oslo with Bergen",
            json!({"first_city": "Oslo", "second_city": "Bergen"}),
        ),
        ("GetWeatherAlert", "any storm warnings for FL?", json!({"state": "FL"})),
        (
            "WeatherAlertCapability",
            "warn people if there is severe weather in TX",
            json!({"state": "TX"}),
        ),
        (
            "WeatherAlertCapability",
            "watch the weather in CA, alert topic: family",
            json!({"state": "CA", "ALERT_TOPIC": "family"}),
        ),
        // Messages.
        ("PostTweet", "tweet hello world", json!({"text": "hello world"})),
        ("PostTweet", "tweet 'It's raining, again!'", json!({"text": "It's raining, again!"})),
        ("PostTweet", "post a tweet saying we open at nine", json!({"text": "we open at nine"})),
        ("PostTweet", "share it on Twitter", json!({})),
        ("PostTweet", "can you tweet this for me?", json!({})),
        ("PostTweet", "tweet it", json!({})),
        (
            "PostTweet",
            "Please post the following: We are closed on Monday",
            json!({"text": "We are closed on Monday"}),
        ),
        (
            "SendNotification",
            "send a push notification to topic garden titled Water saying 'Time to water the plants.'",
            json!({"topic": "garden", "title": "Water", "message": "Time to water the plants."}),
        ),
        (
            "SendNotification",
            "topic=garden title=Water message=\"Now!\"",
            json!({"topic": "garden", "title": "Water", "message": "Now!"}),
        ),
        (
            "ReachFollowers",
            "reach the followers of club saying we open at nine",
            json!({"topic": "club", "message": "we open at nine"}),
        ),
        (
            "ReachFollowers",
            "tell everyone that dinner is ready, topic family",
            json!({"topic": "family", "message": "dinner is ready"}),
        ),
        (
            "ProofreadAndNotify",
            "proofread \"He goes home.\" and push it to the topic family",
            json!({"text": "He goes home.", "topic": "family"}),
        ),
        (
            "ShareMessage",
            "share 'We won!' with the public",
            json!({"message": "We won!", "audience": "public"}),
        ),
        ("CheckGrammar", "proofread \"She go home.\"", json!({"text": "She go home."})),
        (
            "CheckGrammar",
            "check the grammar of 'Me and him is friends', language en-GB",
            json!({"text": "Me and him is friends", "language": "en-GB"}),
        ),
        ("CheckGrammar", "check this sentence: She go home", json!({"text": "She go home"})),
        // Knowledge.
        ("DefineWord", "what does serendipity mean?", json!({"word": "serendipity"})),
        ("DefineWord", "Define 'ad hoc'", json!({"word": "ad hoc"})),
        ("DefineWord", "the meaning of petrichor, please", json!({"word": "petrichor"})),
        ("GetWikipediaSummary", "who is Ada Lovelace?", json!({"topic": "Ada Lovelace"})),
        ("GetWikipediaSummary", "who's Alan Turing", json!({"topic": "Alan Turing"})),
        (
            "GetWikipediaSummary",
            "tell me about Marks and Spencer",
            json!({"topic": "Marks and Spencer"}),
        ),
        ("GetWikipediaSummary", "explain law and order", json!({"topic": "law and order"})),
        (
            "GetWikipediaSummary",
            "explain photosynthesis and tweet it",
            json!({"topic": "photosynthesis"}),
        ),
        (
            "DescribePlace",
            "describe Kyoto, country JP",
            json!({"place": "Kyoto", "country_code": "JP"}),
        ),
        ("SearchBooks", "find books about the Roman Empire", json!({"query": "the Roman Empire"})),
        ("SearchBooks", "books by Ursula K. Le Guin", json!({"query": "Ursula K. Le Guin"})),
        // Countries and money.
        ("GetCountry", "facts about the country JP", json!({"country_code": "JP"})),
        (
            "GetPublicHolidays",
            "public holidays in DE during 2026",
            json!({"country_code": "DE", "year": 2026}),
        ),
        (
            "GetPublicHolidays",
            "when are the public holidays of FR, year 2027",
            json!({"country_code": "FR", "year": 2027}),
        ),
        ("GetPublicHolidays", "list public holidays in 2026", json!({})),
        (
            "ListHolidaysOfYears",
            "holidays in DE for the years 2026 and 2027",
            json!({"country_code": "DE", "years": [2026, 2027]}),
        ),
        (
            "GetExchangeRate",
            "exchange rate from EUR to USD",
            json!({"from_currency": "EUR", "to_currency": "USD"}),
        ),
        (
            "GetExchangeRate",
            "convert GBP into JPY",
            json!({"from_currency": "GBP", "to_currency": "JPY"}),
        ),
        (
            "ConvertIntoCurrencies",
            "convert from CHF into EUR, USD and JPY",
            json!({"from_currency": "CHF", "to_currencies": ["EUR", "USD", "JPY"]}),
        ),
        ("ListExchangeRates", "list all exchange rates for GBP", json!({"base_currency": "GBP"})),
        (
            "PrepareTrip",
            "prepare a trip to Lübeck in 2026, country DE",
            json!({"city": "Lübeck", "country_code": "DE", "year": 2026}),
        ),
        // Numbers, choices and lists.
        ("FindEarthquakes", "earthquakes stronger than 6.5 today", json!({"magnitude": 6.5})),
        ("FindEarthquakes", "quakes above magnitude five", json!({"magnitude": 5})),
        (
            "CreateChart",
            "draw a pie chart: labels apples and pears, values 3 and 4",
            json!({"labels": ["apples", "pears"], "values": [3, 4]}),
        ),
        (
            "CreateChart",
            "show values 1,2,3 with labels a,b,c as a line chart titled \"My week\"",
            json!({"values": [1, 2, 3], "labels": ["a", "b", "c"], "kind": "line", "title": "My week"}),
        ),
        (
            "GenerateApiClient",
            "generate a client in Python from \"https://petstore.swagger.io/v2/swagger.json\"",
            json!({"language": "python", "description_url": "https://petstore.swagger.io/v2/swagger.json"}),
        ),
        (
            "GenerateApiClient",
            "generate a client in typescript fetch from https://api.example.com/openapi.json.",
            json!({"language": "typescript-fetch", "description_url": "https://api.example.com/openapi.json"}),
        ),
        (
            "FindRickAndMortyCharacters",
            "which Rick and Morty characters called Rick who are dead",
            json!({"name": "Rick", "status": "dead"}),
        ),
        (
            "FindStatutoryInstruments",
            "find statutory instruments about fishing before the Lords, at most 5",
            json!({"words": "fishing", "house": "Lords", "limit": 5}),
        ),
        (
            "ReadGovernmentNews",
            "latest 3 news from the ministry of health",
            json!({"limit": 3, "key": "health"}),
        ),
        (
            "SearchDomainNames",
            "domains with lighthouse in the zone com, at most 20 names",
            json!({"word": "lighthouse", "zone": "com", "limit": 20}),
        ),
        (
            "SearchVocaloidSongs",
            "vocaloid songs called 'World Is Mine' sorted by rating score, kind cover",
            json!({"title": "World Is Mine", "order": "RatingScore", "kind": "Cover"}),
        ),
        (
            "LocateTrafficSensors",
            "where are the traffic sensors 5688 and 5689?",
            json!({"sites": [5688, 5689]}),
        ),
        (
            "LookUpFileHash",
            "is the file with the hash e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 known to be bad?",
            json!({"sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}),
        ),
        ("LookUpFileHash", "is the file with the hash 1234 known?", json!({})),
        (
            "FindConcerts",
            "concerts of Florence and the Machine",
            json!({"artist": "Florence and the Machine"}),
        ),
        ("FindConcerts", "find gigs of The National in Berlin", json!({"artist": "The National"})),
        // Code.
        (
            "GetRepository",
            "show the repository serde by serde-rs",
            json!({"owner": "serde-rs", "repo": "serde"}),
        ),
        (
            "GetRepository",
            "stars of the repo tokio by tokio-rs",
            json!({"owner": "tokio-rs", "repo": "tokio"}),
        ),
        (
            "GetLatestRelease",
            "what is the latest version of ripgrep by BurntSushi",
            json!({"owner": "BurntSushi", "repo": "ripgrep"}),
        ),
        ("GetJoke", "tell me a joke", json!({})),
        ("QuoteLovecraft", "quote something eerie by Lovecraft", json!({})),
        // A name is no code: it is asked for.
        ("GetPublicHolidays", "public holidays in Germany during 2026", json!({"year": 2026})),
        ("GetExchangeRate", "convert dollars to EUR", json!({"to_currency": "EUR"})),
        ("GetExchangeRate", "convert 100 euros to yen", json!({})),
        (
            "GetExchangeRate",
            "convert 100 EUR to USD",
            json!({"from_currency": "EUR", "to_currency": "USD"}),
        ),
        // A second lot.
        (
            "GetCityWeather",
            "hey what's the forecast for Reykjavik next week?",
            json!({"city": "Reykjavik"}),
        ),
        (
            "GetCityWeather",
            "Could you please tell me how warm it is in Cairo today",
            json!({"city": "Cairo"}),
        ),
        (
            "GetCityWeather",
            "I want to know the weather in Ho Chi Minh City and in Hanoi",
            json!({"city": "Ho Chi Minh City"}),
        ),
        (
            "GetCityWeather",
            "Is it cold at Oymyakon? Then show me a joke.",
            json!({"city": "Oymyakon"}),
        ),
        (
            "GetCityWeather",
            "weather in 'Stratford-upon-Avon'",
            json!({"city": "Stratford-upon-Avon"}),
        ),
        ("GetCityWeather", "show the weather in my city", json!({})),
        ("GetCityWeather", "what's the weather there?", json!({})),
        ("GetCityWeather", "Wetter in Köln", json!({"city": "Köln"})),
        (
            "PostWeatherTweet",
            "post the forecast for Leeds to twitter",
            json!({"location": "Leeds"}),
        ),
        (
            "PostWeatherTweet",
            "Say \"Stay dry, folks\" and add the weather in Glasgow",
            json!({"location": "Glasgow", "message": "Stay dry, folks"}),
        ),
        (
            "PostWeatherTweet",
            "tweet good morning Vietnam for Saigon",
            json!({"location": "Saigon", "message": "good morning Vietnam"}),
        ),
        ("PostTweet", "post on Twitter: the shop is closed", json!({"text": "the shop is closed"})),
        ("PostTweet", "tweet Happy New Year!", json!({"text": "Happy New Year"})),
        ("PostTweet", "send out a tweet that says \"hi\"", json!({"text": "hi"})),
        ("PostTweet", "tweet my location", json!({})),
        (
            "SendNotification",
            "notify topic ops, title Disk, message: the disk is full",
            json!({"topic": "ops", "title": "Disk", "message": "the disk is full"}),
        ),
        (
            "SendNotification",
            "push a message saying the build failed to topic ci",
            json!({"topic": "ci", "message": "the build failed"}),
        ),
        ("SendNotification", "notify me when it is done", json!({})),
        (
            "ReachFollowers",
            "tell the followers of book-club that we meet on Monday",
            json!({"topic": "book-club", "message": "we meet on Monday"}),
        ),
        (
            "ShareMessage",
            "announce 'Doors open at 8' in public",
            json!({"message": "Doors open at 8", "audience": "public"}),
        ),
        ("CheckGrammar", "are there mistakes in 'I has a cat'?", json!({"text": "I has a cat"})),
        ("CheckGrammar", "proofread this", json!({})),
        (
            "CheckGrammar",
            "check \"Das ist gut\", written in de-DE, level picky",
            json!({"text": "Das ist gut", "language": "de-DE", "level": "picky"}),
        ),
        ("DefineWord", "what is the definition of entropy", json!({"word": "entropy"})),
        ("DefineWord", "what does it mean?", json!({})),
        (
            "GetWikipediaSummary",
            "What is the Great Barrier Reef?",
            json!({"topic": "the Great Barrier Reef"}),
        ),
        (
            "GetWikipediaSummary",
            "tell me something about black holes please",
            json!({"topic": "black holes"}),
        ),
        ("SearchBooks", "a book called Gone with the Wind", json!({"query": "Gone with the Wind"})),
        ("SearchBooks", "books about cats and show me the best one", json!({"query": "cats"})),
        (
            "GetPublicHolidays",
            "days off in AT, year: 2026",
            json!({"country_code": "AT", "year": 2026}),
        ),
        (
            "GetExchangeRate",
            "how much is it from USD to EUR today?",
            json!({"from_currency": "USD", "to_currency": "EUR"}),
        ),
        (
            "ConvertIntoCurrencies",
            "what are euros worth in the currencies USD, GBP and JPY?",
            json!({"to_currencies": ["USD", "GBP", "JPY"]}),
        ),
        (
            "PrepareTrip",
            "I'm planning a trip to New York with EUR in 2027, country: US, currency USD",
            json!({"city": "New York", "from_currency": "EUR", "year": 2027, "country_code": "US", "to_currency": "USD"}),
        ),
        ("FindEarthquakes", "show earthquakes of magnitude 4.5+", json!({"magnitude": 4.5})),
        ("CreateChart", "draw a chart of 3 apples and 4 pears", json!({"values": [3, 4]})),
        (
            "CreateChart",
            "doughnut chart with labels \"A, B\" and C, values 10 and 20.5, background white",
            json!({"labels": ["A, B", "C"], "values": [10, 20.5], "background": "white"}),
        ),
        (
            "FindConcerts",
            "when is the next tour of Taylor Swift?",
            json!({"artist": "Taylor Swift"}),
        ),
        (
            "FindConcerts",
            "gigs of AC/DC between 2026-05-01,2026-06-30",
            json!({"artist": "AC/DC", "when": "2026-05-01,2026-06-30"}),
        ),
        ("FindRickAndMortyCharacters", "who is Birdperson?", json!({"name": "Birdperson"})),
        (
            "GetSunTimes",
            "sunset at latitude -33.9, longitude 151.2 for the next two days",
            json!({"latitude": -33.9, "longitude": 151.2, "days": 2}),
        ),
        (
            "ReadGovernmentNews",
            "read the latest news about health in British Columbia",
            // Behind `about` anything may stand; that this is a place only a reader knows.
            json!({"key": "health in British Columbia"}),
        ),
        (
            "SearchDomainNames",
            "find domain names containing pizza hosted in IT",
            json!({"word": "pizza", "country": "IT"}),
        ),
        (
            "GetRepository",
            "how many stars has the project deno by denoland",
            json!({"owner": "denoland", "repo": "deno"}),
        ),
        (
            "GetLatestRelease",
            "notes of the newest release of node from nodejs",
            json!({"owner": "nodejs", "repo": "node"}),
        ),
    ]
}

#[test]
fn sentences_give_the_inputs_that_people_mean() {
    let mut wrong = Vec::new();
    let all = sentences();
    for (name, sentence, expected) in &all {
        let inputs = Value::Object(extract_values(sentence, &fields(name)));
        if inputs != *expected {
            wrong.push(format!("{name}: {sentence}\n  expected {expected}\n  found    {inputs}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

fn field(name: &str, patterns: &[&str], schema: &Value) -> InputField {
    serde_json::from_value(json!({
        "name": name, "required": true, "patterns": patterns, "schema": schema
    }))
    .unwrap()
}

/// Inputs of every kind.
fn mixed() -> Vec<InputField> {
    vec![
        field("place", &["in *", "at *", "* weather"], &json!({"type": "string"})),
        field("message", &["say *", "tweet *"], &json!({})),
        field("word", &["what does * mean", "about *"], &json!({"type": "string", "maxLength": 9})),
        field("count", &["first *", "* days"], &json!({"type": "integer", "minimum": 1})),
        field("ratio", &["ratio *"], &json!({"type": ["number", "null"]})),
        field("kind", &["as a *"], &json!({"enum": ["bar", "pie", 3, null]})),
        field("items", &["items *"], &json!({"type": "array", "items": {"type": "string"}})),
        field("many", &["many *"], &json!({"type": "array"})),
        field("flag", &["flag *"], &json!({"type": "boolean"})),
        field("object", &["object *"], &json!({"type": "object"})),
        field("free", &[], &json!({"type": "string"})),
    ]
}

fn pieces() -> impl Strategy<Value = String> {
    let pieces = [
        "in", "at", "say", "tweet", "what", "does", "mean", "first", "days", "as a", "items",
        "many", "flag", "object", "free:", "place=", "ratio", "about", "weather", "and", "then",
        ",", ".", ":", ";", "?", "\n", "'", "\"", "“", "”", "it", "the", "Paris", "Oslo", "5",
        "-2.5", "1,000", "true", "pie", "{}", "[1,2]", "É", "中文", "🧺", "it's", "St.", "*",
        "'a b'", "\"c, d\"", "(", ")", " ", "  ", "\u{a0}", "\u{202e}", "please", "tomorrow",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..24)
        .prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #[test]
    fn a_value_is_a_part_of_the_sentence_and_fits(sentence in prop_oneof![pieces(), any::<String>()]) {
        let fields = mixed();
        let found = extract_inputs(&sentence, &fields);
        for said in &found {
            prop_assert!(sentence.contains(said.text), "{:?}", said);
            let field = fields.iter().find(|field| field.name == said.name).unwrap();
            let Some(value) = &said.value else { continue };
            let schema = jsonschema::validator_for(&field.schema).unwrap();
            prop_assert!(schema.is_valid(value), "{:?}", said);
            if let Value::String(text) = value && field.schema.get("enum").is_none() {
                prop_assert_eq!(text, said.text);
            }
            if let Value::Array(items) = value {
                let texts = items.iter().filter_map(Value::as_str);
                for text in texts {
                    prop_assert!(said.text.contains(text), "{:?}", said);
                }
            }
        }
        let names: Vec<_> = found.iter().map(|said| said.name.clone()).collect();
        let order: Vec<_> = fields.iter().filter(|f| names.contains(&f.name)).map(|f| f.name.clone()).collect();
        prop_assert_eq!(names, order);
    }

    #[test]
    fn a_quoted_text_is_the_value_whatever_it_holds(
        text in "[a-zA-Z ,.:;!?(){}]{1,40}", open in 0..3_usize, lead in 0..3_usize,
    ) {
        prop_assume!(text.trim() == text);
        // In rock 'n' roll nothing is quoted.
        prop_assume!(open != 2 || !text.eq_ignore_ascii_case("n"));
        let (open, close) = [("\"", "\""), ("“", "”"), ("'", "'")][open];
        let lead = ["tweet", "say", "can you tweet it saying"][lead];
        let sentence = format!("{lead} {open}{text}{close} in Paris");
        let inputs = extract_values(&sentence, &mixed());
        prop_assert_eq!(&inputs["message"], &json!(text), "{}", sentence);
        prop_assert_eq!(&inputs["place"], "Paris");
    }

    #[test]
    fn what_is_named_outright_is_the_value(
        value in prop_oneof![
            "[A-Za-z0-9]{1,12}".boxed(),
            // Words that end a value, or are none, where nothing names it.
            proptest::sample::select(vec![
                "or", "and", "then", "also", "please", "thanks", "you", "it", "the", "is", "in",
                "for", "on", "tomorrow", "weather", "tweet", "find", "what", "free", "place", "mean",
            ]).prop_map(str::to_owned).boxed(),
        ],
        sign in 0..2_usize,
    ) {
        let sentence = format!("tweet hello in Oslo, free{} {value}, place{}{value}", [":", " ="][sign], ["=", ": "][sign]);
        let inputs = extract_values(&sentence, &mixed());
        prop_assert_eq!(&inputs["free"], &json!(value), "{}", sentence);
        prop_assert_eq!(&inputs["place"], &json!(value), "{}", sentence);
    }
}

#[test]
fn hostile_sentences_take_bounded_time() {
    let same: Vec<String> = (0..100).map(|_| "a *".to_owned()).collect();
    let patterns: Vec<&str> = same.iter().map(String::as_str).collect();
    let long = format!("{} *", "a ".repeat(15));
    let fields: Vec<InputField> = (0..50)
        .map(|at| {
            let schema = json!({"type": "string", "pattern": "^(x+)+$", "maxLength": 3});
            let mut field = field(&format!("a{at}"), &patterns, &schema);
            field.patterns.push(long.clone());
            field
        })
        .collect();
    for sentence in [
        "a ".repeat(100_000),
        "a: ".repeat(100_000),
        "'a \"a “a ".repeat(50_000),
        "a".repeat(1 << 20),
    ] {
        assert!(extract_inputs(&sentence, &fields).len() <= fields.len());
    }
}
