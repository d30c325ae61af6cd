use super::super::super::exempt::Cause;
use super::super::super::ops::{HandMadeAddress, HandMadePort, HandMadeSubset, Labels, Node, Op, SliceTamper};
use super::super::super::snapshot::Group;
use super::super::tests::{create, key, pod, service, status_op};
use super::*;

const SELECTOR: Manager = Manager::Selector;
const DIFFERENT: Verdict = Verdict::Different("slices differ");
const SAME: Verdict = Verdict::Same { by_value: false };

fn listed(ip: &str) -> Listed {
    Listed {
        addresses: vec![ip.into()],
        target: "Pod 0/p incarnation 1".into(),
        ready: Some(true),
        serving: Some(true),
        terminating: Some(false),
        ..Listed::default()
    }
}

fn with(endpoints: Vec<Listed>) -> Sliced {
    let group = Group {
        labels: BTreeSet::from([Labels::new()]),
        annotations: BTreeSet::from([Labels::new()]),
        owners: BTreeSet::from(["v1 Service s".into()]),
        endpoints,
    };
    let (name, size) = ("IPv4 :80/TCP".to_owned(), group.endpoints.len());
    Sliced {
        versions: [("x".into(), "1".into())].into(),
        triggers: [("x".into(), None)].into(),
        sizes: [(name.clone(), vec![size])].into(),
        content: SlicesContent {
            groups: [(name, group)].into(),
        },
    }
}

fn timed(time: &str) -> Sliced {
    Sliced {
        triggers: [("x".into(), Some(time.into()))].into(),
        ..with(vec![listed("10.0.0.1")])
    }
}

struct Case {
    world: World,
    window: Window,
    effects: Effects,
    done: BTreeSet<(Key, Need)>,
    before: Option<Sliced>,
    retried: bool,
    patient: bool,
}

fn known() -> Op {
    Op::PutNode {
        name: "n".into(),
        node: Node {
            zone: None,
            cpus: 4,
            ready: true,
            control_plane: false,
        },
    }
}

/// A Service and a Pod on a known Node before the window, and what the window does.
fn case(kind: Kind, service: Service, ops: Vec<Op>) -> Case {
    let mut world = World::default();
    world.apply(&Op::CreateService { key: key(), service });
    world.apply(&known());
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
        retried: false,
        patient: false,
    }
}

impl Case {
    fn of(&self, manager: Manager, ours: Option<&Sliced>, theirs: Option<&Sliced>) -> Verdict {
        let facts = SliceFacts {
            window: &self.window,
            effects: &self.effects,
            world: &self.world,
            done: &self.done,
            before: [self.before.as_ref(); 2],
            retried: self.retried,
            patient: self.patient,
            limit: 100,
        };
        judge_slices(&Owned { key: key(), manager }, ours, theirs, &facts)
    }

    fn verdict(&self, ours: &Sliced, theirs: &Sliced) -> Verdict {
        self.of(SELECTOR, Some(ours), Some(theirs))
    }

    fn done(mut self, need: Need) -> Self {
        self.done.insert((key(), need));
        self
    }
}

fn two() -> (Sliced, Sliced) {
    (with(vec![listed("10.0.0.1")]), with(vec![listed("10.0.0.2")]))
}

fn tamper(how: SliceTamper) -> Op {
    let last = false;
    Op::TamperSlices { key: key(), how, last }
}

#[test]
fn equal_is_equal_and_a_difference_without_a_cause_is_one() {
    let case = case(Kind::Isolated, service(), vec![status_op(false, "Running")]);
    let (one, other) = two();
    assert_eq!(case.of(Manager::Mirroring, None, None), SAME);
    assert_eq!(case.verdict(&one, &one), SAME);
    assert_eq!(case.verdict(&one, &other), DIFFERENT);
    let none = Verdict::Different("svcplane has no slices");
    assert_eq!(case.of(SELECTOR, None, Some(&one)), none);
    assert_eq!(case.of(SELECTOR, None, None), none);
    assert_eq!(case.of(SELECTOR, Some(&one), None), DIFFERENT);
    let mirrored = Verdict::Different("mirrored slices differ");
    assert_eq!(case.of(Manager::Mirroring, None, Some(&one)), mirrored);
}

