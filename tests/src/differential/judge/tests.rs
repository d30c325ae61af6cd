use std::collections::BTreeSet;

use super::super::effects::Effects;
use super::super::exempt::Cause;
use super::super::model::{LEADER, World};
use super::super::ops::{Fault, Key, Kind, Labels, Op, Pod, Service, Status, Tamper, Window};
use super::super::snapshot::{Address, Content, HEADLESS, MANAGED_BY, OVER_CAPACITY, Seen, Subset};
use super::{Facts, Need, Verdict, judge};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect()
}

pub fn key() -> Key {
    Key::new(0, "s")
}

pub fn service() -> Service {
    let json = r#"{"kind": "Cluster", "families": "V4", "selector": {"app": "a"}, "ports": [], "publish_not_ready": false,
        "labels": {}, "annotations": {}}"#;
    serde_json::from_str(json).unwrap()
}

pub fn pod(node: Option<&str>, ready: bool, phase: &str) -> (Pod, Status) {
    let pod = Pod {
        labels: labels(&[("app", "a")]),
        node: node.map(Into::into),
        hostname: None,
        subdomain: None,
        ports: Vec::new(),
    };
    let status = Status {
        phase: phase.into(),
        ips: vec!["10.0.0.1".into()],
        ready: Some(ready),
        since: 1,
    };
    (pod, status)
}

pub fn create(node: Option<&str>) -> Op {
    let (pod, status) = pod(node, true, "Running");
    Op::CreatePod {
        key: Key::new(0, "p"),
        pod,
        status,
    }
}

pub fn status_op(ready: bool, phase: &str) -> Op {
    Op::SetPodStatus {
        key: Key::new(0, "p"),
        status: pod(None, ready, phase).1,
    }
}

fn tamper(how: Tamper) -> Op {
    Op::TamperEndpoints { key: key(), how }
}

fn address(ip: &str) -> Address {
    Address {
        ip: ip.into(),
        target: "Pod 0/p incarnation 1".into(),
        hostname: None,
        node: Some("n".into()),
    }
}

fn listing(ips: &[&str]) -> Content {
    let subset = Subset {
        ports: vec![":80/TCP".into()],
        ready: ips.iter().map(|ip| address(ip)).collect(),
        not_ready: Vec::new(),
    };
    Content {
        labels: labels(&[(MANAGED_BY, "endpoint-controller")]),
        annotations: Labels::new(),
        trigger: None,
        subsets: vec![subset],
    }
}

fn timed(time: &str) -> Content {
    Content {
        trigger: Some(time.into()),
        ..listing(&["10.0.0.1"])
    }
}

/// A Service that exists before the window, and what the window does.
struct Case {
    world: World,
    window: Window,
    effects: Effects,
    done: BTreeSet<(Key, Need)>,
    before: Option<Content>,
    retimed: bool,
    retried: bool,
    patient: bool,
}

fn case(kind: Kind, service: Service, ops: Vec<Op>) -> Case {
    let mut world = World::default();
    world.apply(&Op::CreateService { key: key(), service });
    if !ops.iter().any(|op| matches!(op, Op::CreatePod { .. })) {
        world.apply(&create(Some("n")));
    }
    let window = Window { number: 1, kind, ops };
    let effects = Effects::of(&mut world, &window);
    Case {
        world,
        window,
        effects,
        done: BTreeSet::new(),
        before: None,
        retimed: true,
        retried: false,
        patient: false,
    }
}

impl Case {
    fn verdict(&self, ours: Option<&Content>, theirs: Option<&Content>) -> Verdict {
        let facts = Facts {
            window: &self.window,
            effects: &self.effects,
            world: &self.world,
            done: &self.done,
            before: self.before.as_ref(),
            written: true,
            retimed: self.retimed,
            retried: self.retried,
            patient: self.patient,
        };
        let seen = |content: &Content| Seen {
            version: "1".into(),
            content: content.clone(),
            fault: None,
        };
        judge(&key(), ours.map(seen).as_ref(), theirs.map(seen).as_ref(), &facts)
    }

    fn done(mut self, need: Need) -> Self {
        self.done.insert((key(), need));
        self
    }
}

const DIFFERENT: Verdict = Verdict::Different("subsets, labels or annotations differ");

#[test]
fn equal_is_equal_and_a_difference_without_a_cause_is_one() {
    let case = case(Kind::Isolated, service(), vec![status_op(false, "Running")]);
    let (one, other) = (listing(&["10.0.0.1"]), listing(&["10.0.0.2"]));
    assert_eq!(case.verdict(None, None), Verdict::Same { by_value: false });
    assert_eq!(case.verdict(Some(&one), Some(&one)), Verdict::Same { by_value: false });
    assert_eq!(case.verdict(Some(&one), Some(&other)), DIFFERENT);
    assert_eq!(case.verdict(None, Some(&one)), Verdict::Different("svcplane has none"));
    assert_eq!(
        case.verdict(Some(&one), None),
        Verdict::Different("the reference has none")
    );
}

