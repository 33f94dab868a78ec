//! The registry as its users meet it: requests in, answers out, on real files.

mod durability;
mod embedders;
mod endpoint;
mod filtering;
mod graph;
mod outcomes;
mod paging;
mod publishing;
mod reading;
mod searching;
mod services;
mod world;
