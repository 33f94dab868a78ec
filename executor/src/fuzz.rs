//! Checks of the fuzz targets. They are a module of the crate, because the items that they check are private.

pub mod mcp;
pub mod redirect;
