use proptest::prelude::*;

use super::*;

#[track_caller]
fn check_clauses(query: &str, expected: &[&str]) {
    assert_eq!(split_clauses(query), expected, "{query:?}");
}

#[test]
fn a_request_for_several_things_is_cut() {
    check_clauses(
        "Check the weather in Paris, and post it to Twitter",
        &["Check the weather in Paris,", "post it to Twitter"],
    );
    check_clauses(
        "Book a flight to Rome. Then find me a hotel! Also rent a car",
        &["Book a flight to Rome.", "find me a hotel!", "rent a car"],
    );
    check_clauses("one line here\nanother line there", &["one line here", "another line there"]);
    check_clauses(
        "He said \"get me out.\" What now, my friend?",
        &["He said \"get me out.\"", "What now, my friend?"],
    );
}

#[test]
fn a_single_request_is_left_whole() {
    check_clauses("pooch kinds", &[]);
    check_clauses("What is the weather in Paris?", &[]);
    check_clauses("the version 1.5 of api.example.com and its size", &[]);
    check_clauses("  ", &[]);
    check_clauses("", &[]);
}

#[test]
fn short_clauses_are_dropped() {
    check_clauses("Hello there! Show me the weather.", &["Show me the weather."]);
    check_clauses("Why? How? When?", &[]);
}

#[test]
fn clauses_are_bounded() {
    assert_eq!(split_clauses(&"do this now. ".repeat(1000)).len(), MOST_CLAUSES);
    assert_eq!(split_requests(&"do this now. ".repeat(1000)).len(), MOST_CLAUSES);
}

#[track_caller]
fn check_requests(sentence: &str, expected: &[&str]) {
    assert_eq!(split_requests(sentence), expected, "{sentence:?}");
}

#[test]
fn a_sentence_is_cut_into_its_requests() {
    check_requests("list dog breeds", &["list dog breeds"]);
    check_requests(
        "check the weather forecast in Central Park and share it on Twitter",
        &["check the weather forecast in Central Park", "share it on Twitter"],
    );
    check_requests(
        "What's the weather like in Paris, and can you tweet it saying 'Weather update:'?",
        &["What's the weather like in Paris", "can you tweet it saying 'Weather update:'"],
    );
    check_requests(
        "Hey, I'm planning a picnic this weekend in Central Park. Could you help me check the \
         weather forecast and share it on Twitter?",
        &["Could you help me check the weather forecast", "share it on Twitter"],
    );
    check_requests("get a joke, tweet it", &["get a joke", "tweet it"]);
    check_requests("get a joke and then tweet it", &["get a joke", "tweet it"]);
    check_requests(
        "the weather in Oslo, and the exchange rate from EUR to NOK",
        &["the weather in Oslo", "the exchange rate from EUR to NOK"],
    );
    check_requests("get a joke and mail it", &["get a joke", "mail it"]);
    check_requests("get a joke and, also, tweet it", &["get a joke", "tweet it"]);
    check_requests("get a joke and mail 'hi' to Bob", &["get a joke", "mail 'hi' to Bob"]);
    check_requests("get a joke and I want it tweeted", &["get a joke", "I want it tweeted"]);
    check_requests("I’m planning a picnic. Tweet a joke.", &["Tweet a joke"]);
    check_requests("I'm looking for a joke. Tweet it.", &["I'm looking for a joke", "Tweet it"]);
}

#[test]
fn what_only_looks_like_another_request_is_left_whole() {
    for whole in [
        "the weather in Trinidad and Tobago",
        "explain law and order",
        "books by Marks and Spencer",
        "tweet 'Hello. And share it, then go!'",
        "warn the team if the river at Basel is dangerous",
        "what is the weather in the cities Nairobi, Atlantis, and Oslo",
        "compare Paris and London",
        "notify topic ops, title Disk, message: the disk is full",
        "concerts by Show and Tell",
        "I'm looking for books about salt and pepper",
        "make it bold, check, italic",
        "explain the why and how",
    ] {
        check_requests(whole, &[whole]);
    }
    check_requests("thanks!", &[]);
    check_requests("I'm hungry.", &["I'm hungry"]);
}

proptest! {
    #[test]
    fn what_is_cut_is_a_part_of_the_sentence(sentence in prop_oneof!["\\PC{0,80}", any::<String>()]) {
        for part in split_requests(&sentence).iter().chain(&split_clauses(&sentence)) {
            prop_assert!(sentence.contains(part) && !part.trim().is_empty());
        }
    }

    #[test]
    fn words_stand_in_their_order(sentence in "[a-z'\".,:=()“” \n-]{0,60}") {
        let words = tokenize(&sentence, &|_| true);
        for pair in words.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start, "{:?}", pair);
        }
        for word in &words {
            prop_assert_eq!(&sentence[word.start..word.end], word.text);
        }
    }
}