#[test]
fn what_the_reference_does_not_see_needs_a_touch_and_no_more() {
    let (one, other) = two();
    let gone = Op::DeleteNode { name: "n".into() };
    let causes = [
        (tamper(SliceTamper::Delete), Cause::TamperedSlices),
        (status_op(true, "Failed"), Cause::UnseenPodChange),
        (gone, Cause::NodeChange),
    ];
    for (op, cause) in causes {
        let mut case = case(Kind::Isolated, service(), vec![op]);
        // What svcplane lists then is not the point here.
        case.world.pods.clear();
        assert_eq!(case.verdict(&one, &other), Verdict::Needs(Need::Touch, cause));
        assert_eq!(case.done(Need::Touch).verdict(&one, &other), DIFFERENT);
    }
    let mut late = case(Kind::Burst, service(), Vec::new());
    late.retried = true;
    let retried = Verdict::Needs(Need::Touch, Cause::RetriedSlices);
    assert_eq!(late.verdict(&one, &other), retried);
    assert_eq!(late.done(Need::Touch).verdict(&one, &other), DIFFERENT);
}

#[test]
fn an_edit_that_svcplane_is_patient_with_needs_a_touch_even_if_it_is_the_same() {
    let (one, _) = two();
    let mut edited = case(Kind::Isolated, service(), vec![tamper(SliceTamper::NoEndpoints)]);
    edited.patient = true;
    let needed = Verdict::Needs(Need::Touch, Cause::Patience);
    assert_eq!(edited.verdict(&one, &one), needed);
    assert_eq!(edited.done(Need::Touch).verdict(&one, &one), SAME);
}

#[test]
fn labels_and_notes_that_are_nobodys_reason_to_write() {
    let (one, _) = two();
    let noted = |key: &str| BTreeSet::from([Labels::from([(key.into(), "mine".into())])]);
    let mut labelled = one.clone();
    labelled
        .content
        .groups
        .values_mut()
        .for_each(|it| it.labels = noted(HEADLESS));
    let quiet = case(Kind::Burst, service(), Vec::new());
    let force = Verdict::Needs(Need::Force, Cause::HeadlessLabel);
    assert_eq!(quiet.verdict(&one, &labelled), force);
    let mut annotated = one.clone();
    annotated
        .content
        .groups
        .values_mut()
        .for_each(|it| it.annotations = noted(NOTE));
    let strip = Verdict::Needs(Need::StripSliceNote, Cause::NoteOnSlices);
    assert_eq!(quiet.verdict(&one, &annotated), strip);
    let forced = quiet.done(Need::Force).done(Need::StripSliceNote);
    assert_eq!(forced.verdict(&one, &labelled), DIFFERENT);
    assert_eq!(forced.verdict(&one, &annotated), DIFFERENT);
    let mut other_label = one.clone();
    other_label
        .content
        .groups
        .values_mut()
        .for_each(|it| it.labels = noted("team"));
    assert_eq!(
        case(Kind::Burst, service(), Vec::new()).verdict(&one, &other_label),
        DIFFERENT
    );
}

