//! The term: what writers ask before each write. It is fenced by time, so it ends by itself when the elector's task is
//! stuck, the process was stopped or its machine suspended.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use thiserror::Error;
use tokio::sync::watch;

use super::notes::Notes;
use super::record::{Micros, Stamp, Tenure};

impl Stamp {
    /// This moment. In tests with paused time the monotonic hand is tokio's.
    pub fn now() -> Self {
        Self {
            monotonic: tokio::time::Instant::now().into_std(),
            wall: SystemTime::now().into(),
        }
    }

    /// The given moment of the monotonic clock, with the wall clock as it is now.
    pub fn at(monotonic: Instant) -> Self {
        Self {
            monotonic,
            wall: SystemTime::now().into(),
        }
    }
}

impl From<SystemTime> for Micros {
    fn from(time: SystemTime) -> Self {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => micros(since),
            Err(before) => -micros(before.duration()),
        })
    }
}

/// Whether this process leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does not.
    Follower,
    /// It does, for the time that [`Tenure::remaining`] tells.
    Leader(Tenure),
    /// There is no election (`--leader-elect=false`): it always does.
    Unelected,
}

/// What the election last said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Whether this process leads.
    pub standing: Standing,
    /// Whether the Lease carries `svcplane.io/mode: observe`: no endpoint writes, whoever leads and whatever the flags say.
    pub forced_observe: bool,
    /// The identity of who holds the Lease; empty when nobody does or nothing is known.
    pub holder: String,
    /// What is noted on the Lease.
    pub notes: Arc<Notes>,
}

impl Term {
    /// All but the time of the last renewal.
    fn essence(&self) -> (Option<i32>, bool, bool, &str, &Notes) {
        let transitions = match self.standing {
            Standing::Leader(tenure) => Some(tenure.transitions),
            Standing::Follower | Standing::Unelected => None,
        };
        (
            transitions,
            self.standing == Standing::Unelected,
            self.forced_observe,
            &self.holder,
            &self.notes,
        )
    }
}

/// Why a write is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotLeader {
    /// Another process leads, or nobody.
    #[error("this process does not lead; the lease is held by {holder:?}")]
    Follower {
        /// The identity of the holder; empty when there is none.
        holder: String,
    },
    /// The last renewal is too long ago.
    #[error("this process's term is over: its lease was not renewed in time")]
    Expired,
}

/// The writers' view of the election. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TermHandle {
    term: watch::Receiver<Term>,
}

impl TermHandle {
    /// The handle for `--leader-elect=false`: this process always leads.
    pub fn unelected() -> Self {
        let term = Term {
            standing: Standing::Unelected,
            forced_observe: false,
            holder: String::new(),
            notes: Arc::default(),
        };
        Self {
            term: watch::channel(term).1,
        }
    }

    /// How much of the term is left `now` (a moment of the monotonic clock; the wall clock is read here). Call it
    /// immediately before each write; a write that is under way when the term ends fails on its precondition.
    ///
    /// # Errors
    /// When this process does not lead, or has not renewed its lease in time.
    pub fn check(&self, now: Instant) -> Result<Duration, NotLeader> {
        self.check_at(Stamp::at(now))
    }

    /// [`TermHandle::check`] with both clocks as arguments.
    ///
    /// # Errors
    /// As there.
    pub fn check_at(&self, now: Stamp) -> Result<Duration, NotLeader> {
        let term = self.term.borrow();
        match term.standing {
            Standing::Unelected => Ok(Duration::MAX),
            Standing::Leader(tenure) => tenure.remaining(now).ok_or(NotLeader::Expired),
            Standing::Follower => Err(NotLeader::Follower {
                holder: term.holder.clone(),
            }),
        }
    }

    /// Whether the Lease says observe; see [`Term::forced_observe`].
    pub fn is_forced_to_observe(&self) -> bool {
        self.term.borrow().forced_observe
    }

    /// What the election last said.
    pub fn term(&self) -> Term {
        self.term.borrow().clone()
    }

    /// Waits until the election says something else than it had when this handle was made, cloned or last waited
    /// upon: leadership, holder, `forced_observe` or notes, not a mere renewal. A term that ends by time alone changes nothing
    /// here until the elector's task notices; [`TermHandle::check`] knows at once. Never returns when there is no election
    /// or its task has ended.
    pub async fn changed(&mut self) -> Term {
        if self.term.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.term.borrow_and_update().clone()
    }
}

