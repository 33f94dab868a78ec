use super::*;

fn skill(name: &str, description: &str, tags: &[&str]) -> PeerSkill {
    PeerSkill {
        id: name.to_owned(),
        name: name.to_owned(),
        description: description.to_owned(),
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        examples: Vec::new(),
    }
}

#[track_caller]
fn check(wish: &str, expected: Option<&str>) {
    let skills = [
        skill("BookHotels", "Find a room and book it", &["travel"]),
        skill("GetWeather", "Get the weather for a city", &["api.weather.test"]),
    ];
    assert_eq!(choose_skill(wish, &skills).map(|skill| skill.name.as_str()), expected, "{wish}");
}

#[test]
fn skill_with_most_shared_words_is_chosen() {
    check("book a hotel in Paris", Some("BookHotels"));
    check("what's the weather like in the city", Some("GetWeather"));
    check("what can you find for the user", None);
    check("prove the theorem", None);
    check("", None);
}
