//! Nodes, slices and whole worlds for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Desired, Operation, Plan, Terms, Wanted, Zones, plan};
use crate::model::{
    Distribution, Endpoint, IpFamily, Manager, Node, NodeTable, ObjectKey, Pod, PodEndpoint, Revision, Service, Slice,
    SliceContent, Uid,
};

pub use crate::endpoints::fixtures::{container_port, labels, named, numbered, pod, service_with};

/// A Node that counts with one CPU.
pub fn node(name: &str, zone: Option<&str>) -> Node {
    Node {
        name: name.into(),
        revision: Revision(3),
        zone: zone.map(Into::into),
        cpu: Some(1000),
    }
}

pub fn nodes(nodes: impl IntoIterator<Item = Node>) -> NodeTable {
    nodes.into_iter().map(|node| (Arc::clone(&node.name), node)).collect()
}

/// A Service, its Pods and Nodes, and the IPv4 slices that are stored.
#[derive(Debug)]
pub struct World {
    pub service: Service,
    pub pods: BTreeMap<String, Pod>,
    pub nodes: NodeTable,
    pub max: usize,
    pub slices: Vec<Arc<Slice>>,
    made: u64,
}

impl World {
    /// The Node `n1` of zone `a`, and no Pods.
    pub fn new(service: Service, max: usize) -> Self {
        Self {
            service,
            pods: BTreeMap::new(),
            nodes: nodes([node("n1", Some("a"))]),
            max,
            slices: Vec::new(),
            made: 0,
        }
    }

    /// Pods `p0` to `p<count - 1>`, instead of those that are there.
    pub fn with_pods(mut self, count: usize) -> Self {
        self.set_pods(count);
        self
    }

    pub fn set_pods(&mut self, count: usize) {
        self.pods.clear();
        for number in 0..count {
            let ip = format!("10.{}.{}.{}", number / 65_536, number / 256 % 256, number % 256);
            self.put(pod(&format!("p{number}"), &[&ip]));
        }
    }

    pub fn put(&mut self, pod: Pod) {
        self.pods.insert(pod.name.to_string(), pod);
    }

    /// Slices of these sizes with the first Pods, as upstream might have left them.
    pub fn with_slices(mut self, sizes: &[usize]) -> Self {
        let all = self.listed(&self.pods.keys().cloned().collect::<Vec<_>>());
        let mut listed = all.into_iter().flatten();
        for size in sizes {
            let (groups, endpoints): (Vec<_>, Vec<_>) = listed.by_ref().take(*size).unzip();
            let mut content = self.content_of_new_slice();
            content.ports = groups.first().cloned().unwrap_or_else(|| Vec::new().into());
            content.endpoints = endpoints.into_iter().map(Endpoint::Pod).collect();
            self.store(content);
        }
        self
    }

    fn listed(&self, names: &[String]) -> Vec<Option<(super::Group, PodEndpoint)>> {
        let mut desired = Desired::new(&self.service, IpFamily::V4, &self.nodes);
        let pods = names.iter().map(|name| self.pods.get(name));
        pods.map(|pod| pod.and_then(|pod| desired.endpoint(pod))).collect()
    }

    pub fn content_of_new_slice(&self) -> SliceContent {
        let none = Wanted::new(true, false);
        let plan = plan(&self.service, IpFamily::V4, &[], none, self.terms(None));
        match plan.steps.into_iter().flatten().next() {
            Some(Operation::Create(content)) => content,
            other => panic!("no placeholder but {other:?}"),
        }
    }

    fn terms<'a>(&self, zones: Option<&'a Zones>) -> Terms<'a> {
        Terms {
            manager: Manager::Selector,
            max: self.max,
            trigger: None,
            zones,
        }
    }

    /// The plan that looks at every Pod.
    pub fn plan(&self) -> Plan {
        self.plan_for(&self.pods.keys().cloned().collect::<Vec<_>>(), true)
    }

    /// The plan that looks at these Pods.
    pub fn plan_for(&self, names: &[String], complete: bool) -> Plan {
        let auto = self.service.distribution == Distribution::Auto;
        let mut wanted = Wanted::new(complete, auto);
        for (name, listed) in names.iter().zip(self.listed(names)) {
            wanted.say(name.as_str().into(), listed);
        }
        let zones = Zones::of(&self.nodes);
        plan(
            &self.service,
            IpFamily::V4,
            &self.slices,
            wanted,
            self.terms(zones.as_ref()),
        )
    }

    fn store(&mut self, content: SliceContent) {
        self.made += 1;
        let slice = Slice {
            key: ObjectKey::new("marsh", format!("web-{:03}", self.made)),
            uid: Uid::parse(&format!("slice-{}", self.made)),
            revision: Revision(self.made),
            terminating: false,
            content,
        };
        self.slices.push(Arc::new(slice));
    }

    pub fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Create(content) => self.store(content),
            Operation::Delete(slice) => self.slices.retain(|it| it.key != slice.key),
            Operation::Update(slice, content) => {
                let place = self
                    .slices
                    .iter()
                    .position(|it| *it == slice)
                    .expect("the stored version");
                let after = Slice {
                    content,
                    revision: Revision(slice.revision.0 + 1_000),
                    ..(*slice).clone()
                };
                self.slices[place] = Arc::new(after);
            }
        }
    }

    /// Makes all writes of the plan that looks at every Pod.
    pub fn settle(&mut self) {
        for operation in self.plan().steps.into_iter().flatten() {
            self.apply(operation);
        }
    }

    /// Sizes of the slices, the largest first.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.slices.iter().map(|it| it.content.endpoints.len()).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        sizes
    }
}

/// Creates, updates and deletes.
pub fn counts(plan: &Plan) -> [usize; 3] {
    let mut counts = [0; 3];
    for operation in plan.steps.iter().flatten() {
        let place = match operation {
            Operation::Create(_) => 0,
            Operation::Update(..) => 1,
            Operation::Delete(_) => 2,
        };
        counts[place] += 1;
    }
    counts
}
