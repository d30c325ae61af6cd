//! The election, as a pure state machine: no clock, no client, no randomness of its own. The shell (`lease`) asks
//! [`Elector::step`] what to do, does it, and reports what came of it.
//!
//! The rules are those of client-go's `tools/leaderelection`: a record is believed for the duration written in it, counted
//! on the local monotonic clock from the moment this process first saw it; times written by others are never compared
//! with a clock; every write is conditional on the version last seen. Five things differ, the first four on the safe side:
//!
//! * Losing is not the end: the elector contends again.
//! * A record is believed for the longer of its own duration and that of the record before it, and a deleted Lease or a
//!   holder removed by hand is believed like the record it replaced. Only a release (no holder, one second) cuts the
//!   waiting short. A Lease that did not exist when this process looked last, long ago, may have been made and deleted
//!   again since then: the waiting begins anew. So deleting or editing the Lease never makes two leaders, except where a
//!   process that never saw it starts at that moment or a person imitates a release.
//! * A record that names this process but was not written by it is believed like anybody's.
//! * Every renewal changes the record, also when the wall clock stands still: others would take an unchanged one for dead.
//! * A duration of more than ten times one's own was written by a hand that slipped, and is believed for ten times: nobody
//!   would lead for the 68 years that the field can say. Nothing alive pauses for so long between two renewals.

use std::time::{Duration, Instant};

use super::record::{JITTER_FACTOR, Micros, RELEASED_SECONDS, Record, Stamp, Tenure, Timing};

/// No call takes longer than this; while leading, none takes longer than the term lasts.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// A renewal comes up to this part of a retry period early, so that processes started together do not stay in step.
const RENEW_JITTER: f64 = 0.1;

/// A record is believed for so many times the own lease duration at the most.
const MOST_BELIEVED: u32 = 10;

/// What is known of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// It was never read.
    Nothing,
    /// It does not exist.
    Absent,
    /// It did not exist when read, and a moment later it could not be created: somebody has made it.
    Unread,
    /// It exists.
    Present(Record),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing until then. Report nothing; call [`Elector::step`] again.
    Sleep(Instant),
    /// Read the Lease, then call [`Elector::read`] or [`Elector::read_failed`].
    Read,
    /// Create the Lease, then call [`Elector::written`] or [`Elector::not_written`].
    Create(Record),
    /// Replace the Lease in the version last seen, then call [`Elector::written`] or [`Elector::not_written`].
    Replace(Record),
}

/// Why a write brought no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The apiserver refused it: conflict, gone, exists already. It did not happen.
    Definite,
    /// No answer, or one that does not say: it may have happened or may happen yet.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A round begins.
    Start,
    /// The Lease must be read; after a failed renewal too.
    Read,
    /// The Lease was just read.
    Judge,
    /// A write is under way; `fast` when the Lease was not read before it.
    Writing { fast: bool },
    /// A round has ended.
    Resting,
    /// The next round begins then.
    Until(Instant),
}

/// The election of one process.
#[derive(Clone, Debug)]
pub struct Elector {
    identity: String,
    timing: Timing,
    phase: Phase,
    seen: Seen,
    /// When it was last seen not to exist.
    absent: Option<Stamp>,
    /// Until then another process may hold a valid term.
    believed_until: Option<Instant>,
    /// The record that the apiserver has confirmed as ours.
    confirmed: Option<Record>,
    /// The last write without an answer yet, and when it was sent.
    pending: Option<(Record, Stamp)>,
    tenure: Option<Tenure>,
    slow_renewals: u64,
}

impl Elector {
    /// An elector that knows nothing yet. `identity` must be unique to this process and is compared whole.
    pub fn new(identity: String, timing: Timing) -> Self {
        Self {
            identity,
            timing,
            phase: Phase::Start,
            seen: Seen::Nothing,
            absent: None,
            believed_until: None,
            confirmed: None,
            pending: None,
            tenure: None,
            slow_renewals: 0,
        }
    }

    /// The name under which this process contends.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The current tenure, if `now` is inside one.
    pub fn tenure(&self, now: Stamp) -> Option<Tenure> {
        self.tenure.filter(|tenure| tenure.remaining(now).is_some())
    }

    /// Who holds the Lease, as last seen; empty when nobody does.
    pub fn holder(&self) -> &str {
        match &self.seen {
            Seen::Present(record) => &record.holder,
            Seen::Nothing | Seen::Absent | Seen::Unread => "",
        }
    }

    /// The seconds in another's record as last seen, and for how long it is believed instead, if that is less.
    pub fn disbelieved(&self) -> Option<(i32, Duration)> {
        match &self.seen {
            Seen::Present(record) if record.holder != self.identity => record
                .duration_seconds
                .map(|seconds| (seconds, self.longest_belief()))
                .filter(|(seconds, most)| u64::try_from(*seconds).is_ok_and(|it| it > most.as_secs())),
            _ => None,
        }
    }

