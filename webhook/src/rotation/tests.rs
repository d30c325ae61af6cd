use proptest::prelude::*;

use super::*;

const POLICY: Policy = Policy {
    leaf_lifetime: 90,
    authority_lifetime: 365,
    grace: 5,
    early: 0,
};

fn life(made: Seconds, until: Seconds) -> Life {
    Life { made, until }
}

fn state(authorities: &[Life], leaf: Option<Leaf>, published_since: Option<Seconds>) -> State {
    State {
        authorities: authorities.to_vec(),
        can_sign: true,
        leaf,
        published_since,
    }
}

#[test]
fn renewal_comes_earlier_by_a_part_of_the_last_third() {
    let (newest, leaf) = (life(0, 3000), life(0, 300));
    let good = Leaf {
        life: leaf,
        of_newest: true,
        fits: true,
    };
    let state = state(&[newest], Some(good), Some(0));
    for (early, due) in [(0, 200), (5, 195), (EARLIEST, 190)] {
        let policy = Policy { early, ..POLICY };
        assert_eq!(next(&state, &policy, due - 1), Step::Wait(due), "{early}");
        assert_eq!(next(&state, &policy, due), Step::Issue, "{early}");
    }
}

#[test]
fn each_state_has_one_next_step() {
    let (old, new) = (life(0, 365), life(250, 615));
    let leaf = |made, of_newest, fits| {
        Some(Leaf {
            life: life(made, made + 90),
            of_newest,
            fits,
        })
    };
    let good = leaf(250, true, true);
    let table = [
        ("nothing", state(&[], None, None), 0, Step::NewAuthority),
        ("not published", state(&[old], None, None), 0, Step::Publish),
        ("caches", state(&[old], None, Some(3)), 7, Step::Wait(8)),
        ("no leaf", state(&[old], None, Some(3)), 8, Step::Issue),
        (
            "nowhere registered",
            state(&[old], None, Some(Seconds::MIN)),
            0,
            Step::Issue,
        ),
        ("good", state(&[old], leaf(10, true, true), Some(0)), 20, Step::Wait(70)),
        (
            "of a clock that was ahead",
            state(&[life(7_200, 7_565)], leaf(7_200, true, true), Some(0)),
            0,
            Step::NewAuthority,
        ),
        (
            "leaf of a clock that was ahead",
            state(&[old], leaf(7_200, true, true), Some(0)),
            20,
            Step::Issue,
        ),
        (
            "valid already",
            state(&[life(600, 965)], leaf(600, true, true), Some(0)),
            0,
            Step::Wait(660),
        ),
        ("blanked", state(&[old], leaf(10, true, true), None), 20, Step::Publish),
        ("renewal", state(&[old], leaf(10, true, true), Some(0)), 70, Step::Issue),
        (
            "other names",
            state(&[old], leaf(10, true, false), Some(0)),
            20,
            Step::Issue,
        ),
        (
            "old age",
            state(&[old], leaf(200, true, true), Some(0)),
            244,
            Step::NewAuthority,
        ),
        (
            "both to be published",
            state(&[new, old], leaf(200, false, true), None),
            250,
            Step::Publish,
        ),
        (
            "both published",
            state(&[new, old], leaf(200, false, true), Some(250)),
            255,
            Step::Issue,
        ),
        (
            "old leaves live",
            state(&[new, old], good, Some(250)),
            300,
            Step::Wait(310),
        ),
        (
            "old leaves are gone",
            state(&[new, old], leaf(320, true, true), Some(250)),
            340,
            Step::DropOld,
        ),
        (
            "alone",
            state(&[new], leaf(320, true, true), Some(341)),
            350,
            Step::Wait(380),
        ),
    ];
    for (name, state, now, want) in table {
        assert_eq!(next(&state, &POLICY, now), want, "{name}");
    }
    let keyless = State {
        can_sign: false,
        ..state(&[old], good, Some(0))
    };
    assert_eq!(next(&keyless, &POLICY, 20), Step::NewAuthority);
    assert!(is_unused(old, new, &POLICY, 340) && !is_unused(old, new, &POLICY, 339));
}

/// How long an apiserver or a replica may lag in the model.
const LAG: Seconds = 4;

/// An authority in the model: its number and its life.
type Numbered = (usize, Life);

/// A cluster: one Secret, what is published, replicas and apiservers that lag.
struct World {
    now: Seconds,
    authorities: Vec<Numbered>,
    made: usize,
    leaf: Option<(usize, Life)>,
    /// Every bundle that was published, and when.
    published: Vec<(Seconds, Vec<usize>)>,
    /// Every leaf that was stored, and when.
    leaves: Vec<(Seconds, usize, Life)>,
    /// When the leader of the moment first saw what is published.
    seen: Option<Seconds>,
    /// When the last leader died.
    died: Seconds,
}

