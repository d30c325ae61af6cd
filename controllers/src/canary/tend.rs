//! The canary of a process: asked before it writes for the first time, and then every few minutes, by the leader alone.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use svcplane_runtime::leader::TermHandle;

use super::{Probe, RESULT_ANNOTATION, Verdict};
use crate::gate::Gate;
use crate::lease_notes::LeaseNotes;
use crate::metrics::{ControllerMetrics, FoundBy};
use crate::orders::kinds;

/// A canary that has not passed is asked again after this time at the latest.
const AGAIN: Duration = Duration::from_secs(30);

/// All that it takes.
pub struct Tended {
    /// How it is asked.
    pub probe: Probe,
    /// `--canary-interval`.
    pub interval: Duration,
    /// What it opens and closes.
    pub gate: Gate,
    /// The election.
    pub term: TermHandle,
    /// Where its verdict outlives this process, and where it is told.
    pub notes: LeaseNotes,
    /// Shows it.
    pub metrics: ControllerMetrics,
}

impl Tended {
    /// Runs for ever.
    pub async fn run(mut self) {
        loop {
            while self.term.check(Instant::now()).is_err() {
                self.term.changed().await;
            }
            self.lead().await;
            // Whoever leads next begins with what is noted.
            self.show(None);
        }
    }

    /// One term.
    async fn lead(&mut self) {
        let noted = self
            .term
            .term()
            .notes
            .get(RESULT_ANNOTATION)
            .and_then(|text| Verdict::noted(text));
        let mut verdict = noted.filter(|verdict| verdict.holds(Timestamp::now(), self.probe.whose()));
        self.show(verdict.as_ref());
        let mut said = None;
        while self.term.check(Instant::now()).is_ok() {
            let stands_back = self.stands_back();
            if stands_back {
                // Nothing is written, and others may have begun to. Should this be taken back, it is asked anew before anything is.
                verdict = None;
                self.show(None);
            } else {
                match self.probe.run().await {
                    Ok(new) => {
                        self.tell(verdict.as_ref(), &new);
                        self.show(Some(&new));
                        self.notes.set(&[(RESULT_ANNOTATION, Some(new.to_string()))]).await;
                        (verdict, said) = (Some(new), None);
                    }
                    // What cannot be asked changes nothing.
                    Err(why) if said.as_ref() != Some(&why) => {
                        tracing::warn!("{why}");
                        said = Some(why);
                    }
                    Err(_) => {}
                }
            }
            let passed = verdict.as_ref().is_some_and(Verdict::passed);
            let pause = if passed {
                self.interval
            } else {
                self.interval.min(AGAIN)
            };
            let _ = tokio::time::timeout(pause, self.turn(stands_back)).await;
        }
    }

    /// The Lease says observe: handed back, stopped by the breaker or by hand.
    fn stands_back(&self) -> bool {
        self.term.is_forced_to_observe()
    }

    /// Waits until there is a reason not to wait.
    async fn turn(&mut self, stands_back: bool) {
        while self.term.check(Instant::now()).is_ok() && self.stands_back() == stands_back {
            self.term.changed().await;
        }
    }

    fn show(&self, verdict: Option<&Verdict>) {
        self.gate
            .hold(|holds| holds.canary = !verdict.is_some_and(Verdict::passed));
        let alive = verdict.map(|verdict| verdict.alive.as_slice()).unwrap_or_default();
        self.metrics.foreign_writers(FoundBy::Canary, alive);
        if let Some(verdict) = verdict.filter(|verdict| verdict.passed()) {
            self.metrics.canary_passed(verdict.time.as_second());
        }
    }

    fn tell(&self, before: Option<&Verdict>, new: &Verdict) {
        if before.is_some_and(|before| before.alive == new.alive) {
            return;
        }
        let canary = self.probe.canary();
        if new.passed() {
            tracing::info!(%canary, "the canary has passed: no built-in endpoint controller lives");
            return;
        }
        let text = format!(
            "kube-controller-manager keeps {} (canary {canary}): svcplane does not write until its endpoint controllers are off",
            kinds(&new.alive)
        );
        tracing::error!("{text}");
        self.notes.warn("BuiltInControllersRun", text);
    }
}
