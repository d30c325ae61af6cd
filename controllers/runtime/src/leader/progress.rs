//! How the election fares, for probes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::args::LeaseConfig;
use super::record::Stamp;

/// How long the task may be silent beyond what its settings explain (client-go's tolerance for its health check).
const SILENCE_TOLERANCE: Duration = Duration::from_secs(20);

/// When the election's task last did anything, for `/livez`, and whether it has seen its Lease, for `/readyz`. Clones share it.
#[derive(Clone, Debug)]
pub struct Progress {
    last: Arc<Mutex<Instant>>,
    limit: Duration,
    /// Why the Lease was not seen yet.
    unseen: Arc<Mutex<Option<String>>>,
}

impl Progress {
    /// Of an election that begins now.
    pub(super) fn new(config: &LeaseConfig) -> Self {
        let timing = config.timing;
        let longest_pause = timing.retry_period.saturating_mul(3).max(timing.renew_deadline);
        Self {
            last: Arc::new(Mutex::new(Stamp::now().monotonic)),
            limit: longest_pause.saturating_add(SILENCE_TOLERANCE),
            unseen: Arc::new(Mutex::new(Some(format!("Lease {config} was not looked at yet")))),
        }
    }

    /// The task did something.
    pub(super) fn goes_on(&self, now: Instant) {
        *self.last.lock() = now;
    }

    /// The Lease was found or made.
    pub(super) fn found(&self) {
        *self.unseen.lock() = None;
    }

    /// The Lease could not be read or written.
    pub(super) fn fails(&self, why: impl FnOnce() -> String) {
        if let Some(unseen) = self.unseen.lock().as_mut() {
            *unseen = why();
        }
    }

    /// Whether the task is alive `now`.
    ///
    /// # Errors
    /// With a text for people, when it has been silent for longer than its settings explain.
    pub fn check(&self, now: Instant) -> Result<(), String> {
        let silent = now.saturating_duration_since(*self.last.lock());
        if silent <= self.limit {
            return Ok(());
        }
        Err(format!(
            "the leader election has done nothing for {} s",
            silent.as_secs()
        ))
    }

    /// Whether the Lease was ever found or made. Until it was, nobody can lead, and patience may not be enough.
    ///
    /// # Errors
    /// With a text for people, when it was not.
    pub fn seen(&self) -> Result<(), String> {
        self.unseen.lock().clone().map_or(Ok(()), Err)
    }
}
