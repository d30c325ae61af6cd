//! The program behind `make run`. `ONCE=1` ends it after the demo.

use std::process::ExitCode;

use svcplane_tests::demo;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    let once = std::env::var("ONCE").is_ok_and(|v| !matches!(v.as_str(), "" | "0"));
    // Whichever way it ends, it has ended what it started.
    match demo::run(once, interrupted()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Ctrl-C or SIGTERM; never, if these signals cannot be had.
async fn interrupted() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        Ok(()) = tokio::signal::ctrl_c() => {}
        Some(()) = terminate.recv() => {}
        else => std::future::pending().await,
    }
}
