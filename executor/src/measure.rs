//! The code that `benches/requests.rs` measures. No part of the interface.

use std::sync::Arc;

use a2s::{InputLocation, Task};
use indexmap::IndexMap;
use serde_json::Value;

use crate::error::Error;
use crate::request::{self, TaskContract};

/// A task for making the same request repeatedly.
#[derive(Debug)]
pub struct RequestBench(TaskContract);

impl RequestBench {
    /// Creates a bench for a task. The first request compiles the schemas.
    #[must_use]
    pub fn of(task: Arc<Task>) -> Self {
        Self(TaskContract::new(task))
    }

    /// Creates a request, checks its values against their schemas, and returns the length of its address.
    ///
    /// # Errors
    /// Fails when the request cannot be created.
    pub fn make(&self, inputs: &IndexMap<InputLocation, Value>) -> Result<usize, Error> {
        let request = request::prepare(&self.0, inputs).map_err(Error::from)?;
        Ok(request.url().as_str().len())
    }
}