#[test]
fn svcplane_lists_no_pod_that_may_not_be_in_slices() {
    let (one, other) = two();
    let unlistable = Verdict::Different("svcplane's slices list a Pod that may not be in slices");
    let gone = Op::DeleteNode { name: "n".into() };
    let case_of = |service: Service, op: Op| case(Kind::Isolated, service, vec![op]);
    assert_eq!(
        case_of(service(), gone.clone()).verdict(&one, &one),
        unlistable,
        "its Node is not known"
    );
    assert_eq!(
        case_of(service(), create(None)).verdict(&one, &one),
        unlistable,
        "it has no Node"
    );
    assert_eq!(
        case_of(service(), status_op(true, "Failed")).verdict(&one, &one),
        unlistable,
        "it has ended"
    );
    let published = Service {
        publish_not_ready: true,
        ..service()
    };
    assert_eq!(case_of(published, gone).verdict(&one, &one), SAME);

    let (mut loopback, mut status) = pod(Some("n"), true, "Running");
    loopback.labels.insert("more".into(), "labels".into());
    status.ips = vec!["127.0.0.9".into()];
    let op = Op::CreatePod {
        key: Key::new(0, "q"),
        pod: loopback,
        status,
    };
    let mut frozen = case_of(service(), op);
    frozen.world.apply(&create(Some("n")));
    assert_eq!(frozen.verdict(&one, &other), Verdict::Exempt(Cause::FrozenSlices));
    let mut listing = one.clone();
    listing
        .content
        .groups
        .values_mut()
        .for_each(|it| it.endpoints[0].target = "Pod 0/q incarnation 1".into());
    assert_eq!(frozen.verdict(&listing, &listing), unlistable);
}

#[test]
fn which_endpoint_is_meant_for_which_zone_is_left_to_chance_and_that_one_is_is_not() {
    let hinted = |zone: Option<&str>| {
        let endpoint = Listed {
            zone: Some("a".into()),
            for_zones: zone.map(Into::into).into_iter().collect(),
            ..listed("10.0.0.1")
        };
        let other = Listed {
            target: String::new(),
            for_zones: vec!["b".into()],
            ..endpoint.clone()
        };
        with(vec![endpoint, other])
    };
    let auto = Service {
        annotations: Labels::from([("service.kubernetes.io/topology-mode".into(), "Auto".into())]),
        ..service()
    };
    let mut case = case(Kind::Burst, auto, Vec::new());
    for zone in ["a", "b"] {
        let node = Node {
            zone: Some(zone.into()),
            cpus: 4,
            ready: true,
            control_plane: false,
        };
        case.world
            .nodes
            .insert(if zone == "a" { "n".into() } else { "m".into() }, node);
    }
    let within = Verdict::Exempt(Cause::HintsWithinBounds);
    assert_eq!(case.verdict(&hinted(Some("a")), &hinted(Some("b"))), within);
    assert_eq!(case.verdict(&hinted(Some("a")), &hinted(None)), DIFFERENT);
    let bare = Verdict::Different("svcplane's: a ready endpoint has not just one hint");
    assert_eq!(case.verdict(&hinted(None), &hinted(None)), bare);
    case.world.services.insert(key(), service());
    assert_eq!(
        case.verdict(&hinted(Some("a")), &hinted(Some("b"))),
        DIFFERENT,
        "not asked for"
    );
}

fn hand_made(subsets: &[(&[&str], u16, &str)]) -> HandMade {
    let subset = |(ips, number, name): &(&[&str], u16, &str)| HandMadeSubset {
        ready: ips
            .iter()
            .map(|ip| HandMadeAddress {
                ip: (*ip).into(),
                hostname: None,
                node: None,
                target: None,
            })
            .collect(),
        not_ready: Vec::new(),
        ports: vec![HandMadePort {
            name: (*name).into(),
            number: *number,
            protocol: "TCP".into(),
            app_protocol: None,
        }],
    };
    HandMade {
        labels: Labels::new(),
        annotations: Labels::new(),
        subsets: subsets.iter().map(subset).collect(),
    }
}

fn mirroring(content: HandMade) -> Case {
    let selectorless = Service {
        selector: None,
        ..service()
    };
    case(
        Kind::Isolated,
        selectorless,
        vec![Op::CreateEndpoints { key: key(), content }],
    )
}

