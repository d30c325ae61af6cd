//! Proofs that the test can fail: a controller switched off, another limit, rules broken. What flags cannot do are builds of a
//! copy of the workspace in which one line is another.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::pair::Setup;
use super::run::{Ended, Options, run};
use super::side::OurController;
use crate::binaries;

/// One line of the product, and what it is changed to.
struct Change {
    name: &'static str,
    file: &'static str,
    line: &'static str,
    instead: &'static str,
}

impl Change {
    /// How often the line is there.
    fn times_in(&self, text: &str) -> usize {
        text.lines().filter(|line| *line == self.line).count()
    }
}

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
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the workspace")?;
    let profile_dir = binaries::profile_dir()?;
    let place = profile_dir.parent().unwrap_or(&profile_dir).join("differential-proofs");
    let (tree, target) = (place.join("tree"), place.join("target"));
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    copy(workspace, &tree)?;
    let file = tree.join(change.file);
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let found = change.times_in(&text);
    ensure!(
        found == 1,
        "{}: the line to change is there {found} times: {}",
        change.file,
        change.line
    );
    fs::write(&file, text.replacen(change.line, change.instead, 1))?;
    println!("building svcplane with {}: {}", change.file, change.instead.trim());
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args([
        "build",
        "--quiet",
        "-p",
        "svcplane",
        "--bin",
        "svcplane",
        "--target-dir",
    ]);
    let status = command
        .arg(&target)
        .current_dir(&tree)
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "the changed tree does not build");
    Ok(target.join("debug").join("svcplane"))
}

/// What a build needs, without what builds leave.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to.join(&name))?;
        } else {
            fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_is_changed_is_there_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for change in &CHANGES {
            let text = fs::read_to_string(root.join(change.file)).unwrap();
            assert_eq!(change.times_in(&text), 1, "{}: {}", change.file, change.line);
        }
    }
}
