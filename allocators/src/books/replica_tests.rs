//! Several replicas, each with its own book and its own watch that lags, before one registry that takes a value or refuses it: as long as
//! the watches lag less than the hand-over of a block takes, nothing that a replica chose is ever refused.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::tests::{cidr, named, owner, service};
use super::*;

const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    /// A Service is created through this replica, and stored so many milliseconds later, or never.
    Create {
        through: usize,
        random: u64,
        takes: Option<u64>,
    },
    /// The oldest Service is deleted.
    Delete,
    /// This replica dies, or comes back with nothing in its books but what is stored.
    Flip(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let takes = prop_oneof![20 => (0_u64..900).prop_map(Some), 1 => Just(None)];
    let step = prop_oneof![
        8 => (0_usize..3, any::<u64>(), takes).prop_map(|(through, random, takes)| Step::Create { through, random, takes }),
        4 => Just(Step::Delete),
        1 => (0_usize..3).prop_map(Step::Flip),
        6 => (0_u64..1_500).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..120)
}

/// What reaches a replica, and when.
#[derive(Clone, Debug)]
enum Event {
    Stored(Owner, Ipv4Addr),
    Deleted(ServiceKey),
    Members(Vec<Arc<str>>),
}

struct Replica {
    book: Book<Ipv4Addr>,
    inbox: VecDeque<(Instant, Event)>,
    alive: bool,
}

struct World {
    now: Instant,
    replicas: Vec<Replica>,
    /// Requests under way: when they are stored.
    under_way: Vec<(Instant, Owner, Ipv4Addr)>,
    stored: VecDeque<(Owner, Ipv4Addr)>,
    created: i64,
    /// How far each replica's watch lags.
    lags: [u64; 3],
}

impl World {
    fn new(lags: [u64; 3]) -> Self {
        let mut world = Self {
            now: Instant::now(),
            replicas: Vec::new(),
            under_way: Vec::new(),
            stored: VecDeque::new(),
            created: 0,
            lags,
        };
        for _ in NAMES {
            world.replicas.push(Replica {
                book: Book::new(Rules::ADDRESSES),
                inbox: VecDeque::new(),
                alive: false,
            });
        }
        for number in 0..NAMES.len() {
            world.flip(number);
        }
        world
    }

    fn tell(&mut self, event: &Event) {
        for (replica, lag) in self.replicas.iter_mut().zip(self.lags) {
            replica
                .inbox
                .push_back((self.now + Duration::from_millis(lag), event.clone()));
        }
    }

    fn flip(&mut self, number: usize) {
        let replica = &mut self.replicas[number];
        replica.alive = !replica.alive;
        if replica.alive {
            replica.book = Book::new(Rules::ADDRESSES);
            replica.inbox.clear();
            replica.book.set_ranges([cidr("10.96.0.0/23")], self.now);
            let listed = self.stored.iter().map(|(owner, value)| (owner.clone(), vec![*value]));
            replica.book.replace_services(listed, self.now);
        }
        let alive = NAMES.iter().zip(&self.replicas).filter(|(_, replica)| replica.alive);
        let members = alive.map(|(name, _)| Arc::from(*name)).collect();
        self.tell(&Event::Members(members));
    }

    /// Millisecond by millisecond where something happens.
    fn pass(&mut self, wait: u64) -> Result<(), TestCaseError> {
        let end = self.now + Duration::from_millis(wait);
        loop {
            let events = self
                .replicas
                .iter()
                .filter_map(|replica| replica.inbox.front().map(|(at, _)| *at));
            let next = events.chain(self.under_way.iter().map(|(at, _, _)| *at)).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            self.store()?;
            for (name, replica) in NAMES.iter().zip(&mut self.replicas) {
                while let Some((at, event)) = replica.inbox.front().cloned()
                    && at <= self.now
                {
                    replica.inbox.pop_front();
                    match event {
                        Event::Stored(owner, value) => replica.book.set_service(owner, [value], self.now),
                        Event::Deleted(service) => replica.book.remove_service(&service, self.now),
                        Event::Members(all) => replica.book.set_members(name, &all, self.now),
                    }
                }
            }
        }
        self.now = end;
        Ok(())
    }

    fn store(&mut self) -> Result<(), TestCaseError> {
        let (due, rest) = self.under_way.drain(..).partition(|(at, _, _)| *at <= self.now);
        self.under_way = rest;
        let due: Vec<(Instant, Owner, Ipv4Addr)> = due;
        for (_, owner, value) in due {
            let taken = self.stored.iter().find(|(_, other)| *other == value);
            prop_assert_eq!(taken, None, "{} for {}", value, owner.service);
            self.stored.push_back((owner.clone(), value));
            self.tell(&Event::Stored(owner, value));
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn nothing_that_a_replica_chose_is_refused(lags in [0_u64..2_000, 0_u64..2_000, 0_u64..2_000], steps in steps()) {
        let mut world = World::new(lags);
        world.pass(20_000)?;
        let mut chosen = 0;
        for step in steps {
            match step {
                Step::Create { through, random, takes } => {
                    world.created += 1;
                    let (now, name) = (world.now, format!("web-{}", world.created));
                    let replica = &mut world.replicas[through];
                    if !replica.alive {
                        continue;
                    }
                    let Ok(choice) = replica.book.choose(&named(&name), Source::Ranges, random, now) else { continue };
                    chosen += 1;
                    if let Some(takes) = takes {
                        let at = now + Duration::from_millis(takes);
                        world.under_way.push((at, owner(&name, world.created), choice.value));
                    }
                }
                Step::Delete => {
                    if let Some((owner, _)) = world.stored.pop_front() {
                        world.tell(&Event::Deleted(service(&owner.service.name)));
                    }
                }
                Step::Flip(number) => world.flip(number),
                Step::Wait(wait) => world.pass(wait)?,
            }
        }
        world.pass(60_000)?;
        let living = world.replicas.iter().filter(|replica| replica.alive);
        for replica in living {
            let counts = replica.book.ranges(world.now).next().unwrap().counts;
            prop_assert_eq!(counts.used, world.stored.len() as u64, "{} chosen", chosen);
        }
    }
}
