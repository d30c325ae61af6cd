//! What rests after use ends by itself.

use std::time::Instant;

use super::book::{AddressBook, Rest};
use crate::value::Value;

impl<V: Value> AddressBook<V> {
    /// Ends the rests that are over.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some((until, value)) = self.rests.first().copied()
            && until <= now
        {
            self.end_rest(value);
            self.recount(value);
            self.stirred.push(value);
        }
    }

    pub(super) fn end_rest(&mut self, value: V) {
        let Some(Rest { until, former }) = self.resting.remove(&value) else {
            return;
        };
        self.rests.remove(&(until, value));
        if let Some(values) = self.formers.get_mut(&former) {
            values.remove(&value);
            if values.is_empty() {
                self.formers.remove(&former);
            }
        }
    }

    /// When the next rest ends.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.rests.first().map(|(until, _)| *until)
    }
}
