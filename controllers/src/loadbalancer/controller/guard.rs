//! What admission asks about LoadBalancerPools. Every replica knows it, whoever leads.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use svcplane_allocators::interval::Segments;
use svcplane_allocators::pools::LoadBalancerHoldings;
use svcplane_allocators::service::ServiceKey;
use svcplane_allocators::value::Value;
use svcplane_webhook::pools::{PoolUsers, ServedPool};

use super::super::desk::Desk;
use super::LoadBalancers;

impl fmt::Debug for LoadBalancers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoadBalancers")
    }
}

impl PoolUsers for LoadBalancers {
    fn overlaps(&self, pool: &str, holdings: &LoadBalancerHoldings) -> Vec<(Arc<str>, String)> {
        let desk = self.desk().lock();
        let pools = desk.pools().map(|served| &served.pool);
        let others = pools.filter(|other| other.is_enabled() && *other.terms.name != *pool);
        let both = others.filter_map(|other| {
            let ipv4 = common(&other.holdings.ipv4.values, &holdings.ipv4.values);
            let both = ipv4.or_else(|| common(&other.holdings.ipv6.values, &holdings.ipv6.values));
            Some((Arc::clone(&other.terms.name), both?))
        });
        both.collect()
    }

    fn stranded(&self, pool: &str, holdings: Option<&LoadBalancerHoldings>) -> Vec<(IpAddr, ServiceKey)> {
        let desk = self.desk().lock();
        let keeps = |address: IpAddr| holdings.is_some_and(|holdings| holdings.contains(address));
        let shown = desk.services().flat_map(|kept| {
            let shown = kept.seen.shown.keys();
            shown.map(|address| (address, &kept.seen.key))
        });
        let stranded = shown.filter(|(address, _)| is_of(&desk, *address, pool) && !keeps(*address));
        stranded.map(|(address, key)| (address, key.clone())).collect()
    }

    fn dropped(&self, served: &ServedPool) -> Vec<(IpAddr, ServiceKey)> {
        let desk = self.desk().lock();
        let name = &served.pool.terms.name;
        let Some(before) = desk.pools().find(|pool| pool.pool.terms.name == *name) else {
            return Vec::new();
        };
        let dropped = desk.services().filter_map(|kept| {
            let address = kept.seen.shown.keys().find(|address| is_of(&desk, *address, name))?;
            let is_for = desk.judge_of(&kept.seen);
            let gives = |pool: &ServedPool| pool.pool.is_enabled() && is_for(pool);
            (gives(before) && !gives(served)).then(|| (address, kept.seen.key.clone()))
        });
        dropped.collect()
    }

    fn fenced(&self, served: &ServedPool) -> Vec<(IpAddr, ServiceKey)> {
        if !served.pool.is_fence() {
            return Vec::new();
        }
        let desk = self.desk().lock();
        let balancers = desk.balancers();
        let fenced = desk.services().filter_map(|kept| {
            let key = &kept.seen.key;
            // Behind another fence, or this one as it is stored, it is outside already.
            let is_inside = |address: &IpAddr| {
                let of = balancers.pool_of(*address);
                of.is_some_and(|of| !of.terms.enforce && of.terms.name != served.pool.terms.name)
                    && balancers.others_pool_of(*address, key).is_none()
            };
            let address = kept.seen.shown.keys().find(is_inside)?;
            desk.judge_of(&kept.seen)(served).then(|| (address, key.clone()))
        });
        fenced.collect()
    }
}

fn is_of(desk: &Desk, address: IpAddr, pool: &str) -> bool {
    let of = desk.balancers().pool_of(address);
    of.is_some_and(|of| *of.terms.name == *pool)
}

/// Some of what both have.
fn common<V: Value>(one: &Segments<V>, other: &Segments<V>) -> Option<String> {
    let both = one.intersection(other);
    both.first().map(ToString::to_string)
}
