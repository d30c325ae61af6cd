//! What the apiserver can take at all: the roof under which every wall-clock figure stands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::core::v1::{Endpoints, Namespace, Service};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::controllers::Controllers;
use super::record::Row;
use super::rig::Rig;

const WRITERS: usize = 32;
const TIME: Duration = Duration::from_secs(6);
const NAMESPACE: &str = "calibration";

/// PUTs of Endpoints with 10 addresses and creates of Services, per second, by 32 writers and without any controller.
///
/// # Errors
/// The apiserver refuses something.
pub async fn calibrate() -> Result<Vec<Row>> {
    let rig = Rig::start(Controllers::Endpoints).await?;
    let client = rig.cluster.client();
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await?;
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), NAMESPACE);
    let puts = per_second(|writer, stop, done| {
        let endpoints = endpoints.clone();
        async move {
            let name = format!("written-by-{writer}");
            let body = serde_json::from_value(object(&name, 0))?;
            let mut stored = endpoints.create(&PostParams::default(), &body).await?;
            let mut round = 0;
            while Instant::now() < stop {
                round += 1;
                let mut next: Endpoints = serde_json::from_value(object(&name, round))?;
                next.metadata.resource_version = stored.resource_version();
                stored = endpoints.replace(&name, &PostParams::default(), &next).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }
    })
    .await?;
    let services: Api<Service> = Api::namespaced(client, NAMESPACE);
    let creates = per_second(|writer, stop, done| {
        let services = services.clone();
        async move {
            let mut number = 0;
            while Instant::now() < stop {
                number += 1;
                let name = format!("created-by-{writer}-{number}");
                let body = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
                services
                    .create(&PostParams::default(), &serde_json::from_value(body)?)
                    .await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }
    })
    .await?;
    let mut row = Row {
        workload: "calibration".into(),
        phase: "writes".into(),
        side: "none".into(),
        ..Row::default()
    };
    row.set("endpoints_puts_per_s", puts);
    row.set("service_creates_per_s", creates);
    Ok(vec![row])
}

async fn per_second<F>(writer: impl Fn(usize, Instant, Arc<AtomicU64>) -> F) -> Result<f64>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (done, begun) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        writers.spawn(writer(number, begun + TIME, Arc::clone(&done)));
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let done = done.load(Ordering::Relaxed) as f64;
    Ok(done / begun.elapsed().as_secs_f64())
}

fn object(name: &str, round: usize) -> Value {
    let addresses: Vec<Value> = (0..10)
        .map(|number| {
            let pod = format!("{name}-{number}");
            json!({"ip": format!("10.{}.0.{}", 100 + round % 100, number + 1), "nodeName": format!("node-{number}"),
                "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": pod, "uid": format!("{pod}-uid")}})
        })
        .collect();
    json!({"metadata": {"name": name}, "subsets": [{"addresses": addresses, "ports": [{"name": "http", "port": 8080}]}]})
}
