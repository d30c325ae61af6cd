//! Where cargo puts what it builds, found from where the running program is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail};

/// The directory of the running build profile, such as `target/debug`.
pub fn profile_dir() -> Result<PathBuf> {
    let exe = std::env::current_exe().context("where is the running program")?;
    let dir = exe.parent().context("the running program has no directory")?;
    Ok(if is_test(dir) { dir.parent().unwrap_or(dir) } else { dir }.to_path_buf())
}

/// The name of the running program without the hash that cargo appends.
pub fn program_name() -> String {
    let stem = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.file_stem()?.to_string_lossy().into_owned()));
    let stem = stem.unwrap_or_else(|| "unknown".into());
    match stem.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => name.into(),
        _ => stem,
    }
}

/// The reaper (see [`crate::process`]), beside the running program; built if it is not there.
pub fn reaper() -> Result<PathBuf> {
    static REAPER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = REAPER.get_or_init(|| {
        let path = profile_dir().map_err(|error| format!("{error:#}"))?.join("reaper");
        if !path.exists() {
            cargo_build("reaper").map_err(|error| format!("{error:#}"))?;
        }
        Ok(path)
    });
    found.clone().map_err(anyhow::Error::msg)
}

/// svcplane: `$SVCPLANE_BIN` if set; else, from a test, the one cargo builds from the tree as it is now; else the one
/// beside the running program.
pub fn svcplane() -> Result<PathBuf> {
    static SVCPLANE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = SVCPLANE.get_or_init(|| locate_svcplane().map_err(|error| format!("{error:#}")));
    found.clone().map_err(anyhow::Error::msg)
}

fn locate_svcplane() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("SVCPLANE_BIN") {
        return Ok(path.into());
    }
    let exe = std::env::current_exe()?;
    if exe.parent().is_some_and(is_test) {
        cargo_build("svcplane")?;
    }
    let path = profile_dir()?.join("svcplane");
    if !path.exists() {
        bail!(
            "{} is missing: run cargo build -p svcplane, or set SVCPLANE_BIN",
            path.display()
        );
    }
    Ok(path)
}

fn is_test(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name == "deps" || name == "examples")
}

/// Builds one program into the same directory and with the same profile as the running one. Of the whole workspace, because cargo then
/// settles on the same features of the dependencies as `cargo test --workspace`, and does not build them all a second time.
fn cargo_build(bin: &str) -> Result<()> {
    let profile_dir = profile_dir()?;
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo tells the running test about its package. A build script that looks at one of these (ring's does)
    // would be run again, and all that depends on it compiled again, now and by the next cargo of the user's shell.
    for (name, _) in std::env::vars_os() {
        let told = ["CARGO_PKG_", "CARGO_MANIFEST_"].map(|prefix| name.to_string_lossy().starts_with(prefix));
        if told.contains(&true) {
            command.env_remove(name);
        }
    }
    let output = command
        .args(["build", "--quiet", "--profile", profile, "--target-dir"])
        .arg(profile_dir.parent().unwrap_or(&profile_dir))
        .args(["--workspace", "--bin", bin])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("starting cargo")?;
    if !output.status.success() {
        bail!(
            "cargo build --workspace --bin {bin} failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
