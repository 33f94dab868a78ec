//! The registry as its users meet it: requests in, answers out, on real files.

pub(crate) mod database;
mod drafts;
mod durability;
pub(crate) mod embedders;
pub(crate) mod endpoint;
mod filtering;
mod findability;
mod graph;
mod history;
mod learning;
mod learning_simulation;
mod lifecycle;
mod lookalikes;
mod mirror;
mod outcome_simulation;
mod outcomes;
mod paging;
mod postgres;
mod publishing;
mod qdrant;
mod reading;
mod searching;
mod sentences;
mod services;
mod tokens;
pub(crate) mod world;
