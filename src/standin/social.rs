//! `api.twitter.com`: posts over GraphQL.

use std::sync::atomic::{AtomicU64, Ordering};

use async_graphql::{EmptySubscription, Error, ID, Object, Request, Schema, SimpleObject};
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};

use super::Service;

type Social = Schema<Query, Mutation, EmptySubscription>;

/// The social service: `createTweet(text)` over GraphQL. A text that is empty or longer than 280
/// characters is refused with a GraphQL error.
#[must_use]
pub fn social() -> Service {
    let schema =
        Schema::new(Query, Mutation { last: AtomicU64::new(129_384_755) }, EmptySubscription);
    Service::new(
        "api.twitter.com",
        Router::new().route("/graphql", post(answer)).with_state(schema),
    )
}

async fn answer(
    State(schema): State<Social>,
    Json(request): Json<Request>,
) -> Json<async_graphql::Response> {
    Json(schema.execute(request).await)
}

struct Query;

#[Object]
impl Query {
    /// The longest text of a tweet.
    async fn limit(&self) -> usize {
        MAX_TEXT
    }
}

struct Mutation {
    last: AtomicU64,
}

const MAX_TEXT: usize = 280;

#[Object]
impl Mutation {
    /// Posts a tweet.
    async fn create_tweet(&self, text: String) -> Result<Tweet, Error> {
        if text.trim().is_empty() || text.chars().count() > MAX_TEXT {
            return Err(Error::new(format!("a tweet has 1 to {MAX_TEXT} characters")));
        }
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Tweet { id: ID(id.to_string()), text })
    }
}

/// A post.
#[derive(SimpleObject)]
struct Tweet {
    id: ID,
    text: String,
}
