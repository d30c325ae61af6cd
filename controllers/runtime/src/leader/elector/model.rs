//! Several electors against a model of the apiserver (compare-and-swap, lost and late replies), with clocks of different
//! speed and setting, stopped processes, suspended machines, partitions, and people who delete or edit the Lease.
//! At no instant do two hold a valid term, and when the faults stop somebody leads within twice the lease duration.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{Elector, Refusal, Step};
use crate::leader::record::{Micros, Record, Stamp, Timing};

const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

/// Milliseconds of true time.
type Time = u64;

const SECOND: Time = 1000;
const FOREVER: Time = Time::MAX;

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGSTOP: both clocks go on.
    Stop(usize, Time),
    /// The machine is suspended: its monotonic clock stands still.
    Suspend(usize, Time),
    /// No call of this process arrives.
    Cut(usize, Time),
    /// The wall clock is set by so many seconds.
    SetClock(usize, i64),
    /// The process dies and another starts in its place.
    Restart(usize),
    Delete,
    ClearHolder,
    ShortenDuration,
    LengthenDuration,
    SpoilRenewTime,
    NameNobody,
    Name(usize),
    AddTransitions,
}

impl Fault {
    fn by_hand(self) -> bool {
        !matches!(
            self,
            Self::Stop(..) | Self::Suspend(..) | Self::Cut(..) | Self::SetClock(..) | Self::Restart(_)
        )
    }
}

/// What one plan may contain. Two pairs exclude each other because nothing could tell: a clock that is set back while the
/// machine is suspended, and a Lease that is deleted while a process starts which never saw it.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    suspend: bool,
    hands: bool,
}

fn fault(kinds: Kinds) -> impl Strategy<Value = Fault> {
    let process = 0..3usize;
    let time = SECOND..40 * SECOND;
    let seconds = if kinds.suspend { 0..3600i64 } else { -3600..3600i64 };
    let general = prop_oneof![
        (process.clone(), time.clone()).prop_map(|(process, time)| Fault::Stop(process, time)),
        (process.clone(), time.clone()).prop_map(|(process, time)| Fault::Cut(process, time)),
        (process.clone(), seconds).prop_map(|(process, seconds)| Fault::SetClock(process, seconds)),
    ];
    let stop = if kinds.suspend { Fault::Suspend } else { Fault::Stop };
    let suspended = (process.clone(), time).prop_map(move |(process, time)| stop(process, time));
    let special = if kinds.hands {
        prop_oneof![
            Just(Fault::Delete),
            Just(Fault::ClearHolder),
            Just(Fault::ShortenDuration),
            Just(Fault::LengthenDuration),
            Just(Fault::SpoilRenewTime),
            Just(Fault::NameNobody),
            Just(Fault::AddTransitions),
            process.prop_map(Fault::Name),
        ]
        .boxed()
    } else {
        process.prop_map(Fault::Restart).boxed()
    };
    prop_oneof![3 => general, 2 => suspended, 3 => special]
}

#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    processes: usize,
    /// The speed of each process's monotonic clock, in thousandths.
    speeds: Vec<u64>,
    /// How many calls in a hundred meet some trouble.
    trouble: u32,
    /// Each after so many milliseconds.
    faults: Vec<(Time, Fault)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    (any::<bool>(), any::<bool>()).prop_flat_map(|(suspend, hands)| {
        (
            any::<u64>(),
            2..4usize,
            prop::collection::vec(900..1100u64, 3),
            0..60u32,
            prop::collection::vec((100..20 * SECOND, fault(Kinds { suspend, hands })), 0..14),
        )
            .prop_map(|(seed, processes, speeds, trouble, faults)| Plan {
                seed,
                processes,
                speeds,
                trouble,
                faults,
            })
    })
}

#[derive(Clone, Debug)]
enum Call {
    Read,
    Create(Record),
    Replace(Record, u64),
}

#[derive(Clone, Debug)]
enum Answer {
    Found(Option<(Record, u64)>),
    Written(Record, u64),
    Refused,
    ReadTimedOut,
    WriteTimedOut,
}

