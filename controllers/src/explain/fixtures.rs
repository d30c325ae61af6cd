//! Clusters for tests, in the API's own words.

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::Limits;
use super::objects::{Objects, Text, Texts};
use super::report::Report;

/// What is stored. `None` = it may not be read.
pub struct World {
    pub service: Value,
    pub pods: Option<Vec<Value>>,
    pub everywhere: Option<Vec<Value>>,
    pub endpoints: Option<Vec<Value>>,
    pub slices: Option<Vec<Value>>,
    pub nodes: Option<Vec<Value>>,
    pub services: Option<Vec<Value>>,
    pub namespace: Option<Value>,
}

impl World {
    /// This Service and these Pods, Node `n1`, and nothing else.
    pub fn new(service: Value, pods: impl IntoIterator<Item = Value>) -> Self {
        let node = json!({"metadata": {"name": "n1", "resourceVersion": "1"}});
        Self {
            services: Some(vec![service.clone()]),
            service,
            pods: Some(pods.into_iter().collect()),
            everywhere: Some(Vec::new()),
            endpoints: Some(Vec::new()),
            slices: Some(Vec::new()),
            nodes: Some(vec![node]),
            namespace: None,
        }
    }

    pub fn objects(&self) -> Objects {
        let all = |list: &Option<Vec<Value>>| list.as_ref().map(|list| list.iter().map(text).collect());
        let texts = Texts {
            service: text(&self.service),
            pods: all(&self.pods),
            everywhere: all(&self.everywhere),
            endpoints: all(&self.endpoints),
            slices: all(&self.slices),
            nodes: all(&self.nodes),
            namespace: self.namespace.as_ref().map(text),
            services: all(&self.services),
            unread: Vec::new(),
        };
        Objects::read(texts).unwrap()
    }

    pub fn report(&self) -> Report {
        let limits = Limits {
            max_endpoints_per_slice: 100,
            mirroring_max_endpoints_per_subset: 1000,
        };
        Report::of(&self.objects(), &limits, "cluster.local")
    }
}

fn text(value: &Value) -> Text {
    to_raw_value(value).unwrap()
}

/// `shop/web`, clusterIP 10.96.0.7, selector `app=web`, port http 80 to the container port `http`.
pub fn web() -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "s", "resourceVersion": "5"},
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ipFamilies": ["IPv4"],
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}],
        },
    })
}

/// A Pod of `shop`, ready, on Node `n1`, labelled `app=web`, with the container port `http` 8080.
pub fn pod(name: &str, ips: &[&str]) -> Value {
    let ips: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
        "status": {
            "phase": "Running", "podIPs": ips,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T10:00:00Z"}],
            "containerStatuses": [{"name": "main", "ready": true, "image": "", "imageID": "", "restartCount": 0, "state": {"running": {}}}],
        },
    })
}

/// The same, changed in the place that this JSON pointer names.
pub fn with(mut object: Value, path: &str, value: Value) -> Value {
    let (parent, field) = path.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    match field.parse::<usize>() {
        Ok(place) => parent[place] = value,
        Err(_) => parent[field.replace("~1", "/")] = value,
    }
    object
}

/// This Pod, not ready.
pub fn not_ready(pod: Value) -> Value {
    with(pod, "/status/conditions/0/status", json!("False"))
}

/// Endpoints of `shop/web` as endpoints-controller makes them of Pods named after the last part of their addresses.
pub fn endpoints_of_web(ready: &[&str], not_ready: &[&str]) -> Value {
    let address = |ip: &&str| {
        let name = format!("p{}", ip.rsplit('.').next().unwrap());
        json!({"ip": ip, "nodeName": "n1", "targetRef": {"kind": "Pod", "namespace": "shop", "name": name, "uid": format!("uid-{name}")}})
    };
    let list = |ips: &[&str]| ips.iter().map(address).collect::<Vec<_>>();
    json!({"metadata": {"namespace": "shop", "name": "web", "uid": "e", "resourceVersion": "9",
            "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
        "subsets": [{"addresses": list(ready), "notReadyAddresses": list(not_ready),
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}]})
}

/// A slice of the same, of addresses and whether they are ready.
pub fn slice_of_web(name: &str, ips: &[(&str, bool)]) -> Value {
    let endpoint = |(ip, ready): &(&str, bool)| {
        let name = format!("p{}", ip.rsplit('.').next().unwrap());
        json!({"addresses": [ip], "conditions": {"ready": ready, "serving": ready, "terminating": false}, "nodeName": "n1",
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": name, "uid": format!("uid-{name}")}})
    };
    json!({"metadata": {"namespace": "shop", "name": name, "generateName": "web-", "uid": name, "resourceVersion": "9",
            "labels": {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s", "controller": true, "blockOwnerDeletion": true}]},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": ips.iter().map(endpoint).collect::<Vec<_>>()})
}
