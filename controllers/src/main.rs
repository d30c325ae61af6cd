//! svcplane
fn main() {}
