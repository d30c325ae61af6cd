//! Who was allowed to write: judged from what was stored in the Lease, by the kit's own clock, without asking svcplane.

use std::time::{Duration, Instant};

/// One state of the Lease.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its resourceVersion; of a deletion, that of the deletion.
    pub version: u64,
    /// When it was seen.
    pub at: Instant,
    /// `holderIdentity`, empty when there is none or no Lease.
    pub holder: String,
    /// `leaseDurationSeconds`.
    pub duration: Duration,
    /// The replica that sent it; `None` = a person did it.
    pub by: Option<usize>,
}

/// One write that changed an object, or may have.
#[derive(Clone, Debug)]
pub struct Write {
    /// The resourceVersion it made; unknown when the reply was lost.
    pub version: Option<u64>,
    /// When it was answered, or else sent.
    pub at: Instant,
}

/// What a write was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// By the holder of the Lease, within the lease duration after its last renewal.
    Held,
    /// The same, but for a person who had deleted the Lease or put something else into it since. Its term is its own until
    /// it learns of that, and nobody else has begun one.
    TakenByHand,
    /// By anybody else.
    Without,
}

/// Judges a write of `replica`, which is called `identity` in the Lease. `lease` is in the order of versions. What a person
/// wrote into the Lease gives nobody a term and makes none longer.
pub fn judge(lease: &[Stored], replica: usize, identity: &str, write: &Write) -> Verdict {
    let before = |state: &&Stored| match write.version {
        Some(version) => state.version < version,
        None => state.at <= write.at,
    };
    let before: Vec<&Stored> = lease.iter().filter(before).collect();
    let Some(granted) = before.iter().rfind(|state| state.by.is_some()) else {
        return Verdict::Without;
    };
    let is_own = granted.by == Some(replica) && granted.holder == identity;
    if !is_own || write.at.saturating_duration_since(granted.at) > granted.duration {
        return Verdict::Without;
    }
    match before.last() {
        Some(last) if last.holder == identity => Verdict::Held,
        _ => Verdict::TakenByHand,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    /// Versions are tens of seconds here, a second apart from the writes between them.
    fn stored(start: Instant, seconds: u64, holder: &str, by: Option<usize>) -> Stored {
        Stored {
            version: seconds * 10,
            at: start + Duration::from_secs(seconds),
            holder: holder.into(),
            duration: LEASE,
            by,
        }
    }

    fn write(start: Instant, seconds: u64) -> Write {
        Write {
            version: Some(seconds * 10 + 5),
            at: start + Duration::from_secs(seconds),
        }
    }

    #[test]
    fn a_term_lasts_for_the_lease_duration_and_ends_with_the_next_ones() {
        let start = Instant::now();
        let lease = [
            stored(start, 0, "a", Some(0)),
            stored(start, 2, "a", Some(0)),
            stored(start, 20, "b", Some(1)),
        ];
        let of = |replica: usize, seconds| judge(&lease, replica, ["a", "b"][replica], &write(start, seconds));
        assert_eq!([of(0, 1), of(0, 3), of(0, 17)], [Verdict::Held; 3]);
        assert_eq!([of(1, 1), of(1, 19), of(0, 18), of(0, 21)], [Verdict::Without; 4]);
        assert_eq!(of(1, 21), Verdict::Held);
    }

    #[test]
    fn the_version_decides_and_not_who_was_seen_first() {
        let start = Instant::now();
        let lease = [stored(start, 0, "a", Some(0)), stored(start, 10, "b", Some(1))];
        let mut late = write(start, 9);
        late.at = start + Duration::from_secs(12);
        assert_eq!(judge(&lease, 0, "a", &late), Verdict::Held);
        late.version = Some(101);
        assert_eq!(judge(&lease, 0, "a", &late), Verdict::Without);
        late.version = None;
        assert_eq!(judge(&lease, 0, "a", &late), Verdict::Without);
    }

    #[test]
    fn a_person_takes_the_lease_but_gives_no_term() {
        let start = Instant::now();
        let mut edited = stored(start, 4, "a", None);
        edited.duration = Duration::from_hours(1);
        let lease = [
            stored(start, 0, "a", Some(0)),
            stored(start, 2, "", None),
            edited,
            stored(start, 30, "c", None),
        ];
        let of = |seconds| judge(&lease, 0, "a", &write(start, seconds));
        assert_eq!(
            [of(1), of(3), of(5)],
            [Verdict::Held, Verdict::TakenByHand, Verdict::Held]
        );
        assert_eq!([of(16), of(31)], [Verdict::Without; 2]);
        assert_eq!(judge(&lease, 2, "c", &write(start, 31)), Verdict::Without);
    }

    #[test]
    fn who_gave_the_lease_back_has_no_term() {
        let start = Instant::now();
        let lease = [stored(start, 0, "a", Some(0)), stored(start, 2, "", Some(0))];
        assert_eq!(judge(&lease, 0, "a", &write(start, 3)), Verdict::Without);
        assert_eq!(judge(&[], 0, "a", &write(start, 3)), Verdict::Without);
    }
}