    /// How many renewals had to read the Lease first (client-go's slow path).
    pub fn slow_renewals(&self) -> u64 {
        self.slow_renewals
    }

    /// Whether a write may have happened of which nothing is known.
    pub fn is_uncertain(&self) -> bool {
        self.pending.is_some()
    }

    /// How long a call that starts `now` may take.
    pub fn call_limit(&self, now: Stamp) -> Duration {
        let limit = CALL_LIMIT.min(self.timing.renew_deadline);
        self.tenure
            .and_then(|tenure| tenure.remaining(now))
            .map_or(limit, |left| left.min(limit))
    }

    /// What to do `now`. `jitter` is a random number in `0.0..1.0`, used when a round has ended.
    pub fn step(&mut self, now: Stamp, jitter: f64) -> Step {
        self.tenure = self.tenure(now);
        if self.phase == Phase::Judge {
            if self.may_write(now) {
                return self.write(now, false);
            }
            self.tenure = None;
            self.phase = Phase::Resting;
        }
        if self.phase == Phase::Resting {
            self.phase = Phase::Until(self.next_round(now, jitter));
        }
        match self.phase {
            Phase::Until(until) if now.monotonic < until => {
                let end = self
                    .tenure
                    .and_then(|tenure| tenure.remaining(now))
                    .map(|left| now.monotonic + left);
                Step::Sleep(end.map_or(until, |end| until.min(end)))
            }
            Phase::Start | Phase::Until(_) if self.tenure.is_some() => self.write(now, true),
            _ => {
                self.phase = Phase::Read;
                Step::Read
            }
        }
    }

    /// The Lease was read and looks like this; `None` when there is none.
    pub fn read(&mut self, now: Stamp, lease: Option<Record>) {
        self.observe(now, lease.map_or(Seen::Absent, Seen::Present));
        // A write of ours whose answer was lost did happen, if the record is what we sent. One that happened so late that
        // its term is over already gives no right to go on: the Lease may have been somebody else's in between.
        if let (Seen::Present(record), Some((sent, started))) = (&self.seen, &self.pending)
            && record == sent
        {
            if let Some(tenure) = self.tenure_from(record, *started, now) {
                self.confirmed = Some(record.clone());
                self.tenure = Some(tenure);
            }
            self.pending = None;
        }
        self.phase = Phase::Judge;
    }

    /// The Lease could not be read.
    pub fn read_failed(&mut self) {
        self.phase = Phase::Resting;
    }

    /// The write succeeded; the apiserver answered with this record.
    pub fn written(&mut self, now: Stamp, lease: Record) {
        let started = self.pending.take().map(|(_, started)| started);
        self.tenure = started.and_then(|started| self.tenure_from(&lease, started, now));
        self.confirmed = (lease.holder == self.identity).then(|| lease.clone());
        self.observe(now, Seen::Present(lease));
        self.phase = Phase::Resting;
    }

    /// The write failed.
    pub fn not_written(&mut self, refusal: Refusal) {
        if refusal == Refusal::Definite {
            self.pending = None;
            if self.seen == Seen::Absent {
                self.seen = Seen::Unread;
            }
        }
        self.phase = if self.phase == (Phase::Writing { fast: true }) {
            self.slow_renewals += 1;
            Phase::Read
        } else {
            Phase::Resting
        };
    }

    /// Something suggests that the Lease has changed: a candidate looks at once.
    pub fn look_now(&mut self) {
        if self.tenure.is_none() && matches!(self.phase, Phase::Until(_) | Phase::Resting) {
            self.phase = Phase::Start;
        }
    }

    /// Ends the term. What to replace the Lease with, if it is ours as far as is known: the release of client-go.
    pub fn release(&mut self, now: Stamp) -> Option<Record> {
        self.tenure = None;
        match &self.seen {
            Seen::Present(record) if record.holder == self.identity => Some(Record {
                holder: String::new(),
                duration_seconds: Some(RELEASED_SECONDS),
                acquired: Some(now.wall),
                renewed: Some(now.wall),
                transitions: record.transitions,
                unreadable: String::new(),
            }),
            _ => None,
        }
    }

    /// Whether this process may make itself the holder, given what was just read.
    fn may_write(&self, now: Stamp) -> bool {
        let believed = self.believed_until.is_some_and(|until| now.monotonic < until);
        match (&self.seen, self.tenure.is_some()) {
            (Seen::Nothing | Seen::Unread, _) => false,
            // Nobody else may hold a term while ours lasts, so a Lease that was deleted or cleared is taken back at once.
            (Seen::Absent, leading) => leading || !believed,
            (Seen::Present(record), true) => record.holder == self.identity || record.holder.is_empty(),
            (Seen::Present(record), false) => !believed || self.confirmed.as_ref() == Some(record),
        }
    }

