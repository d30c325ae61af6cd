//! What kube-controller-manager tries again: it forgets the trigger time then, and waits.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::super::ops::Key;
use super::Side;

/// What is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Endpoints,
    Slices,
    Mirrored,
}

/// What it logs then, and when it gives up; and under which word it names the Service.
const MESSAGES: [(&str, &str, What); 6] = [
    ("\"Error syncing endpoints, retrying\"", "service", What::Endpoints),
    ("\"Dropping service out of the queue\"", "service", What::Endpoints),
    (
        "\"Error syncing endpoint slices for service, retrying\"",
        "key",
        What::Slices,
    ),
    (
        "\"Retry budget exceeded, dropping service out of the queue\"",
        "key",
        What::Slices,
    ),
    (
        "\"Error mirroring EndpointSlices for Endpoints, retrying\"",
        "key",
        What::Mirrored,
    ),
    (
        "\"Retry budget exceeded, dropping Endpoints out of the queue\"",
        "key",
        What::Mirrored,
    ),
];

/// The Services for which something was tried again, each as often as that was.
#[derive(Debug, Default)]
pub struct Tried {
    /// Their Endpoints.
    pub endpoints: Vec<Key>,
    /// Their slices.
    pub slices: Vec<Key>,
    /// Slices that mirror their Endpoints.
    pub mirrored: Vec<Key>,
}

impl Tried {
    /// All together.
    pub fn count(&self) -> usize {
        self.endpoints.len() + self.slices.len() + self.mirrored.len()
    }
}

/// Its log from a moment on.
pub struct Retries {
    log: PathBuf,
    from: u64,
}

impl Retries {
    /// From now on.
    ///
    /// # Errors
    /// There is no log.
    pub fn from_now(side: &Side) -> Result<Self> {
        let log = side.cluster.directory().join("kube-controller-manager.log");
        let from = fs::metadata(&log).with_context(|| format!("{}", log.display()))?.len();
        Ok(Self { log, from })
    }

    /// What was tried again since.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn tried(&self, side: &Side) -> Result<Tried> {
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.from))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let spaces = side.numbers();
        let mut tried = Tried::default();
        for (what, service) in String::from_utf8_lossy(&text).lines().filter_map(retry) {
            let Some((space, name)) = service.split_once('/') else {
                continue;
            };
            let Some(space) = spaces.get(space) else { continue };
            let list = match what {
                What::Endpoints => &mut tried.endpoints,
                What::Slices => &mut tried.slices,
                What::Mirrored => &mut tried.mirrored,
            };
            list.push(Key::new(*space, name));
        }
        Ok(tried)
    }
}

/// The Service that a line of the log says is tried again.
fn retry(line: &str) -> Option<(What, String)> {
    let (_, word, what) = MESSAGES.iter().find(|(message, ..)| line.contains(message))?;
    let (_, rest) = line.split_once(&format!(" {word}=\""))?;
    Some((*what, rest.split_once('"')?.0.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{What, retry};

    #[test]
    fn a_retry_is_read_from_the_log() {
        let line = |message: &str, word: &str| {
            format!(
                r#"I1130 21:00:00.000000       1 x.go:338] "{message}" logger="x" {word}="d2-abc/s4" err="key=\"y\"""#
            )
        };
        let table = [
            ("Error syncing endpoints, retrying", "service", Some(What::Endpoints)),
            (
                "Error syncing endpoint slices for service, retrying",
                "key",
                Some(What::Slices),
            ),
            (
                "Retry budget exceeded, dropping Endpoints out of the queue",
                "key",
                Some(What::Mirrored),
            ),
            ("Error syncing pod, retrying", "service", None),
        ];
        for (message, word, what) in table {
            let found = retry(&line(message, word));
            assert_eq!(found, what.map(|what| (what, "d2-abc/s4".to_owned())), "{message}");
        }
    }
}