#[derive(Clone, Debug)]
enum Event {
    Wake(usize),
    /// A call arrives; its answer takes so long, or never comes.
    Arrive(usize, u64, Call, Option<Time>),
    Answer(usize, u64, Answer),
    Fault(usize),
    Resume(usize),
}

struct Process {
    elector: Elector,
    version: u64,
    speed: u64,
    wall_offset: i64,
    /// The call it waits for.
    waiting: Option<u64>,
    /// It runs nothing until then, because it is stopped or its machine suspended.
    frozen_until: Time,
    cut_until: Time,
    suspended_until: Time,
    suspended: bool,
    /// Monotonic milliseconds at the true time `since`.
    monotonic: (u64, Time),
    seen_lease: bool,
}

struct World {
    rng: SmallRng,
    plan: Plan,
    base: Instant,
    now: Time,
    quiet_from: Time,
    queue: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    lease: Option<(Record, u64)>,
    version: u64,
    processes: Vec<Process>,
    last_by_hand: Time,
    names: u64,
}

impl World {
    fn new(plan: Plan) -> Self {
        let mut world = Self {
            rng: SmallRng::seed_from_u64(plan.seed),
            base: Instant::now(),
            now: 0,
            quiet_from: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            lease: None,
            version: 0,
            processes: Vec::new(),
            last_by_hand: 0,
            names: 0,
            plan,
        };
        for index in 0..world.plan.processes {
            let process = world.process(index);
            world.processes.push(process);
            world.at(world.now, Event::Wake(index));
        }
        let mut time = 0;
        for index in 0..world.plan.faults.len() {
            time += world.plan.faults[index].0;
            world.at(time, Event::Fault(index));
        }
        world.quiet_from = time + SECOND;
        world
    }

    fn process(&mut self, index: usize) -> Process {
        self.names += 1;
        Process {
            elector: Elector::new(format!("p{index}_{}", self.names), TIMING),
            version: 0,
            speed: self.plan.speeds[index],
            wall_offset: self.rng.random_range(-3_600_000..3_600_000),
            waiting: None,
            frozen_until: 0,
            cut_until: 0,
            suspended_until: 0,
            suspended: false,
            monotonic: (1_000_000, self.now),
            seen_lease: false,
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.sequence += 1;
        self.queue.insert((time, self.sequence), event);
    }

    fn monotonic(&self, index: usize) -> u64 {
        let process = &self.processes[index];
        let (value, since) = process.monotonic;
        if process.suspended {
            value
        } else {
            value + (self.now - since) * process.speed / 1000
        }
    }

    fn stamp(&self, index: usize) -> Stamp {
        let wall = i64::try_from(self.now).unwrap() + self.processes[index].wall_offset;
        Stamp {
            monotonic: self.base + Duration::from_millis(self.monotonic(index)),
            wall: Micros(1_700_000_000_000_000 + wall * 1000),
        }
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |index: &usize| {
            !self.processes[*index].suspended && self.processes[*index].elector.tenure(self.stamp(*index)).is_some()
        };
        (0..self.processes.len()).filter(leads).collect()
    }

    /// Runs until `end`; calls `check` after each event.
    fn run(
        &mut self,
        end: Time,
        mut check: impl FnMut(&Self) -> Result<(), TestCaseError>,
    ) -> Result<(), TestCaseError> {
        while let Some((&(time, sequence), _)) = self.queue.first_key_value() {
            if time > end {
                break;
            }
            let event = self.queue.remove(&(time, sequence)).unwrap();
            self.now = time;
            self.handle(event)?;
            check(self)?;
        }
        self.now = end;
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Wake(index) | Event::Answer(index, ..) if self.processes[index].frozen_until > self.now => {
                self.at(self.processes[index].frozen_until, event);
            }
            Event::Wake(index) => {
                if self.processes[index].waiting.is_none() {
                    self.advance(index);
                }
            }
            Event::Arrive(index, id, call, reply) => {
                let answer = self.serve(call)?;
                if let Some(delay) = reply {
                    self.at(self.now + delay, Event::Answer(index, id, answer));
                }
            }
            Event::Answer(index, id, answer) => {
                if self.processes[index].waiting == Some(id) {
                    self.processes[index].waiting = None;
                    self.report(index, answer);
                    self.advance(index);
                }
            }
            Event::Resume(index) => {
                if self.processes[index].suspended && self.processes[index].suspended_until <= self.now {
                    let value = self.processes[index].monotonic.0;
                    self.processes[index].suspended = false;
                    self.processes[index].monotonic = (value, self.now);
                }
            }
            Event::Fault(number) => self.fault(self.plan.faults[number].1),
        }
        Ok(())
    }

