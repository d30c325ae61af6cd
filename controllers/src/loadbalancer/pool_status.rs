//! Keeps the status of LoadBalancerPools true: the leader, with few writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use svcplane_allocators::cluster_ips::IpFamily;
use svcplane_runtime::api::Repeated;
use svcplane_webhook::pools::{LoadBalancerPool, LoadBalancerPoolStatus, PoolNumbers};

use super::LoadBalancers;
use super::desk::Desk;
use crate::pool_status::{Generation, Holds, condition, conflict, invalid, now, settle};

/// How often is looked; so one pool is written at most as often, however many Services come and go.
const PERIOD: Duration = Duration::from_secs(2);

/// How often what is stored is compared again, for edits by others.
const REFRESH: Duration = Duration::from_mins(10);

/// What the status of a pool shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    generation: i64,
    ipv4: Option<PoolNumbers>,
    ipv6: Option<PoolNumbers>,
    facts: Vec<Holds>,
}

impl Generation for Shown {
    fn generation(&self) -> i64 {
        self.generation
    }
}

impl Shown {
    fn conditions(&self, before: &[Condition], now: &Time) -> Vec<Condition> {
        let facts = self.facts.iter();
        facts
            .map(|fact| condition(fact, self.generation, before, now))
            .collect()
    }
}

/// Runs for ever.
pub async fn keep(controller: Arc<LoadBalancers>) {
    let pools: Api<LoadBalancerPool> = Api::all(controller.client().clone());
    let (mut kept, mut trouble) = (BTreeMap::new(), Repeated::default());
    let mut refresh = tokio::time::interval(REFRESH);
    let mut tick = tokio::time::interval(PERIOD);
    loop {
        tokio::select! {
            _ = refresh.tick() => kept.clear(),
            _ = tick.tick() => {}
        }
        let due = {
            let desk = controller.desk().lock();
            if controller.term().check(Instant::now()).is_err() || !desk.leads() {
                kept.clear();
                continue;
            }
            shown(&desk)
        };
        let written = settle(&pools, due, &mut kept, |pool: &LoadBalancerPool, shown: &Shown| {
            let before = pool.status.as_ref();
            let conditions = before.map(|status| status.conditions.as_slice()).unwrap_or_default();
            let status = LoadBalancerPoolStatus {
                observed_generation: shown.generation,
                conditions: shown.conditions(conditions, &now()),
                ipv4: shown.ipv4,
                ipv6: shown.ipv6,
            };
            (before != Some(&status)).then_some(status)
        });
        if let Err(failure) = written.await
            && trouble.news(&failure, Instant::now()).is_some()
        {
            tracing::warn!(error = %failure, "cannot write the status of a LoadBalancerPool, trying again");
        }
    }
}

fn shown(desk: &Desk) -> BTreeMap<String, Shown> {
    let retained = desk.retained();
    let shown = desk.pools().map(|served| {
        let terms = &served.pool.terms;
        let [ipv4, ipv6] = [IpFamily::IPv4, IpFamily::IPv6].map(|family| numbers(desk, &terms.name, family));
        let ready = if served.pool.is_enabled() {
            Holds::of("Ready", true, "Usable", String::new())
        } else {
            Holds::of("Ready", false, "Disabled", "spec.mode is Disabled".into())
        };
        let both = [ipv4, ipv6];
        let is_empty = both
            .iter()
            .flatten()
            .any(|numbers| numbers.total > 0 && numbers.available == 0);
        let exhausted = if is_empty {
            Holds::of(
                "Exhausted",
                true,
                "NoneAvailable",
                "every address is used, reserved or at rest".into(),
            )
        } else {
            Holds::of("Exhausted", false, "Available", String::new())
        };
        let kept = retained.get(&terms.name).copied().unwrap_or_default();
        let retaining = if kept > 0 {
            let message = format!(
                "{kept} addresses in use are of this pool, which does not give them to their Services any more"
            );
            Holds::of("Retaining", true, "AddressesKept", message)
        } else {
            Holds::of("Retaining", false, "NoneKept", String::new())
        };
        let conflicts: Vec<_> = desk.balancers().conflicts(&terms.name).into_iter().collect();
        let mut conflict = conflict(&conflicts);
        let around = desk.overlap(&terms.name);
        if let Some(overlap) = around.filter(|overlap| !overlap.service_cidrs.is_empty()) {
            conflict = conflict.and("Overlap", not_given(&overlap.service_cidrs));
        }
        let overlaps_nodes = around.map(|overlap| {
            if overlap.nodes.is_empty() {
                Holds::of("OverlapsNodes", false, "NoOverlap", String::new())
            } else {
                Holds::of("OverlapsNodes", true, "Overlap", not_given(&overlap.nodes))
            }
        });
        let shown = Shown {
            generation: served.generation,
            ipv4,
            ipv6,
            facts: [ready, conflict, exhausted, retaining]
                .into_iter()
                .chain(overlaps_nodes)
                .collect(),
        };
        (terms.name.to_string(), shown)
    });
    let unreadable = desk.unreadable_pools().map(|pool| {
        let shown = Shown {
            generation: pool.generation,
            ipv4: None,
            ipv6: None,
            facts: vec![invalid(pool)],
        };
        (pool.name.to_string(), shown)
    });
    shown.chain(unreadable).collect()
}

/// What others in the cluster use, as the first of them are named.
fn not_given(used: &[String]) -> String {
    format!("not given, because used otherwise: {}", used.join(", "))
}

/// `None`: the pool has nothing of the family.
fn numbers(desk: &Desk, pool: &str, family: IpFamily) -> Option<PoolNumbers> {
    let counts = desk.balancers().counts(pool, family)?;
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let total = counts.total();
    (total > 0).then(|| PoolNumbers {
        total: number(total),
        used: number(counts.held),
        reserved: number(counts.reserved),
        available: number(counts.free),
    })
}
