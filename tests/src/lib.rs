//! tests

pub mod proxy;