#[test]
fn what_the_reference_does_not_see_needs_a_touch_and_no_more() {
    let (one, other) = (listing(&["10.0.0.1"]), listing(&["10.0.0.2"]));
    let ops = [
        (tamper(Tamper::ForeignSubsets), Cause::Tampered),
        (status_op(true, "Failed"), Cause::UnseenPodChange),
    ];
    for (op, cause) in ops {
        let case = case(Kind::Isolated, service(), vec![op]);
        assert_eq!(
            case.verdict(Some(&one), Some(&other)),
            Verdict::Needs(Need::Touch, cause)
        );
        assert_eq!(case.done(Need::Touch).verdict(Some(&one), Some(&other)), DIFFERENT);
    }
    let seen = case(Kind::Isolated, service(), vec![status_op(false, "Failed")]);
    assert_eq!(
        seen.verdict(Some(&one), Some(&other)),
        DIFFERENT,
        "readiness changed too"
    );
    let stays = case(Kind::Isolated, service(), vec![tamper(Tamper::Annotation)]);
    assert_eq!(
        stays.verdict(Some(&one), Some(&other)),
        DIFFERENT,
        "nobody puts that right"
    );
}

#[test]
fn an_edit_that_svcplane_is_patient_with_needs_a_touch_even_if_it_is_the_same() {
    let one = listing(&["10.0.0.1"]);
    for op in [tamper(Tamper::OverCapacity), Op::DeleteEndpoints { key: key() }] {
        let mut edited = case(Kind::Isolated, service(), vec![op]);
        edited.patient = true;
        let needed = Verdict::Needs(Need::Touch, Cause::Patience);
        assert_eq!(edited.verdict(Some(&one), Some(&one)), needed);
        assert_eq!(edited.verdict(None, Some(&one)), needed);
        let touched = edited.done(Need::Touch);
        assert_eq!(
            touched.verdict(Some(&one), Some(&one)),
            Verdict::Same { by_value: false }
        );
        assert_eq!(
            touched.verdict(None, Some(&one)),
            Verdict::Different("svcplane has none")
        );
    }
    let mut other = case(Kind::Isolated, service(), vec![status_op(false, "Running")]);
    other.patient = true;
    assert_eq!(
        other.verdict(None, Some(&one)),
        Verdict::Different("svcplane has none"),
        "a Pod is followed at once"
    );
}

#[test]
fn a_contradiction_needs_a_write() {
    let (one, other) = (listing(&["10.0.0.1"]), listing(&["10.0.0.2"]));
    let case = case(Kind::Isolated, service(), vec![tamper(Tamper::Contradiction)]).done(Need::Touch);
    let needed = Verdict::Needs(Need::Force, Cause::Contradiction);
    assert_eq!(case.verdict(Some(&one), Some(&other)), needed);
    assert_eq!(case.done(Need::Force).verdict(Some(&one), Some(&other)), DIFFERENT);
}

#[test]
fn a_headless_label_alone_needs_a_write() {
    let one = listing(&["10.0.0.1"]);
    let mut other = one.clone();
    other.labels.insert(HEADLESS.into(), String::new());
    let case = case(Kind::Burst, service(), Vec::new());
    assert_eq!(
        case.verdict(Some(&one), Some(&other)),
        Verdict::Needs(Need::Force, Cause::HeadlessLabel)
    );
    let case = case.done(Need::Force);
    assert_eq!(case.verdict(Some(&one), Some(&other)), DIFFERENT);
}

#[test]
fn a_frozen_reference_is_excused_and_svcplane_is_not() {
    let case = case(Kind::Isolated, service(), vec![create(None)]);
    let (wrong, other, right) = (listing(&["10.0.0.1"]), listing(&["10.0.0.2"]), {
        let mut none = listing(&[]);
        none.subsets.clear();
        none
    });
    assert_eq!(
        case.verdict(Some(&right), Some(&other)),
        Verdict::Exempt(Cause::FrozenReference)
    );
    assert_eq!(
        case.verdict(Some(&wrong), Some(&wrong)),
        Verdict::Different("svcplane lists a Pod that may not be listed")
    );
}

