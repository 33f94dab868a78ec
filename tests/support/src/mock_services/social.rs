//! `api.twitter.com`: posts over GraphQL.

use std::sync::Mutex;

use async_graphql::{Context, EmptySubscription, Error, ID, Object, Request, Schema, SimpleObject};
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};

use super::MockServiceBuilder;

type Social = Schema<Query, Mutation, EmptySubscription>;

/// The posts, oldest first.
type Tweets = Mutex<Vec<Tweet>>;

/// The social service: `createTweet(text)` and `tweets` over GraphQL. It rejects a text that is empty or
/// longer than 280 characters with a GraphQL error.
#[must_use]
pub fn social() -> MockServiceBuilder {
    let schema = Schema::build(Query, Mutation, EmptySubscription).data(Tweets::default()).finish();
    MockServiceBuilder::for_host(
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

const MAX_TEXT: usize = 280;
/// The number before the number of the first tweet.
const BEFORE_FIRST: usize = 129_384_755;

struct Query;

#[Object]
impl Query {
    /// Returns all tweets, newest first.
    async fn tweets(&self, context: &Context<'_>) -> Result<Vec<Tweet>, Error> {
        let tweets = context.data::<Tweets>()?.lock().unwrap();
        Ok(tweets.iter().rev().cloned().collect())
    }
}

struct Mutation;

#[Object]
impl Mutation {
    /// Posts a tweet.
    async fn create_tweet(&self, context: &Context<'_>, text: String) -> Result<Tweet, Error> {
        if text.trim().is_empty() || text.chars().count() > MAX_TEXT {
            return Err(Error::new(format!("a tweet has 1 to {MAX_TEXT} characters")));
        }
        let mut tweets = context.data::<Tweets>()?.lock().unwrap();
        let id = BEFORE_FIRST + tweets.len() + 1;
        let tweet = Tweet { id: ID(id.to_string()), text };
        tweets.push(tweet.clone());
        Ok(tweet)
    }
}

/// A post.
#[derive(SimpleObject, Clone)]
struct Tweet {
    id: ID,
    text: String,
}
