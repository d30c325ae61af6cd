//! Endpoints that are edited or made by hand.

use rand::RngExt as _;

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
        let name = if self.rng.random_bool(0.6) {
            format!("s{}", self.rng.random_range(0..SERVICES))
        } else {
            format!("e{}", self.rng.random_range(0..4))
        };
        let key = Key::new(space, name);
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
}
