//! What was seen and spent, as figures of a row.

use std::time::Instant;

use anyhow::Result;

use super::account::{Cost, Writes};
use super::latency::Latencies;
use super::observer::{Answer, Seen};
use super::record::Row;
use super::side::{Running, Side, SliceSyncs};
use crate::usage;

/// A row without figures.
pub fn row(workload: &str, phase: &str, side: Side, turn: usize) -> Row {
    Row {
        workload: workload.into(),
        phase: phase.into(),
        side: side.name().into(),
        turn,
        ..Row::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
impl Row {
    /// Who spent what.
    pub fn cost(&mut self, cost: &Cost) {
        for (name, value) in [
            ("elapsed_s", cost.wall),
            ("cpu_s", cost.controller),
            ("apiserver_cpu_s", cost.apiserver),
            ("etcd_cpu_s", cost.etcd),
            ("observer_cpu_s", cost.observer),
            ("harness_cpu_s", cost.harness),
            ("others", cost.others),
        ] {
            self.set(name, value);
        }
    }

    /// What was written and seen of objects of one kind. `prefix`: nothing, or `slice_`.
    pub fn objects(&mut self, prefix: &str, writes: Writes, seen: &Seen) {
        for (name, value) in [
            ("creates", writes.creates),
            ("updates", writes.updates),
            ("deletes", writes.deletes),
            ("writes", writes.all()),
            ("conflicts", writes.conflicts),
            ("body_bytes", writes.bytes),
            ("events", seen.events as f64),
            ("event_bytes", seen.bytes as f64),
            ("redundant", seen.redundant as f64),
            ("undone", seen.undone as f64),
        ] {
            self.set(&format!("{prefix}{name}"), value);
        }
        if writes.updates > 0.0 {
            let each = writes.update_time * 1e3 / writes.updates;
            self.set(&format!("apiserver_{prefix}put_ms"), each);
        }
    }

    /// Memory of the process now.
    ///
    /// # Errors
    /// It does not run any more.
    pub fn memory(&mut self, running: &Running<'_>) -> Result<()> {
        let memory = usage::memory(running.pid()?)?;
        let mebibytes = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
        self.set("rss_mib", mebibytes(memory.resident));
        self.set("peak_mib", mebibytes(memory.peak));
        self.set("anonymous_mib", mebibytes(memory.anonymous));
        Ok(())
    }

    /// The share of each of `count` flips or replaced Pods.
    pub fn shares(&mut self, unit: &str, count: usize, cost: &Cost) {
        let count = count as f64;
        self.set(&format!("{unit}s"), count);
        for (name, value) in [
            ("cpu_ms", cost.controller * 1e3),
            ("apiserver_ms", cost.apiserver * 1e3),
            ("puts", cost.endpoints.updates),
            ("writes", cost.endpoints.all()),
            ("slice_writes", cost.slices.all()),
        ] {
            self.set(&format!("{name}_per_{unit}"), value / count);
        }
    }

    /// Looks at slices, and how many of them a write took.
    pub fn slice_syncs(&mut self, before: SliceSyncs, after: SliceSyncs, writes: Writes) {
        let syncs = after.all - before.all;
        self.set("slice_syncs", syncs);
        self.set("slice_stale", after.stale - before.stale);
        if writes.all() > 0.0 {
            self.set("slice_syncs_per_write", syncs / writes.all());
        }
    }

    /// How many answers there were and how many were late, and if `told` their times.
    pub fn latencies<'a>(&mut self, prefix: &str, answers: impl Iterator<Item = &'a Answer>, told: bool) {
        let latencies: Latencies = answers.map(|answer| answer.took).collect();
        self.set(&format!("{prefix}latencies"), latencies.count() as f64);
        if !told {
            return;
        }
        self.set(&format!("{prefix}later_than_900_ms"), latencies.late() as f64);
        for (name, value) in latencies.figures() {
            self.set(&format!("{prefix}{name}"), value);
        }
    }

    /// From the last change of a Pod to the last object that had to say so.
    pub fn settled(&mut self, last_pod: Option<Instant>, seen: &[Seen]) {
        let last = seen.iter().filter_map(|seen| seen.last_answer).max();
        if let (Some(pod), Some(last)) = (last_pod, last) {
            self.set("settled_ms", last.saturating_duration_since(pod).as_secs_f64() * 1e3);
        }
    }
}
