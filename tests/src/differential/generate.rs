//! The stream of operations: a function of the seed alone.

mod apart;
mod draw;
mod hand_made;
mod loose;
mod parts;
mod slices;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use self::apart::Apart;
use self::draw::{Draw, NODES};
use super::model::{CROWD_SPACE, Stored, World};
use super::ops::{Fault, Key, Kind, Op, SliceTamper, Window};

/// Pods of the crowd: a little more than Endpoints may list.
const CROWD: usize = 1_040;
/// Of these many go and come back.
const CROWD_WAVE: usize = 60;
/// Every how many windows the crowd is stirred.
const CROWD_EVERY: u64 = 9;
/// Every how many windows slices are edited in ways that the reference does not get over.
const WEDGE_EVERY: u64 = 13;
/// Windows for which a Node may be missing: the reference tries again and again meanwhile, ever more seldom.
const ABSENT: u32 = 2;
/// Most operations of an isolated round.
const ROUND: usize = 60;

/// Makes the stream, window by window.
#[derive(Debug)]
pub struct Generator {
    rng: StdRng,
    world: World,
    number: u64,
    /// The stream's own clock, in seconds.
    clock: u64,
    /// Addresses given so far.
    addresses: u32,
    /// Windows for which the reference has been frozen.
    frozen: u32,
    /// Windows for which a Node has been missing.
    absent: u32,
    /// Slices are held while they are being deleted.
    dying: bool,
}

