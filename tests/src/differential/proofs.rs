//! Proofs that the test can fail: a controller switched off, another limit, rules broken. What flags cannot do are builds of a
//! copy of the workspace in which one line is another.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use super::pair::Setup;
use super::run::{Ended, Options, run};
use super::side::OurController;
use crate::mutate::{Change, Changed};

const CHANGES: [Change; 5] = [
    Change {
        name: "another capacity: 999 addresses instead of 1000",
        file: "controllers/src/endpoints/truncate.rs",
        line: "pub const CAPACITY: usize = 1000;",
        instead: "pub const CAPACITY: usize = 999;",
    },
    Change {
        name: "a rule broken: finished Pods are listed",
        file: "controllers/src/endpoints/compute.rs",
        line: "    if pod.phase == Phase::Finished {",
        instead: "    if pod.phase == Phase::Finished && pod.terminating {",
    },
    Change {
        name: "a rule broken: the latest change gives the trigger time",
        file: "controllers/src/endpoints/trigger.rs",
        line: "        newer.min()",
        instead: "        newer.max()",
    },
    Change {
        name: "a rule broken: a Pod that is being deleted is ready in slices",
        file: "controllers/src/endpointslice/desired.rs",
        line: "            ready: self.service.publish_not_ready || (pod.ready && !pod.terminating),",
        instead: "            ready: self.service.publish_not_ready || pod.ready,",
    },
    Change {
        name: "a rule broken: annotations of Endpoints are not mirrored",
        file: "controllers/src/mirroring/plan.rs",
        line: "    let mut annotations: Labels = endpoints.annotations.clone();",
        instead: "    let mut annotations = Labels::new();",
    },
];

/// Runs each proof with this seed and says what it found.
///
/// # Errors
/// A proof finds no difference, or the changed tree cannot be built.
pub async fn prove(ops: u64, seed: u64) -> Result<String> {
    let observes = OurController {
        observes: true,
        ..OurController::default()
    };
    let flag = |flag: &str| OurController {
        flags: vec![flag.into()],
        ..OurController::default()
    };
    let mut text = finds("the controllers switched off", observes, ops, seed).await?;
    let unmirrored = flag("--controllers=*,-endpointslice-mirroring-controller");
    text += &finds("mirroring switched off", unmirrored, ops, seed).await?;
    let limit = flag("--max-endpoints-per-slice=101");
    text += &finds("another limit: 101 endpoints in a slice", limit, ops, seed).await?;
    for change in CHANGES {
        let program = build(&change)?;
        let changed = OurController {
            program: Some(program),
            ..OurController::default()
        };
        text += &finds(change.name, changed, ops, seed).await?;
    }
    Ok(text)
}

async fn finds(name: &str, ours: OurController, ops: u64, seed: u64) -> Result<String> {
    println!("proof: {name}");
    let options = Options {
        ops,
        seed,
        state: None,
        setup: Setup {
            ours,
            ..Setup::default()
        },
        shrink: Duration::from_secs(120),
    };
    match run(&options).await? {
        Ended::Same(summary) => bail!("proof failed, {name}: no difference was found\n{summary}"),
        Ended::Differs {
            first,
            report,
            shrunken,
        } => {
            println!("{report}");
            let shortest = shrunken.map_or_else(
                || "not found again".to_string(),
                |windows| {
                    let ops: usize = windows.iter().map(|window| window.ops.len()).sum();
                    format!("shrunken to {ops} operations")
                },
            );
            Ok(format!(
                "proof {name}: found in window {}, {shortest}: {}\n",
                first.window, first.what
            ))
        }
    }
}

/// Builds svcplane from a copy of the workspace with that one line changed.
fn build(change: &Change) -> Result<PathBuf> {
    println!("building svcplane with {}: {}", change.file, change.instead.trim());
    Changed::workspace("differential-proofs", change)?.svcplane()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_is_changed_is_there_once() {
        for change in &CHANGES {
            change.check().unwrap();
        }
    }
}
