//! The same decisions from lists, for commands: what would be decided if a term began now.

use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Serialize;
use svcplane_allocators::balancers::Reason;
use svcplane_allocators::cluster_ips::IpFamily;
use svcplane_allocators::service::ServiceKey;
use svcplane_runtime::api::Failure;
use svcplane_webhook::pools::LoadBalancerPool;

use super::controller::{BALANCED, Fed as _};
use super::desk::{Desk, Scope};
use super::wire::{BalancedService, NeighbourNode};
use crate::books::listed;

/// Reads the cluster; `None` if it has no LoadBalancerPools, or if these or Services may not be read. The error is one line.
pub async fn read(client: &Client, scope: Scope) -> Result<Option<Desk>, String> {
    let pools: Api<LoadBalancerPool> = Api::all(client.clone());
    let services: Api<BalancedService> = Api::all(client.clone());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let (all, products) = (ListParams::default, scope.products);
    let lists = tokio::try_join!(
        listed(&pools, all(), |it| it.fact(products)),
        listed(&services, all().fields(BALANCED), |it| it.fact(products)),
        listed(&namespaces, all(), |it| it.fact(products)),
    );
    let (pools, services, namespaces) = match lists {
        Ok(lists) => lists,
        Err(Failure::NotFound | Failure::Forbidden(_)) => return Ok(None),
        Err(failure) => {
            return Err(format!(
                "cannot read LoadBalancerPools, Services and Namespaces: {failure}"
            ));
        }
    };
    let nodes: Api<NeighbourNode> = Api::all(client.clone());
    let cidrs: Api<ServiceCIDR> = Api::all(client.clone());
    let around = tokio::try_join!(
        listed(&nodes, all(), |it| it.fact(products)),
        listed(&cidrs, all(), |it| it.fact(products)),
    );
    let (mut desk, now) = (Desk::new(scope), Instant::now());
    // Who may not read them sees no overlap, as the controller does.
    if let Ok((nodes, cidrs)) = around {
        NeighbourNode::replace(&mut desk, nodes, now);
        ServiceCIDR::replace(&mut desk, cidrs, now);
    }
    Namespace::replace(&mut desk, namespaces, now);
    LoadBalancerPool::replace(&mut desk, pools, now);
    BalancedService::replace(&mut desk, services, now);
    desk.begin(now);
    Ok(Some(desk))
}

/// What is decided on one Service, and what each pool is to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The addresses that it is to show.
    pub addresses: Vec<String>,
    /// The reason of its condition.
    pub reason: &'static str,
    /// The same in words.
    pub message: String,
    /// What somebody else's doing has made of the condition, if the stored one says something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<String>,
    /// The pools in the order that they are tried, for each family of the Service.
    pub pools: Vec<PoolVerdict>,
}

/// What a pool is to a Service that needs an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolVerdict {
    /// Its name.
    pub pool: String,
    /// `IPv4` or `IPv6`.
    pub family: &'static str,
    /// `has a free value`, or why it gives none.
    pub verdict: String,
}

impl Choice {
    /// `None`: the Service is not served.
    pub fn of(desk: &Desk, key: &ServiceKey) -> Option<Self> {
        let balancers = desk.balancers();
        let (outcome, facts) = (balancers.outcome(key)?, balancers.facts(key)?);
        let families = facts.ask.as_ref().map(|ask| ask.families.clone()).unwrap_or_default();
        let verdicts = families.into_iter().flat_map(|family| {
            let verdicts = balancers.verdicts(key, family).into_iter();
            verdicts.map(move |(pool, verdict)| PoolVerdict {
                pool: pool.terms.name.to_string(),
                family: match family {
                    IpFamily::IPv4 => "IPv4",
                    IpFamily::IPv6 => "IPv6",
                },
                verdict: verdict.to_string(),
            })
        });
        let kept = desk.kept(key);
        let condition = kept.and_then(|kept| kept.seen.condition.as_ref());
        let contended = condition.filter(|_| kept.is_some_and(|kept| kept.is_contended(Instant::now())));
        let (reason, message) = match contended {
            Some(told) => (Reason::Contended, &told.message),
            None => (outcome.reason, &outcome.message),
        };
        let other = condition.filter(|it| it.reason != reason.as_str());
        Some(Self {
            addresses: outcome.addresses.iter().map(ToString::to_string).collect(),
            reason: reason.as_str(),
            message: message.clone(),
            stored: other.map(|it| format!("{}: {}", it.reason, it.message)),
            pools: verdicts.collect(),
        })
    }

    /// Lines for people.
    pub fn lines(&self) -> Vec<String> {
        let shown = if self.addresses.is_empty() {
            "none".to_owned()
        } else {
            self.addresses.join(", ")
        };
        let mut lines = vec![format!("{shown}  {}: {}", self.reason, self.message)];
        lines.extend(
            self.stored
                .iter()
                .map(|stored| format!("the stored condition says {stored}")),
        );
        let pools = self.pools.iter();
        lines.extend(pools.map(|it| format!("pool {:?}, {}: {}", it.pool, it.family, it.verdict)));
        lines
    }
}
