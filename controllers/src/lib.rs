//! svcplane

pub mod endpoints;
pub mod model;
