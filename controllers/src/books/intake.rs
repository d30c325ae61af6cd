//! The events of one watch.

use std::time::Instant;

use kube::runtime::watcher::Event;
use svcplane_webhook::ledger::SharedLedger;

use super::Booked;

/// Takes the events of one kind. A list goes into the ledger as a whole, so that nothing is free for a moment that is not.
pub struct Intake<K: Booked> {
    ledger: SharedLedger,
    listed: Option<Vec<K::Fact>>,
}

impl<K: Booked> Intake<K> {
    /// Into this ledger.
    pub fn new(ledger: SharedLedger) -> Self {
        Self { ledger, listed: None }
    }

    /// Takes one event.
    pub fn event(&mut self, event: &Event<K>) {
        let now = Instant::now();
        match event {
            Event::Init => self.listed = Some(Vec::new()),
            Event::InitApply(object) => {
                if let Some(listed) = &mut self.listed {
                    listed.extend(object.fact());
                }
            }
            Event::InitDone => {
                let mut ledger = self.ledger.lock();
                K::replace(&mut ledger, self.listed.take().unwrap_or_default(), now);
                ledger.heard(K::KIND, true, now);
            }
            Event::Apply(object) => {
                let fact = object.fact();
                let mut ledger = self.ledger.lock();
                match fact {
                    Some(fact) => K::set(&mut ledger, fact, now),
                    None => object.remove(&mut ledger, now),
                }
            }
            Event::Delete(object) => object.remove(&mut self.ledger.lock(), now),
        }
    }
}
