//! The real binaries that svcplane is tested against.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

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
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/build");
        let output = Command::new(script)
            .arg("--find")
            .output()
            .with_context(|| format!("starting {script}"))?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let stdout = String::from_utf8(output.stdout)?;
        let path = |program: &str| {
            let line = stdout
                .lines()
                .find_map(|line| line.strip_prefix(program)?.strip_prefix('='));
            line.map(PathBuf::from)
                .with_context(|| format!("{script} --find did not name {program}"))
        };
        Ok(Self {
            etcd: path("etcd")?,
            kube_apiserver: path("kube-apiserver")?,
            kube_controller_manager: path("kube-controller-manager")?,
            kubectl: path("kubectl")?,
        })
    }
}
