//! `--from-replicas`: what each replica keeps in memory. `/debug/state` is served on loopback alone, so it is read from the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::future::join_all;
use http::{Request, Uri};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, Config};
use serde::Serialize;
use svcplane_runtime::api::call;

use crate::args::PoolsArgs;
use crate::books::serving_endpoints;
use crate::endpointslice::SERVICE_NAME_LABEL;
use crate::model::ObjectKey;
use crate::start;

/// What one answer may take.
const LIMIT: Duration = Duration::from_secs(5);

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replica {
    /// Its admin address.
    pub address: SocketAddr,
    /// What it says.
    #[serde(flatten)]
    pub answer: Answer,
}

/// What a replica says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// What it keeps of each range and pool.
    Memory(Vec<Kept>),
    /// Why there is no such answer.
    Error(String),
}

/// What is kept of the values of one range or pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The range, or the name of the pool.
    pub name: String,
    /// `IPv4`, `IPv6` or `nodePort`, if it is a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
    /// Chosen and not stored yet.
    pub pending: u64,
    /// Resting.
    pub quarantined: u64,
}

/// Asks all of them. The error is one line; a replica that does not answer is none.
pub async fn ask(client: &Client, args: &PoolsArgs) -> Result<Vec<Replica>, String> {
    let mut addresses: BTreeSet<SocketAddr> = args.replicas.iter().copied().collect();
    if let Some(service) = &args.webhook_service {
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &service.namespace);
        let of_it = ListParams::default().labels(&format!("{SERVICE_NAME_LABEL}={}", service.name));
        let slices = call(LIMIT, slices.list(&of_it)).await;
        let slices = slices.map_err(|failure| unreadable(service, &failure))?;
        addresses.extend(
            found(&slices.items)
                .into_iter()
                .map(|ip| SocketAddr::new(ip, args.admin_port)),
        );
    }
    Ok(join_all(addresses.into_iter().map(one)).await)
}

fn unreadable(service: &ObjectKey, failure: &svcplane_runtime::api::Failure) -> String {
    format!("cannot read the EndpointSlices of {service}: {failure}")
}

/// One address of each replica that serves.
fn found(slices: &[EndpointSlice]) -> Vec<IpAddr> {
    let mut by_pod: BTreeMap<&str, IpAddr> = BTreeMap::new();
    for endpoint in slices.iter().flat_map(serving_endpoints) {
        let uid = endpoint.target_ref.as_ref().and_then(|target| target.uid.as_deref());
        let address = endpoint.addresses.first().filter(|text| !text.is_empty());
        if let Some(address) = address
            && let Ok(ip) = address.parse()
        {
            by_pod.entry(uid.unwrap_or(address)).or_insert(ip);
        }
    }
    by_pod.into_values().collect()
}

async fn one(address: SocketAddr) -> Replica {
    let answer = match metrics(address).await {
        Ok(page) => read(&page),
        Err(error) => Answer::Error(error),
    };
    Replica { address, answer }
}

async fn metrics(address: SocketAddr) -> Result<String, String> {
    let wrong = |error: http::Error| error.to_string();
    let uri = Uri::builder().scheme("http").authority(address.to_string());
    let uri = uri.path_and_query("/").build().map_err(wrong)?;
    let client = start::connect_to(Config::new(uri), "svcplane-pools")?;
    let request = Request::get("/metrics").body(Vec::new()).map_err(wrong)?;
    let page = call(LIMIT, client.request_text(request)).await;
    page.map_err(|failure| failure.to_string())
}

/// Reads a page of metrics.
fn read(page: &str) -> Answer {
    let mut kept: BTreeMap<(Option<String>, String), (u64, u64)> = BTreeMap::new();
    for (metric, name) in [
        ("svcplane_allocator_values", "range"),
        ("svcplane_allocator_pool_values", "pool"),
    ] {
        for (labels, count) in samples(page, metric) {
            let text = |label: &str| labels.get(label).map(|value| (*value).to_owned());
            let key = (text("values"), text(name).unwrap_or_default());
            let (pending, quarantined) = kept.entry(key).or_default();
            match labels.get("state").copied() {
                Some("pending") => *pending = count,
                Some("quarantined") => *quarantined = count,
                _ => {}
            }
        }
    }
    if kept.is_empty() {
        return Answer::Error("it serves no webhook: there is no svcplane_allocator_values in its metrics".to_owned());
    }
    let kept = kept.into_iter().map(|((values, name), (pending, quarantined))| Kept {
        name,
        values,
        pending,
        quarantined,
    });
    Answer::Memory(kept.collect())
}

/// Labels and count of each sample of this metric. Our labels are ranges, names and words, without anything to escape.
fn samples<'a>(page: &'a str, metric: &'a str) -> impl Iterator<Item = (BTreeMap<&'a str, &'a str>, u64)> {
    page.lines().filter_map(move |line| {
        let rest = line.strip_prefix(metric)?.strip_prefix('{')?;
        let (labels, count) = rest.rsplit_once("} ")?;
        let pair = |label: &'a str| {
            label
                .split_once('=')
                .map(|(name, value)| (name, value.trim_matches('"')))
        };
        Some((labels.split(',').filter_map(pair).collect(), count.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pending_and_quarantined_are_read_of_each_range_and_pool() {
        let page = "# TYPE svcplane_allocator_values gauge\n\
            svcplane_allocator_values{range=\"10.96.0.0/16\",state=\"free\"} 65000\n\
            svcplane_allocator_values{range=\"10.96.0.0/16\",state=\"pending\"} 3\n\
            svcplane_allocator_values{range=\"10.96.0.0/16\",state=\"quarantined\"} 2\n\
            svcplane_allocator_pool_values{pool=\"front\",state=\"quarantined\",values=\"IPv4\"} 1\n\
            svcplane_allocator_pool_values{pool=\"front\",state=\"pending\",values=\"IPv4\"} 0\n\
            svcplane_allocator_resting{range=\"10.96.0.0/16\"} 1\n";
        let kept = |name: &str, values: Option<&str>, pending, quarantined| Kept {
            name: name.into(),
            values: values.map(Into::into),
            pending,
            quarantined,
        };
        assert_eq!(
            read(page),
            Answer::Memory(vec![
                kept("10.96.0.0/16", None, 3, 2),
                kept("front", Some("IPv4"), 0, 1)
            ])
        );
        for other in ["", "go_goroutines 7\n", "<html>"] {
            assert!(
                matches!(read(other), Answer::Error(why) if why.contains("no webhook")),
                "{other:?}"
            );
        }
    }

    #[test]
    fn each_replica_that_serves_is_asked_once() {
        let slice = |endpoints: serde_json::Value| -> EndpointSlice {
            let object = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "x"},
                "addressType": "IPv4", "endpoints": endpoints});
            serde_json::from_value(object).unwrap()
        };
        let endpoint = |ip: &str, uid: &str, serving: bool| json!({"addresses": [ip], "conditions": {"serving": serving}, "targetRef": {"kind": "Pod", "uid": uid}});
        let slices = [
            slice(json!([
                endpoint("10.1.0.1", "a", true),
                endpoint("10.1.0.2", "b", true),
                endpoint("10.1.0.3", "c", false)
            ])),
            slice(json!([endpoint("fd00::1", "a", true)])),
        ];
        let want: Vec<IpAddr> = ["10.1.0.1", "10.1.0.2"].map(|ip| ip.parse().unwrap()).into();
        assert_eq!(found(&slices), want);
    }
}
