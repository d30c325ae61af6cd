//! Waiting for a quiet point.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::side::{Side, Versions};

/// The pause between two looks.
const POLL: Duration = Duration::from_millis(250);

/// Since when each side's Endpoints and slices have not changed.
pub struct Quiet {
    ours: (Versions, Instant),
    theirs: (Versions, Instant),
}

impl Quiet {
    /// From now on.
    pub async fn begin(ours: &Side, theirs: &Side) -> Result<Self> {
        let (a, b) = tokio::try_join!(ours.versions(), theirs.versions())?;
        let now = Instant::now();
        Ok(Self {
            ours: (a, now),
            theirs: (b, now),
        })
    }

    /// Waits until both sides have been quiet for `quiet`, at most until `end`.
    pub async fn wait(&mut self, ours: &Side, theirs: &Side, quiet: Duration, end: Instant) -> Result<()> {
        loop {
            self.look(ours, theirs).await?;
            if self.theirs_for().min(self.ours.1.elapsed()) >= quiet || Instant::now() >= end {
                return Ok(());
            }
            sleep(POLL).await;
        }
    }

    async fn look(&mut self, ours: &Side, theirs: &Side) -> Result<()> {
        let (a, b) = tokio::try_join!(ours.versions(), theirs.versions())?;
        for (last, now) in [(&mut self.ours, a), (&mut self.theirs, b)] {
            if last.0 != now {
                *last = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// How long the reference has been quiet.
    pub fn theirs_for(&self) -> Duration {
        self.theirs.1.elapsed()
    }
}