impl Generator {
    /// From its beginning.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            world: World::default(),
            number: 0,
            clock: 0,
            addresses: 0,
            frozen: 0,
            absent: 0,
            dying: false,
        }
    }

    /// The world after the windows so far.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The next window.
    pub fn window(&mut self) -> Window {
        let number = self.number;
        self.number += 1;
        let frozen = self.world.pods.values().any(Stored::freezes);
        self.frozen = if frozen { self.frozen + 1 } else { 0 };
        let absent = number > 0 && self.world.nodes.len() < NODES;
        self.absent = if absent { self.absent + 1 } else { 0 };
        let (kind, ops) = if number == 0 {
            (Kind::Burst, self.founding())
        } else if frozen {
            (Kind::Isolated, self.round())
        } else if number % WEDGE_EVERY == 5 {
            (Kind::Isolated, self.wedging())
        } else if number % CROWD_EVERY == 3 {
            (Kind::Burst, self.stir_crowd())
        } else {
            match self.rng.random_range(0..100) {
                0..55 => (Kind::Isolated, self.round()),
                55..88 => (Kind::Burst, self.burst()),
                88..95 => (Kind::Burst, self.faulty_burst()),
                _ => (Kind::Burst, self.restarting_burst()),
            }
        };
        Window { number, kind, ops }
    }

    fn draw(&mut self, isolated: bool) -> Draw<'_> {
        Draw {
            rng: &mut self.rng,
            world: &self.world,
            clock: &mut self.clock,
            addresses: &mut self.addresses,
            isolated,
        }
    }

    fn push(&mut self, ops: &mut Vec<Op>, op: Op) {
        self.world.apply(&op);
        ops.push(op);
    }

    /// What earlier windows have left to be done at the beginning of this one.
    fn due(&mut self) -> Vec<Op> {
        let mut due = Vec::new();
        if std::mem::take(&mut self.dying) {
            due.push(Op::ReleaseSlices);
        }
        if self.absent > ABSENT {
            let missing = (0..NODES).filter(|number| !self.world.nodes.contains_key(&slices::node_name(*number)));
            due.extend(missing.map(slices::first_node));
        }
        due
    }

    /// A window with what is due.
    fn begin(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        for op in self.due() {
            self.push(&mut ops, op);
        }
        ops
    }

    /// The same as far as it goes together.
    fn begin_apart(&mut self, apart: &mut Apart) -> Vec<Op> {
        let mut ops = Vec::new();
        for op in self.due() {
            if apart.admits(&op, &ops) {
                self.push(&mut ops, op);
            }
        }
        ops
    }

    /// Nodes, Services and Pods to begin with.
    fn founding(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        for number in 0..NODES {
            self.push(&mut ops, slices::first_node(number));
        }
        for space in 0..CROWD_SPACE {
            for _ in 0..8 {
                if let Some(op) = self.draw(false).create_service(space) {
                    self.push(&mut ops, op);
                }
            }
            for _ in 0..18 {
                if let Some(op) = self.draw(false).create_pod(space) {
                    self.push(&mut ops, op);
                }
            }
        }
        ops
    }

    /// An isolated round: as many operations as touch different Services. What froze the reference stays for one
    /// round, in which other Pods of its Services change, and is mended in the next.
    fn round(&mut self) -> Vec<Op> {
        let mut apart = Apart::new(&self.world);
        let mut ops = self.begin_apart(&mut apart);
        let freezing = self.world.pods.iter().filter(|(_, pod)| pod.freezes());
        let freezing: Vec<Key> = freezing.map(|(key, _)| key.clone()).collect();
        let may_freeze = freezing.is_empty() && self.rng.random_bool(0.08);
        let mends = self.frozen > 1;
        let first = freezing.iter().map(|key| {
            if mends {
                Some(self.draw(true).mend(key))
            } else {
                self.draw(true).flip_beside(key)
            }
        });
        let first: Vec<Op> = first.collect::<Vec<_>>().into_iter().flatten().collect();
        let attempts = 2 * ROUND;
        for attempt in 0..attempts {
            if ops.len() >= ROUND {
                break;
            }
            let space = attempt % CROWD_SPACE;
            let op = match first.get(attempt) {
                Some(op) => Some(op.clone()),
                None if may_freeze && attempt < CROWD_SPACE => self.draw(true).freezing_pod(space),
                None => self.draw(true).any(space),
            };
            let Some(op) = op else { continue };
            if apart.admits(&op, &ops) {
                self.push(&mut ops, op);
            }
        }
        ops
    }

    /// Edits of slices that the reference does not get over until it is started again.
    fn wedging(&mut self) -> Vec<Op> {
        let mut apart = Apart::new(&self.world);
        let mut ops = self.begin_apart(&mut apart);
        for attempt in 0..2 * CROWD_SPACE {
            let Some(op) = self.draw(true).wedge(attempt % CROWD_SPACE) else {
                continue;
            };
            if apart.admits(&op, &ops) {
                self.dying |= matches!(
                    &op,
                    Op::TamperSlices {
                        how: SliceTamper::Dying,
                        ..
                    }
                );
                self.push(&mut ops, op);
            }
        }
        self.push(&mut ops, Op::RestartReference);
        ops
    }

    fn burst(&mut self) -> Vec<Op> {
        let size = self.rng.random_range(30..90);
        let mut ops = self.begin();
        if self.rng.random_bool(0.4) {
            self.storm(&mut ops);
        }
        while ops.len() < size {
            let space = self.rng.random_range(0..CROWD_SPACE);
            if let Some(op) = self.draw(false).any(space) {
                self.push(&mut ops, op);
            }
        }
        ops
    }

    /// 30 Pods flip at once.
    fn storm(&mut self, ops: &mut Vec<Op>) {
        for _ in 0..30 {
            let space = self.rng.random_range(0..CROWD_SPACE);
            if let Some(op) = self.draw(false).flip(space) {
                self.push(ops, op);
            }
        }
    }

    /// A burst while something goes wrong between svcplane and its apiserver.
    fn faulty_burst(&mut self) -> Vec<Op> {
        let faults = [
            Fault::LoseReply,
            Fault::ResetBefore,
            Fault::CutReply,
            Fault::Conflict,
            Fault::InternalError,
            Fault::Unavailable,
            Fault::TooManyRequests,
            Fault::LateReply,
            Fault::ResetWatches,
            Fault::ExpireWatches,
        ];
        let mut ops = self.burst();
        for _ in 0..self.rng.random_range(1..4) {
            let fault = *faults.choose(&mut self.rng).expect("there are some");
            let at = self.rng.random_range(0..ops.len() / 2);
            let times = self.rng.random_range(1..6);
            ops.insert(at, Op::Fault { fault, times });
        }
        ops
    }

    /// A burst that the two programs miss a part of.
    fn restarting_burst(&mut self) -> Vec<Op> {
        let hard = self.rng.random_bool(0.5);
        let mut ops = self.burst();
        let stop = self.rng.random_range(0..ops.len());
        let start = self.rng.random_range(stop..=ops.len());
        ops.insert(start, Op::Start);
        ops.insert(stop, Op::Stop { hard });
        self.world.apply(&Op::Start);
        ops
    }

    /// The crowd comes, flips, shrinks below the capacity of Endpoints and grows over it again.
    fn stir_crowd(&mut self) -> Vec<Op> {
        let mut ops = self.begin();
        if self.world.services.range(Key::new(CROWD_SPACE, "")..).next().is_none() {
            for op in parts::crowd_services() {
                self.push(&mut ops, op);
            }
            let pods = (0..CROWD).map(|number| self.draw(false).crowd_pod(number)).collect();
            self.push(&mut ops, Op::CreateCrowd { pods });
            return ops;
        }
        let there = |number: &usize| self.world.pods.contains_key(&parts::crowd_key(*number));
        let (here, gone): (Vec<usize>, Vec<usize>) = (0..CROWD).partition(there);
        if gone.is_empty() && self.rng.random_bool(0.5) {
            let keys = here
                .sample(&mut self.rng, CROWD_WAVE)
                .map(|number| parts::crowd_key(*number))
                .collect();
            self.push(&mut ops, Op::DeleteCrowd { keys });
        } else if !gone.is_empty() && self.rng.random_bool(0.7) {
            let pods = gone.iter().map(|number| self.draw(false).crowd_pod(*number)).collect();
            self.push(&mut ops, Op::CreateCrowd { pods });
        }
        for number in here.sample(&mut self.rng, 30).copied().collect::<Vec<_>>() {
            if let Some(op) = self.draw(false).flip_pod(&parts::crowd_key(number)) {
                self.push(&mut ops, op);
            }
        }
        ops
    }
}

#[cfg(test)]
mod tests;
