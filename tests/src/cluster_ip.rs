//! What kube-proxy is for one Service in a [private network](crate::private_network): who dials its ClusterIP reaches one of its endpoints.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use kube::runtime::watcher::{Config, watcher};
use tokio::task::JoinHandle;

use crate::balancer::{Balancer, Refused};
use crate::namespace::TestNamespace;

/// A ClusterIP that leads to endpoints. It ends when it is dropped.
#[derive(Debug)]
pub struct ClusterIp {
    task: JoinHandle<()>,
}

impl ClusterIp {
    /// Serves the first port of this Service, until it is dropped. As kube-proxy: new connections go to endpoints that are ready, and if there are
    /// none to those that serve while they end; connections that there are stay; one that an endpoint refuses is closed.
    ///
    /// # Errors
    /// There is no such Service, or its address cannot be listened on.
    pub async fn serve(namespace: &TestNamespace, name: &str) -> Result<Self> {
        let service: Service = namespace.services().get(name).await?;
        let spec = service.spec.context("no spec")?;
        let port = spec.ports.iter().flatten().next().context("no port")?.port;
        let address = SocketAddr::new(spec.cluster_ip.context("no ClusterIP")?.parse()?, u16::try_from(port)?);
        let balancer = Balancer::start_at(address, Vec::new(), Refused::Close)
            .await
            .with_context(|| format!("listening on {address}"))?;
        let selector = format!("kubernetes.io/service-name={name}");
        let slices: Api<EndpointSlice> = namespace.api();
        let task = tokio::spawn(async move {
            let mut changes = watcher(slices.clone(), Config::default().labels(&selector)).boxed();
            while changes.next().await.is_some() {
                let params = ListParams::default().labels(&selector);
                // Without an answer what is known counts on.
                if let Ok(list) = slices.list(&params).await {
                    balancer.point_at(targets(&list.items));
                }
            }
        });
        Ok(Self { task })
    }
}

impl Drop for ClusterIp {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where new IPv4 connections may go.
fn targets(slices: &[EndpointSlice]) -> Vec<String> {
    let of = |accept: fn(Option<bool>, Option<bool>, Option<bool>) -> bool| -> Vec<String> {
        let slices = slices.iter().filter(|slice| slice.address_type == "IPv4");
        let found = slices.flat_map(|slice| {
            let port = slice.ports.iter().flatten().find_map(|port| port.port);
            let endpoints = slice.endpoints.iter().flatten().filter(move |endpoint| {
                let conditions = endpoint.conditions.clone().unwrap_or_default();
                accept(conditions.ready, conditions.serving, conditions.terminating)
            });
            endpoints.filter_map(move |it| Some(format!("{}:{}", it.addresses.first()?, port?)))
        });
        found.collect()
    };
    let ready = of(|ready, _, _| ready != Some(false));
    if ready.is_empty() {
        return of(|_, serving, terminating| serving == Some(true) && terminating == Some(true));
    }
    ready
}
