//! What is done to Pods during a run: who, what and when. A function of the numbers alone: both sides get the same.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// The same Pods in the same order every time.
const SEED: u64 = 4;
/// From the readiness of a new Pod to the deletion of an old one, as a Deployment's controllers do it.
const REPLACED_AFTER: Duration = Duration::from_millis(20);
/// From the deletion of a Pod to its end.
const GRACE: Duration = Duration::from_millis(500);

/// One thing that happens to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is ready, or no longer.
    Ready(bool),
    /// It is created, and then ready.
    Arrives,
    /// It is deleted, and has time to end.
    Terminates,
    /// It has ended.
    Ends,
}

/// A change, its Pod (a serial number of [`crate::load::Load`]), and its time from the start of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Duration,
    /// Whose.
    pub pod: usize,
    /// What.
    pub change: Change,
}

/// Steps in the order of their times.
pub type Stream = Vec<Step>;

/// `pods` of `all` Pods go one after another, `every` so often, and come back in the same order; this `rounds` times.
pub fn waves(all: usize, pods: usize, rounds: usize, every: Duration) -> Stream {
    let mut serials: Vec<usize> = (0..all).collect();
    serials.shuffle(&mut StdRng::seed_from_u64(SEED));
    serials.truncate(pods);
    let rounds = [false, true].repeat(rounds).into_iter();
    let flips = rounds.flat_map(|ready| serials.iter().map(move |pod| (*pod, Change::Ready(ready))));
    paced(flips, every)
}

/// One Pod goes and comes back in turn.
pub fn blinks(pod: usize, count: usize, every: Duration) -> Stream {
    paced((0..count).map(|number| (pod, Change::Ready(number % 2 == 1))), every)
}

fn paced(changes: impl Iterator<Item = (usize, Change)>, every: Duration) -> Stream {
    let mut at = Duration::ZERO;
    let step = |(pod, change)| {
        let step = Step { at, pod, change };
        at += every;
        step
    };
    changes.map(step).collect()
}

/// Each flip is of any of the ready `pods`, at random times (a Poisson process): so many a second, for so long. Pods stay as their last flip
/// left them.
pub fn random_flips(pods: usize, a_second: f64, time: Duration) -> Stream {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut ready = vec![true; pods];
    let (mut at, mut stream) = (Duration::ZERO, Vec::new());
    loop {
        // Times between the events of a Poisson process are exponentially distributed.
        let uniform: f64 = random.random_range(0.0..1.0);
        at += Duration::from_secs_f64(-(1.0 - uniform).ln() / a_second);
        if at >= time {
            return stream;
        }
        let pod = random.random_range(0..pods);
        if let Some(state) = ready.get_mut(pod) {
            *state = !*state;
            let change = Change::Ready(*state);
            stream.push(Step { at, pod, change });
        }
    }
}

/// A rolling update: `replaced` times, `every` so often, a new Pod comes up and the oldest goes. New Pods have the numbers from `pods` on.
pub fn rolling(pods: usize, replaced: usize, every: Duration) -> Stream {
    let starts = paced((0..replaced).map(|pod| (pod, Change::Arrives)), every);
    let of_one = |arrival: Step| {
        let going = arrival.at + REPLACED_AFTER;
        [
            (arrival.at, arrival.pod + pods, Change::Arrives),
            (going, arrival.pod, Change::Terminates),
            (going + GRACE, arrival.pod, Change::Ends),
        ]
        .map(|(at, pod, change)| Step { at, pod, change })
    };
    ordered(starts.into_iter().flat_map(of_one))
}

/// Several streams at the same time.
pub fn together(streams: impl IntoIterator<Item = Stream>) -> Stream {
    ordered(streams.into_iter().flatten())
}

fn ordered(steps: impl Iterator<Item = Step>) -> Stream {
    let mut steps: Stream = steps.collect();
    // Stable: at the same time, as before.
    steps.sort_by_key(|step| step.at);
    steps
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waves_leave_all_pods_ready() {
        let stream = waves(300, 30, 2, 250 * MS);
        assert_eq!(stream.len(), 120);
        assert_eq!(stream[119].at, 119 * 250 * MS);
        let last: BTreeMap<usize, Change> = stream.iter().map(|step| (step.pod, step.change)).collect();
        assert_eq!(last.len(), 30);
        assert!(last.values().all(|change| *change == Change::Ready(true)));
        assert_eq!(waves(300, 30, 2, 250 * MS), stream);
    }

    #[test]
    fn random_flips_come_at_their_rate_and_change_something() {
        let stream = random_flips(10, 50.0, 30_000 * MS);
        assert!((1350..1650).contains(&stream.len()), "{} flips", stream.len());
        assert!(stream.is_sorted_by_key(|step| step.at));
        let mut ready = [true; 10];
        for step in &stream {
            let Change::Ready(now) = step.change else {
                panic!("{step:?}")
            };
            assert_ne!(ready[step.pod], now, "{step:?}");
            ready[step.pod] = now;
        }
        // A regular stream would have none so close to the one before.
        let close = stream.windows(2).filter(|two| two[1].at - two[0].at < 2 * MS).count();
        assert!(close > 50, "{close}");
        assert_eq!(random_flips(10, 50.0, 30_000 * MS), stream);
    }

    #[test]
    fn a_rolling_update_replaces_each_pod_by_one_new_one() {
        let stream = rolling(250, 60, 100 * MS);
        assert_eq!(stream.len(), 180);
        assert!(stream.is_sorted_by_key(|step| step.at));
        let of = |change| -> Vec<usize> {
            let steps = stream.iter().filter(|step| step.change == change);
            steps.map(|step| step.pod).collect()
        };
        assert_eq!(of(Change::Arrives), (250..310).collect::<Vec<_>>());
        assert_eq!(of(Change::Terminates), (0..60).collect::<Vec<_>>());
        assert_eq!(of(Change::Ends), (0..60).collect::<Vec<_>>());
        let at = |pod, change| {
            stream
                .iter()
                .find(|it| it.pod == pod && it.change == change)
                .unwrap()
                .at
        };
        assert_eq!(at(59, Change::Terminates) - at(309, Change::Arrives), REPLACED_AFTER);
    }

    #[test]
    fn streams_run_side_by_side() {
        let stream = together([blinks(0, 3, 40 * MS), blinks(1, 2, 100 * MS)]);
        let said: Vec<_> = stream.iter().map(|it| (it.at.as_millis(), it.pod)).collect();
        assert_eq!(said, [(0, 0), (0, 1), (40, 0), (80, 0), (100, 1)]);
        assert_eq!(stream[4].change, Change::Ready(true));
    }
}