    fn report(&mut self, index: usize, answer: Answer) {
        let now = self.stamp(index);
        let process = &mut self.processes[index];
        match answer {
            Answer::Found(lease) => {
                process.seen_lease |= lease.is_some();
                process.version = lease.as_ref().map_or(0, |(_, version)| *version);
                process.elector.read(now, lease.map(|(record, _)| record));
            }
            Answer::Written(record, version) => {
                process.seen_lease = true;
                process.version = version;
                process.elector.written(now, record);
            }
            Answer::Refused => process.elector.not_written(Refusal::Definite),
            Answer::ReadTimedOut => process.elector.read_failed(),
            Answer::WriteTimedOut => process.elector.not_written(Refusal::Unknown),
        }
    }

    /// The shell's loop, up to the next wait.
    fn advance(&mut self, index: usize) {
        let now = self.stamp(index);
        let jitter = self.rng.random_range(0.0..1.0);
        let process = &mut self.processes[index];
        let call = match process.elector.step(now, jitter) {
            Step::Sleep(until) => {
                let wait = u64::try_from((until - now.monotonic).as_micros()).unwrap();
                // At least one millisecond: the model's clock has no finer one.
                let wait = (wait / process.speed).max(1) + 1;
                self.at(self.now + wait, Event::Wake(index));
                return;
            }
            Step::Read => Call::Read,
            Step::Create(record) => Call::Create(record),
            Step::Replace(record) => Call::Replace(record, process.version),
        };
        let timed_out = if matches!(call, Call::Read) {
            Answer::ReadTimedOut
        } else {
            Answer::WriteTimedOut
        };
        let limit = u64::try_from(process.elector.call_limit(now).as_millis()).unwrap() * 1000 / process.speed;
        self.sequence += 1;
        let id = self.sequence;
        self.processes[index].waiting = Some(id);
        let quiet = self.now >= self.quiet_from;
        let (mut delay, mut reply) = (self.rng.random_range(1..25), Some(self.rng.random_range(1..25)));
        if !quiet && self.rng.random_range(0..100) < self.plan.trouble {
            match self.rng.random_range(0..4) {
                0 => delay = FOREVER,
                1 => reply = None,
                2 => delay = self.rng.random_range(25..12 * SECOND),
                _ => reply = Some(self.rng.random_range(25..6 * SECOND)),
            }
        }
        if self.processes[index].cut_until > self.now {
            delay = FOREVER;
        }
        if delay != FOREVER {
            self.at(self.now + delay, Event::Arrive(index, id, call, reply));
        }
        self.at(self.now + limit.max(1), Event::Answer(index, id, timed_out));
    }

    fn serve(&mut self, call: Call) -> Result<Answer, TestCaseError> {
        let record = match (call, &self.lease) {
            (Call::Read, lease) => return Ok(Answer::Found(lease.clone())),
            (Call::Create(record), None) => record,
            (Call::Replace(record, version), Some((stored, current))) if version == *current => {
                if record.holder == stored.holder {
                    prop_assert_eq!(
                        record.acquired,
                        stored.acquired,
                        "acquireTime changes only with the holder"
                    );
                    prop_assert_eq!(record.transitions, stored.transitions);
                    prop_assert_ne!(record.renewed, stored.renewed, "a renewal must change the record");
                } else {
                    prop_assert_eq!(
                        record.transitions,
                        stored.transitions + 1,
                        "one more per change of holder"
                    );
                }
                record
            }
            _ => return Ok(Answer::Refused),
        };
        self.store(record.clone());
        Ok(Answer::Written(record, self.version))
    }

