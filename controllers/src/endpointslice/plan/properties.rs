//! Whatever happens, in whatever order: every endpoint is listed once, in a slice with its ports, and with few writes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::fixtures::{World, container_port, counts, named, numbered, pod, service_with};
use super::*;
use crate::model::Protocol;

/// Ports and readiness of each slice's entry for a Pod, by its name.
type Listing = BTreeMap<String, Vec<(Vec<Option<i32>>, bool)>>;

#[derive(Clone, Debug)]
enum Step {
    /// A Pod (again) with this container port.
    Put(u8, i32),
    Flip(u8),
    Remove(u8),
    /// The Service's ports change.
    Ports(bool),
    Limit(usize),
    /// A slice is lost.
    Lose(usize),
    /// A slice is there twice.
    Double(usize),
    /// Somebody takes all endpoints out of a slice.
    Clear(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..30_u8, 1..4_i32).prop_map(|(pod, port)| Step::Put(pod, port)),
        6 => (0..30_u8).prop_map(Step::Flip),
        6 => (0..30_u8).prop_map(Step::Remove),
        1 => any::<bool>().prop_map(Step::Ports),
        1 => (1..6_usize).prop_map(Step::Limit),
        1 => (0..8_usize).prop_map(Step::Lose),
        1 => (0..8_usize).prop_map(Step::Double),
        1 => (0..8_usize).prop_map(Step::Clear),
    ]
}

impl World {
    /// Makes the change and says which Pods it concerns; `None` = all of them have to be looked at.
    fn change(&mut self, step: &Step) -> Option<String> {
        match step {
            Step::Put(number, port) => {
                let mut pod = pod(&format!("p{number}"), &[&format!("10.0.{port}.{number}")]);
                pod.ports = [container_port("http", *port, Protocol::Tcp)].into();
                self.put(pod);
                Some(format!("p{number}"))
            }
            Step::Flip(number) => {
                let name = format!("p{number}");
                if let Some(pod) = self.pods.get_mut(&name) {
                    pod.ready = !pod.ready;
                }
                Some(name)
            }
            Step::Remove(number) => {
                self.pods.remove(&format!("p{number}"));
                Some(format!("p{number}"))
            }
            Step::Ports(is_named) => {
                let port = if *is_named {
                    named("http", "http")
                } else {
                    numbered("http", 80)
                };
                self.service.ports = [port].into();
                None
            }
            Step::Limit(max) => {
                self.max = *max;
                None
            }
            Step::Lose(which) => {
                if *which < self.slices.len() {
                    self.slices.remove(*which);
                }
                None
            }
            Step::Double(which) => {
                if let Some(slice) = self.slices.get(*which).cloned() {
                    self.apply(Operation::Create(slice.content.clone()));
                }
                None
            }
            Step::Clear(which) => {
                if let Some(slice) = self.slices.get(*which).cloned() {
                    let mut content = slice.content.clone();
                    content.endpoints.clear();
                    self.apply(Operation::Update(slice, content));
                }
                None
            }
        }
    }

    /// Where each Pod is listed, by name.
    fn listing(&self) -> Listing {
        let mut listing = Listing::new();
        for slice in &self.slices {
            let ports: Vec<Option<i32>> = slice.content.ports.iter().map(|port| port.port).collect();
            for endpoint in slice.content.endpoints.iter().filter_map(Endpoint::as_pod) {
                let entry = (ports.clone(), endpoint.conditions.ready);
                listing.entry(endpoint.name.to_string()).or_default().push(entry);
            }
        }
        listing
    }

    fn expected(&self) -> Listing {
        let by_name = self.service.ports[0].target == named("http", "http").target;
        let port = |pod: &crate::model::Pod| if by_name { pod.ports[0].port } else { 80 };
        let pods = self.pods.iter();
        pods.map(|(name, pod)| (name.clone(), vec![(vec![Some(port(pod))], pod.ready)]))
            .collect()
    }

    /// Makes the writes step by step, and looks after each that no Pod is missing that was listed before and is to be listed afterwards. One
    /// that was made anew under its old name, with another address, is another Pod.
    fn carry_out(&mut self, plan: Plan) -> Result<(), TestCaseError> {
        let endpoints = self.slices.iter().flat_map(|slice| &slice.content.endpoints);
        let before = endpoints.filter_map(Endpoint::as_pod);
        let lasting = |listed: &&crate::model::PodEndpoint| {
            let pod = self.pods.get(&*listed.name);
            pod.is_some_and(|pod| pod.ips.contains(&listed.ip))
        };
        let throughout: Vec<String> = before.filter(lasting).map(|it| it.name.to_string()).collect();
        for operation in plan.steps.into_iter().flatten() {
            self.apply(operation);
            let listing = self.listing();
            for name in &throughout {
                prop_assert!(listing.contains_key(name), "{name} is missing for a moment");
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_endpoint_is_listed_once_by_few_writes(
        steps in prop::collection::vec((step(), any::<bool>()), 1..60),
        max in 1..6_usize,
    ) {
        let mut world = World::new(service_with("web", &[named("http", "http")]), max);
        let (mut due, mut all_due) = (BTreeSet::new(), true);
        for (step, settles) in steps {
            match world.change(&step) {
                Some(name) => drop(due.insert(name)),
                None => all_due = true,
            }
            if !settles {
                continue;
            }
            let stored = world.slices.len();
            let plan = if all_due {
                world.plan()
            } else {
                world.plan_for(&due.iter().cloned().collect::<Vec<_>>(), false)
            };
            let [creates, updates, deletes] = counts(&plan);
            prop_assert!(updates + deletes <= stored);
            if !all_due {
                // Nobody else's slice is touched: one for each Pod that changed, one more for where it came from.
                prop_assert!(creates + updates + deletes <= 2 * due.len(), "{plan:?}");
            }
            world.carry_out(plan)?;
            prop_assert_eq!(world.listing(), world.expected());
            prop_assert!(world.slices.iter().all(|it| it.content.endpoints.len() <= world.max));
            let empty = world.slices.iter().filter(|it| it.content.endpoints.is_empty()).count();
            prop_assert_eq!(empty, usize::from(world.pods.is_empty()), "a slice without endpoints says that there are none");
            prop_assert!(world.plan().is_empty(), "{:?}", world.plan());
            (due, all_due) = (BTreeSet::new(), false);
        }
    }
}
