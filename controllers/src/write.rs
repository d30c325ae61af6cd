//! The writes of Endpoints and slices, each with its preconditions and a deadline.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::{Request as ApiRequest, Resource};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use svcplane_runtime::api::{Failure, call};

use crate::model::{EndpointsObject, ObjectKey, Revision, Slice, Version};
use crate::wire::{Stored, WireSlice, write_endpoints, write_slice};

/// Asks for the metadata of what was stored instead of the whole object, which we know.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// Writes Endpoints and slices through one client.
#[derive(Clone)]
pub struct Writer {
    client: Client,
}

impl Writer {
    /// A writer.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// POST, or PUT over the version that `replaces` names. Answers with the version that is stored now.
    pub async fn put_endpoints(
        &self,
        object: &EndpointsObject,
        replaces: Option<&Version>,
        deadline: Duration,
    ) -> Result<Version, Failure> {
        let body = write_endpoints(object, replaces.map(|version| (&version.uid, version.revision)));
        self.put::<core::Endpoints>(&object.key, body, replaces, deadline).await
    }

    /// As [`put_endpoints`](Self::put_endpoints), for a slice.
    pub async fn put_slice(
        &self,
        slice: &Slice,
        replaces: Option<&Version>,
        deadline: Duration,
    ) -> Result<Version, Failure> {
        let over = replaces.map(|version| (&version.uid, version.revision));
        let body = write_slice(&slice.key, &slice.content, over);
        self.put::<discovery::EndpointSlice>(&slice.key, body, replaces, deadline)
            .await
    }

    async fn put<K: Resource<DynamicType = ()>>(
        &self,
        key: &ObjectKey,
        body: serde_json::Result<Vec<u8>>,
        replaces: Option<&Version>,
        deadline: Duration,
    ) -> Result<Version, Failure> {
        let body = body.map_err(|error| Failure::Unreachable(error.to_string()))?;
        let target = ApiRequest::new(K::url_path(&(), Some(&key.namespace)));
        let params = PostParams::default();
        let request = match replaces {
            // An absent version is no precondition to the apiserver: it would overwrite whatever is there.
            Some(version) if version.revision == Revision::default() => return Err(Failure::Conflict),
            Some(_) => target.replace(&key.name, &params, body),
            None => target.create(&params, body),
        };
        let request = request.map_err(|error| Failure::Unreachable(error.to_string()))?;
        let stored: Stored = call(deadline, self.client.request(metadata_only(request))).await?;
        Ok(Version {
            uid: stored.uid(),
            revision: stored.revision(),
        })
    }

    /// DELETE of exactly that version. Answers whether it is gone: a finalizer may keep it for a while.
    pub async fn delete<K>(&self, key: &ObjectKey, version: &Version, deadline: Duration) -> Result<bool, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + std::fmt::Debug,
    {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(version.uid.to_string()),
            resource_version: Some(version.revision.0.to_string()),
        });
        let objects: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        match call(deadline, objects.delete(&key.name, &params)).await {
            // The apiserver answers with what is left of the object, or else with a Status.
            Ok(left) => Ok(left.right().is_some()),
            Err(Failure::NotFound) => Ok(true),
            Err(failure) => Err(failure),
        }
    }

    /// Is there a Service of that name, by a read that no cache answers?
    pub async fn service_exists(&self, key: &ObjectKey, deadline: Duration) -> Result<bool, Failure> {
        let services: Api<core::Service> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = call(deadline, services.get_metadata_opt(&key.name)).await?;
        Ok(found.is_some())
    }

    /// The slice of that name, by a read that no cache answers.
    pub async fn slice(&self, key: &ObjectKey, deadline: Duration) -> Result<Option<WireSlice>, Failure> {
        let slices: Api<WireSlice> = Api::namespaced(self.client.clone(), &key.namespace);
        call(deadline, slices.get_opt(&key.name)).await
    }
}

fn metadata_only(mut request: Request<Vec<u8>>) -> Request<Vec<u8>> {
    request.headers_mut().insert(ACCEPT, METADATA_ONLY);
    request
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}
