//! Calls of the test's own to one apiserver, and what it says to them.

use anyhow::Result;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use kube::core::Status;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::ops::Key;
use super::{Side, timely};

/// What an operation that succeeded came to.
pub const DONE: &str = "done";

impl Side {
    pub fn api<K>(&self, key: &Key) -> Result<Api<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Ok(Api::namespaced(self.client.clone(), self.space(key.space)?))
    }

    pub async fn create<K>(&self, key: &Key, object: Value) -> Result<String>
    where
        K: Object,
    {
        let object = serde_json::from_value(object)?;
        outcome("creating", self.api::<K>(key)?.create(&PostParams::default(), &object)).await
    }

    pub async fn replace<K>(&self, key: &Key, object: Value) -> Result<String>
    where
        K: Object,
    {
        let object = serde_json::from_value(object)?;
        outcome(
            "replacing",
            self.api::<K>(key)?.replace(&key.name, &PostParams::default(), &object),
        )
        .await
    }

    pub async fn delete<K>(&self, key: &Key, grace: u32) -> Result<String>
    where
        K: Object,
    {
        let params = DeleteParams {
            grace_period_seconds: Some(grace),
            ..DeleteParams::default()
        };
        outcome("deleting", self.api::<K>(key)?.delete(&key.name, &params)).await
    }
}

/// What the stream makes.
pub trait Object:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug
{
}
impl Object for Service {}
impl Object for Pod {}
impl Object for Endpoints {}
impl Object for EndpointSlice {}

/// [`DONE`], or the words in which the server refuses.
pub async fn outcome<T>(what: &str, call: impl Future<Output = kube::Result<T>>) -> Result<String> {
    Ok(answer(what, call)
        .await?
        .map_or_else(|refused| refused, |_| DONE.into()))
}

/// The answer, or the words in which the server refuses.
pub async fn answer<T>(what: &str, call: impl Future<Output = kube::Result<T>>) -> Result<Result<T, String>> {
    let asked = async {
        match call.await {
            Ok(answer) => Ok(Ok(answer)),
            Err(kube::Error::Api(status)) => Ok(Err(refusal(&status))),
            Err(error) => Err(error),
        }
    };
    timely(what, asked).await
}

fn refusal(status: &Status) -> String {
    format!("{} {}", status.code, status.reason)
}