    /// Writes the record that makes or keeps this process the holder.
    fn write(&mut self, now: Stamp, fast: bool) -> Step {
        let previous = match &self.seen {
            Seen::Present(record) => Some(record),
            // Our own Lease was deleted while we lead: it comes back as it was.
            Seen::Absent | Seen::Unread | Seen::Nothing => self.confirmed.as_ref().filter(|_| self.tenure.is_some()),
        };
        let record = Record {
            holder: self.identity.clone(),
            duration_seconds: i32::try_from(self.timing.lease_duration.as_secs()).ok(),
            ..self.succeeding(previous, now)
        };
        self.pending = Some((record.clone(), now));
        self.phase = Phase::Writing { fast };
        if matches!(self.seen, Seen::Present(_)) {
            Step::Replace(record)
        } else {
            Step::Create(record)
        }
    }

    /// Acquire time, renew time and transitions of the record that follows `previous`.
    fn succeeding(&self, previous: Option<&Record>, now: Stamp) -> Record {
        let fresh = Record {
            acquired: Some(now.wall),
            renewed: Some(now.wall),
            ..Record::default()
        };
        match previous {
            None => fresh,
            Some(record) if record.holder == self.identity => Record {
                acquired: record.acquired.or(fresh.acquired),
                renewed: record.renewed.map(|last| later(last, now.wall)).or(fresh.renewed),
                transitions: record.transitions,
                ..fresh
            },
            Some(record) => Record {
                transitions: record.transitions.saturating_add(1),
                ..fresh
            },
        }
    }

    fn tenure_from(&self, record: &Record, started: Stamp, now: Stamp) -> Option<Tenure> {
        let tenure = Tenure {
            renewed: started,
            lasts: self.timing.renew_deadline,
            transitions: record.transitions,
        };
        (record.holder == self.identity && tenure.remaining(now).is_some()).then_some(tenure)
    }

    /// Notes the Lease as it is `now`, and for how long it must be believed when it has changed.
    fn observe(&mut self, now: Stamp, current: Seen) {
        let looked = match current {
            Seen::Absent => self.absent.replace(now),
            _ => self.absent.take(),
        };
        if current == self.seen {
            if looked.is_some_and(|before| now.since(before) > self.longest_look_away()) {
                self.believed_until = Some(now.monotonic + self.timing.lease_duration);
            }
            return;
        }
        let released = matches!(&current, Seen::Present(record) if record.is_released());
        let wait = self.belief(&current).max(self.belief(&self.seen));
        self.believed_until = (!released).then(|| now.monotonic + wait);
        self.seen = current;
    }

    /// How long a term may last under which the Lease looked like `seen`.
    fn belief(&self, seen: &Seen) -> Duration {
        match seen {
            Seen::Nothing | Seen::Absent => Duration::ZERO,
            Seen::Unread => self.timing.lease_duration,
            Seen::Present(record) if record.is_released() => Duration::ZERO,
            Seen::Present(record) => match record.duration_seconds.map(u64::try_from) {
                Some(Ok(seconds)) => Duration::from_secs(seconds).min(self.longest_belief()),
                // A Lease made in advance has neither. A holder without a duration was edited by hand.
                _ if record.holder.is_empty() => Duration::ZERO,
                _ => self.timing.lease_duration,
            },
        }
    }

    /// How long a Lease that does not exist may go without a look: rounds come more often than this, if their calls do not fail.
    fn longest_look_away(&self) -> Duration {
        let rounds = self.timing.retry_period.saturating_mul(3).saturating_add(CALL_LIMIT);
        rounds.max(self.timing.lease_duration)
    }

    fn longest_belief(&self) -> Duration {
        self.timing.lease_duration.saturating_mul(MOST_BELIEVED)
    }

    /// When the next round begins. A candidate looks again at the latest when the record it saw may have run out.
    fn next_round(&self, now: Stamp, jitter: f64) -> Instant {
        if self.tenure.is_some() {
            return now.monotonic + self.timing.retry_period.mul_f64(1.0 - RENEW_JITTER * jitter);
        }
        let next = now.monotonic + self.timing.retry_period.mul_f64(1.0 + JITTER_FACTOR * jitter);
        self.believed_until
            .filter(|until| now.monotonic < *until)
            .map_or(next, |until| until.min(next))
    }
}

/// The renew time after `last`: the wall clock, or a microsecond more than `last` where it has not moved on. A clock that
/// was set back by more than a second is followed.
fn later(last: Micros, wall: Micros) -> Micros {
    let behind = last.0.saturating_sub(wall.0);
    if (0..1_000_000).contains(&behind) {
        Micros(last.0.saturating_add(1))
    } else {
        wall
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
