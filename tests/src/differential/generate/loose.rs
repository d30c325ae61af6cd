//! Endpoints that are edited or made by hand.

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;

use super::super::ops::{Key, Op, Service, Tamper};
use super::draw::{Draw, SERVICES};
use super::{hand_made, parts};

impl Draw<'_> {
    pub fn tamper(&mut self, space: usize) -> Option<Op> {
        let key = self.known_service(space)?;
        if self.rng.random_bool(0.15) {
            return Some(Op::DeleteEndpoints { key });
        }
        let ways = [
            Tamper::ExtraLabel,
            Tamper::NoManagedBy,
            Tamper::ForeignSubsets,
            Tamper::ForeignSubsets,
            Tamper::NoSubsets,
            Tamper::Annotation,
            Tamper::OverCapacity,
            Tamper::Contradiction,
            Tamper::Reorder,
        ];
        let how = parts::one(self.rng, &ways).clone();
        Some(Op::TamperEndpoints { key, how })
    }

    /// Endpoints that no controller keeps: for a Service without selector, or for none.
    pub fn loose_endpoints(&mut self, space: usize) -> Option<Op> {
        let key = match self.service_without_selector(space) {
            // Those are mirrored.
            Some(key) if self.rng.random_bool(0.7) => key,
            _ if self.rng.random_bool(0.6) => Key::new(space, format!("s{}", self.rng.random_range(0..SERVICES))),
            _ => Key::new(space, format!("e{}", self.rng.random_range(0..4))),
        };
        if self.world.services.get(&key).is_some_and(Service::is_live) {
            return None;
        }
        let content = hand_made::hand_made(self.rng);
        if !self.world.loose.contains_key(&key) {
            return Some(Op::CreateEndpoints { key, content });
        }
        Some(if self.rng.random_bool(0.5) {
            Op::ReplaceEndpoints { key, content }
        } else {
            Op::DeleteEndpoints { key }
        })
    }

    fn service_without_selector(&mut self, space: usize) -> Option<Key> {
        let of_space = self.world.services.iter().filter(|(key, _)| key.space == space);
        let keys: Vec<&Key> = of_space
            .filter(|(_, service)| service.selector.is_none())
            .map(|(key, _)| key)
            .collect();
        keys.choose(self.rng).map(|key| (*key).clone())
    }
}
