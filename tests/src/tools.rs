//! The real binaries that svcplane is tested against.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/build");

/// Paths of the four programs that `make tools` provides.
#[derive(Debug, Clone)]
pub struct Tools {
    /// etcd's server.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager.
    pub kube_controller_manager: PathBuf,
    /// kubectl.
    pub kubectl: PathBuf,
}

impl Tools {
    /// Asks `tests/tools/build`, the only place that knows where they are.
    ///
    /// # Errors
    /// One line that says what is missing and what to run. A test that gets it fails; it never skips.
    pub fn find() -> Result<Self> {
        let stdout = ask(&[])?;
        Ok(Self {
            etcd: path(&stdout, "etcd")?,
            kube_apiserver: path(&stdout, "kube-apiserver")?,
            kube_controller_manager: path(&stdout, "kube-controller-manager")?,
            kubectl: path(&stdout, "kubectl")?,
        })
    }
}

/// Where one of `helm4`, `helm3`, `promtool` is, which `make tools-chart` builds, or `metallb`, which `make tools-metallb` does.
///
/// # Errors
/// As [`Tools::find`].
pub fn other_tool(program: &str) -> Result<PathBuf> {
    path(&ask(&[program])?, program)
}

fn ask(programs: &[&str]) -> Result<String> {
    let output = Command::new(SCRIPT)
        .arg("--find")
        .args(programs)
        .output()
        .with_context(|| format!("starting {SCRIPT}"))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn path(found: &str, program: &str) -> Result<PathBuf> {
    let line = found
        .lines()
        .find_map(|line| line.strip_prefix(program)?.strip_prefix('='));
    line.map(PathBuf::from)
        .with_context(|| format!("{SCRIPT} --find did not name {program}"))
}
