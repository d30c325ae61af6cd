//! Slices that are edited or somebody else's, and Nodes.

use rand::RngExt as _;

use super::super::ops::{Key, Node, Op, Service, SliceTamper};
use super::draw::{Draw, NODES, SERVICES};
use super::parts;

/// Slices of others for one Service.
const FOREIGN: u8 = 2;

impl Draw<'_> {
    pub fn tamper_slices(&mut self, space: usize) -> Option<Op> {
        let key = self.known_service(space)?;
        let ways = [
            SliceTamper::ForeignEndpoints,
            SliceTamper::ForeignEndpoints,
            SliceTamper::NoEndpoints,
            SliceTamper::OtherPorts,
            SliceTamper::ExtraLabel,
            SliceTamper::HeadlessLabel,
            SliceTamper::Annotation,
            SliceTamper::Delete,
            SliceTamper::Delete,
            SliceTamper::Double,
            SliceTamper::Orphan,
            SliceTamper::NoOwner,
        ];
        let how = parts::one(self.rng, &ways).clone();
        let last = self.rng.random_bool(0.5);
        Some(Op::TamperSlices { key, how, last })
    }

    /// An edit that the reference does not get over by itself.
    pub fn wedge(&mut self, space: usize) -> Option<Op> {
        let key = self.known_service(space)?;
        if !self.world.services.get(&key).is_some_and(Service::is_live) {
            return None;
        }
        let other = self.known_service(space).filter(|other| *other != key);
        let how = match self.rng.random_range(0..3) {
            0 => SliceTamper::OtherService(other?.name),
            1 => SliceTamper::OtherManager,
            _ => SliceTamper::Dying,
        };
        let last = self.rng.random_bool(0.5);
        Some(Op::TamperSlices { key, how, last })
    }

    pub fn foreign_slice(&mut self, space: usize) -> Option<Op> {
        let key = Key::new(space, format!("s{}", self.rng.random_range(0..SERVICES)));
        let number = self.rng.random_range(0..FOREIGN);
        let there = self.world.foreign.contains_key(&(key.clone(), number));
        if there && self.rng.random_bool(0.5) {
            return Some(Op::DeleteForeignSlice { key, number });
        }
        let address = self.rng.random_range(1..250);
        Some(Op::PutForeignSlice { key, number, address })
    }

    pub fn node(&mut self) -> Op {
        let name = node_name(self.rng.random_range(0..NODES));
        if self.world.nodes.contains_key(&name) && self.rng.random_bool(0.3) {
            return Op::DeleteNode { name };
        }
        let node = parts::node(self.rng);
        Op::PutNode { name, node }
    }
}

/// The name of a Node.
pub fn node_name(number: usize) -> String {
    format!("n{number}")
}

/// A Node as all are in the beginning, three zones in all.
pub fn first_node(number: usize) -> Op {
    let zone = ["zone-a", "zone-b", "zone-a", "zone-b", "zone-c"]
        .get(number % 5)
        .copied();
    let node = Node {
        zone: zone.map(Into::into),
        cpus: 4,
        ready: true,
        control_plane: false,
    };
    let name = node_name(number);
    Op::PutNode { name, node }
}
