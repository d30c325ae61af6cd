//! One operation at a time, from the world as it is.

use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use super::super::model::{NOTE, World};
use super::super::ops::{Container, ContainerPort, Key, Op, Pod, Service, ServiceKind, Status};
use super::parts;

/// Names of Services in each namespace.
pub const SERVICES: usize = 12;
/// Names of Pods in each namespace.
const PODS: usize = 30;
/// Names of Nodes.
pub const NODES: usize = 5;

/// What drawing takes.
pub struct Draw<'a> {
    pub rng: &'a mut StdRng,
    pub world: &'a World,
    pub clock: &'a mut u64,
    pub addresses: &'a mut u32,
    /// For an isolated round: also what may not fall together with anything else.
    pub isolated: bool,
}

impl Draw<'_> {
    /// Anything in this namespace; `None` if what was drawn cannot be done just now.
    pub fn any(&mut self, space: usize) -> Option<Op> {
        match self.rng.random_range(0..114) {
            0..8 => self.create_service(space),
            8..22 => self.replace_service(space),
            22..27 => Some(Op::DeleteService {
                key: self.known_service(space)?,
            }),
            27..41 => self.create_pod(space),
            41..62 => self.flip(space),
            62..68 => self.phase(space),
            68..74 => Some(Op::LabelPod {
                key: self.known_pod(space)?,
                labels: parts::pod_labels(self.rng),
            }),
            74..83 => self.delete_pod(space),
            83..86 => self.readdress(space),
            86..94 if self.isolated => self.tamper(space),
            94..99 if self.isolated => self.loose_endpoints(space),
            99..105 if self.isolated => self.tamper_slices(space),
            105..109 if self.isolated => self.foreign_slice(space),
            86..109 => self.flip(space),
            _ => Some(self.node()),
        }
    }

    pub fn known_service(&mut self, space: usize) -> Option<Key> {
        let keys: Vec<&Key> = self.world.services.keys().filter(|key| key.space == space).collect();
        keys.choose(self.rng).map(|key| (*key).clone())
    }

    fn known_pod(&mut self, space: usize) -> Option<Key> {
        let keys: Vec<&Key> = self.world.pods.keys().filter(|key| key.space == space).collect();
        keys.choose(self.rng).map(|key| (*key).clone())
    }

    fn tick(&mut self) -> u64 {
        *self.clock += 1;
        *self.clock
    }

    pub fn create_service(&mut self, space: usize) -> Option<Op> {
        let key = Key::new(space, format!("s{}", self.rng.random_range(0..SERVICES)));
        if self.world.services.contains_key(&key) {
            return None;
        }
        let service = parts::service(self.rng, self.isolated);
        Some(Op::CreateService { key, service })
    }

    fn replace_service(&mut self, space: usize) -> Option<Op> {
        let key = self.known_service(space)?;
        let before = self.world.services.get(&key)?;
        if !self.isolated && !before.is_live() {
            return None;
        }
        let mut service = before.clone();
        match self.rng.random_range(0..16) {
            0..3 => service.selector = Some(parts::selector(self.rng)),
            3 if self.isolated => service.selector = None,
            3..6 => service.ports = parts::ports(self.rng, service.kind == ServiceKind::Headless),
            6 | 7 => service.labels = parts::service_labels(self.rng),
            8 => service.publish_not_ready = !service.publish_not_ready,
            9 => {
                let note = self.rng.random_range(0..100).to_string();
                service.annotations = parts::labels([(NOTE, note.as_str())]);
            }
            10 if self.isolated => self.change_type(&mut service),
            11 | 12 => service.distribution = parts::distribution(self.rng),
            13 => service.annotations = parts::topology(self.rng),
            14 if service.kind != ServiceKind::ExternalName => {
                service.families = parts::other_families(service.families)
            }
            _ => match service.kind {
                ServiceKind::Cluster => service.kind = ServiceKind::NodePort,
                ServiceKind::NodePort => service.kind = ServiceKind::Cluster,
                ServiceKind::Headless | ServiceKind::ExternalName => return None,
            },
        }
        (service != *before).then_some(Op::ReplaceService { key, service })
    }

    /// To ExternalName or away from it: the only way between a clusterIP and none.
    fn change_type(&mut self, service: &mut Service) {
        if service.kind == ServiceKind::ExternalName {
            let like = parts::service(self.rng, false);
            (service.kind, service.families, service.ports) = (like.kind, like.families, like.ports);
        } else {
            service.kind = ServiceKind::ExternalName;
        }
    }

    fn addresses(&mut self, space: usize) -> Vec<String> {
        *self.addresses += 1;
        let serial = *self.addresses;
        let v4 = format!("10.{}.{}.{}", 1 + serial / 62_500, serial / 250 % 250, serial % 250 + 1);
        let v6 = format!("fd00:{space:x}::{serial:x}");
        match self.rng.random_range(0..10) {
            0..3 => vec![v4],
            3 => vec![v6],
            4 => vec![v6, v4],
            5 => self.shared_addresses(space).unwrap_or_else(|| vec![v4, v6]),
            _ => vec![v4, v6],
        }
    }

    /// As Pods on the network of their node have.
    fn shared_addresses(&mut self, space: usize) -> Option<Vec<String>> {
        let other = self.known_pod(space)?;
        let other = self.world.pods.get(&other)?;
        (!other.status.ips.is_empty() && !other.freezes()).then(|| other.status.ips.clone())
    }

    fn status(&mut self, space: usize) -> Status {
        let addressed = self.rng.random_bool(0.93);
        let ips = if addressed { self.addresses(space) } else { Vec::new() };
        Status {
            phase: if ips.is_empty() { "Pending" } else { "Running" }.into(),
            ready: (!ips.is_empty()).then(|| self.rng.random_bool(0.75)),
            ips,
            since: self.tick(),
        }
    }

    pub fn create_pod(&mut self, space: usize) -> Option<Op> {
        let key = Key::new(space, format!("p{}", self.rng.random_range(0..PODS)));
        if self.world.pods.contains_key(&key) {
            return None;
        }
        let subdomain = format!("s{}", self.rng.random_range(0..SERVICES));
        let named = self.rng.random_bool(0.3);
        let pod = Pod {
            labels: parts::pod_labels(self.rng),
            node: Some(format!("n{}", self.rng.random_range(0..NODES))),
            hostname: named.then(|| format!("host-{}", key.name)),
            subdomain: named.then_some(subdomain),
            ports: parts::container_ports(self.rng),
        };
        let status = self.status(space);
        Some(Op::CreatePod { key, pod, status })
    }

    /// A Pod that the reference lists in a way that the apiserver refuses: without a node, or on a loopback or
    /// link-local address.
    pub fn freezing_pod(&mut self, space: usize) -> Option<Op> {
        let Some(Op::CreatePod {
            key,
            mut pod,
            mut status,
        }) = self.create_pod(space)
        else {
            return None;
        };
        status.phase = "Running".into();
        status.ready.get_or_insert(true);
        match self.rng.random_range(0..4) {
            0 => status.ips = vec!["127.0.0.9".into()],
            1 => status.ips = vec!["169.254.7.9".into()],
            _ => {
                pod.node = None;
                if status.ips.is_empty() {
                    status.ips = vec!["10.250.0.1".into()];
                }
            }
        }
        Some(Op::CreatePod { key, pod, status })
    }

    /// A flip of another Pod of a Service that this one belongs to.
    pub fn flip_beside(&mut self, key: &Key) -> Option<Op> {
        let labels = &self.world.pods.get(key)?.pod.labels;
        let services = self.world.matching(key.space, labels);
        let others = services.iter().flat_map(|service| self.world.pods_of(service));
        let others: Vec<&Key> = others.map(|(other, _)| other).filter(|other| *other != key).collect();
        let other = (*others.choose(self.rng)?).clone();
        self.flip_pod(&other)
    }

    /// Ends what [`Draw::freezing_pod`] began.
    pub fn mend(&mut self, key: &Key) -> Op {
        let bound = self.world.pods.get(key).is_none_or(|stored| stored.pod.node.is_some());
        if !bound && self.rng.random_bool(0.4) {
            return Op::BindPod {
                key: key.clone(),
                node: "n1".into(),
            };
        }
        Op::DeletePod {
            key: key.clone(),
            grace: 0,
        }
    }

    pub fn flip(&mut self, space: usize) -> Option<Op> {
        let key = self.known_pod(space)?;
        self.flip_pod(&key)
    }

    /// Ready becomes not ready, or the other way round. A Pod without an address gets one.
    pub fn flip_pod(&mut self, key: &Key) -> Option<Op> {
        let stored = self.world.pods.get(key)?;
        if stored.freezes() {
            return None;
        }
        let mut status = stored.status.clone();
        status.ready = Some(status.ready != Some(true));
        status.since = self.tick();
        if status.ips.is_empty() {
            status.ips = self.addresses(key.space);
            status.phase = "Running".into();
        }
        Some(Op::SetPodStatus {
            key: key.clone(),
            status,
        })
    }

    /// A Pod ends while its Ready condition stays as it is, or runs again.
    fn phase(&mut self, space: usize) -> Option<Op> {
        let key = self.known_pod(space)?;
        let mut status = self.world.pods.get(&key)?.status.clone();
        let phases = ["Failed", "Succeeded", "Running", "Pending", "Unknown"];
        status.phase = (*parts::one(self.rng, &phases)).into();
        Some(Op::SetPodStatus { key, status })
    }

    fn readdress(&mut self, space: usize) -> Option<Op> {
        let key = self.known_pod(space)?;
        let stored = self.world.pods.get(&key)?;
        if stored.freezes() {
            return None;
        }
        let mut status = stored.status.clone();
        status.ips = self.addresses(space);
        Some(Op::SetPodStatus { key, status })
    }

    fn delete_pod(&mut self, space: usize) -> Option<Op> {
        let key = self.known_pod(space)?;
        let stored = self.world.pods.get(&key)?;
        let grace = if stored.terminating || self.rng.random_bool(0.4) {
            0
        } else {
            30
        };
        Some(Op::DeletePod { key, grace })
    }

    /// A Pod of the crowd; every second one has another number under the port's name.
    pub fn crowd_pod(&mut self, number: usize) -> (Key, Pod, Status) {
        let pod = Pod {
            labels: parts::labels([("app", "crowd")]),
            node: Some(format!("n{}", number % NODES)),
            hostname: None,
            subdomain: None,
            ports: vec![ContainerPort {
                container: Container::Main,
                name: "http".into(),
                number: if number.is_multiple_of(2) { 8080 } else { 8081 },
                protocol: "TCP".into(),
            }],
        };
        let status = Status {
            phase: "Running".into(),
            ips: vec![format!("10.200.{}.{}", number / 250, number % 250 + 1)],
            ready: Some(number % 20 != 7),
            since: self.tick(),
        };
        (parts::crowd_key(number), pod, status)
    }
}
