//! `countries.trevorblades.com`: countries over GraphQL.

use async_graphql::{EmptyMutation, EmptySubscription, ID, Object, Request, Schema, SimpleObject};
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};

use super::MockServiceBuilder;

type Countries = Schema<Query, EmptyMutation, EmptySubscription>;

/// The country service. It knows `FR` and `JP`; the result for any other code is null.
#[must_use]
pub fn countries() -> MockServiceBuilder {
    let schema = Schema::new(Query, EmptyMutation, EmptySubscription);
    let router = Router::new().route("/graphql", post(answer)).with_state(schema);
    MockServiceBuilder::for_host("countries.trevorblades.com", router)
}

async fn answer(
    State(schema): State<Countries>,
    Json(request): Json<Request>,
) -> Json<async_graphql::Response> {
    Json(schema.execute(request).await)
}

struct Query;

#[Object]
impl Query {
    /// Returns the country with a code.
    async fn country(&self, code: ID) -> Option<Country> {
        let named = |name: &str| NamedEntity { name: name.to_owned() };
        match code.as_str() {
            "FR" => Some(Country {
                code,
                name: "France".to_owned(),
                native: "France".to_owned(),
                capital: Some("Paris".to_owned()),
                currency: Some("EUR".to_owned()),
                phone: "33".to_owned(),
                emoji: "🇫🇷".to_owned(),
                continent: named("Europe"),
                languages: vec![named("French")],
            }),
            "JP" => Some(Country {
                code,
                name: "Japan".to_owned(),
                native: "日本".to_owned(),
                capital: Some("Tokyo".to_owned()),
                currency: Some("JPY".to_owned()),
                phone: "81".to_owned(),
                emoji: "🇯🇵".to_owned(),
                continent: named("Asia"),
                languages: vec![named("Japanese")],
            }),
            _ => None,
        }
    }
}

/// A country.
#[derive(SimpleObject)]
struct Country {
    code: ID,
    name: String,
    native: String,
    capital: Option<String>,
    currency: Option<String>,
    phone: String,
    emoji: String,
    continent: NamedEntity,
    languages: Vec<NamedEntity>,
}

/// A continent or a language.
#[derive(SimpleObject, Clone)]
struct NamedEntity {
    name: String,
}