    fn store(&mut self, record: Record) {
        self.version += 1;
        self.lease = Some((record, self.version));
    }

    fn fault(&mut self, fault: Fault) {
        if fault.by_hand() {
            self.by_hand(fault);
            return;
        }
        let (Fault::Stop(index, _)
        | Fault::Suspend(index, _)
        | Fault::Cut(index, _)
        | Fault::SetClock(index, _)
        | Fault::Restart(index)) = fault
        else {
            return;
        };
        if index >= self.processes.len() {
            return;
        }
        let until = |time: Time| (self.now + time).min(self.quiet_from);
        let frozen_until = self.processes[index].frozen_until;
        match fault {
            Fault::Stop(_, time) => self.processes[index].frozen_until = frozen_until.max(until(time)),
            Fault::Suspend(_, time) => {
                let until = until(time);
                let value = self.monotonic(index);
                let process = &mut self.processes[index];
                process.monotonic = (value, self.now);
                process.suspended = true;
                process.suspended_until = process.suspended_until.max(until);
                process.frozen_until = frozen_until.max(until);
                self.at(until, Event::Resume(index));
            }
            Fault::Cut(_, time) => self.processes[index].cut_until = until(time),
            Fault::SetClock(_, seconds) => self.processes[index].wall_offset += seconds * 1000,
            Fault::Restart(_) => {
                self.processes[index] = self.process(index);
                self.at(self.now, Event::Wake(index));
            }
            _ => {}
        }
    }

    /// People act by turns: not again before the first change has been seen and answered.
    fn by_hand(&mut self, fault: Fault) {
        let Some((mut record, _)) = self.lease.clone() else {
            return;
        };
        let unseen = self.processes.iter().any(|process| !process.seen_lease);
        if unseen || self.now < self.last_by_hand + 60 * SECOND {
            return;
        }
        self.last_by_hand = self.now;
        match fault {
            Fault::Delete => {
                self.lease = None;
                return;
            }
            Fault::ClearHolder => record.holder.clear(),
            Fault::ShortenDuration => record.duration_seconds = Some(1),
            Fault::LengthenDuration => record.duration_seconds = Some(i32::MAX),
            Fault::SpoilRenewTime => (record.renewed, record.unreadable) = (None, format!("year {}", 9999 + self.now)),
            Fault::NameNobody => "nobody".clone_into(&mut record.holder),
            Fault::Name(index) if index < self.processes.len() => {
                self.processes[index].elector.identity.clone_into(&mut record.holder);
            }
            _ => record.transitions += 3,
        }
        self.store(record);
    }
}

fn at_most_one(world: &World) -> Result<(), TestCaseError> {
    let leaders = world.leaders();
    prop_assert!(
        leaders.len() <= 1,
        "at {} ms {leaders:?} lead; the Lease is {:?}",
        world.now,
        world.lease
    );
    Ok(())
}

fn simulate(plan: Plan) -> Result<(), TestCaseError> {
    let mut world = World::new(plan);
    world.run(world.quiet_from, at_most_one)?;
    // Ten lease durations by the slowest clock, when nobody was left to mend a duration that makes no sense.
    let lengthened = world
        .plan
        .faults
        .iter()
        .any(|(_, fault)| matches!(fault, Fault::LengthenDuration));
    if lengthened {
        world.run(world.quiet_from + 170 * SECOND, at_most_one)?;
        world.quiet_from += 170 * SECOND;
    }
    let mut led = false;
    world.run(world.quiet_from + 30 * SECOND, |world| {
        led |= !world.leaders().is_empty();
        at_most_one(world)
    })?;
    prop_assert!(
        led,
        "nobody leads 30 s after the faults; the Lease is {:?}",
        world.lease
    );
    world.run(world.quiet_from + 60 * SECOND, at_most_one)?;
    let leaders = world.leaders();
    prop_assert_eq!(leaders.len(), 1, "{:?}", &world.lease);
    // It is a lasting one.
    world.run(world.quiet_from + 90 * SECOND, |world| {
        prop_assert_eq!(&world.leaders(), &leaders);
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn never_two_leaders_and_soon_one(plan in plan()) {
        simulate(plan)?;
    }
}
