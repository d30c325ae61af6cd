//! Where the time of one readiness flip goes inside the process, by the number of Pods of its Service: `cargo bench -p svcplane`.
//!
//! `event`: the watched Pod into the index. `sync` of a flip that changes nothing listed, and of one that does: snapshot, trigger time,
//! decision. `body`: the PUT. `echo`: the watch event of that PUT, compared with what is known. `slices`: from the flips in the index to the
//! plan for the slices, by what has changed and by all Pods.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a benchmark"
)]

use std::cell::RefCell;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use svcplane::endpoints::{TriggerTracker, decide};
use svcplane::endpointslice::{Matched, Operation, Plan, Terms, plan_all};
use svcplane::index::{Index, PodChanges, Snapshot};
use svcplane::model::{EndpointsObject, Interner, Manager, ObjectKey, Revision, Slice, Uid};
use svcplane::wire::{WireEndpoints, WireNode, WirePod, WireService, write_endpoints};

/// About 6 kB, as Pods are.
fn pod(number: usize, ready: bool, revision: usize) -> Value {
    let padding = "x".repeat(4_500);
    json!({
        "metadata": {
            "name": format!("web-6f7d9c5b4-{number:05}"), "namespace": "marsh", "uid": uuid::Uuid::from_u128(number as u128).to_string(),
            "resourceVersion": revision.to_string(), "labels": {"app": "web", "pod-template-hash": "6f7d9c5b4"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:conditions": padding}}}],
        },
        "spec": {"nodeName": format!("node-{}", number % 50), "containers": [{"name": "web", "ports": [{"name": "http", "containerPort": 8080}]}]},
        "status": {
            "phase": "Running", "podIPs": [{"ip": format!("10.{}.{}.{}", number / 65_536, number / 256 % 256, number % 256)}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

struct World {
    index: Index,
    interner: Interner,
    trigger: TriggerTracker,
    key: ObjectKey,
    stored: Arc<EndpointsObject>,
}

impl World {
    fn new(pods: usize) -> Self {
        let (mut index, mut interner) = (Index::default(), Interner::default());
        let service = json!({
            "metadata": {"name": "web", "namespace": "marsh", "uid": "s", "resourceVersion": "1"},
            "spec": {"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": [{"port": 80, "targetPort": "http"}]},
        });
        let service: WireService = serde_json::from_value(service).unwrap();
        index.apply_service(service.into_model(&mut interner));
        for number in 0..pods {
            let pod: WirePod = serde_json::from_value(pod(number, true, 10 + number)).unwrap();
            index.apply_pod(pod.into_model(&mut interner));
        }
        for number in 0..50 {
            let name = format!("node-{number}");
            let node: WireNode =
                serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": "1"}})).unwrap();
            index.apply_node(node.into_model(&mut interner));
        }
        let key = ObjectKey::new("marsh", "web");
        let mut trigger = TriggerTracker::default();
        let snapshot = index.snapshot(&key);
        let service = snapshot.service.unwrap();
        let time = trigger.observe(&service, &snapshot.pods);
        let operation = decide(&service, &snapshot.pods, None, time).operation.unwrap();
        let stored = operation.into_object(Uid::parse("e"), Revision(100_000));
        index.apply_endpoints(stored.clone());
        Self {
            index,
            interner,
            trigger,
            key,
            stored: Arc::new(stored),
        }
    }

    fn sync(&mut self) -> bool {
        let snapshot = self.index.snapshot(&self.key);
        let service = snapshot.service.unwrap();
        let time = self.trigger.observe(&service, &snapshot.pods);
        decide(&service, &snapshot.pods, snapshot.endpoints.as_deref(), time)
            .operation
            .is_some()
    }

    /// As stored after the first sync.
    fn with_slices(mut self) -> Self {
        let snapshot = self.index.snapshot(&self.key);
        let plan = plan(&snapshot, Matched::All(&snapshot.pods));
        for (number, operation) in plan.steps.into_iter().flatten().enumerate() {
            let Operation::Create(content) = operation else {
                panic!("{operation:?}")
            };
            self.index.apply_slice(Slice {
                key: ObjectKey::new("marsh", format!("web-{number}")),
                uid: Uid::parse(&format!("slice-{number}")),
                revision: Revision(200_000 + number as u64),
                terminating: false,
                content,
            });
        }
        self.index.take_changes(&self.key);
        self
    }

    fn slices_by_changes(&mut self) -> Plan {
        let changes = self.index.take_changes(&self.key).unwrap();
        let PodChanges::Few(few) = &changes.pods else {
            panic!("{:?}", changes.pods)
        };
        let snapshot = self.index.stored(&self.key);
        self.trigger.observe_changes(&self.key, few).unwrap();
        plan(&snapshot, Matched::Changes(few))
    }

    fn slices_by_all(&mut self) -> Plan {
        let snapshot = self.index.snapshot(&self.key);
        self.trigger
            .observe(snapshot.service.as_deref().unwrap(), &snapshot.pods);
        plan(&snapshot, Matched::All(&snapshot.pods))
    }

    fn flip(&mut self, number: usize, ready: bool, revision: usize) {
        let pod: WirePod = serde_json::from_value(pod(number, ready, revision)).unwrap();
        self.index.apply_pod(pod.into_model(&mut self.interner));
    }
}

fn plan(snapshot: &Snapshot, pods: Matched<'_>) -> Plan {
    let terms = Terms {
        manager: Manager::Selector,
        max: 100,
        trigger: None,
        zones: None,
    };
    let service = snapshot.service.as_deref().unwrap();
    let mut plans = plan_all(service, pods, &snapshot.slices, &snapshot.nodes, terms);
    plans.families.pop().unwrap().1
}

fn flips(c: &mut Criterion) {
    let event = serde_json::to_vec(&pod(7, false, 200_000)).unwrap();
    c.bench_function("event", |b| {
        let mut world = World::new(1);
        b.iter(|| {
            let pod: WirePod = serde_json::from_slice(&event).unwrap();
            world.index.apply_pod(pod.into_model(&mut world.interner));
        });
    });
    for pods in [250, 1_000, 3_000] {
        let mut world = World::new(pods);
        let id = |name: &str| format!("{name}/{pods}");
        assert!(!world.sync());
        c.bench_function(&id("snapshot"), |b| b.iter(|| world.index.snapshot(&world.key)));
        let snapshot = world.index.snapshot(&world.key);
        let service = snapshot.service.clone().unwrap();
        c.bench_function(&id("trigger"), |b| {
            b.iter(|| world.trigger.observe(&service, &snapshot.pods));
        });
        c.bench_function(&id("sync, nothing to write"), |b| b.iter(|| world.sync()));
        let body = write_endpoints(&world.stored, None).unwrap();
        c.bench_function(&id("body"), |b| {
            b.iter(|| write_endpoints(&world.stored, None).unwrap());
        });
        // In the apiserver's order of fields, which is ours.
        let echo = write_endpoints(&world.stored, Some((&world.stored.uid, world.stored.revision))).unwrap();
        c.bench_function(&id("echo"), |b| {
            b.iter(|| {
                let echo: WireEndpoints = serde_json::from_slice(&echo).unwrap();
                assert!(echo.repeats(&world.stored));
            });
        });
        world.flip(0, false, 300_000);
        c.bench_function(&id("sync, something to write"), |b| {
            b.iter_batched(|| (), |()| assert!(world.sync()), BatchSize::SmallInput);
        });
        println!("body of {pods}: {} kB", body.len() / 1000);
    }
}

fn slices(c: &mut Criterion) {
    type Sync = fn(&mut World) -> Plan;
    let ways: [(&str, Sync); 2] = [
        ("changes", World::slices_by_changes),
        ("all Pods", World::slices_by_all),
    ];
    for pods in [100, 1_000, 10_000] {
        for (way, sync) in ways {
            let world = RefCell::new(World::new(pods).with_slices());
            let mut revision = 300_000;
            let mut flip = || {
                revision += 1;
                world.borrow_mut().flip(pods / 2, revision % 2 == 0, revision);
                revision % 2 != 0
            };
            c.bench_function(&format!("slices by {way}/{pods}"), |b| {
                b.iter_batched(
                    &mut flip,
                    |gone| assert_eq!(sync(&mut world.borrow_mut()).is_empty(), !gone),
                    BatchSize::PerIteration,
                );
            });
        }
    }
}

criterion_group!(benches, flips, slices);
criterion_main!(benches);
