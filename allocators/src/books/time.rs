//! What ends by itself: choices that were not stored, and quarantine.

use std::time::Instant;

use super::Book;
use super::state::Pending;
use crate::service::{Requester, ServiceKey};
use crate::value::Value;

impl<V: Value> Book<V> {
    /// Ends what is over at `now`. Every change does this first; call it once a second or so where nothing changes.
    pub fn advance(&mut self, now: Instant) {
        while let Some((until, value)) = self.pending_until.first().copied()
            && until <= now
        {
            self.pending_until.pop_first();
            if let Some(pending) = self.unpend(value) {
                self.note(&pending, false, now);
                if !self.rules.unconfirmed.is_zero() {
                    self.quarantine(value, until + self.rules.unconfirmed);
                }
            }
        }
        while let Some((until, value)) = self.quarantined_until.first().copied()
            && until <= now
        {
            self.quarantined_until.pop_first();
            self.change(value, |entry| entry.quarantined = None);
        }
    }

    /// Keeps a value for a choice.
    pub(super) fn pend(&mut self, value: V, pending: Pending) {
        self.unpend(value);
        let Pending { key, until, .. } = &pending;
        if let Requester::Named(_) = key.requester
            && let Some(earlier) = self.asked.insert(key.clone(), value)
        {
            self.unpend(earlier);
        }
        self.pending_until.insert((*until, value));
        self.change(value, |entry| entry.pending = Some(pending));
    }

    /// A value is no longer kept for the choice that it was made for.
    pub(super) fn unpend(&mut self, value: V) -> Option<Pending> {
        self.entries.get(&value)?.pending.as_ref()?;
        let pending = self.change(value, |entry| entry.pending.take())?;
        self.pending_until.remove(&(pending.until, value));
        if self.asked.get(&pending.key) == Some(&value) {
            self.asked.remove(&pending.key);
        }
        Some(pending)
    }

    /// A value that was pending is reserved or stored for this Service. True if this replica has chosen it for that.
    pub(super) fn settle(&mut self, pending: &Pending, service: Option<&ServiceKey>, now: Instant) -> bool {
        let as_chosen = service.is_some_and(|service| pending.key.may_be(service));
        self.note(pending, as_chosen, now);
        as_chosen && pending.ours
    }

    /// Tells the breaker of its range how a choice has ended, once.
    pub(super) fn note(&mut self, pending: &Pending, confirmed: bool, now: Instant) {
        let range = pending.range.as_ref().filter(|_| !pending.confirmed);
        if let Some(range) = range.and_then(|text| self.ranges.iter_mut().find(|range| range.range.text() == text)) {
            range.breaker.note(confirmed, now);
        }
    }

    /// Keeps a value back until then, or longer if it is already.
    pub(super) fn quarantine(&mut self, value: V, until: Instant) {
        let earlier = self.entries.get(&value).and_then(|entry| entry.quarantined);
        if earlier.is_some_and(|earlier| earlier >= until) {
            return;
        }
        self.end_quarantine(value);
        self.quarantined_until.insert((until, value));
        self.change(value, |entry| entry.quarantined = Some(until));
    }

    pub(super) fn end_quarantine(&mut self, value: V) {
        let until = self.entries.get(&value).and_then(|entry| entry.quarantined);
        if let Some(until) = until {
            self.quarantined_until.remove(&(until, value));
            self.change(value, |entry| entry.quarantined = None);
        }
    }
}
