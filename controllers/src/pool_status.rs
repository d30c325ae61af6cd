//! Keeps the status of pools true: the leader, with few writes.

mod compute;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use svcplane_allocators::books::{Book, PoolView};
use svcplane_allocators::value::Value;
use svcplane_runtime::api::{Failure, Repeated, call};
use svcplane_runtime::client::RESPONSE_HEAD_LIMIT;
use svcplane_runtime::leader::TermHandle;
use svcplane_webhook::ledger::{Kind, Ledger, SharedLedger};
use svcplane_webhook::pools::{ClusterIPPool, ClusterIPPoolStatus, NodePortPool, NodePortPoolStatus, PoolNumbers};

use self::compute::{Facts, numbers};
pub(crate) use self::compute::{Holds, condition, conflict, invalid};

/// How often is looked; so one pool is written at most as often, however many Services come and go.
const PERIOD: Duration = Duration::from_secs(2);

/// How often what is stored is compared again, for edits by others.
const REFRESH: Duration = Duration::from_mins(10);

/// What a pool's status should show.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    facts: Facts,
    first: Option<PoolNumbers>,
    second: Option<PoolNumbers>,
}

/// What is shown is of a generation of the spec.
pub(crate) trait Generation: PartialEq {
    /// Which one.
    fn generation(&self) -> i64;
}

impl Generation for Shown {
    fn generation(&self) -> i64 {
        self.facts.generation
    }
}

/// The pools of both kinds by name, as they were last found or made to be.
#[derive(Default)]
struct Kept {
    cluster_ips: BTreeMap<String, Shown>,
    node_ports: BTreeMap<String, Shown>,
}

/// Runs for ever.
pub async fn keep(client: Client, ledger: SharedLedger, term: TermHandle) {
    let cluster_ips: Api<ClusterIPPool> = Api::all(client.clone());
    let node_ports: Api<NodePortPool> = Api::all(client);
    let (mut kept, mut trouble) = (Kept::default(), Repeated::default());
    let mut refresh = tokio::time::interval(REFRESH);
    let mut tick = tokio::time::interval(PERIOD);
    loop {
        tokio::select! {
            _ = refresh.tick() => kept = Kept::default(),
            _ = tick.tick() => {}
        }
        let now = Instant::now();
        if term.check(now).is_err() {
            kept = Kept::default();
            continue;
        }
        let due = {
            let ledger = ledger.lock();
            if ledger.waits_for(now).is_some() {
                continue;
            }
            shown(&ledger)
        };
        let addresses = settle(&cluster_ips, due.cluster_ips, &mut kept.cluster_ips, |pool, shown| {
            let before = pool.status.as_ref();
            let status = ClusterIPPoolStatus {
                observed_generation: shown.facts.generation,
                conditions: conditions(shown, before.map(|status| status.conditions.as_slice())),
                ipv4: shown.first,
                ipv6: shown.second,
            };
            (before != Some(&status)).then_some(status)
        });
        let ports = settle(&node_ports, due.node_ports, &mut kept.node_ports, |pool, shown| {
            let before = pool.status.as_ref();
            let status = NodePortPoolStatus {
                observed_generation: shown.facts.generation,
                conditions: conditions(shown, before.map(|status| status.conditions.as_slice())),
                ports: shown.first,
            };
            (before != Some(&status)).then_some(status)
        });
        for failure in [addresses.await, ports.await].into_iter().filter_map(Result::err) {
            if trouble.news(&failure, Instant::now()).is_some() {
                tracing::warn!(error = %failure, "cannot write the status of a pool, trying again");
            }
        }
    }
}

fn conditions(shown: &Shown, before: Option<&[Condition]>) -> Vec<Condition> {
    shown.facts.conditions(before.unwrap_or_default(), &now())
}

/// In seconds, which are all that the API keeps.
pub(crate) fn now() -> Time {
    Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// Writes what differs from what was found there last. `make`: the status, unless it is stored already.
pub(crate) async fn settle<K, G, S>(
    api: &Api<K>,
    due: BTreeMap<String, G>,
    kept: &mut BTreeMap<String, G>,
    make: impl Fn(&K, &G) -> Option<S>,
) -> Result<(), Failure>
where
    G: Generation,
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    S: Serialize,
{
    kept.retain(|name, _| due.contains_key(name));
    for (name, shown) in due {
        if kept.get(&name) == Some(&shown) {
            continue;
        }
        let Some(stored) = call(RESPONSE_HEAD_LIMIT, api.get_opt(&name)).await? else {
            continue;
        };
        if stored.meta().generation != Some(shown.generation()) {
            // The watch has yet to show it.
            continue;
        }
        if let Some(status) = make(&stored, &shown) {
            let patch = json!({"metadata": {"resourceVersion": stored.meta().resource_version}, "status": status});
            let params = PatchParams::default();
            match call(
                RESPONSE_HEAD_LIMIT,
                api.patch_status(&name, &params, &Patch::Merge(&patch)),
            )
            .await
            {
                Ok(_) => {}
                // Somebody was faster; it is read again.
                Err(Failure::Conflict | Failure::NotFound) => continue,
                Err(failure) => return Err(failure),
            }
        }
        kept.insert(name, shown);
    }
    Ok(())
}

fn shown(ledger: &Ledger) -> Kept {
    let (addresses, ports) = (ledger.cluster_ips(), ledger.node_ports());
    let (ipv4, ipv6, ports) = (views(&addresses.ipv4), views(&addresses.ipv6), views(ports));
    let mut kept = Kept::default();
    for pool in ledger.cluster_ip_pools() {
        // A family of which the pool names nothing is not shown.
        let of =
            |views: &BTreeMap<String, PoolView>, named: bool| views.get(&*pool.terms.name).filter(|_| named).cloned();
        let ipv4 = of(&ipv4, !pool.holdings.ipv4.values.is_empty());
        let ipv6 = of(&ipv6, !pool.holdings.ipv6.values.is_empty());
        let parts: Vec<PoolView> = ipv4.iter().chain(&ipv6).cloned().collect();
        let shown = Shown {
            facts: Facts::of(&pool.terms, pool.generation, &parts),
            first: ipv4.as_ref().map(numbers),
            second: ipv6.as_ref().map(numbers),
        };
        kept.cluster_ips.insert(pool.terms.name.to_string(), shown);
    }
    for pool in ledger.node_port_pools() {
        let part = ports.get(&*pool.terms.name);
        let shown = Shown {
            facts: Facts::of(
                &pool.terms,
                pool.generation,
                part.map(std::slice::from_ref).unwrap_or_default(),
            ),
            first: part.map(numbers),
            second: None,
        };
        kept.node_ports.insert(pool.terms.name.to_string(), shown);
    }
    for (kind, kept) in [
        (Kind::ClusterIpPools, &mut kept.cluster_ips),
        (Kind::NodePortPools, &mut kept.node_ports),
    ] {
        kept.extend(ledger.unreadable(kind).map(|pool| {
            let shown = Shown {
                facts: Facts::unreadable(pool),
                first: None,
                second: None,
            };
            (pool.name.to_string(), shown)
        }));
    }
    kept
}

fn views<V: Value>(book: &Book<V>) -> BTreeMap<String, PoolView> {
    book.pools().map(|view| (view.name.to_string(), view)).collect()
}
