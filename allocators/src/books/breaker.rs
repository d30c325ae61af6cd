//! Stops choosing from a range where choices do not arrive in storage.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How far back outcomes count, and how long a range rests.
const MINUTE: Duration = Duration::from_mins(1);
/// Fewer outcomes than this say nothing.
const ENOUGH: u64 = 20;
/// One in so many may end unconfirmed: 5 %.
const ONE_IN: u64 = 20;

/// Outcomes of one second, so that a storm costs a minute's seconds and not its choices.
#[derive(Clone, Debug)]
struct Second {
    start: Instant,
    all: u64,
    unconfirmed: u64,
}

/// The breaker of one range.
#[derive(Clone, Debug, Default)]
pub(super) struct Breaker {
    seconds: VecDeque<Second>,
    open_until: Option<Instant>,
    trips: u64,
}

impl Breaker {
    /// A choice was stored, or was not within its time.
    pub fn note(&mut self, confirmed: bool, now: Instant) {
        while self
            .seconds
            .front()
            .is_some_and(|second| now.saturating_duration_since(second.start) >= MINUTE)
        {
            self.seconds.pop_front();
        }
        if self
            .seconds
            .back()
            .is_none_or(|second| now.saturating_duration_since(second.start) >= Duration::from_secs(1))
        {
            self.seconds.push_back(Second {
                start: now,
                all: 0,
                unconfirmed: 0,
            });
        }
        if let Some(second) = self.seconds.back_mut() {
            second.all += 1;
            second.unconfirmed += u64::from(!confirmed);
        }
        let (all, unconfirmed) = self.seconds.iter().fold((0, 0), |(all, unconfirmed), second| {
            (all + second.all, unconfirmed + second.unconfirmed)
        });
        if !confirmed && all >= ENOUGH && unconfirmed * ONE_IN > all && !self.is_open(now) {
            self.open_until = Some(now + MINUTE);
            self.trips += 1;
            // What led to the rest does not lead to the next one.
            self.seconds.clear();
        }
    }

    /// Nothing is chosen from the range now.
    pub fn is_open(&self, now: Instant) -> bool {
        self.open_until.is_some_and(|until| now < until)
    }

    /// How often it has opened.
    pub fn trips(&self) -> u64 {
        self.trips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn more_than_one_in_twenty_unconfirmed_of_twenty_rests_the_range_for_a_minute() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..38 {
            breaker.note(true, start);
        }
        breaker.note(false, start);
        breaker.note(false, start + SECOND);
        assert!(!breaker.is_open(start + SECOND), "2 of 40 are 5 %");
        breaker.note(false, start + SECOND);
        assert!(breaker.is_open(start + SECOND) && breaker.is_open(start + MINUTE));
        assert!(!breaker.is_open(start + SECOND + MINUTE));
        assert_eq!(breaker.trips(), 1);
    }

    #[test]
    fn few_outcomes_and_old_ones_do_not_count() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..19 {
            breaker.note(false, start);
        }
        assert!(!breaker.is_open(start));
        let later = start + MINUTE;
        for _ in 0..19 {
            breaker.note(true, later);
        }
        breaker.note(false, later);
        assert!(!breaker.is_open(later), "1 of 20 is 5 %");
        breaker.note(false, later);
        assert!(breaker.is_open(later));
    }

    #[test]
    fn after_a_rest_it_counts_anew() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..40 {
            breaker.note(false, start);
        }
        let later = start + MINUTE;
        for _ in 0..19 {
            breaker.note(false, later);
        }
        assert_eq!((breaker.is_open(later), breaker.trips()), (false, 1));
        breaker.note(false, later);
        assert_eq!((breaker.is_open(later), breaker.trips()), (true, 2));
    }
}
