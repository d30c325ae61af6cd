//! A part of the demo: a Service of type LoadBalancer gets the address that it asks for.

use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::Client;

use super::screen::Screen;
use super::story::DEADLINE;
use crate::balanced::{condition, shown};
use crate::eventually::eventually_one;

/// `examples/m07-load-balancer.yaml`.
const NAMESPACE: &str = "load-balancer";
const NAME: &str = "my-service";
const ADDRESS: &str = "78.11.24.19";

/// Waits for the address.
///
/// # Errors
/// It does not come.
pub async fn show(screen: &Screen, client: &Client) -> anyhow::Result<()> {
    screen.part("A LoadBalancerPool and a Service of the class svcplane.io/lb that asks for an address of it");
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let check = |service: Option<&Service>| {
        let service = service.ok_or_else(|| "it is not there".to_owned())?;
        let reason = condition(service).map(|it| format!("{} ({})", it.reason, it.type_));
        match (shown(service), reason) {
            (shown, Some(reason)) if shown == [ADDRESS] => Ok(reason),
            (shown, reason) => Err(format!("it should show {ADDRESS} and shows {shown:?}: {reason:?}")),
        }
    };
    let what = format!("the status of {NAMESPACE}/{NAME}");
    let reason = eventually_one(&what, DEADLINE, &services, NAME, check).await?;
    screen.detail(format_args!("Service {NAMESPACE}/{NAME}: {ADDRESS}, {reason}"));
    Ok(())
}
