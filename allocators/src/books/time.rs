//! What ends by itself: choices that were not stored, and quarantine.

use std::time::Instant;

use super::Book;
use super::state::{Pending, Rest};
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
                    self.quarantine(value, until + self.rules.unconfirmed, Rest::Unstored);
                }
            }
        }
        while let Some(((until, value), _)) = self.quarantined_until.first_key_value()
            && *until <= now
        {
            self.end_quarantine(*value);
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

    /// Keeps a value back until then, or longer if it is already. Why it was kept back first counts, unless it is to go to nobody.
    pub(super) fn quarantine(&mut self, value: V, until: Instant, why: Rest) {
        let (mut until, mut why) = (until, why);
        if let Some((earlier, known)) = self.end_quarantine(value) {
            until = until.max(earlier);
            if why != Rest::Renounced {
                why = known;
            }
        }
        if let Rest::Used(service, _) = &why {
            self.left.entry(service.clone()).or_default().insert(value);
        }
        self.quarantined_until.insert((until, value), why);
        self.change(value, |entry| entry.quarantined = Some(until));
    }

    /// Until when it would have lasted, and why.
    pub(super) fn end_quarantine(&mut self, value: V) -> Option<(Instant, Rest)> {
        let until = self.entries.get(&value)?.quarantined?;
        let why = self.quarantined_until.remove(&(until, value))?;
        if let Rest::Used(service, _) = &why
            && let Some(left) = self.left.get_mut(service)
        {
            left.remove(&value);
            if left.is_empty() {
                self.left.remove(service);
            }
        }
        self.change(value, |entry| entry.quarantined = None);
        Some((until, why))
    }

    /// Why a value is in quarantine.
    pub(super) fn rest(&self, value: V) -> Option<&Rest> {
        let until = self.entries.get(&value)?.quarantined?;
        self.quarantined_until.get(&(until, value))
    }
}
