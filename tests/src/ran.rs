//! Commands that end by themselves, svcplane's first of all, and how they ended.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::binaries;
use crate::cluster::Cluster;

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

impl Ran {
    /// What it printed.
    ///
    /// # Errors
    /// It failed; what it printed and complained of: `kubectl diff` fails with the differences on its standard output.
    pub fn succeeded(self) -> Result<String> {
        let Self { code, stdout, stderr } = self;
        anyhow::ensure!(code == 0, "exit code {code}: {}", (stdout + &stderr).trim());
        Ok(stdout)
    }
}

/// Runs a command of svcplane with this kubeconfig and nothing on its standard input.
///
/// # Errors
/// It does not start, does not end in time, is killed, or prints what is no text.
pub async fn svcplane(kubeconfig: &Path, args: &[&str], limit: Duration) -> Result<Ran> {
    program(&binaries::svcplane()?, kubeconfig, args, "", limit).await
}

/// Runs kubectl as the cluster's `admin`, with this on its standard input.
///
/// # Errors
/// It fails; with what it complains of. As of `svcplane`, too.
pub async fn kubectl(cluster: &Cluster, args: &[&str], input: &str, limit: Duration) -> Result<String> {
    let kubectl = &cluster.tools().kubectl;
    let ran = program(kubectl, &cluster.kubeconfig(), args, input, limit).await?;
    ran.succeeded().with_context(|| format!("kubectl {args:?}"))
}

/// Runs a program with this kubeconfig and this standard input.
///
/// # Errors
/// As of `svcplane`.
pub async fn program(program: &Path, kubeconfig: &Path, args: &[&str], input: &str, limit: Duration) -> Result<Ran> {
    let mut command = Command::new(program);
    command.args(args).env("KUBECONFIG", kubeconfig).kill_on_drop(true);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    let give = async move {
        // Who does not read what it is given may have ended.
        let _ = stdin.write_all(input.as_bytes()).await;
    };
    let ended = async { tokio::join!(give, child.wait_with_output()).1 };
    let output = tokio::time::timeout(limit, ended).await;
    let output = output.with_context(|| format!("{} {args:?} has not ended after {limit:?}", program.display()))??;
    Ok(Ran {
        code: output.status.code().context("killed")?,
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}
