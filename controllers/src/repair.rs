//! The repair controller: the leader looks at all stored ClusterIPs, IPAddresses and nodePorts now and then, and tells what is wrong with
//! them, as Events and metrics. The rules are those of `svcplane audit`.
//!
//! kube-apiserver mends what can be mended: it makes and deletes its IPAddresses itself. What is left needs a person, so nothing is written here
//! but Events. The books of admission have no part in it: a fault of theirs would hide here.

mod metrics;
mod told;

use std::time::{Duration, Instant};

use kube::Client;
use svcplane_runtime::events::EventSink;
use svcplane_runtime::leader::TermHandle;
use svcplane_webhook::ledger::Ranges;

pub use self::metrics::RepairMetrics;

use self::told::{Told, event};
use crate::audit::{Finding, Stored, borne_out, gather_values, value_findings};

/// When a second look follows one that has found something new, unless the period is shorter: a list is not of one moment.
const AGAIN: Duration = Duration::from_secs(5);

/// What it needs.
pub struct Repair {
    /// To the apiserver.
    pub client: Client,
    /// The values that there are.
    pub ranges: Ranges,
    /// Only the leader looks.
    pub term: TermHandle,
    /// Where Events go.
    pub events: EventSink,
    /// What is counted.
    pub metrics: RepairMetrics,
    /// From one look to the next.
    pub period: Duration,
}

impl Repair {
    /// Runs for ever.
    pub async fn work(mut self) {
        let (mut told, mut trouble) = (Told::default(), None);
        loop {
            while self.term.check(Instant::now()).is_err() {
                // Whoever leads now tells what there is.
                told = Told::default();
                self.metrics.found(&[]);
                self.term.changed().await;
            }
            // First, too: whoever begins to lead has better things to read.
            tokio::select! {
                () = tokio::time::sleep(self.period) => {}
                () = ended(self.term.clone()) => continue,
            }
            let looked = Box::pin(self.look(&told)).await;
            self.metrics.looked(looked.is_ok());
            match looked {
                Ok((stored, found)) => {
                    trouble = None;
                    if self.term.check(Instant::now()).is_ok() {
                        self.tell(&mut told, &stored, found);
                    }
                }
                Err(error) => {
                    if trouble.as_ref() != Some(&error) {
                        tracing::warn!(error, "cannot look for faulty allocations, trying again");
                    }
                    trouble = Some(error);
                }
            }
        }
    }

    /// What is wrong. The error is one line.
    async fn look(&self, told: &Told) -> Result<(Stored, Vec<Finding>), String> {
        let stored = gather_values(&self.client, self.ranges.clone()).await?;
        let found = value_findings(&stored);
        if told.covers(&found) {
            return Ok((stored, found));
        }
        drop(stored);
        tokio::time::sleep(AGAIN.min(self.period)).await;
        let stored = gather_values(&self.client, self.ranges.clone()).await?;
        let found = borne_out(&found, value_findings(&stored));
        Ok((stored, found))
    }

    fn tell(&self, told: &mut Told, stored: &Stored, found: Vec<Finding>) {
        self.metrics.found(&found);
        for finding in told.news(found) {
            tracing::warn!(
                rule = finding.rule,
                object = %finding.object,
                field = finding.field,
                "faulty allocation: {}",
                finding.message
            );
            self.metrics.told(finding.rule);
            self.events.emit(event(&finding, stored.uid(&finding.object)));
        }
    }
}

/// Returns when this replica does not lead any more.
async fn ended(mut term: TermHandle) {
    while term.check(Instant::now()).is_ok() {
        term.changed().await;
    }
}
