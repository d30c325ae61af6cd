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

/// Where a key waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// With those that came one by one.
    Single,
    /// With those that one event has made due together, such as a Pod's in hundreds of Services: they share what others leave.
    Fan,
}

#[derive(Debug, Default)]
struct Entry {
    /// Place in the schedule: the lane, when due, and in which order among equals.
    scheduled: Option<(Lane, Instant, u64)>,
    /// A worker has it.
    running: Option<(Lane, Instant)>,
    /// Asked for again while a worker has it: where, and when it is due then.
    again: Option<(Lane, Instant)>,
    /// Failures in a row.
    failures: u32,
    /// A server told us not to come back earlier.
    not_before: Option<Instant>,
}

/// Keys in the order in which they are due.
type Schedule<K> = BTreeMap<(Instant, u64), K>;

/// Keys that need work, each at most once, in order of age. Generic over the key; bounded by the number of distinct keys.
///
/// Rules: many requests for a key that waits are one piece of work, and the earliest time wins; a key that a worker has is never handed
/// out a second time, a request for it that comes meanwhile is served afterwards; a key that fails comes back after a capped, growing
/// delay and is never given up (client-go drops a key after 15 tries). Of a [fan](Lane::Fan) so many keys at most are at work at once, and
/// every second key handed out is another, so that one Pod's change in hundreds of Services does not hold up everybody else's.
#[derive(Debug)]
pub struct QueueCore<K> {
    entries: HashMap<K, Entry, ahash::RandomState>,
    single: Schedule<K>,
    fan: Schedule<K>,
    sequence: u64,
    backoff: Backoff,
    fan_limit: usize,
    fan_running: usize,
    /// The key handed out last was one of a fan.
    fan_had_turn: bool,
}

impl<K: Clone + Eq + Hash> QueueCore<K> {
    /// An empty queue; of a fan, `fan_limit` keys are at work at once, at least one.
    pub fn new(backoff: Backoff, fan_limit: usize) -> Self {
        Self {
            entries: HashMap::default(),
            single: BTreeMap::new(),
            fan: BTreeMap::new(),
            sequence: 0,
            backoff,
            fan_limit: fan_limit.max(1),
            fan_running: 0,
            fan_had_turn: false,
        }
    }

    fn schedule(&mut self, lane: Lane) -> &mut Schedule<K> {
        match lane {
            Lane::Single => &mut self.single,
            Lane::Fan => &mut self.fan,
        }
    }

    /// Asks for work on `key`, due at `due`. True if that is new work (nothing of that key waited yet). Who is asked for by itself does not
    /// wait with a fan.
    pub fn add(&mut self, key: &K, lane: Lane, due: Instant) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        let due = entry.not_before.map_or(due, |bound| bound.max(due));
        if entry.running.is_some() {
            let new = entry.again.is_none();
            entry.again = Some(entry.again.map_or((lane, due), |before| both(before, (lane, due))));
            return new;
        }
        let place = match entry.scheduled {
            Some((before, earlier, _)) => both((before, earlier), (lane, due)),
            None => (lane, due),
        };
        let before = entry.scheduled;
        if before.is_some_and(|(lane, due, _)| (lane, due) == place) {
            return false;
        }
        let (lane, due) = place;
        let number = self.sequence;
        entry.scheduled = Some((lane, due, number));
        self.sequence += 1;
        if let Some((lane, due, number)) = before {
            self.schedule(lane).remove(&(due, number));
        }
        self.schedule(lane).insert((due, number), key.clone());
        before.is_none()
    }

    /// Hands out the key that has been due longest, and for how long it has been.
    pub fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        let is_due = |schedule: &Schedule<K>| schedule.first_key_value().is_some_and(|((due, _), _)| *due <= now);
        let fan = is_due(&self.fan) && self.fan_running < self.fan_limit;
        let lane = match (is_due(&self.single), fan) {
            (false, false) => return None,
            (true, fan) if !fan || self.fan_had_turn => Lane::Single,
            _ => Lane::Fan,
        };
        let ((due, _), key) = self.schedule(lane).pop_first()?;
        self.fan_had_turn = lane == Lane::Fan;
        self.fan_running += usize::from(lane == Lane::Fan);
        let entry = self.entries.entry(key.clone()).or_default();
        entry.scheduled = None;
        entry.not_before = None;
        entry.running = Some((lane, now));
        Some((key, now.saturating_duration_since(due)))
    }

    /// A worker gives `key` back. `unit` in 0..1 is the jitter. True if it will be tried again because it failed.
    pub fn finish(&mut self, key: &K, outcome: Outcome, now: Instant, unit: f64) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        let lane = entry.running.take().map_or(Lane::Single, |(lane, _)| lane);
        self.fan_running -= usize::from(lane == Lane::Fan);
        let again = entry.again.take();
        match outcome {
            Outcome::Done => {
                entry.failures = 0;
                match again {
                    Some((lane, due)) => {
                        self.add(key, lane, due);
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
                let (lane, due) = again.unwrap_or((lane, now + delay));
                self.add(key, lane, due);
                true
            }
        }
    }

    /// When the next key is due that may be handed out: of a fan none, while as many as may be are at work.
    pub fn next_due(&self) -> Option<Instant> {
        let fan = Some(&self.fan).filter(|_| self.fan_running < self.fan_limit);
        let first = |schedule: &Schedule<K>| schedule.first_key_value().map(|((due, _), _)| *due);
        let (single, fan) = (first(&self.single), fan.and_then(first));
        single.into_iter().chain(fan).min()
    }

    /// Drops all work that waits. Keys that workers have stay marked until they are given back.
    pub fn clear(&mut self) {
        self.single.clear();
        self.fan.clear();
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
        self.single.len() + self.fan.len()
    }

    /// Keys that wait and are due.
    pub fn due(&self, now: Instant) -> usize {
        let due = |schedule: &Schedule<K>| schedule.range(..=(now, u64::MAX)).count();
        due(&self.single) + due(&self.fan)
    }

    /// When each piece of work in progress was handed out.
    pub fn running(&self) -> impl Iterator<Item = Instant> {
        self.entries.values().filter_map(|entry| Some(entry.running?.1))
    }

    /// True while any worker has a key.
    pub fn is_busy(&self) -> bool {
        self.running().next().is_some()
    }
}

/// Two requests for one key: the earlier time, and by itself if one of them is.
fn both(one: (Lane, Instant), other: (Lane, Instant)) -> (Lane, Instant) {
    let lane = if one.0 == other.0 { one.0 } else { Lane::Single };
    (lane, one.1.min(other.1))
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
