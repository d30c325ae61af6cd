use super::super::desired::mirror;
use super::*;
use crate::endpoints::fixtures::{bare, hand_made, labels, port, subset};
use crate::model::{ObjectKey, Revision, Subset, Uid};

fn endpoints(subsets: Vec<Subset>) -> EndpointsObject {
    EndpointsObject {
        labels: labels(&[("team", "reed"), (SERVICE_NAME_LABEL, "nonsense")]),
        annotations: labels(&[
            ("note", "kept"),
            (TRIGGER_TIME_ANNOTATION, "x"),
            (LAST_APPLIED_ANNOTATION, "{}"),
        ]),
        ..hand_made(subsets)
    }
}

fn planned(endpoints: &EndpointsObject, stored: &[Arc<Slice>]) -> Plan {
    plan(endpoints, mirror(endpoints, 1000).slices, stored)
}

/// The stored slices after the writes; new ones are called `new-0` and so on.
fn apply(stored: &[Arc<Slice>], plan: Plan) -> Vec<Arc<Slice>> {
    let mut after = stored.to_vec();
    for (number, operation) in plan.steps.into_iter().flatten().enumerate() {
        match operation {
            Operation::Create(content) => after.push(Arc::new(Slice {
                key: ObjectKey::new("marsh", format!("new-{number}")),
                uid: Uid::parse(&format!("new-{number}")),
                revision: Revision(1),
                terminating: false,
                content,
            })),
            Operation::Update(slice, content) => {
                let place = after.iter().position(|it| it.key == slice.key).unwrap();
                after[place] = Arc::new(Slice {
                    content,
                    ..(*slice).clone()
                });
            }
            Operation::Delete(slice) => after.retain(|it| it.key != slice.key),
        }
    }
    after
}

fn lengths(plan: &Plan) -> [usize; 4] {
    plan.steps.each_ref().map(Vec::len)
}

fn web() -> EndpointsObject {
    let (one, other) = (bare("10.0.0.1"), bare("10.0.0.2"));
    endpoints(vec![subset([&one, &other], [], [&port("http", 80)])])
}

#[test]
fn what_a_mirrored_slice_is_made_of() {
    let plan = planned(&web(), &[]);
    let Operation::Create(content) = &plan.steps[0][0] else {
        panic!("{plan:?}")
    };
    assert_eq!(
        content.labels,
        labels(&[
            ("team", "reed"),
            (SERVICE_NAME_LABEL, "web"),
            (MANAGED_BY_LABEL, "endpointslicemirroring-controller.k8s.io"),
        ])
    );
    assert_eq!(content.annotations, labels(&[("note", "kept")]));
    let owner = &content.owner_references[0];
    assert_eq!(
        (&*owner.kind, &*owner.name, &*owner.uid),
        ("Endpoints", "web", "endpoints")
    );
    let stored = apply(&[], plan);
    assert!(planned(&web(), &stored).is_empty());
}

#[test]
fn whatever_differs_is_put_right_by_one_write() {
    type Change = fn(&mut Slice);
    let changes: [(&str, Change); 5] = [
        ("an endpoint is gone", |it| drop(it.content.endpoints.pop())),
        ("a label is gone", |it| drop(it.content.labels.remove("team"))),
        ("an annotation too many", |it| {
            drop(it.content.annotations.insert("mine".into(), "".into()));
        }),
        ("the owner is an earlier incarnation", |it| {
            it.content.owner_references[0].uid = "earlier".into();
        }),
        ("other ports", |it| it.content.ports = Vec::new().into()),
    ];
    let right = apply(&[], planned(&web(), &[]));
    for (what, change) in changes {
        let mut slice = (*right[0]).clone();
        change(&mut slice);
        let plan = planned(&web(), &[Arc::new(slice)]);
        assert_eq!(lengths(&plan), [1, 0, 0, 0], "{what}");
        assert_eq!(apply(&right, plan)[0].content, right[0].content, "{what}");
    }
}

#[test]
fn the_order_of_endpoints_is_no_difference() {
    let right = apply(&[], planned(&web(), &[]));
    let mut slice = (*right[0]).clone();
    slice.content.endpoints.reverse();
    assert!(planned(&web(), &[Arc::new(slice)]).is_empty());
}

/// Upstream takes over by chance, and in the wrong way if there are slices of both families (spec: endpoints.md 6.4).
#[test]
fn a_slice_is_taken_over_by_what_has_the_same_addresses() {
    let (one, two, six) = (bare("10.0.0.1"), bare("10.0.0.2"), bare("fd00::1"));
    let before = endpoints(vec![
        subset([&one, &six], [], [&port("a", 80)]),
        subset([&two], [], [&port("b", 81)]),
    ]);
    let stored = apply(&[], planned(&before, &[]));
    assert_eq!(stored.len(), 3);
    let after = endpoints(vec![
        subset([&two, &six], [], [&port("c", 90)]),
        subset([&one], [], [&port("d", 91)]),
    ]);
    let plan = planned(&after, &stored);
    assert_eq!(lengths(&plan), [3, 0, 0, 0]);
    let addresses = |slice: &SliceContent| format!("{:?}", slice.endpoints);
    for operation in &plan.steps[0] {
        let Operation::Update(slice, content) = operation else {
            panic!("{operation:?}")
        };
        assert_eq!(addresses(&slice.content), addresses(content), "only its ports change");
    }
    assert!(planned(&after, &apply(&stored, plan)).is_empty());
}

#[test]
fn slices_too_many_go() {
    let mut stored = apply(&[], planned(&web(), &[]));
    let twin = Slice {
        key: ObjectKey::new("marsh", "twin"),
        ..(*stored[0]).clone()
    };
    stored.push(Arc::new(twin));
    assert_eq!(lengths(&planned(&web(), &stored)), [0, 0, 0, 1]);
    assert_eq!(lengths(&planned(&endpoints(Vec::new()), &stored)), [0, 0, 0, 2]);
}

#[test]
fn nothing_new_is_made_for_endpoints_that_are_being_deleted() {
    let going = EndpointsObject {
        terminating: true,
        ..web()
    };
    assert!(planned(&going, &[]).is_empty());
}
