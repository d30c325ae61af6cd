//! The program behind `make run`.

use std::process::ExitCode;

use clap::Parser;
use clap::builder::FalseyValueParser;
use svcplane_tests::demo;
use tokio::signal::unix::{SignalKind, signal};

/// Shows svcplane at work on an etcd and a kube-apiserver that it starts on loopback, until Ctrl-C
#[derive(Parser)]
struct Args {
    /// Exit after the demo: with 0 if every expected state came
    #[arg(long, env = "ONCE", value_parser = FalseyValueParser::new())]
    once: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    // Whichever way it ends, it has ended what it started.
    match demo::run(args.once, interrupted()).await {
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
