//! `svcplane selftest`: makes a Service, sees that it gets an address and EndpointSlices, and takes it away again. What `helm test` runs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use svcplane_runtime::api::{Failure, call};
use svcplane_runtime::args::format_duration;
use svcplane_runtime::client::RESPONSE_HEAD_LIMIT;
use tokio::time::Instant;

use crate::args::SelftestArgs;
use crate::endpointslice::SERVICE_NAME_LABEL;
use crate::start;

/// Between two looks at the slices.
const LOOK: Duration = Duration::from_millis(250);

/// Makes the Service, looks, and deletes it whatever was seen. Says what was seen, and whether all is well; the error is one line.
pub async fn selftest(args: &SelftestArgs) -> Result<(String, bool), String> {
    let client = start::connect(&args.cluster, "svcplane-selftest").await?;
    let own = std::env::var("POD_NAMESPACE").ok().filter(|name| !name.is_empty());
    let namespace = args.namespace.clone().or(own);
    let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let created = call(
        RESPONSE_HEAD_LIMIT,
        services.create(&PostParams::default(), &service(args)),
    )
    .await;
    let created = created.map_err(|failure| format!("cannot create a Service in {namespace}: {failure}"))?;
    let name = created.name_any();
    let outcome = look(&client, &namespace, &created, args.timeout).await;
    let deleted = call(RESPONSE_HEAD_LIMIT, services.delete(&name, &DeleteParams::default())).await;
    let (mut text, well) =
        outcome.map_err(|failure| format!("cannot list the EndpointSlices of {namespace}/{name}: {failure}"))?;
    match deleted {
        Ok(_) | Err(Failure::NotFound) => Ok((text, well)),
        Err(failure) => {
            let _ = writeln!(text, "bad   Service {namespace}/{name} cannot be deleted: {failure}");
            Ok((text, false))
        }
    }
}

fn service(args: &SelftestArgs) -> Service {
    Service {
        metadata: ObjectMeta {
            generate_name: Some("svcplane-selftest-".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            selector: Some(args.labels()),
            ports: Some(vec![ServicePort {
                name: Some("probe".to_owned()),
                port: 80,
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

async fn look(client: &Client, namespace: &str, service: &Service, limit: Duration) -> Result<(String, bool), Failure> {
    let name = service.name_any();
    let spec = service.spec.as_ref();
    let addresses = spec.and_then(|spec| spec.cluster_ips.clone()).unwrap_or_default();
    let mut text = String::new();
    if addresses.is_empty() {
        let _ = writeln!(text, "bad   Service {namespace}/{name} has no address");
        return Ok((text, false));
    }
    let _ = writeln!(text, "ok    Service {namespace}/{name} has {}", addresses.join(", "));
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let of_it = ListParams::default().labels(&format!("{SERVICE_NAME_LABEL}={name}"));
    let started = Instant::now();
    loop {
        let list = call(RESPONSE_HEAD_LIMIT, slices.list(&of_it)).await?;
        let ready: BTreeSet<String> = list.items.iter().flat_map(ready).collect();
        let took = started.elapsed();
        if !ready.is_empty() {
            let (count, ready) = (list.items.len(), ready.into_iter().collect::<Vec<_>>().join(", "));
            let _ = writeln!(
                text,
                "ok    {count} EndpointSlices list {ready} after {} ms",
                took.as_millis()
            );
            return Ok((text, true));
        }
        if took >= limit {
            let (count, limit) = (list.items.len(), format_duration(limit));
            let _ = writeln!(
                text,
                "bad   {count} EndpointSlices and no ready endpoint in them after {limit}: does anybody keep them (mode active, or the built-in \
                 controllers), and is a Pod of the selector ready?"
            );
            return Ok((text, false));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The addresses of a slice that take traffic.
fn ready(slice: &EndpointSlice) -> Vec<String> {
    let endpoints = slice.endpoints.iter().flatten();
    let ready = endpoints.filter(|it| it.conditions.as_ref().is_none_or(|it| it.ready != Some(false)));
    ready.flat_map(|it| it.addresses.clone()).collect()
}
