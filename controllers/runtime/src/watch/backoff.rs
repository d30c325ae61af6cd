//! Delays between attempts to watch.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
/// Quiet for this long after a delay, and the delays start anew.
const HEALTHY: Duration = Duration::from_secs(10);
/// A relist that is asked for again within this time is not free any more.
const EXCUSE_EVERY: Duration = Duration::from_secs(5);

/// 0.8 s doubling to 30 s with jitter, as client-go's reflector, but healed sooner: an apiserver that was away for three seconds must
/// not leave us blind for ten.
#[derive(Debug, Default)]
pub struct WatchBackoff {
    failures: u32,
    last_failure: Option<Instant>,
    last_excuse: Option<Instant>,
}

impl WatchBackoff {
    /// The delay after a failure at `now`; `unit` in 0..1 is the jitter. A failure long after the last one counts as the first.
    pub fn next(&mut self, now: Instant, unit: f64) -> Duration {
        // No sign of health is asked for but time: a watch may be quiet for hours.
        if self
            .last_failure
            .is_some_and(|last| now.saturating_duration_since(last) >= HEALTHY + full(self.failures))
        {
            self.failures = 0;
        }
        let full = full(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Some(now);
        full.mul_f64(0.5 + 0.5 * unit.clamp(0.0, 1.0))
    }

    /// True if a watch that is too old (410) may be listed again without a delay: once in a while, not in a loop.
    pub fn excuse(&mut self, now: Instant) -> bool {
        let free = self
            .last_excuse
            .is_none_or(|last| now.saturating_duration_since(last) >= EXCUSE_EVERY);
        if free {
            self.last_excuse = Some(now);
        }
        free
    }
}

fn full(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.min(6)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// B25 (a): an apiserver that refuses for a minute is asked fewer than 30 times.
    #[test]
    fn a_refusing_server_is_asked_seldom() {
        for unit in [0.0, 0.5, 1.0] {
            let (mut backoff, start) = (WatchBackoff::default(), Instant::now());
            let (mut now, mut attempts) = (start, 0);
            while now < start + 60 * SECOND {
                attempts += 1;
                now += backoff.next(now, unit);
            }
            assert!((3..30).contains(&attempts), "{attempts} attempts with jitter {unit}");
        }
    }

    /// B25 (b): each of ten breaks after three healthy minutes is mended within two seconds.
    #[test]
    fn a_break_after_healthy_minutes_is_mended_at_once() {
        let (mut backoff, mut now) = (WatchBackoff::default(), Instant::now());
        for _ in 0..10 {
            for _ in 0..6 {
                now += backoff.next(now, 1.0);
            }
            now += 180 * SECOND;
            let delay = backoff.next(now, 1.0);
            assert!(delay <= 2 * SECOND, "{delay:?}");
        }
    }

    #[test]
    fn delays_grow_to_the_longest_and_stay_there() {
        let (mut backoff, mut now) = (WatchBackoff::default(), Instant::now());
        let delays: Vec<Duration> = (0..9)
            .map(|_| {
                let delay = backoff.next(now, 1.0);
                now += delay;
                delay
            })
            .collect();
        let want: Vec<Duration> = [800, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 30000]
            .map(Duration::from_millis)
            .into();
        assert_eq!(delays, want);
    }

    #[test]
    fn one_expired_watch_is_excused_a_loop_of_them_is_not() {
        let (mut backoff, now) = (WatchBackoff::default(), Instant::now());
        assert!(backoff.excuse(now));
        assert!(!backoff.excuse(now + SECOND));
        assert!(backoff.excuse(now + 6 * SECOND));
    }
}
