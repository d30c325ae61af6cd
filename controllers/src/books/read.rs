//! The ledger of a command: fed once, from lists.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use svcplane_runtime::api::{Failure, call};
use svcplane_webhook::ledger::{Ledger, Ranges};
use svcplane_webhook::pools::{ClusterIPPool, NodePortPool};

use super::Booked;

/// What one answer may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Objects in one answer.
const PAGE: u32 = 500;

/// All objects of a kind; `None` if the server does not know it. The error is one line.
pub async fn list<K>(client: &Client) -> Result<Option<Vec<K>>, String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    pages(&Api::all(client.clone()), &K::plural(&()), Ok).await
}

/// The same of a kind that may be kept from this account: then the inner error says so.
pub async fn list_if_permitted<K>(client: &Client) -> Result<Result<Option<Vec<K>>, String>, String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let what = K::plural(&());
    match all(&Api::all(client.clone()), Ok).await {
        Err(unread @ Unread::Api(Failure::Forbidden(_))) => Ok(Err(unread.told(&what))),
        other => listed_or_absent(other, &what).map(Ok),
    }
}

/// The same of an API, for which there are words. `read`: what is kept of an object.
pub async fn pages<K, T>(
    api: &Api<K>,
    what: &str,
    read: impl Fn(K) -> Result<T, String>,
) -> Result<Option<Vec<T>>, String>
where
    K: Clone + DeserializeOwned + Debug,
{
    listed_or_absent(all(api, read).await, what)
}

async fn all<K, T>(api: &Api<K>, read: impl Fn(K) -> Result<T, String>) -> Result<Vec<T>, Unread>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut objects = Vec::new();
    let take = |object| {
        objects.push(read(object).map_err(Unread::Object)?);
        Ok::<_, Unread>(())
    };
    each(api, ListParams::default(), take).await?;
    Ok(objects)
}

fn listed_or_absent<T>(listed: Result<Vec<T>, Unread>, what: &str) -> Result<Option<Vec<T>>, String> {
    match listed {
        Ok(objects) => Ok(Some(objects)),
        Err(Unread::Api(Failure::NotFound)) => Ok(None),
        Err(unread) => Err(unread.told(what)),
    }
}

/// What is kept of each object that these parameters select.
pub async fn listed<K, T>(api: &Api<K>, params: ListParams, keep: impl Fn(K) -> T) -> Result<Vec<T>, Failure>
where
    K: Clone + DeserializeOwned + Debug,
{
    listed_at(api, params, keep).await.map(|(kept, _)| kept)
}

/// The same with the version that the list is of: what is newer is not in it.
pub async fn listed_at<K, T>(api: &Api<K>, params: ListParams, keep: impl Fn(K) -> T) -> Result<(Vec<T>, u64), Failure>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut kept = Vec::new();
    let at = each(api, params, |object| {
        kept.push(keep(object));
        Ok::<_, Failure>(())
    })
    .await?;
    Ok((kept, at))
}

enum Unread {
    Api(Failure),
    Object(String),
}

impl Unread {
    fn told(self, what: &str) -> String {
        match self {
            Self::Api(failure) => format!("cannot read {what}: {failure}"),
            Self::Object(why) => why,
        }
    }
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Self {
        Self::Api(failure)
    }
}

/// Hands over what these parameters select, page by page, and answers with the version that the list is of.
async fn each<K, E: From<Failure>>(
    api: &Api<K>,
    params: ListParams,
    mut take: impl FnMut(K) -> Result<(), E>,
) -> Result<u64, E>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE);
    loop {
        let page = call(LIMIT, api.list(&params)).await?;
        for object in page.items {
            take(object)?;
        }
        let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
            let at = page.metadata.resource_version.and_then(|text| text.parse().ok());
            return Ok(at.unwrap_or_default());
        };
        params = params.continue_token(&token);
    }
}

/// Puts a complete list into the ledger.
pub fn feed<K: Booked>(ledger: &mut Ledger, objects: Option<&[K]>, now: Instant) {
    let facts = objects.into_iter().flatten().filter_map(Booked::fact);
    K::replace(ledger, facts.collect(), now);
}

/// A ledger that knows ranges and pools; `None` where the server does not know the kind. The error names a flag.
pub fn ranges_and_pools(
    ranges: Ranges,
    cidrs: Option<&[ServiceCIDR]>,
    cluster_ips: Option<&[ClusterIPPool]>,
    node_ports: Option<&[NodePortPool]>,
    now: Instant,
) -> Result<Ledger, String> {
    let mut ledger = Ledger::new(ranges, now);
    if cidrs.is_none() {
        ledger.without_objects(now);
    }
    feed(&mut ledger, cidrs, now);
    require_ranges(&ledger)?;
    feed(&mut ledger, cluster_ips, now);
    feed(&mut ledger, node_ports, now);
    Ok(ledger)
}

/// A server without ServiceCIDR objects needs the flag. The error names it.
pub fn require_ranges(ledger: &Ledger) -> Result<(), String> {
    match ledger.families() {
        Some(_) => Ok(()),
        None => Err(
            "--service-cluster-ip-range is needed: this apiserver has no ServiceCIDR objects that say what it is"
                .to_owned(),
        ),
    }
}