#[test]
fn a_pod_that_may_not_be_listed_goes_without_a_trace() {
    let gone = Op::DeletePod {
        key: Key::new(0, "p"),
        grace: 0,
    };
    let mut case = case(Kind::Isolated, service(), Vec::new());
    case.world.apply(&gone);
    case.world.apply(&create(None));
    case.window.ops = vec![gone];
    case.effects = Effects::of(&mut case.world, &case.window);
    let (one, other) = (listing(&["10.0.0.1"]), listing(&["10.0.0.2"]));
    let froze = Verdict::Different("svcplane's changed when a Pod went that may not be listed");
    assert_eq!(case.verdict(Some(&one), Some(&one)), froze, "it was not there before");
    case.before = Some(other);
    assert_eq!(case.verdict(Some(&one), Some(&one)), froze);
    case.before = Some(one.clone());
    assert_eq!(case.verdict(Some(&one), Some(&one)), Verdict::Same { by_value: false });
}

#[test]
fn endpoints_without_a_service_are_excused_at_a_start_alone() {
    let hand_made = Content {
        labels: Labels::new(),
        ..listing(&["10.0.0.1"])
    };
    let gone = Op::DeleteService { key: key() };
    let stop = Op::Stop { hard: true };
    let excused = Verdict::Needs(Need::DeleteOurs, Cause::LeftoverAtStart);
    let restarted = case(Kind::Burst, service(), vec![stop.clone(), gone.clone()]);
    assert_eq!(restarted.verdict(Some(&hand_made), None), excused);
    assert_ne!(
        restarted.verdict(Some(&listing(&[])), None),
        excused,
        "a controller's own"
    );
    assert_ne!(
        case(Kind::Burst, service(), vec![gone]).verdict(Some(&hand_made), None),
        excused,
        "no restart"
    );
    assert_ne!(
        case(Kind::Burst, service(), vec![stop]).verdict(Some(&hand_made), None),
        excused,
        "it has a Service"
    );
}

#[test]
fn a_lock_whose_service_went_while_the_programs_ended_may_be_left_on_either_side() {
    let mut lock = listing(&["10.0.0.1"]);
    lock.annotations.insert(LEADER.into(), "{}".into());
    let (gone, stop) = (Op::DeleteService { key: key() }, Op::Stop { hard: true });
    let excused = |need| Verdict::Needs(need, Cause::LeftoverAtStart);
    let ended = case(Kind::Burst, service(), vec![gone.clone(), stop.clone()]);
    assert_eq!(ended.verdict(Some(&lock), None), excused(Need::DeleteOurs));
    assert_eq!(ended.verdict(None, Some(&lock)), excused(Need::DeleteTheirs));
    assert_eq!(
        ended.verdict(None, Some(&listing(&[]))),
        Verdict::Different("svcplane has none"),
        "no lock"
    );
    let running = case(Kind::Burst, service(), vec![gone]);
    assert_eq!(
        running.verdict(None, Some(&lock)),
        Verdict::Different("svcplane has none"),
        "no end"
    );
    let kept = case(Kind::Burst, service(), vec![stop]);
    assert_eq!(
        kept.verdict(None, Some(&lock)),
        Verdict::Different("svcplane has none"),
        "its Service is there"
    );
}

#[test]
fn several_subsets_over_capacity_are_cut_in_any_order_but_from_the_front() {
    let many: Vec<String> = (0..700).map(|n| format!("10.0.{}.{}", n / 250, n % 250)).collect();
    let cut = |first: usize| {
        let mut content = listing(&[]);
        let take = |count: usize| many.iter().take(count).map(|ip| address(ip)).collect::<Vec<_>>();
        content.annotations.insert(OVER_CAPACITY.into(), "truncated".into());
        content.subsets = vec![
            Subset {
                ports: vec![":1/TCP".into()],
                ready: take(first),
                not_ready: Vec::new(),
            },
            Subset {
                ports: vec![":2/TCP".into()],
                ready: take(1000 - first),
                not_ready: Vec::new(),
            },
        ];
        content
    };
    let case = case(Kind::Burst, service(), Vec::new());
    assert_eq!(
        case.verdict(Some(&cut(500)), Some(&cut(501))),
        Verdict::Exempt(Cause::TruncationOrder)
    );
    let mut other = cut(501);
    other.subsets[0].ready[3].ip = "10.9.9.9".into();
    assert_eq!(case.verdict(Some(&cut(500)), Some(&other)), DIFFERENT);
    let mut short = cut(500);
    short.subsets[1].ready.pop();
    assert_eq!(case.verdict(Some(&short), Some(&cut(500))), DIFFERENT, "999 addresses");
}