/// The elector's end of a [`TermHandle`].
#[derive(Debug)]
pub(super) struct TermSender(watch::Sender<Term>);

impl TermSender {
    /// A sender and its first handle: not leading, nothing known.
    pub(super) fn new() -> (Self, TermHandle) {
        let unknown = Term {
            standing: Standing::Follower,
            forced_observe: false,
            holder: String::new(),
            notes: Arc::default(),
        };
        let (sender, term) = watch::channel(unknown);
        (Self(sender), TermHandle { term })
    }

    /// Makes `term` what handles see. Returns the one before.
    pub(super) fn publish(&self, term: Term) -> Term {
        let mut before = term;
        self.0.send_if_modified(|current| {
            std::mem::swap(current, &mut before);
            current.essence() != before.essence()
        });
        before
    }
}

impl Drop for TermSender {
    /// An election that ends, in whatever way, ends the term.
    fn drop(&mut self) {
        let term = Term {
            standing: Standing::Follower,
            ..self.0.borrow().clone()
        };
        self.publish(term);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leading(renewed: Stamp, transitions: i32) -> Term {
        let tenure = Tenure {
            renewed,
            lasts: Duration::from_secs(10),
            transitions,
        };
        Term {
            standing: Standing::Leader(tenure),
            forced_observe: false,
            holder: "me".to_owned(),
            notes: Arc::default(),
        }
    }

    #[test]
    fn a_term_ends_by_time_although_nobody_says_so() {
        let (sender, handle) = TermSender::new();
        let start = Stamp::now();
        assert_eq!(
            handle.check_at(start),
            Err(NotLeader::Follower { holder: String::new() })
        );
        sender.publish(leading(start, 3));
        let at = |seconds| Stamp {
            monotonic: start.monotonic + Duration::from_secs(seconds),
            wall: start.wall,
        };
        assert_eq!(handle.check_at(at(4)), Ok(Duration::from_secs(6)));
        assert_eq!(handle.check_at(at(10)), Err(NotLeader::Expired));
        // B85, a suspended machine: only the wall clock has moved.
        let resumed = Stamp {
            monotonic: start.monotonic,
            wall: Micros(start.wall.0 + 11_000_000),
        };
        assert_eq!(handle.check_at(resumed), Err(NotLeader::Expired));
        assert!(handle.check(start.monotonic).is_ok());
        drop(sender);
        assert_eq!(
            handle.check_at(start),
            Err(NotLeader::Follower {
                holder: "me".to_owned()
            })
        );
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_changes_of_leadership_and_not_with_renewals() {
        let (sender, mut handle) = TermSender::new();
        let quiet = |handle: &TermHandle| !handle.term.has_changed().unwrap();
        let now = Stamp::now();
        sender.publish(leading(now, 1));
        assert_eq!(handle.changed().await, leading(now, 1));
        tokio::time::advance(Duration::from_secs(2)).await;
        let renewed = Stamp::now();
        sender.publish(leading(renewed, 1));
        assert!(quiet(&handle));
        assert_eq!(handle.term(), leading(renewed, 1), "a renewal is seen all the same");
        sender.publish(Term {
            forced_observe: true,
            ..leading(renewed, 1)
        });
        assert!(handle.changed().await.forced_observe);
        let noted = Term {
            notes: Arc::new([("svcplane.io/canary".to_owned(), "passed".to_owned())].into()),
            ..leading(renewed, 1)
        };
        sender.publish(noted.clone());
        assert_eq!(handle.changed().await, noted);
        sender.publish(Term {
            standing: Standing::Follower,
            ..leading(renewed, 1)
        });
        assert_eq!(handle.changed().await.standing, Standing::Follower);
    }

    #[test]
    fn without_an_election_the_term_never_ends() {
        let handle = TermHandle::unelected();
        let now = Stamp::now();
        assert_eq!(
            handle.check(now.monotonic + Duration::from_secs(1_000_000)),
            Ok(Duration::MAX)
        );
        assert_eq!(handle.term().standing, Standing::Unelected);
    }
}