impl World {
    fn new() -> Self {
        Self {
            now: 0,
            authorities: Vec::new(),
            made: 0,
            leaf: None,
            published: Vec::new(),
            leaves: Vec::new(),
            seen: None,
            died: 0,
        }
    }

    fn bundle(&self) -> Vec<usize> {
        self.authorities.iter().map(|(number, _)| *number).collect()
    }

    fn state(&mut self) -> State {
        let equal = self.published.last().map(|(_, bundle)| bundle) == Some(&self.bundle());
        self.seen = if equal { self.seen.or(Some(self.now)) } else { None };
        let newest = self.authorities.first().map(|(number, _)| *number);
        State {
            authorities: self.authorities.iter().map(|(_, life)| *life).collect(),
            can_sign: newest.is_some(),
            leaf: self.leaf.map(|(by, life)| Leaf {
                life,
                of_newest: Some(by) == newest,
                fits: true,
            }),
            published_since: self.seen,
        }
    }

    /// One step of whoever leads.
    fn step(&mut self) -> Step {
        let state = self.state();
        let (step, now) = (next(&state, &POLICY, self.now), self.now);
        match step {
            Step::NewAuthority => {
                self.made += 1;
                let authority = (self.made, life(now, now + POLICY.authority_lifetime));
                self.authorities.retain(|(_, life)| now < life.until);
                self.authorities.insert(0, authority);
            }
            Step::Publish => self.published.push((now, self.bundle())),
            Step::Issue => {
                let (by, authority) = self.authorities[0];
                let life = life(now, (now + POLICY.leaf_lifetime).min(authority.until));
                self.leaf = Some((by, life));
                self.leaves.push((now, by, life));
            }
            Step::DropOld => {
                let newest = self.authorities[0];
                self.authorities
                    .retain(|old| *old == newest || !is_unused(old.1, newest.1, &POLICY, now));
            }
            Step::Wait(until) => assert!(until > now, "{state:?} waits for the past"),
        }
        step
    }

    /// Everything that some apiserver may trust now, whatever it lags, trusts everything that some replica may serve.
    fn check(&self) {
        let possible = |times: Vec<Seconds>| {
            let current = times.iter().rposition(|time| *time <= self.now - LAG);
            current.unwrap_or_default()..times.len()
        };
        let bundles = possible(self.published.iter().map(|(time, _)| *time).collect());
        let leaves = possible(self.leaves.iter().map(|(time, ..)| *time).collect());
        for (_, by, life) in &self.leaves[leaves] {
            assert!(self.now < life.until, "an expired leaf is served at {}", self.now);
            for (_, bundle) in &self.published[bundles.clone()] {
                assert!(bundle.contains(by), "at {}: {by} is not in {bundle:?}", self.now);
            }
        }
    }
}

proptest! {
    /// Leaders die between any two steps, and time passes: no handshake ever fails, and it never goes round in circles.
    #[test]
    fn whoever_leads_no_handshake_fails(events in proptest::collection::vec((0..4u8, 0..9i64), 200..600)) {
        let mut world = World::new();
        for (event, number) in events {
            match event {
                // The leader dies; the next one has seen nothing yet. If one after the other died before it might do anything, nobody could help.
                0 if world.now >= world.died + POLICY.grace + 3 => {
                    world.seen = None;
                    world.died = world.now;
                }
                // A leader is left alone, almost until it has something to do again.
                1 => {
                    let mut steps = 0;
                    loop {
                        if let Step::Wait(until) = world.step() {
                            world.now = world.now.max(until - number);
                            break;
                        }
                        world.check();
                        steps += 1;
                        prop_assert!(steps < 8);
                    }
                }
                2 => {
                    world.now += number / 4;
                    world.check();
                    world.step();
                }
                _ => {
                    world.step();
                }
            }
            world.check();
        }
    }

    /// From anything that may be found, a leader that is left alone gets to a good leaf soon.
    #[test]
    fn from_every_state_it_comes_to_rest(
        found in proptest::collection::vec((-400..400i64, -100..500i64), 0..4),
        leaf in proptest::option::of((-200..200i64, -100..200i64)),
        published in proptest::option::of(0..4usize),
    ) {
        let mut world = World::new();
        for (made, length) in found {
            world.made += 1;
            world.authorities.push((world.made, life(made, made + length)));
        }
        world.leaf = leaf.map(|(made, length)| (1, life(made, made + length)));
        world.published = published.map(|count| (0, (1..=count).collect())).into_iter().collect();
        let mut steps = 0;
        loop {
            steps += 1;
            prop_assert!(steps < 20);
            match world.step() {
                Step::Wait(_) if world.state().leaf.is_some_and(|it| it.of_newest && world.now < it.life.renewal(&POLICY)) => break,
                Step::Wait(until) => world.now = until,
                _ => {}
            }
        }
        prop_assert_eq!(world.published.last().map(|(_, bundle)| bundle.clone()), Some(world.bundle()));
    }
}
