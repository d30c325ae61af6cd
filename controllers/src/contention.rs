//! Putting back what somebody else changed, without a fight.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::model::ObjectKey;

/// Quiet for this long, and an object counts as undisturbed again.
const FORGET: Duration = Duration::from_mins(2);
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// How often each object was changed by somebody else lately. The first change is put right at once; one that comes after a look counts as
/// a further round, which is put right after twice the wait of the last, so that two writers who disagree cost a write a minute and not a
/// storm. What comes before the look that is due will be seen by it, however much it is: somebody who deletes a hundred slices is no fight.
#[derive(Debug, Default)]
pub struct Contention {
    disturbed: HashMap<ObjectKey, Disturbed, ahash::RandomState>,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Disturbed {
    rounds: u32,
    last: Instant,
    /// When the next look is due, if it has not begun.
    due: Option<Instant>,
}

/// What is made of a foreign change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long it stands.
    pub wait: Duration,
    /// It is a round of its own: no look was due.
    pub is_new: bool,
}

impl Contention {
    /// Notes a foreign change at `now` and says how long to wait before it is put right.
    pub fn note(&mut self, key: &ObjectKey, now: Instant) -> Patience {
        self.sweep(now);
        let entry = self.disturbed.entry(key.clone()).or_insert(Disturbed {
            rounds: 0,
            last: now,
            due: None,
        });
        let quiet = now.saturating_duration_since(entry.last) >= FORGET;
        entry.last = now;
        if let Some(due) = entry.due {
            let wait = due.saturating_duration_since(now);
            return Patience { wait, is_new: false };
        }
        if quiet {
            entry.rounds = 0;
        }
        let wait = match entry.rounds {
            0 => Duration::ZERO,
            rounds => FIRST_WAIT.saturating_mul(1 << (rounds - 1).min(16)).min(LONGEST_WAIT),
        };
        entry.rounds = entry.rounds.saturating_add(1);
        entry.due = Some(now + wait);
        Patience { wait, is_new: true }
    }

    /// A look at the object begins: it sees all changes so far.
    pub fn looked_at(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.disturbed.get_mut(key) {
            entry.due = None;
        }
    }

    fn sweep(&mut self, now: Instant) {
        if self
            .swept
            .is_none_or(|last| now.saturating_duration_since(last) >= FORGET)
        {
            self.disturbed
                .retain(|_, entry| now.saturating_duration_since(entry.last) < FORGET);
            self.swept = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::new("marsh", "web")
    }

    #[test]
    fn the_first_change_is_put_right_at_once_and_a_fight_slows_down() {
        let (mut contention, mut now) = (Contention::default(), Instant::now());
        let waits: Vec<u128> = (0..12)
            .map(|_| {
                let Patience { wait, is_new } = contention.note(&key(), now);
                assert!(is_new);
                now += wait;
                contention.looked_at(&key());
                wait.as_millis()
            })
            .collect();
        assert_eq!(
            waits,
            [0, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000]
        );
        let other = contention.note(&ObjectKey::new("marsh", "other"), now);
        assert_eq!(other.wait, Duration::ZERO);
        now += FORGET;
        assert_eq!(contention.note(&key(), now).wait, Duration::ZERO);
        assert_eq!(contention.disturbed.len(), 1, "what is quiet is forgotten");
    }

    /// Thirty slices of one Service are deleted, one every 20 ms, and each look is made as soon as it is due.
    #[test]
    fn a_change_of_many_objects_is_no_fight() {
        let (mut contention, start) = (Contention::default(), Instant::now());
        let (mut due, mut rounds) = (None, Vec::new());
        for number in 0..30 {
            let now = start + Duration::from_millis(20 * number);
            if due.is_some_and(|due| due <= now) {
                contention.looked_at(&key());
            }
            let Patience { wait, is_new } = contention.note(&key(), now);
            due = Some(now + wait);
            if is_new {
                rounds.push((number, wait.as_millis()));
            }
        }
        // 0.2 s and 0.4 s after the second and the twelfth; the last look is due 40 ms after the last deletion.
        assert_eq!(rounds, [(0, 0), (1, 200), (11, 400)]);
        assert_eq!(due, Some(start + Duration::from_millis(620)));
    }

    #[test]
    fn what_comes_before_the_look_waits_for_it_and_no_longer() {
        let (mut contention, start) = (Contention::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let waits = |wait, is_new| Patience {
            wait: Duration::from_millis(wait),
            is_new,
        };
        assert_eq!(contention.note(&key(), at(0)), waits(0, true));
        contention.looked_at(&key());
        assert_eq!(contention.note(&key(), at(10)), waits(200, true));
        assert_eq!(contention.note(&key(), at(110)), waits(100, false));
        // The look is late: all workers are busy.
        assert_eq!(contention.note(&key(), at(900)), waits(0, false));
        contention.looked_at(&key());
        assert_eq!(contention.note(&key(), at(901)), waits(400, true));
    }
}
