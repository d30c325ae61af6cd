//! What becomes of a difference.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::super::report::{Difference, stored};
use super::Pair;

/// More time for svcplane.
const MORE: Duration = Duration::from_secs(60);
/// Its time once the Service was touched.
const AFTER_TOUCH: Duration = Duration::from_secs(10);
/// The pause between two looks.
const POLL: Duration = Duration::from_millis(250);

impl Pair {
    /// Whether svcplane was late, had missed a change, or means what it says: it gets more time, and then the Service is touched. It is a
    /// difference all the same.
    ///
    /// # Errors
    /// An apiserver does not answer.
    pub async fn aftermath(&mut self, difference: &Difference) -> Result<String> {
        let Some(subject) = &difference.subject else {
            return Ok(String::new());
        };
        let began = Instant::now();
        if self.comes_round(difference, MORE).await? {
            let seconds = began.elapsed().as_secs_f64();
            return Ok(format!(
                "{subject}: svcplane came to say what the reference says {seconds:.1} s later\n"
            ));
        }
        self.interventions += 1;
        self.ours.touch(subject.key(), self.interventions).await?;
        let what = if self.comes_round(difference, AFTER_TOUCH).await? {
            "svcplane said what the reference says only when the Service was touched: it had missed a change"
        } else {
            "more time and a touch of the Service do not change what svcplane says"
        };
        Ok(format!("{subject}: {what}\n"))
    }

    async fn comes_round(&self, difference: &Difference, within: Duration) -> Result<bool> {
        let Some(subject) = &difference.subject else {
            return Ok(false);
        };
        let end = Instant::now() + within;
        loop {
            if stored(subject, &self.ours.snapshot().await?) == difference.theirs {
                return Ok(true);
            }
            if Instant::now() >= end {
                return Ok(false);
            }
            sleep(POLL).await;
        }
    }
}
