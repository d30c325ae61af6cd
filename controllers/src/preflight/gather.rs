//! Reads what is checked.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, RuleWithOperations};
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, ObjectList, PartialObjectMeta};
use kube::{Api, Client};
use svcplane_runtime::api::{Failure, call};
use svcplane_runtime::leader::{LeaseName, look};

use super::builtin::flag;
use super::checks::Facts;
use crate::breaker::BUILT_IN;
use crate::controller::Controller;
use crate::gate::Mode;
use crate::model::CANARY_LABEL;
use crate::permissions;
use crate::pools::import;
use crate::start::minor;

/// What one answer may take.
const LIMIT: Duration = Duration::from_secs(30);

/// So many objects of a kind are looked at for who wrote them last.
const SAMPLE: u32 = 500;

/// What a built-in controller wrote longer ago says nothing about whether it lives.
const RECENT: Duration = Duration::from_hours(1);

/// Reads it. What this account may not see is told in its row; the error is one line, and means that nothing could be read.
pub async fn gather(client: &Client, lease: &LeaseName) -> Result<Facts, String> {
    let version = call(LIMIT, client.apiserver_version()).await;
    let version = version.map_err(|failure| format!("cannot reach the apiserver: {failure}"))?;
    let rights = permissions::needed(
        Mode::Active,
        &Controller::ALL,
        Some((&lease.namespace, &lease.name)),
        false,
    );
    let (control_plane, writes, ranges, missing, mutators, balancers, lease, canaries) = tokio::join!(
        control_plane(client),
        writes(client),
        ranges(client),
        permissions::missing(client, &rights),
        mutators(client),
        import::present(client),
        look(client, lease, LIMIT),
        canaries(client),
    );
    let because = |failure: Failure| failure.to_string();
    let control_plane = control_plane.map_err(because);
    let of_pods = |program: &str, name: &str| {
        let pods = control_plane.as_ref().map_err(Clone::clone)?;
        let pods = pods.iter().filter(|(pod, _)| pod.starts_with(program));
        Ok(pods
            .map(|(pod, words)| (pod.clone(), flag(words.iter().map(String::as_str), name)))
            .collect())
    };
    Ok(Facts {
        managers: of_pods(BUILT_IN, "--controllers"),
        node_ports: of_pods("kube-apiserver", "--service-node-port-range"),
        balancers,
        minor: minor(&version.minor),
        version: version.git_version,
        writes: writes.map_err(because),
        ranges: ranges.map_err(because),
        missing: missing
            .map(|rights| rights.iter().map(ToString::to_string).collect())
            .map_err(because),
        mutators: mutators.map_err(because),
        lease: lease.map_err(because),
        canaries: canaries.map_err(because),
    })
}

/// Pods of the control plane, each with its arguments.
async fn control_plane(client: &Client) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let pods = call(LIMIT, pods.list(&ListParams::default())).await?;
    let found = pods.items.into_iter().filter_map(|pod| {
        let name = pod.metadata.name.filter(|name| name.starts_with("kube-"))?;
        let containers = pod.spec?.containers;
        let words = containers
            .into_iter()
            .flat_map(|it| it.command.into_iter().flatten().chain(it.args.into_iter().flatten()));
        Some((name, words.collect()))
    });
    Ok(found.collect())
}

async fn writes(client: &Client) -> Result<Vec<(String, Duration)>, Failure> {
    let endpoints: Api<Endpoints> = Api::all(client.clone());
    let slices: Api<EndpointSlice> = Api::all(client.clone());
    let some = ListParams::default().limit(SAMPLE);
    let endpoints = call(LIMIT, endpoints.list_metadata(&some)).await?;
    let slices = call(LIMIT, slices.list_metadata(&some)).await?;
    let now = Timestamp::now();
    let newest = [
        newest("Endpoints", &endpoints, now),
        newest("EndpointSlice", &slices, now),
    ];
    Ok(newest.into_iter().flatten().collect())
}

/// The object that kube-controller-manager wrote last, if that was not long ago.
fn newest<K>(kind: &str, objects: &ObjectList<PartialObjectMeta<K>>, now: Timestamp) -> Option<(String, Duration)>
where
    K: Clone,
{
    let written = |meta: &ObjectMeta| {
        let marks = meta.managed_fields.iter().flatten();
        let its = marks.filter(|mark| mark.manager.as_deref() == Some(BUILT_IN));
        its.filter_map(|mark| mark.time.as_ref().map(|time| time.0)).max()
    };
    let all = objects
        .items
        .iter()
        .filter_map(|it| Some((written(&it.metadata)?, &it.metadata)));
    let (time, meta) = all.max_by_key(|(time, _)| *time)?;
    let age = now.duration_since(time).unsigned_abs();
    let [namespace, name] = [&meta.namespace, &meta.name].map(|it| it.as_deref().unwrap_or_default());
    (age <= RECENT).then(|| (format!("{kind} {namespace}/{name}"), age))
}

async fn ranges(client: &Client) -> Result<Option<Vec<String>>, Failure> {
    let cidrs: Api<ServiceCIDR> = Api::all(client.clone());
    match call(LIMIT, cidrs.list(&ListParams::default())).await {
        Ok(cidrs) => {
            let specs = cidrs.items.into_iter().filter_map(|cidr| cidr.spec);
            Ok(Some(specs.flat_map(|spec| spec.cidrs.unwrap_or_default()).collect()))
        }
        Err(Failure::NotFound) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Webhooks of others that are asked about Services.
async fn mutators(client: &Client) -> Result<Vec<String>, Failure> {
    let all: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let all = call(LIMIT, all.list(&ListParams::default())).await?;
    let mut found = BTreeSet::new();
    for configuration in all.items {
        let name = configuration.metadata.name.unwrap_or_default();
        let asked = configuration.webhooks.unwrap_or_default();
        let asked = asked
            .iter()
            .any(|webhook| webhook.rules.iter().flatten().any(is_about_services));
        if asked && !name.contains("svcplane") {
            found.insert(name);
        }
    }
    Ok(found.into_iter().collect())
}

fn is_about_services(rule: &RuleWithOperations) -> bool {
    let names =
        |list: &Option<Vec<String>>, wanted: &[&str]| list.iter().flatten().any(|it| wanted.contains(&it.as_str()));
    names(&rule.api_groups, &["", "*"]) && names(&rule.resources, &["services", "*", "*/*"])
}

async fn canaries(client: &Client) -> Result<Vec<String>, Failure> {
    let services: Api<Service> = Api::all(client.clone());
    let marked = call(
        LIMIT,
        services.list_metadata(&ListParams::default().labels(CANARY_LABEL)),
    )
    .await?;
    let names = marked.items.into_iter().map(|it| {
        let [namespace, name] = [it.metadata.namespace, it.metadata.name].map(Option::unwrap_or_default);
        format!("{namespace}/{name}")
    });
    Ok(names.collect())
}
