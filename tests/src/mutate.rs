//! The workspace with one line changed: what a test is worth shows when a rule is broken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::binaries;

/// One line of the product, and what it is changed to.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// In words.
    pub name: &'static str,
    /// In the workspace.
    pub file: &'static str,
    /// The line as it stands there, once.
    pub line: &'static str,
    /// What it becomes.
    pub instead: &'static str,
}

impl Change {
    /// The changed text of the file.
    ///
    /// # Errors
    /// The line is not there, or more than once.
    pub fn check(&self) -> Result<String> {
        let file = workspace()?.join(self.file);
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let found = text.lines().filter(|line| *line == self.line).count();
        ensure!(
            found == 1,
            "{}: the line to change is there {found} times: {}",
            self.file,
            self.line
        );
        let lines = text
            .lines()
            .map(|line| if line == self.line { self.instead } else { line });
        Ok(lines.map(|line| format!("{line}\n")).collect())
    }
}

/// A copy of the workspace that is not the original.
#[derive(Debug)]
pub struct Changed {
    tree: PathBuf,
    target: PathBuf,
}

impl Changed {
    /// Makes one, instead of the last one of this name. What was built for that is used again.
    ///
    /// # Errors
    /// It cannot be copied, or the line is not there.
    pub fn workspace(name: &str, change: &Change) -> Result<Self> {
        let profile_dir = binaries::profile_dir()?;
        let place = profile_dir.parent().unwrap_or(&profile_dir).join(name);
        let changed = Self {
            tree: place.join("tree"),
            target: place.join("target"),
        };
        let text = change.check()?;
        copy(&workspace()?, &changed.tree)?;
        let file = changed.tree.join(change.file);
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        Ok(changed)
    }

    /// Builds svcplane of it.
    ///
    /// # Errors
    /// It does not build.
    pub fn svcplane(&self) -> Result<PathBuf> {
        let built = self.cargo(&["build", "--quiet", "-p", "svcplane", "--bin", "svcplane"])?;
        ensure!(built, "the changed tree does not build");
        Ok(self.target.join("debug/svcplane"))
    }

    /// Whether cargo succeeds there.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn cargo(&self, args: &[&str]) -> Result<bool> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let status = command
            .args(args)
            .env("CARGO_TARGET_DIR", &self.target)
            .current_dir(&self.tree)
            .status()
            .context("starting cargo")?;
        Ok(status.success())
    }
}

fn workspace() -> Result<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(tests.parent().context("the workspace")?.to_owned())
}

/// What a build needs, without what builds leave. What is there already and the same keeps its time, so that it is not built again.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let (name, copy) = (entry.file_name(), to.join(entry.file_name()));
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            self::copy(&entry.path(), &copy)?;
        } else if fs::read(&copy).ok() != Some(fs::read(entry.path())?) {
            fs::copy(entry.path(), &copy)?;
        }
    }
    Ok(())
}
