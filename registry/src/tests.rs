//! The registry as its users meet it: requests in, answers out, on real files.

mod durability;
mod publishing;
mod reading;
mod searching;
mod world;
