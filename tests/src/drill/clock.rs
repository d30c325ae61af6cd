//! A wrong wall clock for one process: a few lines of C (`clock.c`) between the program and libc. A time namespace would not
//! do, because it shifts the monotonic clocks only.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};

use crate::binaries;
use crate::svcplane::Builder;

const SOURCE: &str = include_str!("clock.c");

/// `builder` with a wall clock that is ahead of the machine's by so many seconds, or behind it.
///
/// # Errors
/// There is no C compiler, or it refuses.
pub fn shifted(builder: Builder, seconds: i64) -> Result<Builder> {
    if seconds == 0 {
        return Ok(builder);
    }
    let library = library()?;
    Ok(builder
        .env("LD_PRELOAD", &library.display().to_string())
        .env("SVCPLANE_CLOCK_OFFSET", &seconds.to_string()))
}

/// Compiled once by each process that needs it, into the build directory.
fn library() -> Result<PathBuf> {
    static LIBRARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = LIBRARY.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(anyhow::Error::msg)
}

fn build() -> Result<PathBuf> {
    let directory = binaries::profile_dir()?;
    let source = tempfile::Builder::new()
        .suffix(".c")
        .tempfile_in(&directory)
        .with_context(|| format!("writing into {}", directory.display()))?;
    std::fs::write(source.path(), SOURCE)?;
    // Under another name first: another process may be starting a program with it.
    let fresh = source.path().with_extension("so");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .args([fresh.as_path(), source.path()])
        .arg("-ldl")
        .output()
        .context("starting cc: the drill with wrong clocks needs a C compiler")?;
    ensure!(
        output.status.success(),
        "cc cannot compile clock.c:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let library = directory.join("svcplane-clock.so");
    std::fs::rename(&fresh, &library)?;
    Ok(library)
}
