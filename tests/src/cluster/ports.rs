//! Free ports on loopback.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context as _, Result};

/// Runs `start` with a free port, and again with others if the port was taken between our look and its use.
pub(super) async fn with_free_port<T>(mut start: impl AsyncFnMut(u16) -> Result<T>) -> Result<T> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match start(free_port()?).await {
            Err(error) if attempts < 4 && format!("{error:#}").contains("address already in use") => {}
            result => return result,
        }
    }
}

/// Below the range from which the kernel takes ports for outgoing connections (32768 and up on Linux), so that a
/// program that is stopped for a while finds its port free when it comes back.
fn free_port() -> Result<u16> {
    (0..1000)
        .map(|_| rand::random_range(20_000..30_000))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .context("no free port between 20000 and 30000 on loopback")
}