#[test]
fn trigger_times_are_compared_where_they_are_sure() {
    let untimed = listing(&["10.0.0.1"]);
    let (one, other) = (timed("1"), timed("2"));
    let flip = || vec![status_op(false, "Running")];
    let differs = |case: &Case| case.verdict(Some(&one), Some(&other));
    let missing = |case: &Case| case.verdict(Some(&one), Some(&untimed));

    let mut isolated = case(Kind::Isolated, service(), flip());
    assert_eq!(
        isolated.verdict(Some(&one), Some(&one)),
        Verdict::Same { by_value: true }
    );
    assert_eq!(differs(&isolated), Verdict::Different("the trigger time differs"));
    isolated.retried = true;
    assert_eq!(differs(&isolated), Verdict::Exempt(Cause::TriggerAfterRetry));
    isolated.retimed = false;
    assert_eq!(
        differs(&isolated),
        Verdict::Same { by_value: false },
        "judged when it was set"
    );

    let mut burst = case(Kind::Burst, service(), flip());
    assert_eq!(differs(&burst), Verdict::Exempt(Cause::TriggerInBurst));
    assert_eq!(missing(&burst), Verdict::Different("only one has a trigger time"));
    burst.retried = true;
    assert_eq!(missing(&burst), Verdict::Exempt(Cause::TriggerInBurst));
    let there_and_back = vec![status_op(false, "Running"), status_op(true, "Running")];
    assert_eq!(
        missing(&case(Kind::Burst, service(), there_and_back)),
        Verdict::Exempt(Cause::TriggerInBurst)
    );
    let mut faulty = flip();
    faulty.push(Op::Fault {
        fault: Fault::Conflict,
        times: 1,
    });
    assert_eq!(
        missing(&case(Kind::Burst, service(), faulty)),
        Verdict::Exempt(Cause::TriggerInBurst)
    );
    let mixed = vec![
        status_op(false, "Running"),
        Op::DeletePod {
            key: Key::new(0, "p"),
            grace: 0,
        },
    ];
    assert_eq!(
        missing(&case(Kind::Burst, service(), mixed)),
        Verdict::Exempt(Cause::TriggerInBurst)
    );

    let reserved = Service {
        labels: labels(&[(HEADLESS, "")]),
        ..service()
    };
    assert_eq!(
        differs(&case(Kind::Isolated, reserved, flip())),
        Verdict::Exempt(Cause::TriggerReservedLabels)
    );
    let full = |time: &str| {
        let mut content = timed(time);
        content.annotations.insert(OVER_CAPACITY.into(), "truncated".into());
        content
    };
    let isolated = case(Kind::Isolated, service(), flip());
    assert_eq!(
        isolated.verdict(Some(&full("1")), Some(&full("2"))),
        Verdict::Exempt(Cause::TriggerOverCapacity)
    );
    let mended = case(
        Kind::Isolated,
        service(),
        vec![
            create(None),
            Op::BindPod {
                key: Key::new(0, "p"),
                node: "n".into(),
            },
        ],
    );
    assert_eq!(differs(&mended), Verdict::Exempt(Cause::TriggerAfterFreeze));
    let mut forgotten = case(Kind::Isolated, service(), flip());
    forgotten.world.new_to_reference.insert(Key::new(0, "s"));
    assert_eq!(differs(&forgotten), Verdict::Exempt(Cause::TriggerAfterRestart));
}

/// Neither program looks at a Service because of a new transition time alone, and both count it when they look next.
#[test]
fn the_time_of_a_flip_that_svcplane_missed_may_be_left_over() {
    let flip = |ready: bool, since: u64| Op::SetPodStatus {
        key: Key::new(0, "p"),
        status: Status {
            since,
            ..pod(None, ready, "Running").1
        },
    };
    let expired = Op::Fault {
        fault: Fault::ExpireWatches,
        times: 1,
    };
    let there_and_back = vec![flip(false, 7_707), expired.clone(), flip(true, 7_731)];
    let missed = case(Kind::Burst, service(), there_and_back);
    assert_eq!(
        missed.world.times_missed(&key()),
        BTreeSet::from(["2020-01-01T02:08:51Z".to_owned()])
    );
    let seen = case(Kind::Burst, service(), vec![flip(false, 7_707), flip(true, 7_731)]);
    assert!(seen.world.times_missed(&key()).is_empty());
    let flipped = case(Kind::Burst, service(), vec![expired, flip(false, 7_707)]);
    assert!(flipped.world.times_missed(&key()).is_empty());

    let mut next = missed;
    next.window = Window {
        number: 2,
        kind: Kind::Isolated,
        ops: Vec::new(),
    };
    let judged = |ours: &str| next.verdict(Some(&timed(ours)), Some(&timed("2020-01-01T02:09:02Z")));
    assert_eq!(
        judged("2020-01-01T02:08:51Z"),
        Verdict::Exempt(Cause::TriggerOfMissedFlip)
    );
    assert_eq!(
        judged("2020-01-01T02:08:27Z"),
        Verdict::Different("the trigger time differs")
    );
    next.world.apply(&flip(false, 7_800));
    assert!(next.world.times_missed(&key()).is_empty());
}
