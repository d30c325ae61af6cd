//! Commands of svcplane that end by themselves, and how they ended.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::process::Command;

use crate::binaries;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
}

/// Runs a command of svcplane with this kubeconfig and nothing on its standard input.
///
/// # Errors
/// It does not start, does not end in time, is killed, or prints what is no text.
pub async fn svcplane(kubeconfig: &Path, args: &[&str], limit: Duration) -> Result<Ran> {
    let mut command = Command::new(binaries::svcplane()?);
    command.args(args).env("KUBECONFIG", kubeconfig);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(limit, command.output()).await;
    let output = output.with_context(|| format!("svcplane {args:?} has not ended after {limit:?}"))??;
    Ok(Ran {
        code: output.status.code().context("killed")?,
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}
