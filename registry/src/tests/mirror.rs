//! What a mirror may change: what it has copied from its source.

use a2s::Digest;
use axum::body::Body;
use axum::http::Request;
use serde_json::Value;

use super::world::{Answer, TOKEN, World, document};

const SOURCE: &str = "https://registry.example.com/";
const OTHER: &str = "https://other.example.com/";

fn dogs(version: &str) -> String {
    document("Dogs", version, "Retrieve a list of dog breeds")
}

fn checksum(document: &str) -> Digest {
    a2s::compile(document.as_bytes()).digest.unwrap()
}

/// A mirror of `source` with a token.
struct Mirror<'w> {
    world: &'w World,
    token: &'w str,
    source: &'w str,
}

impl Mirror<'_> {
    async fn send(&self, path: &str, kind: &str, checksum: Option<Digest>, body: String) -> Answer {
        let request = Request::post(format!("/v1/capabilities{path}"))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", kind)
            .header("a2s-mirror", self.source);
        let request = match checksum {
            Some(checksum) => request.header("a2s-mirror-checksum", checksum.to_string()),
            None => request,
        };
        self.world.send(request.body(Body::from(body)).unwrap()).await
    }

    async fn publish(&self, document: String) -> Answer {
        self.send("", "application/yaml", None, document).await
    }

    async fn turn(&self, target: &str, verb: &str, checksum: Option<Digest>) -> Answer {
        let path = format!("/{target}/{verb}");
        self.send(&path, "application/json", checksum, "{}".to_owned()).await
    }
}

#[tokio::test]
async fn a_pin_does_not_move_to_build_metadata_on_a_mirror() {
    let world = World::new().await;
    let token = world.token("mirror", &["publish"]).await;
    let mirror = Mirror { world: &world, token: &token, source: SOURCE };
    for version in ["1.0.0", "1.0.0+b"] {
        assert_eq!(mirror.publish(dogs(version)).await.status, 201, "{version}");
    }
    for (selector, selected) in [("=1.0.0", "1.0.0"), ("1.0.0+b", "1.0.0+b"), ("^1.0.0", "1.0.0+b")]
    {
        let document = world.get(&format!("/v1/capabilities/Dogs/{selector}")).await;
        let version = format!("\nversion: \"{selected}\"\n");
        assert!(document.text().contains(&version), "{selector}: {}", document.text());
    }
}

#[tokio::test]
async fn a_mirror_changes_what_it_has_copied_and_nothing_else() {
    let world = World::new().await;
    let token = world.token("mirror", &["publish"]).await;
    let mirror = Mirror { world: &world, token: &token, source: SOURCE };
    world.publish_all([dogs("1.0.0")]).await;
    // The mirror's own token may own the name; it did not create it.
    let path = "/v1/capabilities/Dogs/owners";
    let add = serde_json::json!({"add": "mirror"});
    assert_eq!(world.ask(Some(TOKEN), "POST", path, Some(&add)).await.status, 200);
    let taken = mirror.publish(dogs("99.0.0")).await;
    assert_eq!((taken.status.as_u16(), taken.code().as_str()), (403, "A2S216"), "{}", taken.text());
    assert_eq!(mirror.publish(dogs("1.0.0")).await.status, 200, "it is the same");
    let local = Some(checksum(&dogs("1.0.0")));
    for verb in ["yank", "unyank", "deprecate"] {
        assert_eq!(mirror.turn("Dogs/1.0.0", verb, local).await.code(), "A2S216", "{verb}");
    }

    // A free name is the source's, until somebody else publishes a version of it here.
    let cats = |version: &str| document("Cats", version, "Cats");
    assert_eq!(mirror.publish(cats("1.0.0")).await.status, 201);
    assert_eq!(mirror.publish(cats("1.1.0")).await.status, 201);
    let (first, second) = (Some(checksum(&cats("1.0.0"))), Some(checksum(&cats("1.1.0"))));
    for (verb, answer) in [("yank", "yanked"), ("unyank", "yanked"), ("deprecate", "changed")] {
        let turned = mirror.turn("Cats/1.0.0", verb, first).await;
        assert_eq!(turned.status, 200, "{}", turned.text());
        assert_eq!(turned.json()[answer], verb != "unyank", "{verb}");
    }
    assert_eq!(mirror.turn("Cats/1.0.0", "yank", second).await.code(), "A2S216");
    assert_eq!(mirror.turn("Cats/1.0.0", "yank", None).await.code(), "A2S206");
    let other = Mirror { source: OTHER, ..mirror };
    assert_eq!(other.publish(cats("2.0.0")).await.code(), "A2S216");
    assert_eq!(other.turn("Cats/1.1.0", "yank", second).await.code(), "A2S216");
    world.publish_all([cats("1.2.0")]).await;
    let mirror = Mirror { source: SOURCE, ..other };
    let third = Some(checksum(&cats("1.2.0")));
    assert_eq!(mirror.turn("Cats/1.2.0", "yank", third).await.code(), "A2S216");
    assert_eq!(mirror.publish(cats("1.3.0")).await.status, 201);
    let list = world.get("/v1/mirrors").await.json();
    let copied = &list["mirrors"][0];
    assert_eq!(
        (&copied["source"], &copied["capabilities"], &copied["versions"]),
        (&SOURCE.into(), &1.into(), &3.into()),
        "{list}"
    );
    assert_eq!(list["mirrors"].as_array().unwrap().len(), 1);
    let owners = mirror.send("/Cats/owners", "application/json", None, add.to_string()).await;
    assert_eq!(owners.code(), "A2S206");
}

#[tokio::test]
async fn mirror_refuses_tokens_that_own_foreign_names() {
    let world = World::new().await;
    let admin = world.token("root", &["publish", "admin"]).await;
    for token in [TOKEN, &admin] {
        let mirror = Mirror { world: &world, token, source: SOURCE };
        let refused = mirror.publish(dogs("1.0.0")).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, "A2S217"));
        let hint = refused.json()["hint"].as_str().unwrap().to_owned();
        assert!(hint.contains("--scope publish"), "{hint}");
    }
    let token = world.token("mirror", &["publish"]).await;
    for bad in ["", "two words", &"x".repeat(1_025)] {
        let mirror = Mirror { world: &world, token: &token, source: bad };
        assert_eq!(mirror.publish(dogs("1.0.0")).await.code(), "A2S206", "{bad}");
    }
    let changes = world.get("/v1/changes").await.json();
    assert_eq!(changes["changes"], Value::Array(Vec::new()));
}