#[test]
fn the_reference_may_begin_anew_to_mirror_both_families_once() {
    let (one, other) = two();
    let verdict = |case: &Case| case.of(Manager::Mirroring, Some(&one), Some(&other));
    let different = Verdict::Different("mirrored slices differ");
    let mixed = || mirroring(hand_made(&[(&["10.0.0.1", "fd00::1"], 1, "p")]));
    assert_eq!(verdict(&mixed()), Verdict::Needs(Need::Remirror, Cause::MixedMirror));
    assert_eq!(verdict(&mixed().done(Need::Remirror)), different);
    assert_eq!(
        verdict(&mirroring(hand_made(&[(&["10.0.0.1"], 1, "p")]))),
        different,
        "one family"
    );
}

#[test]
fn where_the_reference_is_refused_svcplane_mirrors_the_rest() {
    let doubled: &[&str] = &["10.0.0.9"];
    let content = hand_made(&[(doubled, 1, "p"), (doubled, 2, "p"), (&["10.0.0.1"], 3, "p")]);
    let case = mirroring(content);
    let (right, wrong) = two();
    let verdict = |ours: Option<&Sliced>, theirs: Option<&Sliced>| case.of(Manager::Mirroring, ours, theirs);
    assert_eq!(verdict(Some(&right), None), Verdict::Exempt(Cause::RefusedMirror));
    let fault = Verdict::Different("svcplane does not mirror just the subsets that can be");
    assert_eq!(verdict(Some(&wrong), Some(&wrong)), fault);
    assert_eq!(verdict(Some(&with(Vec::new())), None), fault);
    assert_eq!(verdict(None, Some(&right)), fault);
}

#[test]
fn trigger_times_are_compared_where_they_are_sure() {
    let (one, other) = (timed("1"), timed("2"));
    let untimed = with(vec![listed("10.0.0.1")]);
    let flip = || vec![status_op(false, "Running")];
    let mut isolated = case(Kind::Isolated, service(), flip());
    assert_eq!(isolated.verdict(&one, &one), Verdict::Same { by_value: true });
    assert_eq!(
        isolated.verdict(&one, &other),
        Verdict::Different("the trigger time of slices differs")
    );
    isolated.before = Some(one.clone());
    assert_eq!(isolated.verdict(&one, &other), SAME, "judged when they were written");
    isolated.before = None;
    isolated.retried = true;
    assert_eq!(
        isolated.verdict(&one, &other),
        Verdict::Exempt(Cause::TriggerAfterRetry)
    );
    let touched = case(Kind::Isolated, service(), flip()).done(Need::Touch);
    assert_eq!(touched.verdict(&one, &other), Verdict::Exempt(Cause::TriggerAfterTouch));
    let mut forgotten = case(Kind::Isolated, service(), flip());
    forgotten.world.new_to_reference.insert(Key::new(0, "s"));
    assert_eq!(
        forgotten.verdict(&one, &other),
        Verdict::Exempt(Cause::TriggerAfterRestart)
    );

    let burst = case(Kind::Burst, service(), flip());
    assert_eq!(burst.verdict(&one, &other), Verdict::Exempt(Cause::TriggerInBurst));
    let missing = Verdict::Different("only one side's slices have a trigger time");
    assert_eq!(burst.verdict(&one, &untimed), missing);
    let mirrored = burst.of(Manager::Mirroring, Some(&one), Some(&one));
    assert_eq!(
        mirrored,
        Verdict::Different("svcplane's mirrored slices bear a trigger time")
    );
}

#[test]
fn what_is_wrong_by_itself_is_wrong_although_both_say_it() {
    let twice = with(vec![listed("10.0.0.1"), listed("10.0.0.1")]);
    let fault = Verdict::Different("svcplane's: an endpoint is listed twice");
    assert_eq!(case(Kind::Burst, service(), Vec::new()).verdict(&twice, &twice), fault);
    let unkept = Service {
        selector: None,
        ..service()
    };
    assert_eq!(
        case(Kind::Burst, unkept, Vec::new()).verdict(&twice, &twice),
        SAME,
        "nobody's to put right"
    );
}

