//! The objects of one Service, each read as the reconcilers read it and once more in full.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::visible::visible;
use crate::index::{Index, Kind, Snapshot};
use crate::model::{Interner, Labels, ObjectKey, PodName, Service};
use crate::wire::{WireEndpoints, WireNode, WirePod, WireService, WireSlice};

/// The right to read Pods.
pub const LIST_PODS: &str = "list pods";
/// The right to read Nodes.
pub const LIST_NODES: &str = "list nodes";
/// The right to read the Endpoints.
pub const GET_ENDPOINTS: &str = "get endpoints";
/// The right to read EndpointSlices.
pub const LIST_SLICES: &str = "list endpointslices";

/// Why something is not known.
pub fn no_permission(right: &str) -> String {
    format!("no permission to {right}")
}

/// An object as the apiserver sent it.
pub type Text = Box<RawValue>;

/// What was read of the cluster. `None` = it may not be read; `unread` says so.
#[derive(Debug)]
pub struct Texts {
    /// The Service.
    pub service: Text,
    /// The Pods of its namespace.
    pub pods: Option<Vec<Text>>,
    /// The Pods of every namespace that its selector matches.
    pub everywhere: Option<Vec<Text>>,
    /// The Endpoints of its name, if there are any.
    pub endpoints: Option<Vec<Text>>,
    /// The EndpointSlices that name it.
    pub slices: Option<Vec<Text>>,
    /// The Nodes.
    pub nodes: Option<Vec<Text>>,
    /// Its namespace, if it may be read.
    pub namespace: Option<Text>,
    /// The Services of its namespace.
    pub services: Option<Vec<Text>>,
    /// What could not be read, and the right that is missing.
    pub unread: Vec<String>,
}

/// The same, understood.
#[derive(Debug)]
pub struct Objects {
    /// Namespace and name of the Service.
    pub key: ObjectKey,
    /// The Service in full.
    pub full: core::Service,
    /// As the reconcilers see it.
    pub service: Arc<Service>,
    /// All that the reconcilers would go by. What may not be read is missing in it.
    pub snapshot: Snapshot,
    /// The Pods of its namespace.
    pub pods: Option<BTreeMap<PodName, SeenPod>>,
    /// The Pods of other namespaces that its selector matches.
    pub elsewhere: Option<Vec<ObjectKey>>,
    /// The EndpointSlices that name it, whoever writes them.
    pub slices: Option<Vec<discovery::EndpointSlice>>,
    /// The Services of its namespace.
    pub services: Option<Vec<core::Service>>,
    /// Its namespace is being deleted: nothing can be made there.
    pub namespace_ends: bool,
    /// Whether its Endpoints may be read.
    pub endpoints_read: bool,
    /// Whether Nodes may be read.
    pub nodes_read: bool,
    /// What could not be read, and the right that is missing.
    pub unread: Vec<String>,
}

/// What people want to know of a Pod.
#[derive(Debug)]
pub struct SeenPod {
    /// Its labels.
    pub labels: Labels,
    /// All of it.
    pub full: core::Pod,
}

impl Objects {
    /// As far as the controllers look at it, which is all known; without what people want to know besides.
    pub fn all_read(key: ObjectKey, service: Arc<Service>, snapshot: Snapshot, namespace_ends: bool) -> Self {
        Self {
            key,
            full: core::Service::default(),
            service,
            snapshot,
            pods: Some(BTreeMap::new()),
            elsewhere: None,
            slices: Some(Vec::new()),
            services: None,
            namespace_ends,
            endpoints_read: true,
            nodes_read: true,
            unread: Vec::new(),
        }
    }

    /// Reads all of it. The error is one line.
    pub fn read(texts: Texts) -> Result<Self, String> {
        let (mut index, mut interner) = (Index::default(), Interner::default());
        let service = parse::<WireService>(&texts.service)?.into_model(&mut interner);
        let key = service.key.clone();
        index.apply_service(service);

        index.begin(Kind::Node);
        for text in texts.nodes.iter().flatten() {
            index.apply_node(parse::<WireNode>(text)?.into_model(&mut interner));
        }
        index.sweep(Kind::Node);
        let mut pods = BTreeMap::new();
        for text in texts.pods.iter().flatten() {
            let (pod, labels) = parse::<WirePod>(text)?.into_model(&mut interner);
            let seen = SeenPod {
                labels: labels.clone(),
                full: parse_full(text)?,
            };
            pods.insert(Arc::clone(&pod.name), seen);
            index.apply_pod((pod, labels));
        }
        for text in texts.endpoints.iter().flatten() {
            let parsed = parse::<WireEndpoints>(text)?.parse();
            index.apply_endpoints(parsed.map_err(|error| garbled(&error))?.into_model(&mut interner));
        }
        for text in texts.slices.iter().flatten() {
            if let Some(slice) = parse::<WireSlice>(text)?.into_model(&mut interner) {
                index.apply_slice(slice);
            }
        }
        let mut elsewhere = Vec::new();
        for text in texts.everywhere.iter().flatten() {
            let (pod, _) = parse::<WirePod>(text)?.into_model(&mut interner);
            if pod.namespace != key.namespace {
                elsewhere.push(ObjectKey::new(pod.namespace, pod.name));
            }
        }
        elsewhere.sort_unstable();
        let namespace = texts
            .namespace
            .as_deref()
            .map(parse_full::<core::Namespace>)
            .transpose()?;
        let namespace_ends = namespace.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
        let snapshot = index.snapshot(&key);
        let service = snapshot.service.clone().ok_or("the Service has no name")?;
        Ok(Self {
            full: parse_full(&texts.service)?,
            service,
            snapshot,
            pods: texts.pods.is_some().then_some(pods),
            elsewhere: texts.everywhere.is_some().then_some(elsewhere),
            slices: texts.slices.as_deref().map(parse_all).transpose()?,
            services: texts.services.as_deref().map(parse_all).transpose()?,
            namespace_ends,
            endpoints_read: texts.endpoints.is_some(),
            nodes_read: texts.nodes.is_some(),
            unread: texts.unread,
            key,
        })
    }
}

/// Reads the selector of a Service: `None` = it has none.
pub fn selector(service: &Text) -> Result<Option<Labels>, String> {
    let service = parse::<WireService>(service)?;
    Ok(service.into_model(&mut Interner::default()).selector)
}

fn parse<T: DeserializeOwned>(text: &RawValue) -> Result<T, String> {
    serde_json::from_str(&visible(text.get())).map_err(|error| garbled(&error))
}

/// As an API type, which cannot hold every time that the apiserver takes: then without its times.
fn parse_full<T: DeserializeOwned>(text: &RawValue) -> Result<T, String> {
    parse(text).or_else(|_| {
        let mut value: Value = parse(text)?;
        drop_times(&mut value);
        serde_json::from_value(value).map_err(|error| garbled(&error))
    })
}

fn drop_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let is_time = ["Time", "Timestamp", "At", "time"]
                    .iter()
                    .any(|end| name.ends_with(end));
                !(is_time && value.is_string())
            });
            fields.values_mut().for_each(drop_times);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_times),
        _ => {}
    }
}

fn parse_all<T: DeserializeOwned>(texts: &[Text]) -> Result<Vec<T>, String> {
    texts.iter().map(|text| parse_full(text)).collect()
}

fn garbled(error: &serde_json::Error) -> String {
    format!("the apiserver's answer cannot be understood: {error}")
}
