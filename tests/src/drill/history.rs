//! What an observer has seen of Pods and Endpoints, and what follows from it: which flip each write of the Endpoints showed,
//! how long the Endpoints stood still and how stale they were.
//!
//! The order is that of the resourceVersions, which the apiserver counts for all objects alike; the times are those of one
//! clock, the observer's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Pods whose readiness is flipped, one after the other.
pub const PODS: usize = 8;

/// Which Pods are ready, a bit each.
pub type State = u32;

/// All that was seen. Seeing a version again changes nothing.
#[derive(Clone, Debug, Default)]
pub struct History {
    pods: BTreeMap<u64, (Instant, usize, bool)>,
    endpoints: BTreeMap<u64, (Instant, Option<State>)>,
}

/// A state of the Pods, or a write of Endpoints that showed a newer state than all before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When the observer saw it.
    pub at: Instant,
    /// The place of the state among all states of the Pods.
    pub flip: usize,
}

impl History {
    /// Pod `index` was seen in this version.
    pub fn pod(&mut self, version: u64, at: Instant, index: usize, ready: bool) {
        self.pods.entry(version).or_insert((at, index, ready));
    }

    /// The Endpoints were seen in this version; `None` = they do not list each Pod once.
    pub fn endpoints(&mut self, version: u64, at: Instant, state: Option<State>) {
        self.endpoints.entry(version).or_insert((at, state));
    }

    /// The states of the Pods in order, from the one on in which all Pods are known.
    fn states(&self) -> Vec<(u64, Instant, State)> {
        let mut known = [None; PODS];
        let mut states: Vec<(u64, Instant, State)> = Vec::new();
        for (version, (at, index, ready)) in &self.pods {
            known[*index] = Some(*ready);
            let bits = known.iter().enumerate();
            let state = bits
                .map(|(bit, ready)| ready.map(|ready| State::from(ready) << bit))
                .sum::<Option<State>>();
            if let Some(state) = state.filter(|state| states.last().is_none_or(|(_, _, last)| last != state)) {
                states.push((*version, *at, state));
            }
        }
        states
    }

    /// Each change of the Pods.
    pub fn flips(&self) -> Vec<Moment> {
        let states = self.states().into_iter().enumerate();
        states.map(|(flip, (_, at, _))| Moment { at, flip }).collect()
    }

    /// The writes that showed something newer than all before: the right ones. Sixteen states in a row differ, so a write
    /// that is 1.6 s late to the flip could be taken for the present one, and would be right with it.
    pub fn right_writes(&self) -> Vec<Moment> {
        let states = self.states();
        let mut right: Vec<Moment> = Vec::new();
        for (version, (at, shown)) in &self.endpoints {
            let older = states.partition_point(|(flipped, ..)| flipped < version);
            let flip = states[..older].iter().rposition(|(.., state)| Some(*state) == *shown);
            if let Some(flip) = flip.filter(|flip| right.last().is_none_or(|last| last.flip < *flip)) {
                right.push(Moment { at: *at, flip });
            }
        }
        right
    }

    /// The longest time between two right writes, from the last one before `from` on. `None` = there are no two.
    pub fn longest_gap(&self, from: Instant) -> Option<Duration> {
        let right = self.right_writes();
        let first = right.partition_point(|write| write.at < from).saturating_sub(1);
        let pairs = right[first..].windows(2);
        pairs.map(|pair| pair[1].at - pair[0].at).max()
    }

    /// For each flip seen from `from` on, how long it took until the Endpoints showed it or a later one; `None` = never.
    pub fn staleness(&self, from: Instant) -> Vec<Option<Duration>> {
        let right = self.right_writes();
        let seen = |flip: &Moment| {
            let shown = right.partition_point(|write| write.flip < flip.flip);
            right
                .get(shown)
                .map(|write| write.at.saturating_duration_since(flip.at))
        };
        let flips = self.flips();
        flips.iter().filter(|flip| flip.at >= from).map(seen).collect()
    }

    /// Whether the newest Endpoints show the newest state of the Pods.
    pub fn is_right(&self) -> bool {
        let newest = self.states().last().map(|(.., state)| *state);
        newest.is_some() && self.endpoints.last_key_value().and_then(|(_, (_, shown))| *shown) == newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time and version are the same number here, in units of 100 ms.
    struct Story(History, Instant);

    impl Story {
        fn new() -> Self {
            let mut story = Self(History::default(), Instant::now());
            for pod in 0..PODS {
                story.flip(pod as u64, pod, true);
            }
            story
        }

        fn at(&self, time: u64) -> Instant {
            self.1 + Duration::from_millis(100 * time)
        }

        fn flip(&mut self, time: u64, pod: usize, ready: bool) {
            let at = self.at(time);
            self.0.pod(10 * time, at, pod, ready);
        }

        fn show(&mut self, time: u64, state: State) {
            let at = self.at(time);
            self.0.endpoints(10 * time + 5, at, Some(state));
        }
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_stand_still_is_a_gap_and_makes_all_flips_in_it_stale() {
        let mut story = Story::new();
        story.show(8, 0b1111_1111);
        story.flip(10, 0, false);
        story.show(10, 0b1111_1110);
        for pod in 1..4 {
            story.flip(10 + pod as u64, pod, false);
        }
        story.show(20, 0b1111_0000);
        story.flip(21, 4, false);
        assert!(!story.0.is_right());
        story.show(22, 0b1110_0000);
        assert!(story.0.is_right());
        assert_eq!(story.0.longest_gap(story.at(11)), Some(ms(1000)));
        assert_eq!(story.0.longest_gap(story.at(21)), Some(ms(200)));
        let stale = story.0.staleness(story.at(11));
        assert_eq!(stale, [900, 800, 700, 100].map(|it| Some(ms(it))));
        story.flip(30, 5, false);
        assert_eq!(story.0.staleness(story.at(22)), [None]);
    }

    #[test]
    fn a_write_that_shows_an_old_state_or_none_is_not_a_right_one() {
        let mut story = Story::new();
        story.show(8, 0b1111_1111);
        story.flip(10, 0, false);
        story.show(11, 0b1111_1110);
        story.flip(12, 1, false);
        story.show(13, 0b1111_1111);
        let at = story.at(14);
        story.0.endpoints(146, at, None);
        assert_eq!(story.0.right_writes().len(), 2);
        assert!(!story.0.is_right());
        story.show(20, 0b1111_1100);
        assert_eq!(story.0.longest_gap(story.at(9)), Some(ms(900)));
    }

    #[test]
    fn the_order_is_that_of_versions_and_not_of_arrival() {
        let mut story = Story::new();
        story.flip(10, 0, false);
        // Written after the flip, seen before it.
        let before = story.at(9);
        story.0.endpoints(106, before, Some(0b1111_1110));
        assert_eq!(story.0.staleness(story.at(10)), [Some(Duration::ZERO)]);
        // Written before the flip, seen after it.
        let after = story.at(12);
        story.flip(11, 0, true);
        story.0.endpoints(109, after, Some(0b1111_1111));
        assert_eq!(story.0.right_writes().len(), 1);
    }
}
