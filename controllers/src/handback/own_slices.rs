//! The slices of `--identity=own`, which nobody else would ever remove.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use svcplane_runtime::api::{Failure, call};
use tokio::time::Instant;

use super::CALL_LIMIT;
use crate::endpointslice::MANAGED_BY_LABEL;
use crate::model::Manager;

/// How many are listed at once.
const PAGE: u32 = 500;

/// Deletes all of them and returns how many there were. The error is one line.
pub async fn delete(client: &Client, timeout: Duration) -> Result<usize, String> {
    let (started, mut gone) = (Instant::now(), 0);
    let all: Api<EndpointSlice> = Api::all(client.clone());
    let selector = format!("{MANAGED_BY_LABEL}={}", Manager::Own.as_str());
    let params = ListParams::default().labels(&selector).limit(PAGE);
    loop {
        let page = call(CALL_LIMIT, all.list_metadata(&params))
            .await
            .map_err(|failure| cannot(&failure))?;
        if page.items.is_empty() {
            return Ok(gone);
        }
        for slice in page.items {
            if started.elapsed() >= timeout {
                return Err(format!(
                    "EndpointSlices of svcplane.io are left after {timeout:?}, in which {gone} were deleted: does another svcplane still write?"
                ));
            }
            let api: Api<EndpointSlice> = Api::namespaced(client.clone(), &slice.namespace().unwrap_or_default());
            let exactly = DeleteParams::default().preconditions(Preconditions {
                uid: slice.metadata.uid.clone(),
                resource_version: None,
            });
            match call(CALL_LIMIT, api.delete(&slice.name_any(), &exactly)).await {
                Ok(_) => gone += 1,
                Err(Failure::NotFound | Failure::Conflict) => {}
                Err(failure) => return Err(cannot(&failure)),
            }
        }
    }
}

fn cannot(failure: &Failure) -> String {
    format!("cannot delete the EndpointSlices of svcplane.io: {failure}")
}
