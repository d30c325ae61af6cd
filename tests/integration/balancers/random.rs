//! A random run: Services, pools and statuses change, svcplane is restarted, and answers get lost. What the spec calls I1 to I9 is checked by
//! rules that are written out here anew.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use http::Method;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use svcplane_tests::balanced::{Balanced, SOON, condition, shown};
use svcplane_tests::proxy::{Action, Match, Refusal, Times};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
const POOLS: [&str; 2] = ["reed", "sedge"];
/// Steps between two looks at everything.
const WINDOW: usize = 25;

struct Run {
    rig: Balanced,
    dice: StdRng,
    /// First and last of each pool there is, as the last octet.
    pools: BTreeMap<&'static str, (u8, u8)>,
    /// Whose status somebody has wiped since svcplane was started.
    meddled: BTreeSet<&'static str>,
}

/// `BALANCER_SEED` and `BALANCER_STEPS` say which one and how long.
#[tokio::test]
async fn whatever_happens_the_invariants_hold_on_a_real_apiserver() {
    let number = |name: &str, otherwise: u64| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (seed, steps) = (number("BALANCER_SEED", 1), number("BALANCER_STEPS", 150));
    let mut run = Run {
        rig: Balanced::start().await.unwrap(),
        dice: StdRng::seed_from_u64(seed),
        pools: BTreeMap::new(),
        meddled: BTreeSet::new(),
    };
    let mut writes = 0;
    for step in 1..=usize::try_from(steps).unwrap() {
        run.step().await;
        if step % WINDOW == 0 {
            run.comes_to_rest(step).await;
            writes += run.rig.writes().len();
            run.restart(step).await;
        }
    }
    assert!(writes > usize::try_from(steps).unwrap() / 10, "{writes} writes");
}