#[test]
fn the_reference_does_not_mind_whose_its_placeholder_is() {
    let owned = |owner: &str, endpoints: Vec<Listed>| {
        let mut sliced = with(endpoints);
        for group in sliced.content.groups.values_mut() {
            group.owners = [owner.to_owned()].into();
        }
        sliced
    };
    let empty = |owner: &str| owned(owner, Vec::new());
    let case = case(Kind::Isolated, service(), Vec::new());
    assert_eq!(
        case.verdict(&empty("v1 Service s"), &empty("")),
        Verdict::Exempt(Cause::PlaceholderOwner)
    );
    assert_eq!(
        case.verdict(&empty("v1 Service s"), &empty("v1 Service s (gone)")),
        Verdict::Exempt(Cause::PlaceholderOwner)
    );
    assert_eq!(
        case.verdict(&empty(""), &empty("v1 Service s")),
        DIFFERENT,
        "ours must be"
    );
    assert_eq!(case.verdict(&empty(""), &empty("v1 Pod s")), DIFFERENT);
    let one = |owner: &str| owned(owner, vec![listed("10.0.0.1")]);
    assert_eq!(
        case.verdict(&one("v1 Service s"), &one("")),
        DIFFERENT,
        "no placeholder"
    );
}

#[test]
fn the_reference_may_keep_a_slice_that_lists_nothing() {
    let group = |endpoints: Vec<Listed>| with(endpoints).content.groups.into_values().next().unwrap();
    type Named<'a> = (&'a str, &'a [&'a str]);
    let slices = |groups: &[Named]| {
        let mut sliced = with(Vec::new());
        let groups = groups.iter().map(|(name, ips)| {
            let endpoints = ips.iter().map(|ip| listed(ip)).collect();
            ((*name).to_owned(), group(endpoints))
        });
        sliced.content.groups = groups.collect();
        sliced
    };
    let case = case(Kind::Isolated, service(), Vec::new());
    let (one, idle): (Named, Named) = (("IPv4 :80/TCP", &["10.0.0.1"]), ("IPv4 ", &[]));
    let exempt = Verdict::Exempt(Cause::IdleSlice);
    assert_eq!(case.verdict(&slices(&[one]), &slices(&[one, idle])), exempt);
    assert_eq!(
        case.verdict(&slices(&[idle]), &slices(&[("IPv4 :81/TCP", &[])])),
        exempt
    );
    assert_eq!(
        case.verdict(&slices(&[one, idle]), &slices(&[one])),
        DIFFERENT,
        "ours may not"
    );
    assert_eq!(
        case.verdict(&slices(&[("IPv4 :81/TCP", &[])]), &slices(&[idle])),
        DIFFERENT
    );
    assert_eq!(case.verdict(&slices(&[one]), &slices(&[idle])), DIFFERENT);
    let other: Named = ("IPv6 ", &[]);
    assert_eq!(
        case.verdict(&slices(&[one, other]), &slices(&[one, idle, other])),
        exempt
    );
}

#[test]
fn slices_given_to_a_service_that_nobody_keeps_are_a_matter_of_chance() {
    let unkept = Service {
        selector: None,
        ..service()
    };
    let given = Op::TamperSlices {
        key: Key::new(0, "other"),
        how: SliceTamper::OtherService("s".into()),
        last: false,
    };
    let (one, other) = (with(vec![listed("10.0.0.1")]), with(vec![listed("10.0.0.2")]));
    let stray = Verdict::Exempt(Cause::StraySlices);
    let mut case = case(Kind::Isolated, unkept, vec![given]);
    assert_eq!(case.verdict(&one, &other), stray);
    // In later windows too, until somebody keeps it.
    case.effects = Effects::of(&mut case.world, &case.window);
    assert_eq!(case.verdict(&one, &other), stray);
    case.world.apply(&Op::ReplaceService {
        key: key(),
        service: service(),
    });
    assert_ne!(case.verdict(&one, &other), stray);
}
