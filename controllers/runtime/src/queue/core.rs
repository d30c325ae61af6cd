//! The work queue as a pure state machine: no clock of its own, no tasks.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// How retries of a failing key spread out.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Delay after the first failure.
    pub base: Duration,
    /// No delay is longer.
    pub cap: Duration,
}

impl Backoff {
    /// Delay before try number `failures` + 1; `unit` in 0..1 spreads keys that fail together over the upper half of the delay.
    pub fn delay(&self, failures: u32, unit: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let full = self.base.saturating_mul(1 << doublings).min(self.cap);
        full.mul_f64(0.5 + 0.5 * unit.clamp(0.0, 1.0))
    }
}

/// What became of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key is as it should be; its failure count starts anew.
    Done,
    /// Try again after the back-off, and not before `at_least` (a server's Retry-After).
    Retry {
        /// Lower bound of the delay, whatever events come meanwhile.
        at_least: Duration,
    },
}

#[derive(Debug, Default)]
struct Entry {
    /// Place in the schedule: when due, and in which order among equals.
    scheduled: Option<(Instant, u64)>,
    /// A worker has it.
    running: Option<Instant>,
    /// Asked for again while a worker has it: when it is due then.
    again: Option<Instant>,
    /// Failures in a row.
    failures: u32,
    /// A server told us not to come back earlier.
    not_before: Option<Instant>,
}

/// Keys that need work, each at most once, in order of age. Generic over the key; bounded by the number of distinct keys.
///
/// Rules: many requests for a key that waits are one piece of work, and the earliest time wins; a key that a worker has is never handed
/// out a second time, a request for it that comes meanwhile is served afterwards; a key that fails comes back after a capped, growing
/// delay and is never given up (client-go drops a key after 15 tries).
#[derive(Debug)]
pub struct QueueCore<K> {
    entries: HashMap<K, Entry, ahash::RandomState>,
    schedule: BTreeMap<(Instant, u64), K>,
    sequence: u64,
    backoff: Backoff,
}

impl<K: Clone + Eq + Hash> QueueCore<K> {
    /// An empty queue.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            entries: HashMap::default(),
            schedule: BTreeMap::new(),
            sequence: 0,
            backoff,
        }
    }

    /// Asks for work on `key`, due at `due`. True if that is new work (nothing of that key waited yet).
    pub fn add(&mut self, key: &K, due: Instant) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        let due = entry.not_before.map_or(due, |bound| bound.max(due));
        if entry.running.is_some() {
            let new = entry.again.is_none();
            entry.again = Some(entry.again.map_or(due, |earlier| earlier.min(due)));
            return new;
        }
        match entry.scheduled {
            Some((earlier, _)) if earlier <= due => return false,
            Some(place) => {
                self.schedule.remove(&place);
            }
            None => {}
        }
        let new = entry.scheduled.is_none();
        let place = (due, self.sequence);
        self.sequence += 1;
        entry.scheduled = Some(place);
        self.schedule.insert(place, key.clone());
        new
    }

    /// Hands out the key that has been due longest, and for how long it has been.
    pub fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        let first = self.schedule.first_entry()?;
        let due = first.key().0;
        if due > now {
            return None;
        }
        let key = first.remove();
        let entry = self.entries.entry(key.clone()).or_default();
        entry.scheduled = None;
        entry.not_before = None;
        entry.running = Some(now);
        Some((key, now.saturating_duration_since(due)))
    }

    /// A worker gives `key` back. `unit` in 0..1 is the jitter. True if it will be tried again because it failed.
    pub fn finish(&mut self, key: &K, outcome: Outcome, now: Instant, unit: f64) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        entry.running = None;
        let again = entry.again.take();
        match outcome {
            Outcome::Done => {
                entry.failures = 0;
                match again {
                    Some(due) => {
                        self.add(key, due);
                    }
                    None => {
                        self.entries.remove(key);
                    }
                }
                false
            }
            Outcome::Retry { at_least } => {
                entry.failures = entry.failures.saturating_add(1);
                let delay = self.backoff.delay(entry.failures, unit);
                if !at_least.is_zero() {
                    entry.not_before = Some(now + at_least);
                }
                // A change that came in meanwhile is a reason to look again at once: it may be what was missing.
                let due = again.unwrap_or(now + delay);
                self.add(key, due);
                true
            }
        }
    }

    /// When the next key is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.schedule.first_key_value().map(|((due, _), _)| *due)
    }

    /// Drops all work that waits. Keys that workers have stay marked until they are given back.
    pub fn clear(&mut self) {
        self.schedule.clear();
        self.entries.retain(|_, entry| {
            entry.scheduled = None;
            entry.again = None;
            entry.failures = 0;
            entry.not_before = None;
            entry.running.is_some()
        });
    }

    /// Keys that wait (due or not), without those that workers have.
    pub fn waiting(&self) -> usize {
        self.schedule.len()
    }

    /// Keys that wait and are due.
    pub fn due(&self, now: Instant) -> usize {
        self.schedule.range(..=(now, u64::MAX)).count()
    }

    /// When each piece of work in progress was handed out.
    pub fn running(&self) -> impl Iterator<Item = Instant> {
        self.entries.values().filter_map(|entry| entry.running)
    }

    /// True while any worker has a key.
    pub fn is_busy(&self) -> bool {
        self.running().next().is_some()
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