impl Run {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.dice.random_range(0..of.len())]
    }

    fn once_in(&mut self, times: u32) -> bool {
        self.dice.random_ratio(1, times)
    }

    async fn step(&mut self) {
        let name = self.one(&NAMES);
        match self.dice.random_range(0..12) {
            0..6 => self.set(name).await,
            6 | 7 => drop(
                self.rig
                    .namespace
                    .services()
                    .delete(name, &DeleteParams::default())
                    .await,
            ),
            8 | 9 => self.edit_pool().await,
            10 => self.meddle(name).await,
            _ => self.disturb(),
        }
    }

    /// Creates a Service, or changes what it asks for.
    async fn set(&mut self, name: &str) {
        let mut annotations = json!({"svcplane.io/load-balancer-ips": null, "svcplane.io/sharing-key": null, "svcplane.io/load-balancer-pool": null});
        if self.once_in(4) {
            annotations["svcplane.io/load-balancer-ips"] =
                json!(format!("203.0.113.{}", self.dice.random_range(0..16)));
        }
        if self.once_in(3) {
            annotations["svcplane.io/sharing-key"] = json!("key");
        }
        if self.once_in(8) {
            annotations["svcplane.io/load-balancer-pool"] = json!(self.one(&POOLS));
        }
        let port = self.dice.random_range(80..83);
        let change =
            json!({"metadata": {"annotations": annotations}, "spec": {"ports": [{"port": port, "protocol": "TCP"}]}});
        let services = self.rig.namespace.services();
        if services.get_opt(name).await.unwrap().is_some() {
            self.rig.namespace.patch_service(name, &change).await.unwrap();
        } else {
            self.rig.service(name, &change).await;
        }
    }

    /// The two never overlap.
    async fn edit_pool(&mut self) {
        let name = self.one(&POOLS);
        let base = if name == "reed" { 0 } else { 8 };
        let first = base + self.dice.random_range(0..4);
        let last = first + self.dice.random_range(0..4);
        let there = self.pools.remove(name).is_some();
        if there && self.once_in(4) {
            self.rig.delete_pool(name).await;
            return;
        }
        let spec = json!({"ranges": [format!("203.0.113.{first}-203.0.113.{last}")],
            "onRemoval": self.one(&["Retain", "Reassign"]), "order": self.one(&["Lowest", "Highest", "Spread"])});
        if there {
            self.rig.edit_pool(name, &spec).await;
        } else {
            self.rig.pool(name, &spec).await;
        }
        self.pools.insert(name, (first, last));
    }

    /// Somebody wipes a status. Once is no fight; who it was is stored nowhere.
    async fn meddle(&mut self, name: &'static str) {
        let is_there = self.rig.namespace.services().get_opt(name).await.unwrap().is_some();
        if is_there && self.meddled.insert(name) {
            self.rig
                .patch_status(name, "meddler", &json!({"loadBalancer": null}))
                .await;
        }
    }

    /// The next write gets no answer, or is refused.
    fn disturb(&mut self) {
        let fault = match self.dice.random_range(0..5) {
            0 => Action::LoseReply,
            1 => Action::CutReply,
            2 => Action::GarbleReply,
            3 => Action::ResetBefore,
            _ => Action::Refuse(Refusal::conflict()),
        };
        let write = Match::writes("services").method(Method::PATCH);
        self.rig.svcplane.proxy().rule(write, fault, Times::First(1));
    }

    /// All changes so far are seen: a watch tells them in order. To be at rest before they are seen means nothing.
    async fn are_seen(&self) {
        for name in self.pools.keys() {
            let pool = format!("/apis/svcplane.io/v1alpha1/loadbalancerpools/{name}");
            let generation = self.rig.send("GET", &pool, None).await.body["metadata"]["generation"].clone();
            let is_seen = |status: &Value| status["observedGeneration"] == generation;
            self.rig.pool_status(name, is_seen).await;
        }
        // Pools that are gone are seen to be gone by who asks for them, and by then all that was done to Services before is seen, too.
        let gone = POOLS.into_iter().filter(|name| !self.pools.contains_key(name));
        for name in gone.chain(["nowhere"]) {
            let marker = format!("asks-{name}");
            let asks = json!({"metadata": {"annotations": {"svcplane.io/load-balancer-pool": name}}});
            self.rig.service(&marker, &asks).await;
            self.rig.becomes(&marker, "PoolUnknown", &[]).await;
            self.rig.delete(&marker).await;
        }
    }

    /// Everything is as it should be, and stays so.
    async fn comes_to_rest(&mut self, step: usize) {
        self.are_seen().await;
        let end = tokio::time::Instant::now() + SOON;
        loop {
            self.rig.at_rest().await;
            let all = self
                .rig
                .namespace
                .services()
                .list(&ListParams::default())
                .await
                .unwrap();
            match self.judge(&all.items) {
                Ok(()) => return,
                Err(why) if tokio::time::Instant::now() > end => panic!("step {step}: {why}"),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    }

    /// A new process writes nothing and moves nobody.
    async fn restart(&mut self, step: usize) {
        let before = self.statuses().await;
        self.meddled.clear();
        self.rig.restart(async |_| {}).await.unwrap();
        self.rig.at_rest().await;
        assert_eq!(self.statuses().await, before, "step {step}");
        let writes = self.rig.writes();
        assert!(writes.is_empty(), "step {step}: {writes:?}");
    }

    async fn statuses(&self) -> BTreeMap<String, Value> {
        let all = self
            .rig
            .namespace
            .services()
            .list(&ListParams::default())
            .await
            .unwrap();
        let status = |service: Service| (service.name_any(), serde_json::to_value(service.status).unwrap());
        all.items.into_iter().map(status).collect()
    }

    fn judge(&self, services: &[Service]) -> Result<(), String> {
        let mut owners: BTreeMap<String, Vec<&Service>> = BTreeMap::new();
        for service in services {
            let (name, addresses) = (service.name_any(), shown(service));
            let told = condition(service).ok_or(format!("{name} has no condition"))?;
            if addresses.len() > 1 {
                return Err(format!("{name} has {addresses:?}"));
            }
            let satisfied = told.status == "True";
            if satisfied && addresses.is_empty() || told.reason == "Contended" {
                return Err(format!("{name} has {addresses:?} and says {}", told.reason));
            }
            if let Some(pin) = asked(service, "svcplane.io/load-balancer-ips")
                && satisfied
                && addresses != [pin.clone()]
            {
                return Err(format!("{name} asks for {pin}, has {addresses:?} and is content"));
            }
            for address in addresses {
                owners.entry(address).or_default().push(service);
            }
        }
        for (address, owners) in &owners {
            let mut ports = BTreeSet::new();
            for owner in owners {
                let keyed = asked(owner, "svcplane.io/sharing-key").is_some();
                if owners.len() > 1 && !keyed || !ports.insert(port(owner)) {
                    let names: Vec<String> = owners.iter().map(|owner| owner.name_any()).collect();
                    return Err(format!("{address} is of {names:?}"));
                }
            }
        }
        let free: Vec<(&str, IpAddr)> = self
            .pools
            .iter()
            .flat_map(|(pool, (first, last))| (*first..=*last).map(|octet| (*pool, IpAddr::from([203, 0, 113, octet]))))
            .filter(|(_, address)| !owners.contains_key(&address.to_string()))
            .collect();
        for service in services.iter().filter(|service| shown(service).is_empty()) {
            let wants = |name| asked(service, name);
            let pool = wants("svcplane.io/load-balancer-pool");
            let takes_any =
                wants("svcplane.io/load-balancer-ips").is_none() && wants("svcplane.io/sharing-key").is_none();
            let its = free.iter().find(|(of, _)| pool.as_ref().is_none_or(|pool| pool == of));
            if let Some((_, address)) = its.filter(|_| takes_any) {
                return Err(format!("{} waits, and {address} is free", service.name_any()));
            }
        }
        Ok(())
    }
}

fn asked(service: &Service, annotation: &str) -> Option<String> {
    service.annotations().get(annotation).cloned()
}

fn port(service: &Service) -> i32 {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    ports.and_then(|ports| ports.first()).map_or(0, |port| port.port)
}
