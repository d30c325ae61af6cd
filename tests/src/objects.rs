//! Objects as tests need them. A builder that lacks something gives the object by `build()`, to be changed by hand.

mod endpoints;
mod pod;
mod service;
mod workload;

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::api::PostParams;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::endpoints::{EndpointsBuilder, endpoints};
pub use self::pod::{PodBuilder, create_pods, pod};
pub use self::service::{ServiceBuilder, Target, service};

/// What one answer of the apiserver may take.
const DEADLINE: Duration = Duration::from_secs(30);

async fn create<K>(api: &Api<K>, object: &K) -> Result<K>
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
    K::DynamicType: Default,
{
    let what = || {
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        format!(
            "creating {kind} {}",
            object.meta().name.as_deref().unwrap_or("without a name")
        )
    };
    let params = PostParams::default();
    let created = tokio::time::timeout(DEADLINE, api.create(&params, object)).await;
    created.with_context(what)?.with_context(what)
}
