//! Rules: what happens to which requests, and how often.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::matcher::Match;
use super::refusal::Refusal;
use super::request::ApiRequest;

/// How an open watch ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// A complete reply, as when the server's own time-out ends a watch.
    Close,
    /// The connection is closed (FIN) in the middle of the reply, between two events.
    Fin,
    /// The connection is reset (RST).
    Reset,
    /// Half of the next event, then FIN. Takes effect when an event comes.
    MidEvent,
    /// An `ERROR` event inside the 200 stream, then a complete end. [`Refusal::expired`] is the usual one.
    Error(Refusal),
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Action {
    /// The proxy answers; the server never sees the request.
    Refuse(Refusal),
    /// The connection is reset; the server never sees the request.
    ResetBefore,
    /// The server acts and its whole reply is read, then the connection is reset: the client does not know.
    LoseReply,
    /// The server acts; the client gets the head and half of the body, then FIN.
    CutReply,
    /// The request reaches the server this much later (not at all if the client has given up by then).
    Delay(Duration),
    /// The server acts at once; the client gets the reply this much later.
    DelayReply(Duration),
    /// The server acts at once; the client gets the reply when the rule is removed.
    HoldReply,
    /// The server acts; the client gets 200 and, in place of the body, a text that is no object. A watch ends after it.
    GarbleReply,
    /// A list comes in pages of at most this many objects, whatever limit the client set and whatever else befalls it.
    Pages(u32),
    /// Accepted and never answered; the server never sees the request. Removing the rule does not free it.
    Hang,
    /// Nothing passes while the rule stands, as in a network partition: requests wait, and so do the events of open
    /// watches. Once the rule is removed they go on in order, if the client still waits.
    Hold,
    /// Each event of the watch comes this much later. The order is kept.
    DelayEvents(Duration),
    /// The event never comes; later ones do.
    DropEvents,
    /// A line that is no event comes in place of the event; later ones follow.
    GarbleEvents,
    /// The watch stays open and says nothing from the next event on, until the client leaves.
    Silence,
    /// The watch ends so after this many events.
    EndWatch {
        /// Events that still pass; bookmarks count.
        after: u64,
        /// How it ends.
        how: WatchEnd,
    },
}

impl Action {
    /// Acts on events of watches, those already open included.
    fn on_events(&self) -> bool {
        matches!(
            self,
            Self::Hold | Self::DelayEvents(_) | Self::DropEvents | Self::GarbleEvents | Self::Silence
        )
    }

    fn on_requests(&self) -> bool {
        !matches!(
            self,
            Self::DelayEvents(_) | Self::DropEvents | Self::GarbleEvents | Self::Silence | Self::Pages(_)
        )
    }
}

/// How often a rule acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Until it is removed.
    Always,
    /// On the first `n` matches, then no more. Event actions count events ([`Action::Silence`]: streams).
    First(u64),
    /// On the `n` matches after the first `skip`.
    After {
        /// Matches that pass untouched.
        skip: u64,
        /// Matches acted on after those.
        n: u64,
    },
}

struct Rule {
    id: u64,
    matcher: Match,
    action: Action,
    skip: u64,
    /// Matches still to act on; `None` is no limit.
    left: Option<u64>,
    hits: u64,
}

struct List {
    next: u64,
    rules: Vec<Rule>,
}

/// The rules in force; the oldest that matches acts.
pub(super) struct Rules {
    list: Mutex<List>,
    /// Bumped at each hit and each removal.
    changes: watch::Sender<u64>,
}

impl Rules {
    pub(super) fn new() -> Self {
        Self {
            list: Mutex::new(List {
                next: 1,
                rules: Vec::new(),
            }),
            changes: watch::Sender::new(0),
        }
    }

    pub(super) fn add(&self, matcher: Match, action: Action, times: Times) -> u64 {
        let (skip, left) = match times {
            Times::Always => (0, None),
            Times::First(n) => (0, Some(n)),
            Times::After { skip, n } => (skip, Some(n)),
        };
        let mut list = self.list.lock();
        let id = list.next;
        list.next += 1;
        list.rules.push(Rule {
            id,
            matcher,
            action,
            skip,
            left,
            hits: 0,
        });
        id
    }

    /// The action on a request that has just come in.
    pub(super) fn for_request(&self, request: &ApiRequest) -> Option<(u64, Action)> {
        self.take(request, Action::on_requests)
    }

    /// The size of the pages in which a list is to come.
    pub(super) fn pages_for(&self, request: &ApiRequest) -> Option<u32> {
        match self.take(request, |action| matches!(action, Action::Pages(_))) {
            Some((_, Action::Pages(limit))) => Some(limit),
            _ => None,
        }
    }

    /// The action on the next event of the watch `request`.
    pub(super) fn for_event(&self, request: &ApiRequest) -> Option<(u64, Action)> {
        self.take(request, Action::on_events)
    }

    fn take(&self, request: &ApiRequest, phase: impl Fn(&Action) -> bool) -> Option<(u64, Action)> {
        let mut list = self.list.lock();
        let mut taken = None;
        for rule in &mut list.rules {
            if rule.left == Some(0) || !phase(&rule.action) || !rule.matcher.matches(request) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            rule.left = rule.left.map(|n| n - 1);
            rule.hits += 1;
            taken = Some((rule.id, rule.action.clone()));
            break;
        }
        drop(list);
        if taken.is_some() {
            self.changes.send_modify(|n| *n += 1);
        }
        taken
    }

    pub(super) fn stands(&self, id: u64) -> bool {
        self.list.lock().rules.iter().any(|r| r.id == id)
    }

    /// Returns once rule `id` has been removed.
    pub(super) async fn removed(&self, id: u64) {
        let mut changes = self.changes.subscribe();
        while self.stands(id) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn remove(&self, id: u64) {
        self.list.lock().rules.retain(|r| r.id != id);
        self.changes.send_modify(|n| *n += 1);
    }

    pub(super) fn clear(&self) {
        self.list.lock().rules.clear();
        self.changes.send_modify(|n| *n += 1);
    }

    fn hits(&self, id: u64) -> u64 {
        self.list.lock().rules.iter().find(|r| r.id == id).map_or(0, |r| r.hits)
    }
}

/// A rule in force. Dropping the handle leaves the rule; [`RuleHandle::remove`] takes it away.
#[derive(Clone)]
pub struct RuleHandle {
    pub(super) id: u64,
    pub(super) rules: Arc<Rules>,
}

impl RuleHandle {
    /// How often the rule has acted.
    pub fn hits(&self) -> u64 {
        self.rules.hits(self.id)
    }

    /// Takes the rule out of force; what it held back goes on.
    pub fn remove(&self) {
        self.rules.remove(self.id);
    }

    /// Waits until the rule has acted `n` times; an error says how often it did by the deadline.
    pub async fn wait_hits(&self, n: u64, deadline: Duration) -> anyhow::Result<()> {
        let mut changes = self.rules.changes.subscribe();
        let enough = async {
            while self.hits() < n {
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(deadline, enough).await;
        let hits = self.hits();
        anyhow::ensure!(
            hits >= n,
            "the fault rule acted {hits} of {n} times within {deadline:?}"
        );
        Ok(())
    }
}
