//! The values of an election: moments, durations, the record in the Lease and the time of leading that follows from it.

use std::time::{Duration, Instant};

/// client-go's `JitterFactor`: a candidate waits between 1 and 2.2 retry periods.
pub const JITTER_FACTOR: f64 = 1.2;

/// What a release writes: client-go's value, and the smallest that the apiserver accepts.
pub(super) const RELEASED_SECONDS: i32 = 1;

/// The three durations of an election, valid as [`LeaderElectionArgs`](super::LeaderElectionArgs) makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long others believe a record of ours. Whole seconds, at least one.
    pub lease_duration: Duration,
    /// How long a term lasts without a successful renewal; less than `lease_duration`.
    pub renew_deadline: Duration,
    /// The time between tries; times [`JITTER_FACTOR`] less than `renew_deadline`.
    pub retry_period: Duration,
}

/// A wall-clock time in microseconds since 1970, the precision of a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(pub i64);

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The monotonic clock; it stands still while a virtual machine is suspended.
    pub monotonic: Instant,
    /// The wall clock; it may be set.
    pub wall: Micros,
}

impl Stamp {
    /// How long after `earlier` this is, by the clock that says more: the monotonic one cannot be set but stands still in a
    /// suspended virtual machine, the wall clock does not. A wall clock that was set back counts as no time passed, which
    /// leaves the monotonic bound.
    pub fn since(self, earlier: Self) -> Duration {
        let monotonic = self.monotonic.saturating_duration_since(earlier.monotonic);
        let wall = u64::try_from(self.wall.0.saturating_sub(earlier.wall.0)).unwrap_or(0);
        monotonic.max(Duration::from_micros(wall))
    }
}

/// The election's part of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// `holderIdentity`; empty when nobody holds the Lease.
    pub holder: String,
    /// `leaseDurationSeconds`.
    pub duration_seconds: Option<i32>,
    /// `acquireTime`.
    pub acquired: Option<Micros>,
    /// `renewTime`.
    pub renewed: Option<Micros>,
    /// `leaseTransitions`; absent counts as 0.
    pub transitions: i32,
    /// Times that are there and cannot be read, as they are spelled. They only tell one record from the next: a time is
    /// never compared with a clock, so one that makes no sense must not matter.
    pub unreadable: String,
}

impl Record {
    /// Whether the last holder gave the Lease back.
    pub fn is_released(&self) -> bool {
        self.holder.is_empty() && self.duration_seconds == Some(RELEASED_SECONDS)
    }
}

/// A time of leading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// When the request that last renewed it was sent.
    pub renewed: Stamp,
    /// How long it lasts from there.
    pub lasts: Duration,
    /// `leaseTransitions` of the record: it tells tenures apart.
    pub transitions: i32,
}

impl Tenure {
    /// How long this tenure lasts from `now` on; nothing when it is over.
    pub fn remaining(&self, now: Stamp) -> Option<Duration> {
        let left = self.lasts.checked_sub(now.since(self.renewed))?;
        (!left.is_zero()).then_some(left)
    }
}
