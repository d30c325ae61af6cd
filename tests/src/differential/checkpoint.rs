//! Where a long run has got to, so that it can go on after it was ended.
//!
//! Kept are the seed, the windows done and the counts. The operations follow from the seed; on the way back they are
//! made again, and fresh clusters are filled with the world that they lead to. What that leaves out: Endpoints that a
//! Service left behind when it lost its selector, and users' annotations on Endpoints.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::exempt::Tally;
use super::generate::Generator;
use super::ops::Window;
use super::pair::Figures;

/// The state of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Of the stream.
    pub seed: u64,
    /// Windows that were equal.
    pub windows: u64,
    /// Operations in them.
    pub ops: u64,
    /// Writes by svcplane and by the reference, and their slices.
    pub figures: Figures,
    /// Seconds spent.
    pub seconds: u64,
    /// How often it was begun.
    pub sittings: u64,
    /// Counts.
    pub tally: Tally,
    /// Of the operations so far: they must be the same when they are made again.
    digest: u64,
    /// Of the svcplane that was tested, and how: what another one did says nothing.
    build: u64,
}

impl Checkpoint {
    /// The one in this directory, or a new one if there is none or it is another program's or was run in another way.
    pub fn load(directory: Option<&Path>, seed: u64, program: &Path, setup: &str) -> Result<Self> {
        let mut build = DefaultHasher::new();
        let content = fs::read(program).with_context(|| format!("reading {}", program.display()))?;
        content.hash(&mut build);
        setup.hash(&mut build);
        let new = Self {
            seed,
            build: build.finish(),
            ..Self::default()
        };
        let Some(path) = directory.map(file) else {
            return Ok(new);
        };
        if !path.exists() {
            return Ok(new);
        }
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let found: Self = serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        ensure!(
            found.seed == seed,
            "{} belongs to seed {}: give another directory",
            path.display(),
            found.seed
        );
        if found.build != new.build {
            println!(
                "{}: of another build of svcplane, or run in another way: begun anew",
                path.display()
            );
            return Ok(new);
        }
        Ok(found)
    }

    /// Keeps it.
    pub fn save(&self, directory: Option<&Path>) -> Result<()> {
        let Some(directory) = directory else { return Ok(()) };
        fs::create_dir_all(directory)?;
        let unfinished = directory.join("state.json.new");
        fs::write(&unfinished, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&unfinished, file(directory)).context("keeping the state of the run")
    }

    /// Notes one more window.
    pub fn advance(&mut self, window: &Window) -> Result<()> {
        self.windows += 1;
        self.ops += window.ops.len() as u64;
        self.digest = digest(self.digest, window)?;
        Ok(())
    }

    /// The windows so far, made again.
    pub fn history(&self, generator: &mut Generator) -> Result<Vec<Window>> {
        let windows: Vec<Window> = (0..self.windows).map(|_| generator.window()).collect();
        let again = windows.iter().try_fold(0, digest)?;
        ensure!(
            again == self.digest,
            "the seed does not give the operations any more that this run began with: begin a new one"
        );
        Ok(windows)
    }
}

/// While it is held, no other run uses the directory.
pub fn lock(directory: Option<&Path>) -> Result<Option<File>> {
    let Some(directory) = directory else { return Ok(None) };
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    let file = File::create(directory.join("lock"))?;
    let held = file.try_lock();
    held.with_context(|| format!("{} is in use by another run", directory.display()))?;
    Ok(Some(file))
}

fn file(directory: &Path) -> PathBuf {
    directory.join("state.json")
}

fn digest(so_far: u64, window: &Window) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    so_far.hash(&mut hasher);
    serde_json::to_string(window)?.hash(&mut hasher);
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_where_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let place = Some(directory.path());
        let program = directory.path().join("program");
        fs::write(&program, "one").unwrap();
        let held = lock(place).unwrap();
        assert!(lock(place).is_err(), "in use");
        drop(held);
        let _held = lock(place).unwrap();
        let mut generator = Generator::new(5);
        let mut checkpoint = Checkpoint::load(place, 5, &program, "").unwrap();
        let done: Vec<Window> = (0..7).map(|_| generator.window()).collect();
        for window in &done {
            checkpoint.advance(window).unwrap();
            checkpoint.save(place).unwrap();
        }
        let found = Checkpoint::load(place, 5, &program, "").unwrap();
        let mut again = Generator::new(5);
        assert_eq!(found.history(&mut again).unwrap(), done);
        assert_eq!(again.window(), generator.window());
        assert_eq!(
            found.ops,
            done.iter().map(|window| window.ops.len() as u64).sum::<u64>()
        );

        assert!(Checkpoint::load(place, 6, &program, "").is_err(), "another seed");
        assert!(found.history(&mut Generator::new(6)).is_err(), "other operations");
        assert_eq!(
            Checkpoint::load(place, 5, &program, "otherwise").unwrap().windows,
            0,
            "run in another way"
        );
        fs::write(&program, "another").unwrap();
        assert_eq!(
            Checkpoint::load(place, 5, &program, "").unwrap().windows,
            0,
            "another build"
        );
    }
}
