//! EndpointSlices as tests compare them: one line per slice, sorted.
//!
//! `IPv4 10.0.0.1/rs-(web-0) 10.0.0.2/-st{a,b;n1} -> http:8080/TCP`: the address type; of each endpoint the addresses, the conditions ready,
//! serving and terminating (`-`: false, `?`: not given), the hostname, the zones and Nodes of the hints; then the ports as in
//! [`crate::subsets`]. Endpoints and ports are sorted, too: no order is promised.

use std::time::Duration;

use anyhow::Result;
use futures::{TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::eventually::eventually;
use crate::namespace::TestNamespace;

/// Label that names a slice's Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label that names who writes a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Longer than any change takes to be seen in slices on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// One line per slice, sorted.
pub fn lines<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> Vec<String> {
    let mut lines: Vec<String> = slices.into_iter().map(line).collect();
    lines.sort();
    lines
}

/// Its endpoints; absent are none.
pub fn endpoints(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

fn line(slice: &EndpointSlice) -> String {
    let mut words = vec![slice.address_type.clone()];
    let mut listed: Vec<String> = endpoints(slice).iter().map(endpoint).collect();
    listed.sort();
    words.extend(listed);
    if let Some(ports) = slice.ports.as_deref().filter(|ports| !ports.is_empty()) {
        words.push("->".into());
        let mut ports: Vec<String> = ports.iter().map(port).collect();
        ports.sort();
        words.extend(ports);
    }
    words.join(" ")
}

fn endpoint(endpoint: &Endpoint) -> String {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let letter = |condition: Option<bool>, letter| match condition {
        Some(true) => letter,
        Some(false) => '-',
        None => '?',
    };
    let conditions: String = [
        letter(conditions.ready, 'r'),
        letter(conditions.serving, 's'),
        letter(conditions.terminating, 't'),
    ]
    .into_iter()
    .collect();
    let hostname = endpoint.hostname.as_ref().map(|name| format!("({name})"));
    let hints = endpoint.hints.as_ref().map(|hints| {
        let zones: Vec<_> = hints.for_zones.iter().flatten().map(|zone| zone.name.clone()).collect();
        let nodes: Vec<_> = hints.for_nodes.iter().flatten().map(|node| node.name.clone()).collect();
        let nodes = if nodes.is_empty() {
            String::new()
        } else {
            format!(";{}", nodes.join(","))
        };
        format!("{{{}{nodes}}}", zones.join(","))
    });
    format!(
        "{}/{conditions}{}{}",
        endpoint.addresses.join("+"),
        hostname.unwrap_or_default(),
        hints.unwrap_or_default()
    )
}

fn port(port: &EndpointPort) -> String {
    let app = port.app_protocol.as_ref().map(|app| format!("={app}"));
    let name = port.name.as_deref().unwrap_or("?");
    let number = port.port.map_or_else(|| "?".into(), |number| number.to_string());
    let protocol = port.protocol.as_deref().unwrap_or("?");
    format!("{name}:{number}/{protocol}{}", app.unwrap_or_default())
}

/// Whether it names this Service, and, if that is asked for, is this controller's.
pub fn belongs(slice: &EndpointSlice, service: &str, manager: Option<&str>) -> bool {
    let label = |name: &str| slice.labels().get(name).map(String::as_str);
    label(SERVICE_NAME) == Some(service) && manager.is_none_or(|manager| label(MANAGED_BY) == Some(manager))
}

impl TestNamespace {
    /// Waits until the slices that name this Service have exactly these [`lines`], in whatever order.
    ///
    /// # Errors
    /// They do not after half a minute.
    pub async fn slices_become(&self, service: &str, wanted: &[&str]) -> Result<Vec<EndpointSlice>> {
        let mut wanted: Vec<&str> = wanted.to_vec();
        wanted.sort_unstable();
        let what = format!("slices of {service} with {wanted:?}");
        eventually(&what, DEADLINE, &self.slices(), "", |all: &[EndpointSlice]| {
            let found: Vec<_> = all
                .iter()
                .filter(|slice| belongs(slice, service, None))
                .cloned()
                .collect();
            let said = lines(&found);
            if said == wanted {
                Ok(found)
            } else {
                Err(format!("they say {said:?}"))
            }
        })
        .await
    }

    /// Waits until this controller has one slice of this Service that is not being deleted, with the labels and owners of `right`, and alike
    /// in what `is_like` looks at.
    ///
    /// # Errors
    /// It has not after half a minute.
    pub async fn slice_heals(
        &self,
        what: &str,
        (service, manager): (&str, &str),
        right: &EndpointSlice,
        is_like: impl Fn(&EndpointSlice, &EndpointSlice) -> bool,
    ) -> Result<EndpointSlice> {
        eventually(what, DEADLINE, &self.slices(), "", |all: &[EndpointSlice]| {
            let ours = all.iter().filter(|slice| belongs(slice, service, Some(manager)));
            let living: Vec<_> = ours
                .filter(|slice| slice.metadata.deletion_timestamp.is_none())
                .collect();
            let [found] = living[..] else {
                return Err(format!("{} slices", living.len()));
            };
            let same = found.labels() == right.labels()
                && found.owner_references() == right.owner_references()
                && is_like(found, right);
            same.then(|| found.clone()).ok_or_else(|| format!("{found:?}"))
        })
        .await
    }

    /// Patches a slice, by a merge.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn patch_slice(&self, name: &str, patch: &Value) -> Result<EndpointSlice> {
        let (slices, params) = (self.slices(), PatchParams::default());
        Ok(slices.patch(name, &params, &Patch::Merge(patch)).await?)
    }
}

/// Makes sure that there is a Node of this name, in this zone if one is given: Pods on unknown Nodes are in no slice.
///
/// # Errors
/// The apiserver refuses.
pub async fn node(client: Client, name: &str, zone: Option<&str>) -> Result<()> {
    let nodes: Api<Node> = Api::all(client);
    let labels = zone.map(|zone| [("topology.kubernetes.io/zone".to_owned(), zone.to_owned())].into());
    let node = Node {
        metadata: ObjectMeta {
            name: Some(name.into()),
            labels,
            ..ObjectMeta::default()
        },
        ..Node::default()
    };
    match nodes.create(&PostParams::default(), &node).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let status = json!({"status": {
        "allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]
    }});
    let patch = kube::api::Patch::Merge(status);
    nodes
        .patch_status(name, &kube::api::PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// As [`node`], for `node-0`, `node-1`, … in the zones `a`, `b` and `c` in turn.
///
/// # Errors
/// The apiserver refuses.
pub async fn nodes(client: Client, count: usize) -> Result<()> {
    const AT_ONCE: usize = 24;
    let all = (0..count).zip(["a", "b", "c"].into_iter().cycle());
    stream::iter(all.map(Ok))
        .try_for_each_concurrent(AT_ONCE, async |(number, zone)| {
            node(client.clone(), &format!("node-{number}"), Some(zone)).await
        })
        .await
}
