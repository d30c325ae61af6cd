//! The three writes of an Endpoints object, each with its preconditions and a deadline.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request};
use k8s_openapi::api::core::v1 as api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::{Request as ApiRequest, Resource};
use kube::{Api, Client};
use svcplane_runtime::api::{Failure, call};

use super::plan::Version;
use crate::model::{EndpointsObject, ObjectKey, Revision, Uid};
use crate::wire::{Stored, write_endpoints};

/// Asks for the metadata of what was stored instead of the whole object, which we know.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// Writes Endpoints through one client.
#[derive(Clone)]
pub struct Writer {
    client: Client,
}

impl Writer {
    /// A writer.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// POST, or PUT over the version that `replaces` names. Answers with uid and revision of what is stored now.
    pub async fn put(
        &self,
        object: &EndpointsObject,
        replaces: Option<&Version>,
        deadline: Duration,
    ) -> Result<(Uid, Revision), Failure> {
        let body = write_endpoints(object, replaces.map(|version| (&version.uid, version.revision)))
            .map_err(|error| Failure::Unreachable(error.to_string()))?;
        let target = ApiRequest::new(api::Endpoints::url_path(&(), Some(&object.key.namespace)));
        let params = PostParams::default();
        let request = match replaces {
            // An absent version is no precondition to the apiserver: it would overwrite whatever is there.
            Some(version) if version.revision == Revision::default() => return Err(Failure::Conflict),
            Some(_) => target.replace(&object.key.name, &params, body),
            None => target.create(&params, body),
        };
        let request = request.map_err(|error| Failure::Unreachable(error.to_string()))?;
        let stored: Stored = call(deadline, self.client.request(metadata_only(request))).await?;
        Ok((stored.uid(), stored.revision()))
    }

    /// DELETE of exactly that version. Answers whether it is gone: a finalizer may keep it for a while.
    pub async fn delete(&self, key: &ObjectKey, version: &Version, deadline: Duration) -> Result<bool, Failure> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(version.uid.to_string()),
            resource_version: Some(version.revision.0.to_string()),
        });
        let endpoints: Api<api::Endpoints> = Api::namespaced(self.client.clone(), &key.namespace);
        match call(deadline, endpoints.delete(&key.name, &params)).await {
            // The apiserver answers with what is left of the object, or else with a Status.
            Ok(left) => Ok(left.right().is_some()),
            Err(Failure::NotFound) => Ok(true),
            Err(failure) => Err(failure),
        }
    }

    /// Is there a Service of that name, by a read that no cache answers?
    pub async fn service_exists(&self, key: &ObjectKey, deadline: Duration) -> Result<bool, Failure> {
        let services: Api<api::Service> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = call(deadline, services.get_metadata_opt(&key.name)).await?;
        Ok(found.is_some())
    }
}

fn metadata_only(mut request: Request<Vec<u8>>) -> Request<Vec<u8>> {
    request.headers_mut().insert(ACCEPT, METADATA_ONLY);
    request
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}
