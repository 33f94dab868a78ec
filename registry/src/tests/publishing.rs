use axum::body::Body;
use axum::http::Request;
use insta::{assert_json_snapshot, assert_snapshot};
use serde_json::json;

use super::world::{TOKEN, World, chain, document, document_for, settled};

#[tokio::test]
async fn a_document_is_published_once_and_never_changed() {
    let world = World::new().await;
    let dogs = document("ListDogBreeds", "1.0.0", "Retrieve a list of dog breeds");

    let answer = world.publish(dogs.clone()).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.header("location"), "/v1/capabilities/ListDogBreeds/1.0.0");
    let first = answer.json();
    assert_eq!(first["created"], true);

    // The same content, written otherwise: nothing changes, the first text is kept.
    let answer = world.publish(format!("# with a remark\n{dogs}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["created"], false);
    assert_eq!(answer.json()["checksum"], first["checksum"]);
    let stored = world.get("/v1/capabilities/ListDogBreeds/1.0.0").await;
    assert_eq!(stored.text(), dogs);

    // One letter more under the same version.
    let answer =
        world.publish(document("ListDogBreeds", "1.0.0", "Retrieve a list of dog breedss")).await;
    assert_eq!(answer.status, 409);
    assert_eq!(answer.code(), "A2S211");
    assert_eq!(world.get("/v1/capabilities/ListDogBreeds/1.0.0").await.text(), dogs);
}

#[tokio::test]
async fn a_version_that_differs_in_build_metadata_alone_is_refused() {
    let world = World::new().await;
    let base = |version: &str| document("Base", version, "Retrieve a list of dog breeds");
    world.publish_all([base("1.0.0"), base("1.1.0-rc.1+a"), base("2.0.0+build.7")]).await;
    let pinned = world.get("/v1/capabilities/Base/%3D1.0.0").await;
    for (new, published) in [
        ("1.0.0+b", "1.0.0"),
        ("1.1.0-rc.1", "1.1.0-rc.1+a"),
        ("2.0.0", "2.0.0+build.7"),
        ("2.0.0+build.10", "2.0.0+build.7"),
    ] {
        let answer = world.publish(base(new)).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (409, "A2S211"), "{new}");
        let said = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(said.contains(new) && said.contains(&format!("version {published} ")), "{said}");
    }
    assert_eq!(world.get("/v1/capabilities/Base/%3D1.0.0").await.text(), pinned.text());
    // Another version, another pre-release, one that differs in case, and the same again.
    for (new, status) in [("1.0.1+b", 201), ("1.1.0-rc.10", 201), ("1.1.0-RC.1", 201)] {
        assert_eq!(world.publish(base(new)).await.status, status, "{new}");
    }
    assert_eq!(world.publish(base("2.0.0+build.7")).await.status, 200);
}

