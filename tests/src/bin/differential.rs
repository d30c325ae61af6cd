//! The differential test at full length: `make differential`, `make differential-proofs`, `make soak`. Exit code 1: a difference.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use svcplane_tests::differential::{Controllers, Ended, Options, OurController, Setup, prove, replay, run};

/// One stream of random operations on two clusters, one kept by svcplane and one by kube-controller-manager, whose
/// Endpoints and EndpointSlices must be equal at each quiet point.
#[derive(Debug, Parser)]
struct Args {
    /// Operations at least.
    #[arg(long, default_value_t = 3000)]
    ops: u64,
    /// The same seed gives the same operations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the state here after each window, and go on from it.
    #[arg(long, value_name = "DIRECTORY")]
    state: Option<PathBuf>,
    /// Apply a kept stream again instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["state", "prove"])]
    replay: Option<PathBuf>,
    /// Which controllers run on both sides.
    #[arg(long, value_enum, default_value_t = Choice::All)]
    controllers: Choice,
    /// Endpoints in one slice, on both sides. Few make many slices of few Pods.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_endpoints_per_slice: u16,
    /// svcplane only observes: a difference must be found.
    #[arg(long, conflicts_with = "state")]
    controller_off: bool,
    /// Prove that differences are found: controllers off, other limits, rules broken. Exit code 0: all were.
    #[arg(long, conflicts_with = "state")]
    prove: bool,
    /// How long to look for a shorter stream that still differs.
    #[arg(long, default_value_t = 300)]
    shrink_seconds: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Choice {
    /// endpoints-controller alone.
    Endpoints,
    /// Endpoints, EndpointSlices and mirroring.
    All,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if args.prove {
        return match prove(args.ops, args.seed).await {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(error) => failed(&error),
        };
    }
    let options = Options {
        ops: args.ops,
        seed: args.seed,
        state: args.state,
        setup: Setup {
            ours: OurController {
                observes: args.controller_off,
                ..OurController::default()
            },
            controllers: match args.controllers {
                Choice::Endpoints => Controllers::Endpoints,
                Choice::All => Controllers::All,
            },
            slice_limit: args.max_endpoints_per_slice.into(),
        },
        shrink: Duration::from_secs(args.shrink_seconds),
    };
    let ended = match &args.replay {
        Some(file) => replay(file, &options).await,
        None => run(&options).await,
    };
    match ended {
        Ok(Ended::Same(summary)) => {
            print!("{summary}");
            ExitCode::SUCCESS
        }
        Ok(Ended::Differs { report, .. }) => {
            print!("{report}");
            ExitCode::FAILURE
        }
        Err(error) => failed(&error),
    }
}

/// The test itself failed: neither the same nor different.
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("differential: {error:#}");
    ExitCode::from(2)
}
