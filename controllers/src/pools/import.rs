//! `svcplane pools import`: LoadBalancerPools made from another product's pools. All of them or none: what cannot be said of one is an error.

mod cilium;
mod metallb;
mod selectors;

use kube::Api;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde::de::DeserializeOwned;
use serde_json::Value;
use svcplane_webhook::pools::{LoadBalancerPool, LoadBalancerPoolSpec, read_load_balancer_pool};

use super::manifest;
use crate::args::{Giver, ImportArgs};
use crate::books::pages;
use crate::start;

/// What is made of a product's pools.
#[derive(Debug, Default)]
struct Made {
    pools: Vec<(String, LoadBalancerPoolSpec)>,
    /// For people, beside them.
    notes: Vec<String>,
    /// What cannot be said in a LoadBalancerPool, and of which object.
    errors: Vec<String>,
}

/// Prints them. The error is one line.
pub async fn import(args: &ImportArgs) -> Result<String, String> {
    let kind = match args.from {
        Giver::Metallb => &metallb::KIND,
        Giver::Cilium => &cilium::KIND,
    };
    let objects = if args.files.is_empty() {
        let client = start::connect(&args.cluster, "svcplane-pools").await?;
        let stored = stored(&client, kind).await?;
        stored.ok_or_else(|| format!("the cluster does not know {}.{}", kind.plural, kind.group))?
    } else {
        let all = manifest::read(&args.files)?;
        all.into_iter().filter(|object| kind.is_of(object)).collect()
    };
    if objects.is_empty() {
        return Err(format!("there are no {}", kind.plural));
    }
    let made = match args.from {
        Giver::Metallb => metallb::convert(read(&objects)?),
        Giver::Cilium => cilium::convert(read(&objects)?),
    };
    made.written()
}

/// A product's pools.
struct Kind {
    group: &'static str,
    /// The newest first.
    versions: &'static [&'static str],
    kind: &'static str,
    plural: &'static str,
    /// For people.
    told: &'static str,
}

impl Kind {
    fn is_of(&self, object: &Value) -> bool {
        let group = object["apiVersion"].as_str().and_then(|text| text.split_once('/'));
        object["kind"] == self.kind && group.is_some_and(|(group, _)| group == self.group)
    }
}

/// Whose pools the cluster has, as `IPAddressPools (MetalLB)`, and how many; none of a product that it does not know.
pub async fn present(client: &kube::Client) -> Result<Vec<(&'static str, usize)>, String> {
    let mut found = Vec::new();
    for kind in [&metallb::KIND, &cilium::KIND] {
        if let Some(pools) = stored(client, kind).await? {
            found.push((kind.told, pools.len()));
        }
    }
    Ok(found)
}

/// `None`: the cluster does not know the kind.
async fn stored(client: &kube::Client, kind: &Kind) -> Result<Option<Vec<Value>>, String> {
    for version in kind.versions {
        let named = GroupVersionKind::gvk(kind.group, version, kind.kind);
        let api: Api<DynamicObject> =
            Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&named, kind.plural));
        let plain = |object: DynamicObject| serde_json::to_value(object).map_err(|error| error.to_string());
        if let Some(objects) = pages(&api, kind.plural, plain).await? {
            return Ok(Some(objects));
        }
    }
    Ok(None)
}

/// An object of another product: its name, and what of its spec is read.
#[derive(Clone, Debug)]
struct Foreign<S> {
    name: String,
    spec: S,
}

fn read<S: DeserializeOwned>(objects: &[Value]) -> Result<Vec<Foreign<S>>, String> {
    let read = |object: &Value| {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        let spec = S::deserialize(&object["spec"]);
        let spec =
            spec.map_err(|error| format!("{} {name}: spec: {error}", object["kind"].as_str().unwrap_or_default()))?;
        Ok(Foreign { name, spec })
    };
    objects.iter().map(read).collect()
}

impl Made {
    /// The text, once the pools are found to be ones that svcplane can use.
    fn written(mut self) -> Result<String, String> {
        let mut objects = Vec::new();
        for (name, spec) in self.pools {
            let pool = LoadBalancerPool::new(&name, spec);
            if let Err(errors) = read_load_balancer_pool(&pool) {
                self.errors
                    .extend(errors.iter().map(|error| format!("{name}: {error}")));
            }
            if objects
                .iter()
                .any(|other: &Value| other.pointer("/metadata/name").is_some_and(|it| *it == *name))
            {
                self.errors.push(format!(
                    "{name}: two pools have this name: give them as files, one under another name"
                ));
            }
            objects.push(serde_json::to_value(&pool).map_err(|error| error.to_string())?);
        }
        if self.errors.is_empty() {
            manifest::write(&self.notes, &objects)
        } else {
            Err(self.errors.join("; "))
        }
    }
}