#[tokio::test]
async fn everything_that_is_wrong_is_told_in_one_answer() {
    let world = World::new().await;
    // A placeholder checksum, an unknown field, a host that is not declared, a missing dependency.
    let draft = document("BadOne", "1.0.0", "Is not good")
        .replace("domains: [\"api.example.com\"]", "domains: [\"other.example.com\"]\ncolour: red");
    let answer = world.publish(draft).await;
    assert_eq!(answer.status, 422);
    assert_eq!(answer.code(), "A2S210");
    let problem = answer.json();
    let found: Vec<_> = problem["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|diagnostic| diagnostic["code"].as_str().unwrap())
        .collect();
    for code in ["A2S011", "A2S031", "A2S052"] {
        assert!(found.contains(&code), "{code} in {found:?}");
    }
    assert_eq!(world.get("/v1/capabilities/BadOne").await.code(), "A2S220");
}

#[tokio::test]
async fn dependencies_are_linked_against_what_is_published() {
    let world = World::new().await;
    let parent = chain("Parent", "1.0.0", &[("Child", "^1.0")], "api.example.com");
    let answer = world.publish(parent.clone()).await;
    assert_eq!(answer.status, 422);
    let problem = answer.json();
    assert_eq!(problem["diagnostics"][0]["code"], "A2S062", "{problem}");

    world.publish_all([document("Child", "1.0.0", "Does one thing")]).await;
    assert_eq!(world.publish(parent).await.status, 201);

    // The domains of what stands below must be declared, and nothing may stand on itself.
    let narrow = chain("Narrow", "1.0.0", &[("Child", "^1.0")], "other.example.com");
    let problem = world.publish(narrow).await.json();
    assert_eq!(problem["diagnostics"][0]["code"], "A2S067", "{problem}");
    let cycle = chain("Child", "1.1.0", &[("Parent", "^1.0")], "api.example.com");
    let problem = world.publish(cycle).await.json();
    assert_eq!(problem["diagnostics"][0]["code"], "A2S066", "{problem}");
}

#[tokio::test]
async fn a_cycle_over_three_capabilities_is_refused_whoever_closes_it() {
    let world = World::new().await;
    world
        .publish_all([
            document("Third", "1.0.0", "Does one thing"),
            document("Second", "1.0.0", "Does one thing"),
            chain("First", "1.0.0", &[("Second", "^1")], "api.example.com"),
            // `First` stands on `Third` from now on, though it was published before.
            chain("Second", "1.1.0", &[("Third", "^1")], "api.example.com"),
        ])
        .await;
    let cycle = chain("Third", "1.1.0", &[("First", "^1")], "api.example.com");
    let answer = world.publish(cycle).await;
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert_eq!(answer.json()["diagnostics"][0]["code"], "A2S066");
}

#[tokio::test]
async fn missing_checksum_and_dependency_are_reported_together() {
    let world = World::new().await;
    let sealed = chain("Parent", "1.0.0", &[("Child", "^1.0")], "api.example.com");
    let draft = unseal(&sealed);
    let problem = world.publish(draft).await.json();
    let found: Vec<_> = problem["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|diagnostic| diagnostic["code"].clone())
        .collect();
    assert!(found.contains(&json!("A2S030")) && found.contains(&json!("A2S062")), "{found:?}");
}

/// Puts the placeholder back in the place of the checksum.
fn unseal(document: &str) -> String {
    let start = document.find("sha256:").unwrap();
    format!("{}<checksum>{}", &document[..start], &document[start + 71..])
}

#[tokio::test]
async fn two_names_with_one_id_are_not_published_both() {
    let world = World::new().await;
    world.publish_all([document("HttpCheck", "1.0.0", "Checks a page")]).await;
    let answer = world.publish(document("HTTPCheck", "1.0.0", "Checks a page")).await;
    assert_eq!(answer.status, 409);
    assert_eq!(answer.code(), "A2S212");
}

#[tokio::test]
async fn of_many_who_publish_one_version_at_once_exactly_one_wins() {
    let world = World::new().await;
    let documents: Vec<_> =
        (0..8).map(|n| document("Contested", "1.0.0", &format!("Variant number {n}"))).collect();
    let answers =
        futures::future::join_all(documents.iter().map(|d| world.publish(d.clone()))).await;
    let won: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(won.len(), 1);
    assert!(answers.iter().all(|answer| answer.status == 201 || answer.status == 409));
    let winner = answers.iter().position(|answer| answer.status == 201).unwrap();
    let stored = world.get("/v1/capabilities/Contested/1.0.0").await;
    assert_eq!(stored.text(), documents[winner]);
    assert_eq!(world.search("variant number").await.names(), ["Contested"]);
}

#[tokio::test]
async fn publishing_needs_the_token() {
    let world = World::new().await;
    let body = document("ListDogBreeds", "1.0.0", "Retrieve a list of dog breeds");
    for authorization in ["", "Bearer", "Bearer wrong", &format!("Basic {TOKEN}"), TOKEN] {
        let request = Request::post("/v1/capabilities")
            .header("content-type", "application/yaml")
            .header("authorization", authorization)
            .body(Body::from(body.clone()));
        let answer = world.send(request.unwrap()).await;
        assert_eq!(answer.status, 401, "{authorization}");
        assert_eq!(answer.code(), "A2S207");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    let request = Request::post("/v1/outcomes").body(Body::from("{}"));
    assert_eq!(world.send(request.unwrap()).await.code(), "A2S207");
    assert!(!format!("{:?}", world.app).contains(TOKEN));
}

#[tokio::test]
async fn useless_bodies_are_refused_and_nothing_breaks() {
    let world = World::new().await;
    let huge = format!("a2s: 1.0.0\nx-filler: \"{}\"\n", "x".repeat(1024 * 1024));
    assert_eq!(world.publish(huge).await.code(), "A2S204");
    let bodies: [&[u8]; 6] =
        [b"", b"\xff\xfe\x00", b"{", b"- just\n- a list", b"&a [*a]", b"\x00\x01\x02"];
    for body in bodies {
        assert_eq!(world.publish(body.to_vec()).await.code(), "A2S210", "{body:?}");
    }
    let nested = "[".repeat(200_000);
    assert_eq!(world.publish(nested).await.code(), "A2S210");

    let post = |kind: &str, path: &str, body: &'static str| {
        let request = Request::post(path)
            .header("content-type", kind)
            .header("authorization", format!("Bearer {TOKEN}"))
            .body(Body::from(body));
        world.send(request.unwrap())
    };
    let form = "application/x-www-form-urlencoded";
    assert_eq!(post(form, "/v1/capabilities", "a=b").await.code(), "A2S202");
    assert_eq!(post("text/plain", "/v1/search", "{}").await.code(), "A2S202");
    for body in ["", "{", "[]", " [\"x\"]", "{\"intent\": 7}", "{\"intent\": \"x\", \"colour\": 1}"]
    {
        assert_eq!(post("application/json", "/v1/search", body).await.code(), "A2S205", "{body}");
    }
    let large = format!("{{\"intent\": \"{}\"}}", "x".repeat(80_000));
    let answer = world.post("/v1/search", &serde_json::from_str(&large).unwrap()).await;
    assert_eq!(answer.code(), "A2S204");
    assert_eq!(world.get("/healthz").await.status, 204);
}

#[tokio::test]
async fn json_documents_are_as_good_as_yaml() {
    let world = World::new().await;
    let yaml = document("ListDogBreeds", "1.0.0", "Retrieve a list of dog breeds");
    let content = a2s::compile(yaml.as_bytes()).document.unwrap().content().clone();
    let answer = world.post("/v1/capabilities", &content).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    // The digest is of the content, so the YAML is the same document.
    assert_eq!(world.publish(yaml).await.status, 200);
}

#[tokio::test]
async fn answers_have_the_published_shape() {
    let world = World::new().await;
    let dogs = document_for("ListDogBreeds", "1.0.0", "List dog breeds", "dogapi.dog", &["page"]);
    assert_json_snapshot!(settled(world.publish(dogs.clone()).await.json()), @r#"
    {
      "name": "ListDogBreeds",
      "version": "1.0.0",
      "checksum": "[digest]",
      "created": true
    }
    "#);
    let problem = world.publish(dogs.replace("List dog", "Show dog")).await.json();
    let problem = json!({
        "type": problem["type"], "title": problem["title"], "status": problem["status"],
        "detail": problem["detail"], "hint": problem["hint"],
        "diagnostics": problem["diagnostics"].as_array().unwrap().len(),
    });
    assert_json_snapshot!(problem, @r#"
    {
      "type": "/errors/A2S210",
      "title": "document rejected",
      "status": 422,
      "detail": "the document has 1 error",
      "hint": "Fix every error in `diagnostics`, then publish again.",
      "diagnostics": 1
    }
    "#);
    assert_snapshot!(world.metric("publishes_total{result=\"created\"}"), @"1");
}
