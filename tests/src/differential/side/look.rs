//! What one cluster has stored.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Result;
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Resource};

use super::super::ops::Key;
use super::super::snapshot::{Manager, Owned, SERVICE_NAME, Snapshot, Words};
use super::calls::Object;
use super::{Side, timely};

/// Every Endpoints object and every slice with its resourceVersion.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// Endpoints.
    pub endpoints: BTreeMap<Key, String>,
    slices: BTreeMap<Key, String>,
}

impl Side {
    /// The resourceVersions of all Endpoints and slices.
    ///
    /// # Errors
    /// No answer.
    pub async fn versions(&self) -> Result<Versions> {
        Ok(Versions {
            endpoints: self.versions_of::<Endpoints>("Endpoints").await?,
            slices: self.versions_of::<EndpointSlice>("EndpointSlices").await?,
        })
    }

    async fn versions_of<K: Object>(&self, what: &str) -> Result<BTreeMap<Key, String>> {
        let known = self.metadata_of::<K>(what).await?;
        let versions = known
            .into_iter()
            .map(|(key, metadata)| (key, metadata.resource_version));
        Ok(versions.filter_map(|(key, version)| Some((key, version?))).collect())
    }

    async fn metadata_of<K: Object>(&self, what: &str) -> Result<Vec<(Key, ObjectMeta)>> {
        let all: Api<K> = Api::all(self.client.clone());
        let list = timely(&format!("listing {what}"), all.list_metadata(&ListParams::default())).await?;
        Ok(
            self.in_spaces(list.items.into_iter().map(|object| object.metadata), |metadata| {
                metadata
            }),
        )
    }

    async fn all_of<K: Object>(&self, what: &str) -> Result<Vec<(Key, K)>> {
        let all: Api<K> = Api::all(self.client.clone());
        let list = timely(&format!("listing {what}"), all.list(&ListParams::default())).await?;
        Ok(self.in_spaces(list.items.into_iter(), Resource::meta))
    }

    /// Those in the namespaces of the stream, by namespace and name.
    fn in_spaces<T>(&self, all: impl Iterator<Item = T>, metadata: impl Fn(&T) -> &ObjectMeta) -> Vec<(Key, T)> {
        let spaces = self.numbers();
        let known = all.filter_map(|object| {
            let metadata = metadata(&object);
            let space = spaces.get(metadata.namespace.as_deref()?)?;
            Some((Key::new(*space, metadata.name.clone()?), object))
        });
        known.collect()
    }

    /// All Endpoints and slices, in the words of both sides.
    ///
    /// # Errors
    /// No answer.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        // Owners after what they own: one that is missing then is gone.
        let slices = self.all_of::<EndpointSlice>("EndpointSlices").await?;
        let endpoints = self.all_of::<Endpoints>("Endpoints").await?;
        let services = self.metadata_of::<Service>("Services").await?;
        let spaces = self.numbers();
        let uids = endpoints.iter().filter_map(|(_, object)| object.metadata.uid.clone());
        let mut owners: HashSet<String> = uids.collect();
        let mut created = HashMap::new();
        for (key, metadata) in services {
            owners.extend(metadata.uid);
            created.extend(metadata.creation_timestamp.map(|time| (key, time)));
        }
        let pods = self.pods.lock();
        let words = Words {
            spaces: &spaces,
            pods: &pods.by_uid,
            created: &created,
            owners: &owners,
        };
        let mut snapshot = Snapshot {
            trespasses: self.trespasses(&slices),
            ..Snapshot::default()
        };
        for (key, object) in endpoints {
            let seen = words.seen(&key, object);
            snapshot.endpoints.insert(key, seen);
        }
        for (key, slice) in slices {
            // One that is only held back is gone for all purposes.
            if slice.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let service = slice
                .metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(SERVICE_NAME))
                .cloned();
            let serves = service
                .as_ref()
                .is_some_and(|service| created.contains_key(&Key::new(key.space, service)));
            let owned_by = slice.metadata.owner_references.as_deref().unwrap_or_default();
            let left = !owned_by.is_empty() && owned_by.iter().all(|owner| !owners.contains(&owner.uid));
            // Controllers have to clear up themselves after mirrored Endpoints, and where there is a Service.
            if left && !serves && Manager::of(&slice) != Some(Manager::Mirroring) {
                snapshot.garbage.push(key.clone());
            }
            if let (Some(manager), Some(service)) = (Manager::of(&slice), service) {
                let key = Key::new(key.space, service);
                let owned = Owned { key, manager };
                let sliced = snapshot.slices.entry(owned.clone()).or_default();
                words.add_slice(&owned.key, slice, sliced);
            }
        }
        Ok(snapshot)
    }

    /// What has happened to slices that none of our controllers writes and that is not the test's doing.
    fn trespasses(&self, slices: &[(Key, EndpointSlice)]) -> Vec<(Key, String)> {
        let ours = |slice: &EndpointSlice| Manager::of(slice).is_some();
        let others = slices.iter().filter(|(_, slice)| !ours(slice));
        let mut stored: BTreeMap<&Key, &str> = others
            .map(|(key, slice)| (key, slice.metadata.resource_version.as_deref().unwrap_or_default()))
            .collect();
        let foreign = self.foreign.lock();
        let mut found = Vec::new();
        for (key, version) in foreign.iter() {
            match stored.remove(key) {
                Some(now) if now == version => {}
                Some(_) => found.push((key.clone(), "a slice of somebody else was written".to_owned())),
                None => found.push((key.clone(), "a slice of somebody else was deleted".to_owned())),
            }
        }
        found.extend(
            stored
                .into_keys()
                .map(|key| (key.clone(), "a slice that is nobody's".to_owned())),
        );
        found
    }
}
