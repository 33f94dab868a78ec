use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(expected: Option<Effect>, sentences: &[&str]) {
    let wrong = sentences.iter().map(|sentence| (*sentence, wanted_effect(sentence)));
    let wrong: Vec<_> = wrong.filter(|(_, wanted)| *wanted != expected).collect();
    assert_eq!(wrong, []);
}

#[test]
fn questions_and_verbs_that_show_something_read() {
    check(
        Some(Effect::Read),
        &[
            "what's the weather like in Paris",
            "How many stars has the repository?",
            "is there a book about dragons?",
            "are there any alerts for Ohio",
            "Do you know the capital of Chad?",
            "tell me a joke",
            "please show me the open issues",
            "Give me the exchange rates for GBP",
            "find the nearest post office",
            "look up the order of operations",
            "list dog breeds",
            "get the weather report for Oslo",
            "check the grammar of 'delete this'",
            "Could you explain the book of Job?",
            "I'd like to know when the sun sets",
            "let me know who sings this",
            "Let's compare Rome and Milan",
            "where is my order?",
            "translate \"cancel my order\" into French",
            "which share price is the highest",
        ],
    );
}

#[test]
fn requests_that_change_something_are_recognized() {
    check(
        Some(Effect::Delete),
        &[
            "delete my tweet",
            "Could you please cancel my order?",
            "I want you to remove the last post",
            "Hey, can you take down that tweet?",
            "please get rid of the old alarm",
            "would you mind deleting my account?",
            "Hi there! Unsubscribe me from the topic news, please.",
            "I'm moving next week. Cancel my subscription.",
            "pls just erase everything",
        ],
    );
    check(
        Some(Effect::Buy),
        &[
            "book a flight to the moon",
            "Can you book flights to Rome?",
            "buy two tickets for the opera",
            "I'd like to order a pizza",
            "order me a taxi",
            "reserve a table for two",
            "could you help me pay the bill",
            "Is it possible to purchase the domain example.com?",
        ],
    );
    check(
        Some(Effect::Create),
        &[
            "create a github issue",
            "register the domain example.com",
            "add a meeting to my calendar",
            "set up an account for me",
            "Please schedule a call with Ann",
            "upload this picture",
            "can I submit a bug report",
        ],
    );
    check(
        Some(Effect::Change),
        &["rename the repository", "please update my address", "reschedule the meeting"],
    );
    check(
        Some(Effect::Send),
        &[
            "send an email to my boss",
            "tweet 'delete my tweet'",
            "post the summary on Twitter",
            "notify the team that lunch is ready",
            "Remind me to water the plants",
            "can you share it with my followers",
            "message my sister",
        ],
    );
}

#[test]
fn in_doubt_there_is_no_effect() {
    check(
        None,
        &[
            "",
            "weather in Paris",
            "books about dragons",
            "book recommendations for children",
            "post office hours",
            "order of operations",
            "report on the economy",
            "report a stolen card",
            "get me a taxi",
            "get rich",
            "check in to my flight",
            "share price of Apple",
            "text analysis",
            "update me on the news",
            "an email address for support",
            "message history",
            "tell Bob that I'm late",
            "don't delete my tweet",
            "never cancel anything",
            "how do I delete my tweet?",
            "How can I cancel my order?",
            "find a hotel and book it",
            "cancel my flight and find me a train",
            "check the weather in Oslo and share it on Twitter",
            "I want to buy a camera. Can you recommend one?",
            "how can I book flights to Rome?",
            "where can we order pizza?",
            "what is the fare? Can you book flights?",
            "I need a ride to the airport",
            "create a list of the best films",
            "create a bar chart of my sales",
            "make a chart of 3 apples and 4 pears",
            "write a poem about the sea",
            "turn off the lights",
            "add 3 and 5",
            "set of plates",
            "\"delete\"",
            "löschen Sie meinen Tweet",
        ],
    );
}

#[track_caller]
fn check_capability(name: &str, description: &str, read_only: bool, expected: &str) {
    let effects = CapabilityEffects::new(name, description, read_only);
    assert_eq!(effects.to_string(), expected, "{name}: {description}");
}

#[test]
fn effects_of_a_capability_come_from_its_verbs() {
    check_capability("PostTweet", "Posts a text as a tweet", false, "sends");
    check_capability("post_tweet", "A tweet is published.", false, "can have any effect");
    check_capability("PostWeather", "Gets the weather and posts it", false, "reads and sends");
    check_capability("CancelOrder", "", false, "deletes");
    check_capability("OrderHistory", "Orders of a customer", false, "can have any effect");
    check_capability("BookHotel", "Books a hotel room", false, "buys");
    check_capability(
        "Hotels",
        "A tool for booking or cancelling a room",
        false,
        "deletes and buys",
    );
    check_capability("AddAgenda", "The API for adding an agenda item", false, "creates");
    check_capability("GetRepository", "Shows a repository", true, "reads");
    check_capability("GetRepository", "Shows a repository", false, "can have any effect");
    check_capability("CreateIssue", "Creates an issue", true, "reads and creates");
    check_capability("CreateChart", "Draws a chart", false, "can have any effect");
    check_capability(
        "Todo",
        "Manages tasks: add, delete or update them",
        false,
        "can have any effect",
    );
    check_capability("ManageTodos", "Deletes a task", false, "can have any effect");
    check_capability("Todos", "Manages and deletes tasks", false, "can have any effect");
    check_capability("", "", true, "reads");
    check_capability("", "", false, "can have any effect");
}

#[test]
fn each_effect_excludes_only_what_is_surely_different() {
    let excluded = |wanted: Effect| {
        let others = Effect::ALL.into_iter().filter(|other| wanted.excludes(*other));
        others.map(Effect::as_str).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(excluded(Effect::Read), "delete buy");
    assert_eq!(excluded(Effect::Create), "read delete");
    assert_eq!(excluded(Effect::Change), "read");
    assert_eq!(excluded(Effect::Delete), "read create buy send");
    assert_eq!(excluded(Effect::Buy), "read delete");
    assert_eq!(excluded(Effect::Send), "delete");
}

#[test]
fn long_texts_are_read() {
    let long = "delete my tweet and ".repeat(100_000);
    assert_eq!(wanted_effect(&long), Some(Effect::Delete));
    let description = format!("Deletes a tweet{}", "é".repeat(100_000));
    assert_eq!(CapabilityEffects::new("", &description, false).to_string(), "deletes");
}

proptest! {
    #[test]
    fn any_text_is_read(sentence in ".*", name in ".*", read_only: bool) {
        let effects = CapabilityEffects::new(&name, &sentence, read_only);
        prop_assert!(!effects.to_string().is_empty());
        if let Some(wanted) = wanted_effect(&sentence) {
            prop_assert!(!contradiction(wanted, &CapabilityEffects::new("", "", false)));
        }
    }

    #[test]
    fn any_order_of_verbs_is_read(words in prop::collection::vec(
        prop::sample::select(vec!["delete", "please", "can", "you", "to", "get", "rid", "of", "book", "a", "and", ",", ".", "'", "“", "would", "mind", "I", "want"]), 0..30))
    {
        let _ = wanted_effect(&words.join(" "));
        let _ = CapabilityEffects::new(&words.concat(), &words.join(" "), false);
    }
}
