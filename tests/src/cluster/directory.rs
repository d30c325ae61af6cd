//! Where logs and credentials of a cluster go: `target/kit/<program>/<pid>/<number>-<flavour>`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, test_kill_process};

use crate::binaries;

/// How many earlier runs of the same program keep their logs.
const KEEP: usize = 3;

/// A new directory, named by its purpose.
pub(crate) fn create(label: &str) -> Result<PathBuf> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    let run = match RUN.get() {
        Some(run) => run,
        None => {
            let profile_dir = binaries::profile_dir()?;
            let target = profile_dir.parent().unwrap_or(&profile_dir);
            let program = target.join("kit").join(binaries::program_name());
            remove_old_runs(&program);
            RUN.get_or_init(|| program.join(std::process::id().to_string()))
        }
    };
    let directory = run.join(format!("{}-{label}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    Ok(directory)
}

fn remove_old_runs(program: &Path) {
    let Ok(entries) = fs::read_dir(program) else { return };
    let mut dead: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter(|entry| !is_alive(&entry.file_name().to_string_lossy()))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    dead.sort();
    let surplus = dead.len().saturating_sub(KEEP);
    for (_, run) in dead.into_iter().take(surplus) {
        // Another process of the same program may be removing it too.
        let _ = fs::remove_dir_all(run);
    }
}

fn is_alive(pid: &str) -> bool {
    pid.parse()
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| test_kill_process(pid).is_ok())
}
