//! Which figures are set beside each other, and what they should be.

use super::controllers::Controllers;

/// What a figure is held to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Ours over the peer's, at the most.
    OfPeer(f64),
    /// Ours over ours in another workload, at the most.
    OfOwn(&'static str, f64),
    /// Ours itself, at the most.
    AtMost(f64),
    /// None: for information.
    None,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Which workload.
    pub workload: &'static str,
    /// Which phase of it.
    pub phase: &'static str,
    /// Which column.
    pub column: &'static str,
    /// What it is held to.
    pub target: Target,
}

const fn line(workload: &'static str, phase: &'static str, column: &'static str, target: Target) -> Line {
    Line {
        workload,
        phase,
        column,
        target,
    }
}

use Target::{AtMost, None, OfOwn, OfPeer};

/// In the order of the table.
pub fn lines(controllers: Controllers) -> &'static [Line] {
    match controllers {
        Controllers::Endpoints => ENDPOINTS,
        Controllers::Both => BOTH,
    }
}

/// 15 MB and 1.5 kB for each of the 50,000 Pods, in MiB.
const BUDGET: f64 = 90e6 / (1024.0 * 1024.0);

const ENDPOINTS: &[Line] = &[
    line("w1-spread", "cold", "writes", OfPeer(1.0)),
    line("w1-spread", "cold", "wall_s", OfPeer(0.7)),
    line("w1-spread", "cold", "cpu_s", OfPeer(0.2)),
    line("w1-spread", "cold", "apiserver_cpu_s", None),
    line("w1-spread", "cold", "rss_mib", OfPeer(0.12)),
    line("w1-single", "cold", "writes", OfPeer(1.0)),
    line("w1-single", "cold", "wall_s", None),
    line("w1-single", "cold", "cpu_s", OfPeer(0.12)),
    line("w4-250", "cold", "wall_s", None),
    line("w4-250", "flips", "cpu_ms_per_flip", None),
    line("w4-250", "flips", "puts_per_flip", None),
    line("w4-250", "flips", "p50_ms", None),
    line("w4-1000", "flips", "cpu_ms_per_flip", None),
    line("w4-1000", "flips", "puts_per_flip", None),
    line("w4-3000", "cold", "wall_s", None),
    line("w4-3000", "cold", "cpu_s", None),
    line("w4-3000", "flips", "cpu_ms_per_flip", OfPeer(0.015)),
    line("w4-3000", "flips", "cpu_ms_per_flip", OfOwn("w4-250", 1.5)),
    line("w4-3000", "flips", "apiserver_ms_per_flip", None),
    line("w4-3000", "flips", "puts_per_flip", AtMost(0.36)),
    line("w4-3000", "flips", "body_bytes", None),
    line("w4-3000", "flips", "p50_ms", OfPeer(0.1)),
    line("w4-3000", "flips", "apiserver_put_ms", None),
    line("w4-3000", "flips", "later_than_900_ms", AtMost(0.0)),
    line("w5-100", "flips", "cpu_ms_per_flip", None),
    line("w5-300", "flips", "cpu_ms_per_flip", None),
    line("w5-1500", "cold", "wall_s", None),
    line("w5-1500", "cold", "cpu_s", OfPeer(0.15)),
    line("w5-1500", "flips", "cpu_ms_per_flip", OfPeer(0.08)),
    line("w5-1500", "flips", "cpu_ms_per_flip", OfOwn("w5-100", 1.5)),
    line("w5-1500", "flips", "p50_ms", OfPeer(0.8)),
    line("w5-1500", "flips", "later_than_900_ms", AtMost(0.0)),
    line("scale-50", "flips", "cpu_ms_per_flip", None),
    line("scale-500", "flips", "cpu_ms_per_flip", OfOwn("scale-50", 2.0)),
    line("scale-5000", "flips", "cpu_ms_per_flip", OfOwn("scale-50", 2.0)),
    line("memory-0", "rest", "rss_mib", OfPeer(0.15)),
    line("memory-2000", "rest", "rss_mib", OfPeer(0.12)),
    line("memory-10000", "rest", "rss_mib", OfPeer(0.1)),
    line("memory-50000", "rest", "rss_mib", AtMost(BUDGET)),
];

