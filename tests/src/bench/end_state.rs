//! Both sides must leave the same Endpoints and slices behind, or no figure counts.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{EndpointSubset, Endpoints};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::controllers::Controllers;
use crate::slices::{self, SERVICE_NAME};

/// What all Endpoints say, and all slices of each Service together, whatever the order and grouping they say it in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndState(BTreeMap<String, Vec<String>>);

impl EndState {
    /// Lists what these controllers keep.
    ///
    /// # Errors
    /// The list fails.
    pub async fn read(client: &Client, controllers: Controllers) -> Result<Self> {
        let mut state = Self::default();
        for object in all::<Endpoints>(client).await? {
            let key = format!(
                "Endpoints {}/{}",
                object.namespace().unwrap_or_default(),
                object.name_any()
            );
            state.add(key, object.subsets.iter().flatten().flat_map(said));
        }
        if controllers.slices() {
            for slice in all::<EndpointSlice>(client).await? {
                state.slice(&slice);
            }
        }
        Ok(state)
    }

    fn slice(&mut self, slice: &EndpointSlice) {
        let service = slice.labels().get(SERVICE_NAME).map_or("", String::as_str);
        let key = format!("slices {}/{service}", slice.namespace().unwrap_or_default());
        let listed = slices::endpoints(slice).iter().map(|endpoint| {
            // All of them are the lines of this slice with one endpoint each.
            let alone = EndpointSlice {
                endpoints: Some(vec![endpoint.clone()]),
                ..slice.clone()
            };
            let target = endpoint.target_ref.as_ref();
            let pod = target.and_then(|target| target.name.as_deref()).unwrap_or_default();
            let node = endpoint.node_name.as_deref().unwrap_or_default();
            let zone = endpoint.zone.as_deref().unwrap_or_default();
            format!("{pod} {node} {zone} {}", slices::lines([&alone]).join(""))
        });
        self.add(key, listed);
    }

    /// A multiset: what is said twice differs from what is said once.
    fn add(&mut self, key: String, said: impl Iterator<Item = String>) {
        let all = self.0.entry(key).or_default();
        all.extend(said);
        all.sort_unstable();
    }

    /// Fails with the first Service of which something else is said.
    ///
    /// # Errors
    /// They differ.
    pub fn must_equal(&self, other: &Self) -> Result<()> {
        for key in self.0.keys().chain(other.0.keys()) {
            let (one, other) = (self.0.get(key), other.0.get(key));
            ensure!(
                one == other,
                "void: the sides differ in {key}: {:?}, {:?}",
                only(one, other),
                only(other, one)
            );
        }
        Ok(())
    }
}

/// What is in one and not in the other; `None`: there is no such key.
fn only<'a>(one: Option<&'a Vec<String>>, other: Option<&Vec<String>>) -> Option<Vec<&'a String>> {
    let (one, mut other) = (one?, other.cloned().unwrap_or_default());
    let differs = |line: &&String| match other.iter().position(|it| it == *line) {
        Some(at) => {
            other.swap_remove(at);
            false
        }
        None => true,
    };
    Some(one.iter().filter(differs).collect())
}

async fn all<K>(client: &Client) -> Result<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let (mut all, mut params) = (Vec::new(), ListParams::default().limit(500));
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

fn said(subset: &EndpointSubset) -> Vec<String> {
    let ports = subset.ports.iter().flatten();
    let ports: Vec<String> = ports
        .map(|port| {
            let name = port.name.as_deref().unwrap_or_default();
            format!("{name}:{}/{}", port.port, port.protocol.as_deref().unwrap_or_default())
        })
        .collect();
    let mut said = Vec::new();
    for (addresses, ready) in [(&subset.addresses, true), (&subset.not_ready_addresses, false)] {
        for address in addresses.iter().flatten() {
            let target = address.target_ref.as_ref();
            let pod = target.and_then(|target| target.name.as_deref()).unwrap_or_default();
            let node = address.node_name.as_deref().unwrap_or_default();
            let who = format!("{} {pod} {node} ready={ready}", address.ip);
            said.extend(ports.iter().map(|port| format!("{who} {port}")));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(slices: &[(&str, &[&str])]) -> EndState {
        let mut state = EndState::default();
        for (port, addresses) in slices {
            let endpoint = |address: &&str| json!({"addresses": [address], "conditions": {"ready": true}, "targetRef": {"name": address}});
            let endpoints: Vec<_> = addresses.iter().map(endpoint).collect();
            let slice = json!({"metadata": {"namespace": "n", "labels": {SERVICE_NAME: "web"}}, "addressType": "IPv4",
                "endpoints": endpoints, "ports": [{"name": port, "port": 80, "protocol": "TCP"}]});
            state.slice(&serde_json::from_value(slice).unwrap());
        }
        state
    }

    #[test]
    fn slices_are_equal_however_their_endpoints_are_packed() {
        let one = state(&[("http", &["10.0.0.1", "10.0.0.2"]), ("grpc", &["10.0.0.3"])]);
        let two = state(&[
            ("http", &["10.0.0.2"]),
            ("grpc", &["10.0.0.3"]),
            ("http", &["10.0.0.1"]),
        ]);
        one.must_equal(&two).unwrap();
        for other in [
            state(&[("http", &["10.0.0.1", "10.0.0.2"]), ("http", &["10.0.0.3"])]),
            state(&[("http", &["10.0.0.1", "10.0.0.2", "10.0.0.2"]), ("grpc", &["10.0.0.3"])]),
            state(&[]),
        ] {
            one.must_equal(&other).unwrap_err();
        }
    }
}
