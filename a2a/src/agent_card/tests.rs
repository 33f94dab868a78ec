use super::*;

fn origin() -> Url {
    "http://agent.test:80/somewhere/".parse().unwrap()
}

#[track_caller]
fn check(card: &Value, expected: Result<(&str, A2aVersion), &str>) {
    let read = PeerCard::read(card, &origin());
    match (read, expected) {
        (Ok(card), Ok((url, version))) => {
            assert_eq!((card.endpoint.as_str(), card.protocol), (url, version));
        }
        (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
        (read, expected) => panic!("{read:?} is not {expected:?}, of {card}"),
    }
}

#[test]
fn our_own_card_is_read_by_ourselves_in_the_newest_version() {
    let summary = json!({
        "name": "ListDogBreeds", "version": "1.0.0", "checksum": format!("sha256:{}", "0".repeat(64)),
        "description": "List dog breeds", "domains": ["dog.ceo"], "published_at": "2026-01-02T03:04:05Z",
    });
    let mut old = summary.clone();
    old["deprecated"] = json!({"successor": "ListCats@^2", "message": "no\nmore dogs"});
    let skills = [summary, old].map(|summary| serde_json::from_value(summary).unwrap());
    let endpoint: Url = "http://agent.test/a2a".parse().unwrap();
    // A reader of the newest version finds its interface on the card of the older one as well.
    for version in [A2aVersion::V0_3, A2aVersion::V1_0] {
        let card = write_card(&endpoint, &skills, true, version);
        check(&card, Ok(("http://agent.test/a2a", A2aVersion::V1_0)));
    }
    let card = write_card(&endpoint, &skills, true, A2aVersion::V1_0);
    let read = PeerCard::read(&card, &origin()).unwrap();
    assert!(
        read.streaming && read.description.contains("more skills than this card lists"),
        "{read:?}"
    );
    assert_eq!(read.skills[0].name, "List Dog Breeds");
    assert_eq!(read.skills[0].tags, ["dog.ceo", "capability"]);
    let told = [&read.skills[0], &read.skills[1]].map(|skill| skill.description.as_str());
    let deprecated = "[deprecated; use ListCats@^2 instead: no more dogs] List dog breeds";
    assert_eq!(told, ["List dog breeds", deprecated]);
}

/// Strict readers of one notation refuse the words of the other.
#[test]
fn a_card_has_one_notation() {
    let endpoint: Url = "http://agent.test/a2a".parse().unwrap();
    let old = write_card(&endpoint, &[], false, A2aVersion::V0_3);
    let token = &old["securitySchemes"]["token"];
    assert_eq!((&token["type"], token.get("httpAuthSecurityScheme")), (&json!("http"), None));
    assert_eq!(
        (&old["security"], old.get("securityRequirements")),
        (&json!([{"token": []}]), None)
    );
    let new = write_card(&endpoint, &[], false, A2aVersion::V1_0);
    let token = new["securitySchemes"]["token"].as_object().unwrap();
    assert_eq!(token.keys().collect::<Vec<_>>(), ["httpAuthSecurityScheme"]);
    for name in ["url", "preferredTransport", "protocolVersion", "security"] {
        assert_eq!(new.get(name), None, "{name}");
    }
}

#[test]
fn cards_of_both_versions_name_where_an_agent_is_asked() {
    let interface = |url: &str, binding: &str, version: &str| json!({"url": url, "protocolBinding": binding, "protocolVersion": version});
    check(
        &json!({"name": "A", "url": "http://agent.test/"}),
        Ok(("http://agent.test/", A2aVersion::V0_3)),
    );
    check(
        &json!({"name": "A", "protocolVersion": "0.3.0", "preferredTransport": "GRPC", "url": "http://agent.test/g", "additionalInterfaces": [{"url": "http://agent.test/j", "transport": "JSONRPC"}]}),
        Ok(("http://agent.test/j", A2aVersion::V0_3)),
    );
    check(
        &json!({"name": "A", "supportedInterfaces": [interface("http://agent.test/3", "JSONRPC", "0.3"), interface("http://agent.test/g", "GRPC", "1.0"), interface("http://agent.test/1", "JSONRPC", "1.0")]}),
        Ok(("http://agent.test/1", A2aVersion::V1_0)),
    );
}

#[test]
fn a_card_that_leads_elsewhere_or_nowhere_is_refused() {
    for url in ["http://evil.test/", "https://agent.test/", "http://agent.test:8080/"] {
        check(&json!({"name": "A", "url": url}), Err("other hosts"));
    }
    for card in [
        json!({"name": "A", "url": "agent"}),
        json!({"name": "A", "url": 7}),
        json!({"name": "A", "url": "http://agent.test/", "protocolVersion": "9.9"}),
        json!({"name": "A", "url": "http://agent.test/", "preferredTransport": "GRPC"}),
        json!({"name": "A", "supportedInterfaces": {"url": "http://agent.test/"}}),
    ] {
        check(&card, Err("no address"));
    }
    check(&json!({"url": "http://agent.test/"}), Err("`name`"));
    check(&json!([]), Err("not an object"));
}

#[test]
fn skills_of_others_are_bounded_and_on_one_line() {
    let skill = |id: &str| json!({"id": id, "name": "x\n\u{1b}[31my", "description": "d".repeat(5_000), "tags": [1, "t"]});
    let mut skills = vec![skill("s"); 1_000];
    skills.insert(0, json!("no skill"));
    let card = json!({"name": "A", "url": "http://agent.test/", "skills": skills});
    let card = PeerCard::read(&card, &origin()).unwrap();
    assert_eq!(card.skills.len(), MAX_READ);
    assert_eq!((card.skills[0].name.as_str(), card.skills[0].tags.len()), ("x [31my", 1));
    assert!(card.skills[0].description.chars().count() <= MAX_TEXT + 1);
}
