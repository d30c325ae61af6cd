//! What the books hold, as metrics.

use std::time::Instant;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};
use svcplane_allocators::books::{Book, State};
use svcplane_allocators::freshness::Freshness;
use svcplane_allocators::value::Value;
use svcplane_webhook::ledger::{Ledger, SharedLedger};
use svcplane_webhook::metrics::{CLUSTER_IPS, NODE_PORTS};

/// States, with their words.
const STATES: [(&str, State); 5] = [
    ("free", State::Free),
    ("reserved", State::Reserved),
    ("pending", State::Pending),
    ("used", State::Used),
    ("quarantined", State::Quarantined),
];

/// Reads the books at each scrape.
pub struct BookCollector {
    ledger: SharedLedger,
    values: IntGaugeVec,
    pools: IntGaugeVec,
    resting: IntGaugeVec,
    live: IntGaugeVec,
    stored: IntCounterVec,
}

impl BookCollector {
    /// Of this ledger.
    ///
    /// # Errors
    /// Never in practice: a name is malformed.
    pub fn new(ledger: SharedLedger) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str, labels: &[&str]| IntGaugeVec::new(Opts::new(name, help), labels);
        Ok(Self {
            ledger,
            values: gauge(
                "svcplane_allocator_values",
                "Values of each range by state, as this replica sees them.",
                &["range", "state"],
            )?,
            pools: gauge(
                "svcplane_allocator_pool_values",
                "Values that each pool can give, by state, as this replica sees them.",
                &["pool", "values", "state"],
            )?,
            resting: gauge(
                "svcplane_allocator_resting",
                "1 while nothing is chosen from a range because too many choices were not stored.",
                &["range"],
            )?,
            live: gauge(
                "svcplane_allocator_source_live",
                "1 while what is known of a resource is recent enough to choose by.",
                &["resource"],
            )?,
            stored: IntCounterVec::new(
                Opts::new(
                    "svcplane_allocation_stored_total",
                    "Values chosen by this replica that were seen stored for the Service that they were chosen for, by resource.",
                ),
                &["resource"],
            )?,
        })
    }

    fn take<V: Value>(&self, book: &Book<V>, values: &str, now: Instant) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for pool in book.pools().filter(|pool| pool.counts.capacity > 0) {
            for (word, state) in STATES {
                let labels = [&*pool.name, values, word];
                self.pools.with_label_values(&labels).set(number(pool.counts[state]));
            }
        }
        for range in book.ranges(now) {
            for (word, state) in STATES {
                let count = number(range.counts[state]);
                self.values.with_label_values(&[&*range.text, word]).set(count);
            }
            self.resting
                .with_label_values(&[&*range.text])
                .set(i64::from(range.resting));
        }
    }

    fn read(&self, ledger: &Ledger, now: Instant) {
        self.values.reset();
        self.pools.reset();
        self.resting.reset();
        let (addresses, ports) = (ledger.cluster_ips(), ledger.node_ports());
        self.take(&addresses.ipv4, "IPv4", now);
        self.take(&addresses.ipv6, "IPv6", now);
        self.take(ports, "nodePort", now);
        for (kind, freshness) in ledger.freshness(now) {
            let live = i64::from(freshness == Freshness::Live);
            self.live.with_label_values(&[kind.as_str()]).set(live);
        }
        self.stored.reset();
        for (resource, stored) in [
            (
                CLUSTER_IPS,
                addresses.ipv4.stored_choices() + addresses.ipv6.stored_choices(),
            ),
            (NODE_PORTS, ports.stored_choices()),
        ] {
            self.stored.with_label_values(&[resource]).inc_by(stored);
        }
    }
}

impl Collector for BookCollector {
    fn desc(&self) -> Vec<&Desc> {
        [
            self.values.desc(),
            self.pools.desc(),
            self.resting.desc(),
            self.live.desc(),
            self.stored.desc(),
        ]
        .concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.read(&self.ledger.lock(), Instant::now());
        [
            self.values.collect(),
            self.pools.collect(),
            self.resting.collect(),
            self.live.collect(),
            self.stored.collect(),
        ]
        .concat()
    }
}
