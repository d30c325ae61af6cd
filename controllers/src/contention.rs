//! Putting back what somebody else changed, without a fight.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::model::ObjectKey;

/// Quiet for this long, and an object counts as undisturbed again.
const FORGET: Duration = Duration::from_mins(2);
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// How often each object was changed by somebody else lately. The first change is put right at once, each further one after twice the
/// wait of the last, so that two writers who disagree cost a write a minute and not a storm.
#[derive(Debug, Default)]
pub struct Contention {
    disturbed: HashMap<ObjectKey, (u32, Instant), ahash::RandomState>,
    swept: Option<Instant>,
}

impl Contention {
    /// Notes a foreign change at `now` and says how long to wait before it is put right.
    pub fn note(&mut self, key: &ObjectKey, now: Instant) -> Duration {
        self.sweep(now);
        let entry = self.disturbed.entry(key.clone()).or_insert((0, now));
        if now.saturating_duration_since(entry.1) >= FORGET {
            entry.0 = 0;
        }
        let earlier = entry.0;
        *entry = (earlier.saturating_add(1), now);
        match earlier {
            0 => Duration::ZERO,
            times => FIRST_WAIT.saturating_mul(1 << (times - 1).min(16)).min(LONGEST_WAIT),
        }
    }

    fn sweep(&mut self, now: Instant) {
        if self
            .swept
            .is_none_or(|last| now.saturating_duration_since(last) >= FORGET)
        {
            self.disturbed
                .retain(|_, (_, last)| now.saturating_duration_since(*last) < FORGET);
            self.swept = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_change_is_put_right_at_once_and_a_fight_slows_down() {
        let (mut contention, mut now) = (Contention::default(), Instant::now());
        let key = ObjectKey::new("marsh", "web");
        let waits: Vec<u128> = (0..12)
            .map(|_| {
                let wait = contention.note(&key, now);
                now += wait;
                wait.as_millis()
            })
            .collect();
        assert_eq!(
            waits,
            [0, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000]
        );
        assert_eq!(contention.note(&ObjectKey::new("marsh", "other"), now), Duration::ZERO);
        now += FORGET;
        assert_eq!(contention.note(&key, now), Duration::ZERO);
        assert_eq!(contention.disturbed.len(), 1, "what is quiet is forgotten");
    }
}
