//! svcplane