/// Columns that begin with `slice_` are of EndpointSlices, the others that could be of either are of Endpoints.
const BOTH: &[Line] = &[
    line("w1-spread", "cold", "writes", OfPeer(1.0)),
    line("w1-spread", "cold", "slice_writes", OfPeer(1.0)),
    line("w1-spread", "cold", "wall_s", OfPeer(0.7)),
    line("w1-spread", "cold", "cpu_s", OfPeer(0.2)),
    line("w1-spread", "cold", "apiserver_cpu_s", None),
    line("w1-spread", "cold", "rss_mib", OfPeer(0.12)),
    line("w1-single", "cold", "writes", OfPeer(1.0)),
    line("w1-single", "cold", "slice_writes", OfPeer(1.0)),
    line("w1-single", "cold", "wall_s", None),
    line("w1-single", "cold", "cpu_s", OfPeer(0.12)),
    line("w2-1", "rolling", "slice_later_than_900_ms", AtMost(0.0)),
    line("w2-1", "rolling", "later_than_900_ms", AtMost(0.0)),
    line("w2-1", "rolling", "slice_p50_ms", OfPeer(0.5)),
    line("w2-1", "rolling", "slice_p90_ms", None),
    line("w2-1", "rolling", "slice_p99_ms", None),
    line("w2-1", "rolling", "slice_max_ms", None),
    line("w2-1", "rolling", "p50_ms", None),
    line("w2-1", "rolling", "p90_ms", None),
    line("w2-1", "rolling", "p99_ms", None),
    line("w2-1", "rolling", "max_ms", None),
    line("w2-1", "rolling", "slice_stale", None),
    line("w2-1", "rolling", "slice_writes_per_pod", None),
    line("w2-1", "rolling", "writes_per_pod", None),
    line("w2-1", "rolling", "cpu_ms_per_pod", OfPeer(0.04)),
    line("w2-10", "rolling", "slice_later_than_900_ms", AtMost(0.0)),
    line("w2-10", "rolling", "later_than_900_ms", AtMost(0.0)),
    line("w2-10", "rolling", "slice_p50_ms", OfPeer(0.5)),
    line("w2-10", "rolling", "slice_p90_ms", None),
    line("w2-10", "rolling", "slice_p99_ms", None),
    line("w2-10", "rolling", "slice_max_ms", None),
    line("w2-10", "rolling", "p50_ms", None),
    line("w2-10", "rolling", "p90_ms", None),
    line("w2-10", "rolling", "p99_ms", None),
    line("w2-10", "rolling", "max_ms", None),
    line("w2-10", "rolling", "slice_stale", None),
    line("w2-10", "rolling", "slice_writes_per_pod", OfPeer(1.0)),
    line("w2-10", "rolling", "writes_per_pod", OfPeer(1.0)),
    line("w2-10", "rolling", "cpu_ms_per_pod", OfPeer(0.04)),
    line("w3-25", "flips", "slice_p50_ms", OfPeer(1.0)),
    line("w3-25", "flips", "slice_p90_ms", None),
    line("w3-25", "flips", "slice_max_ms", None),
    line("w3-25", "flips", "p50_ms", OfPeer(1.0)),
    line("w3-25", "flips", "slice_later_than_900_ms", None),
    line("w3-25", "flips", "slice_syncs_per_write", AtMost(1.0)),
    line("w3-25", "flips", "slice_writes_per_flip", None),
    line("w3-25", "flips", "writes_per_flip", None),
    line("w3-25", "flips", "cpu_ms_per_flip", OfPeer(0.15)),
    line("w3-25", "flips", "apiserver_ms_per_flip", None),
    line("w3-25", "flips", "settled_ms", None),
    line("w3-50", "flips", "slice_later_than_900_ms", AtMost(0.0)),
    line("w3-50", "flips", "later_than_900_ms", AtMost(0.0)),
    line("w3-50", "flips", "settled_ms", AtMost(500.0)),
    line("w3-50", "flips", "slice_p50_ms", None),
    line("w3-50", "flips", "slice_p90_ms", None),
    line("w3-50", "flips", "slice_max_ms", None),
    line("w3-50", "flips", "p50_ms", None),
    line("w3-50", "flips", "slice_stale", None),
    line("w3-50", "flips", "slice_syncs_per_write", None),
    line("w3-50", "flips", "slice_writes_per_flip", None),
    line("w3-50", "flips", "writes_per_flip", None),
    line("w3-50", "flips", "cpu_ms_per_flip", None),
    line("w3-hot", "flips", "slice_stale", AtMost(0.0)),
    line("w3-hot", "flips", "slice_later_than_900_ms", AtMost(0.0)),
    line("w3-hot", "flips", "later_than_900_ms", AtMost(0.0)),
    line("w3-hot", "flips", "slice_writes_per_flip", AtMost(1.0)),
    line("w3-hot", "flips", "writes_per_flip", AtMost(1.0)),
    line("w3-hot", "flips", "slice_undone", None),
    line("w3-hot", "flips", "slice_syncs_per_write", None),
    line("w3-hot", "flips", "settled_ms", None),
    line("w3-hot", "flips", "slice_p50_ms", None),
    line("w3-hot", "flips", "slice_p90_ms", None),
    line("w3-hot", "flips", "slice_max_ms", None),
    line("w3-hot", "flips", "cpu_ms_per_flip", None),
    line("w4-250", "cold", "wall_s", None),
    line("w4-250", "flips", "cpu_ms_per_flip", None),
    line("w4-250", "flips", "puts_per_flip", None),
    line("w4-250", "flips", "slice_writes_per_flip", None),
    line("w4-250", "flips", "slice_p50_ms", None),
    line("w4-250", "flips", "p50_ms", None),
    line("w4-3000", "cold", "wall_s", None),
    line("w4-3000", "cold", "cpu_s", None),
    line("w4-3000", "flips", "cpu_ms_per_flip", OfPeer(0.015)),
    line("w4-3000", "flips", "cpu_ms_per_flip", OfOwn("w4-250", 1.5)),
    line("w4-3000", "flips", "apiserver_ms_per_flip", None),
    line("w4-3000", "flips", "puts_per_flip", AtMost(0.36)),
    line("w4-3000", "flips", "slice_writes_per_flip", None),
    line("w4-3000", "flips", "slice_p50_ms", OfPeer(0.1)),
    line("w4-3000", "flips", "p50_ms", OfPeer(0.1)),
    line("w4-3000", "flips", "apiserver_put_ms", None),
    line("w4-3000", "flips", "apiserver_slice_put_ms", None),
    line("w4-3000", "flips", "slice_later_than_900_ms", AtMost(0.0)),
    line("w4-3000", "flips", "later_than_900_ms", AtMost(0.0)),
    line("w5-100", "flips", "cpu_ms_per_flip", None),
    line("w5-1500", "cold", "wall_s", None),
    line("w5-1500", "cold", "cpu_s", OfPeer(0.15)),
    line("w5-1500", "flips", "cpu_ms_per_flip", OfPeer(0.08)),
    line("w5-1500", "flips", "cpu_ms_per_flip", OfOwn("w5-100", 1.5)),
    line("w5-1500", "flips", "slice_p50_ms", OfPeer(0.8)),
    line("w5-1500", "flips", "p50_ms", OfPeer(0.8)),
    line("w5-1500", "flips", "slice_later_than_900_ms", AtMost(0.0)),
    line("w5-1500", "flips", "later_than_900_ms", AtMost(0.0)),
    line("w6", "storm", "last_write_p50_ms", OfPeer(1.05)),
    line("w6", "storm", "last_write_max_ms", None),
    line("w6", "calm", "unrelated_p50_ms", None),
    line("w6", "calm", "unrelated_p99_ms", None),
    line("w6", "storm", "unrelated_p50_ms", None),
    line("w6", "storm", "unrelated_p99_ms", None),
    line("w6", "storm", "unrelated_latencies", None),
    line("w6", "storm", "unrelated_p50_over_calm", AtMost(2.0)),
    line("w6", "storm", "cpu_ms_per_storm", OfPeer(0.4)),
    line("memory-0", "rest", "rss_mib", OfPeer(0.15)),
    line("memory-2000", "rest", "rss_mib", OfPeer(0.12)),
    line("memory-10000", "rest", "rss_mib", OfPeer(0.1)),
    line("memory-50000", "rest", "rss_mib", AtMost(BUDGET)),
];
