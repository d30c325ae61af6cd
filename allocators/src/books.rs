//! The books of one kind of value: what every value of the cluster's ranges is, and which one is given next.
//!
//! ```text
//! Services, IPAddresses ──observe──► entries ──► counts and slots of every range and pool
//! ServiceCIDRs, pools, members ──────────────►        │
//! admission ──────────────choose─────────────────────►┘ ──► a value, pending until the watch shows it
//! ```
//!
//! A [`Book`] decides nothing for the cluster: the apiserver's registry reserves what was chosen, or refuses, and whatever is stored is
//! adopted. Every replica has its own book, fed by its own watches, so a choice must be one that the others do not make at the same time;
//! [`Book::set_members`] is how they keep apart. One book for each of IPv4, IPv6 and nodePorts; see [`Rules`].
//!
//! Time goes on by the `now` of the calls: every change first ends what is over by then ([`Book::advance`]), and what is read is as of
//! the last one.

mod breaker;
mod choose;
mod members;
mod menu;
mod observe;
mod pools;
mod ranges;
mod read;
mod state;
mod time;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod replica_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::choose::{Choice, NotChosen, Source};
pub use self::pools::{Governance, Refusal, RequestError};
pub use self::ranges::RangeSpec;
pub use self::read::{Holding, PoolStatus, PoolView, RangeView};
pub use self::state::{Counts, State};

use self::members::Members;
use self::menu::Menu;
use self::pools::PoolBook;
use self::ranges::RangeBook;
use self::state::{Entry, Rest};
use crate::interval::{Interval, Segments};
use crate::service::{ChoiceKey, Owner, ServiceKey};
use crate::value::Value;

/// How long a choice is kept: kube-apiserver ends a request after 34 s.
const KEPT: Duration = Duration::from_secs(40);
/// The last part of that, after the first 5 s: most are stored by then, so it may go to another Service that would get nothing else.
const SOFTLY: Duration = Duration::from_secs(35);

/// What differs between addresses and nodePorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long after it was first seen ready a range is chosen from: the apiservers must have seen it too.
    pub settle: Duration,
    /// How long a value rests after its Service has let go of it, if no IPAddress tells when the apiserver has.
    pub after_release: Duration,
    /// How long a chosen value rests that was never stored.
    pub unconfirmed: Duration,
}

impl Rules {
    /// ClusterIPs: a ServiceCIDR settles for 10 s.
    pub const ADDRESSES: Self = Self {
        settle: Duration::from_secs(10),
        after_release: Duration::from_secs(5),
        unconfirmed: Duration::ZERO,
    };

    /// nodePorts: the range is a flag of the apiserver and there from the start. A number that a broken request has left set in the
    /// apiserver's bitmap is freed by its repair after 6 to 9 minutes.
    pub const NODE_PORTS: Self = Self {
        settle: Duration::ZERO,
        after_release: Duration::from_secs(5),
        unconfirmed: Duration::from_mins(10),
    };
}

/// What one Service lists.
#[derive(Clone, Debug)]
struct Listed<V> {
    owner: Arc<Owner>,
    values: BTreeSet<V>,
}

/// The books of one kind of value. See the head of this module.
#[derive(Debug)]
pub struct Book<V> {
    rules: Rules,
    entries: HashMap<V, Entry, ahash::RandomState>,
    listed: HashMap<ServiceKey, Listed<V>, ahash::RandomState>,
    /// What is pending for a Service whose name is known.
    asked: HashMap<ChoiceKey, V, ahash::RandomState>,
    pending_until: BTreeSet<(Instant, V)>,
    quarantined_until: BTreeMap<(Instant, V), Rest>,
    /// What is in quarantine because this Service has let go of it.
    left: HashMap<ServiceKey, BTreeSet<V>, ahash::RandomState>,
    ranges: Vec<RangeBook<V>>,
    pools: Vec<PoolBook<V>>,
    /// What pools name, whether it can be given now or not.
    pooled: Segments<V>,
    /// Where each pool's values that can be given lie, ascending.
    pool_index: Vec<(Interval<V>, usize)>,
    members: Members,
    menus: BTreeMap<(usize, Option<usize>), Arc<Menu>>,
    /// When a block is handed over and the menus change.
    menus_until: Option<Instant>,
    /// Choices of this replica that the watches have shown as stored for whom they were made.
    stored_choices: u64,
}

impl<V: Value> Book<V> {
    /// Books without ranges: nothing can be chosen yet.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            entries: HashMap::default(),
            listed: HashMap::default(),
            asked: HashMap::default(),
            pending_until: BTreeSet::new(),
            quarantined_until: BTreeMap::new(),
            left: HashMap::default(),
            ranges: Vec::new(),
            pools: Vec::new(),
            pooled: Segments::default(),
            pool_index: Vec::new(),
            members: Members::default(),
            menus: BTreeMap::new(),
            menus_until: None,
            stored_choices: 0,
        }
    }

    /// The replicas that serve admission now, this one among them or not; ids in any order, the same text on every replica. A replica
    /// that is not among them chooses from foreign blocks only.
    pub fn set_members(&mut self, me: &str, all: &[Arc<str>], now: Instant) {
        self.members.set(me, all, now);
        self.menus.clear();
    }

    /// Changes what is known of a value; counts and slots follow.
    fn change<R>(&mut self, value: V, edit: impl FnOnce(&mut Entry) -> R) -> R {
        let entry = self.entries.entry(value).or_default();
        let before = entry.state();
        let result = edit(entry);
        let after = entry.state();
        if after == State::Free {
            self.entries.remove(&value);
        }
        if before != after {
            for range in &mut self.ranges {
                range.shift(value, before, after);
            }
            if let Some(pool) = self.pool_at(value).and_then(|index| self.pools.get_mut(index)) {
                pool.counts.shift(before, after);
            }
        }
        result
    }

    /// The state of a value, also of one that lies in no range.
    pub fn state(&self, value: V) -> State {
        self.entries.get(&value).map_or(State::Free, Entry::state)
    }

    /// Index of the pool that gives this value.
    fn pool_at(&self, value: V) -> Option<usize> {
        let behind = self.pool_index.partition_point(|(part, _)| part.first() <= value);
        let (part, index) = self.pool_index.get(behind.checked_sub(1)?)?;
        part.contains(value).then_some(*index)
    }
}
