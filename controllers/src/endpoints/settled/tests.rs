use proptest::collection::vec;
use proptest::prelude::*;
use smallvec::SmallVec;

use super::*;
use crate::endpoints::fixtures::*;
use crate::endpoints::{Decision, decide};
use crate::model::{EndpointsObject, Pod, Revision, Uid};

const PODS: usize = 1200;

fn pods(ready: &[bool]) -> Vec<Arc<Pod>> {
    let pod_of = |(number, ready): (usize, &bool)| {
        let ip = format!("10.{}.{}.1", number / 250, number % 250);
        Arc::new(Pod {
            ready: *ready,
            ..pod(&format!("p{number}"), &[&ip])
        })
    };
    ready.iter().enumerate().map(pod_of).collect()
}

fn service() -> Arc<Service> {
    Arc::new(service_with("knot", &[numbered("http", 80)]))
}

fn written(service: &Service, pods: &[Arc<Pod>]) -> (EndpointsObject, Option<std::net::IpAddr>) {
    let Decision { operation, cut } = decide(service, pods, None, None);
    (operation.unwrap().into_object(Uid::parse("e"), Revision(7)), cut)
}

fn changes(service: &Arc<Service>, flips: Vec<Arc<Pod>>) -> Changes {
    Changes {
        service: Arc::clone(service),
        pods: PodChanges::Few(flips.into_iter().map(|pod| of_pod(pod, PodEvent::Flipped)).collect()),
        endpoints: Some(version("e", 7)),
    }
}

fn of_pod(pod: Arc<Pod>, what: PodEvent) -> PodChange {
    PodChange { pod, what }
}

fn version(uid: &str, revision: u64) -> Version {
    Version {
        uid: Uid::parse(uid),
        revision: Revision(revision),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_spared_would_have_changed_nothing(
        weight in 0.8..1.0_f64,
        seed in vec(0.0..1.0_f64, PODS),
        flipped in vec(0..PODS, 1..4),
    ) {
        let mut ready: Vec<bool> = seed.iter().map(|it| *it < weight).collect();
        let service = service();
        let (stored, cut) = written(&service, &pods(&ready));
        let enough = ready.iter().filter(|ready| **ready).count() >= 1000;
        prop_assert_eq!(cut.is_some(), enough);
        let Some(cut) = cut else { return Ok(()) };
        let settled = Settled::new(Arc::clone(&service), stored.version(), cut);
        for flipped in &flipped {
            ready[*flipped] = !ready[*flipped];
        }
        let pods = pods(&ready);
        let flips = flipped.iter().map(|number| Arc::clone(&pods[*number])).collect();
        let spared = settled.spares(&changes(&service, flips));
        let changed = decide(&service, &pods, Some(&stored), None).operation.is_some();
        prop_assert!(!(spared && changed));
        // Nothing is looked at in vain, either: who stands behind the last one listed is spared.
        let listed = stored.subsets[0].addresses.last().unwrap();
        let behind = flipped.iter().all(|number| pods[*number].ips[0].to_string().as_str() > &*listed.ip);
        prop_assert_eq!(spared, behind);
    }
}

#[test]
fn another_service_another_version_or_another_change_is_looked_at() {
    let (service, all) = (service(), pods(&[true; PODS]));
    let (stored, cut) = written(&service, &all);
    let settled = Settled::new(Arc::clone(&service), stored.version(), cut.unwrap());
    // Texts sort: 10.3.199.1 is behind 10.3.0.1 and all of 10.0 to 10.2.
    let behind = |text: &str| all.iter().find(|pod| pod.ips[0].to_string() == text).unwrap();
    let flips = vec![Arc::clone(behind("10.4.99.1"))];
    let right = changes(&service, flips.clone());
    assert!(settled.spares(&right));
    assert!(settled.spares(&changes(&service, Vec::new())));
    let edited = Arc::new(Service::clone(&service));
    for wrong in [
        changes(&edited, flips.clone()),
        changes(&service, vec![Arc::clone(behind("10.0.0.1"))]),
        changes(
            &service,
            vec![Arc::new(Pod {
                ips: SmallVec::default(),
                ..Pod::clone(&flips[0])
            })],
        ),
        Changes {
            pods: PodChanges::Any,
            ..right.clone()
        },
        Changes {
            pods: PodChanges::Few(vec![of_pod(Arc::clone(&flips[0]), PodEvent::Changed)]),
            ..right.clone()
        },
        Changes {
            pods: PodChanges::Few(vec![of_pod(Arc::clone(&flips[0]), PodEvent::Gone)]),
            ..right.clone()
        },
        Changes {
            endpoints: None,
            ..right.clone()
        },
        Changes {
            endpoints: Some(version("e", 8)),
            ..right.clone()
        },
        Changes {
            endpoints: Some(version("f", 7)),
            ..right.clone()
        },
    ] {
        assert!(!settled.spares(&wrong), "{:?} {:?}", wrong.endpoints, wrong.pods);
    }
}
