use insta::assert_json_snapshot;
use serde_json::json;

use super::world::{World, document, document_for, settled};

fn shelf() -> Vec<String> {
    vec![
        document_for("ListDogBreeds", "1.0.0", "Retrieve a list of dog breeds", "dogapi.dog", &[]),
        document_for(
            "GetWeatherForecast",
            "1.0.0",
            "Weather forecast for a city for the next days",
            "api.weather.com",
            &["city"],
        ),
        document_for(
            "ConvertCurrency",
            "1.0.0",
            "Convert an amount of money from one currency to another",
            "api.rates.example",
            &["amount", "source", "target"],
        ),
        document_for(
            "PostTweet",
            "1.0.0",
            "Publish a short message on Twitter",
            "api.twitter.com",
            &["text"],
        ),
        document_for(
            "SearchWikipedia",
            "1.0.0",
            "Look up an article in the encyclopedia",
            "en.wikipedia.org",
            &["title"],
        ),
    ]
}

async fn filled() -> World {
    let world = World::new().await;
    world.publish_all(shelf()).await;
    world
}

#[tokio::test]
async fn capabilities_are_found_by_meaning_and_by_words() {
    let world = filled().await;
    for (intent, expected) in [
        ("pooch kinds", "ListDogBreeds"),
        ("will it rain in Paris tomorrow?", "GetWeatherForecast"),
        ("how many euros are 20 dollars", "ConvertCurrency"),
        ("share a status update with my followers", "PostTweet"),
        ("ListDogBreeds", "ListDogBreeds"),
        ("twitter", "PostTweet"),
    ] {
        let names = world.search(intent).await.names();
        assert_eq!(names.first().map(String::as_str), Some(expected), "{intent}: {names:?}");
    }
}

#[tokio::test]
async fn an_intent_of_two_parts_finds_both() {
    let world = filled().await;
    let names =
        world.search("Check the weather in Paris, and then post it to Twitter").await.names();
    let best: Vec<_> = names.iter().take(2).map(String::as_str).collect();
    assert!(best.contains(&"GetWeatherForecast") && best.contains(&"PostTweet"), "{names:?}");
}

#[tokio::test]
async fn when_nothing_is_close_enough_the_answer_is_empty_and_says_so() {
    let world = filled().await;
    for intent in ["play the violin", "remove rust from a bicycle chain", "…"] {
        let answer = world.search(intent).await;
        assert_eq!(answer.names(), [""; 0], "{intent}: {}", answer.text());
        let answer = answer.json();
        assert_eq!(answer["metadata"]["total_matches"], 0);
        let message = answer["metadata"]["message"].as_str().unwrap();
        assert!(message.starts_with("no capability "), "{message}");
    }
    let empty = World::new().await;
    assert_eq!(
        empty.search("anything").await.json()["metadata"]["message"],
        "no capability matches"
    );
}

#[tokio::test]
async fn a_hit_has_the_published_shape() {
    let world = filled().await;
    let request = json!({"intent": "convert money to another currency", "limit": 1});
    let answer = world.post("/v1/search", &request).await.json();
    assert_json_snapshot!(settled(answer), @r#"
    {
      "capabilities": [
        {
          "id": "convert-currency",
          "score": "[0 to 1]",
          "match": "strong",
          "rank_score": "[0 to 1]",
          "description": "Convert an amount of money from one currency to another",
          "usage_count": 0,
          "success_rate": null,
          "complexity": "low",
          "required_permissions": [],
          "name": "ConvertCurrency",
          "version": "1.0.0",
          "checksum": "[digest]",
          "parameters": [
            {
              "name": "amount",
              "required": true,
              "schema": {
                "type": "string"
              }
            },
            {
              "name": "source",
              "required": true,
              "schema": {
                "type": "string"
              }
            },
            {
              "name": "target",
              "required": true,
              "schema": {
                "type": "string"
              }
            }
          ],
          "similarity": "[0 to 1]",
          "missing": [
            "amount",
            "source",
            "target"
          ],
          "explanation": [
            {
              "term": "relevance",
              "value": "[0 to 1]",
              "weight": 0.78,
              "contribution": "[0 to 1]"
            },
            {
              "term": "success_rate",
              "value": "[0 to 1]",
              "weight": 0.12,
              "contribution": "[0 to 1]"
            },
            {
              "term": "usage",
              "value": "[0 to 1]",
              "weight": 0.02,
              "contribution": "[0 to 1]"
            },
            {
              "term": "simplicity",
              "value": "[0 to 1]",
              "weight": 0.02,
              "contribution": "[0 to 1]"
            },
            {
              "term": "permissions",
              "value": "[0 to 1]",
              "weight": 0.01,
              "contribution": "[0 to 1]"
            },
            {
              "term": "service_health",
              "value": "[0 to 1]",
              "weight": 0.05,
              "contribution": "[0 to 1]"
            }
          ]
        }
      ],
      "metadata": {
        "total_matches": "[count]",
        "search_time_ms": 0.0,
        "strategy": "highest_score",
        "mode": "quality"
      }
    }
    "#);
}

#[tokio::test]
async fn only_the_live_version_is_found() {
    let world = World::new().await;
    world
        .publish_all([
            document("Tool", "1.0.0", "Waters the plants in the garden"),
            document("Tool", "2.0.0", "Feeds the cat"),
        ])
        .await;
    assert_eq!(world.search("water my garden plants").await.names(), [""; 0]);
    let hits = world.search("give the cat some food").await.json();
    assert_eq!(hits["capabilities"][0]["version"], "2.0.0");
    assert_eq!(hits["capabilities"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn searches_that_make_no_sense_are_refused() {
    let world = World::new().await;
    for (request, code) in [
        (json!({"intent": "   "}), "A2S230"),
        (json!({"intent": "x".repeat(2001)}), "A2S230"),
        (json!({"intent": "x", "limit": 0}), "A2S230"),
        (json!({"intent": "x", "limit": 101}), "A2S230"),
        (json!({"intent": "x", "strategy": "best"}), "A2S231"),
        (json!({"intent": "x", "strategy": {"vectorSimilarity": 2}}), "A2S230"),
        (json!({"intent": "x", "strategy": {}}), "A2S230"),
        (json!({"intent": "x", "strategy": {"colour": 1}}), "A2S205"),
        (json!({"intent": "x", "strategy": []}), "A2S230"),
        (json!({"intent": "x", "strategy": ["most_used", "best"]}), "A2S231"),
    ] {
        let answer = world.post("/v1/search", &request).await;
        assert_eq!(answer.code(), code, "{request}");
    }
    let unknown = json!({"intent": "x", "strategy": "best"});
    let detail = world.post("/v1/search", &unknown).await.json()["detail"].to_string();
    for preset in ["highest_score", "most_similar", "least_privilege", "healthiest"] {
        assert!(detail.contains(preset), "{detail}");
    }
}
