//! From an operation's words to the objects of the API.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::ops::{
    Container, Families, HandMade, HandMadeAddress, HandMadePort, Node, Pod, Service, ServiceKind, Status, Target,
};
use super::snapshot::{SERVICE_NAME, SLICE_MANAGED_BY};

/// The stream's own clock begins here: years before any server's.
const EPOCH: i64 = 1_577_836_800;
/// Label of Nodes whose CPUs do not count for hints.
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// A Service to be created or put in the place of another. Addresses and node ports are the server's to choose: it
/// keeps those it has, and Endpoints do not depend on them.
pub fn service(name: &str, service: &Service) -> Value {
    let ports: Vec<Value> = service
        .ports
        .iter()
        .map(|port| {
            let target = match &port.target {
                Target::Number(number) => json!(number),
                Target::Name(name) => json!(name),
            };
            let mut value = json!({"port": port.port, "targetPort": target, "protocol": port.protocol});
            if !port.name.is_empty() {
                value["name"] = json!(port.name);
            }
            if let Some(app_protocol) = &port.app_protocol {
                value["appProtocol"] = json!(app_protocol);
            }
            value
        })
        .collect();
    let mut spec = json!({
        "ports": ports,
        "selector": service.selector,
        "publishNotReadyAddresses": service.publish_not_ready,
        "trafficDistribution": service.distribution,
    });
    if service.kind == ServiceKind::ExternalName {
        spec["type"] = json!("ExternalName");
        spec["externalName"] = json!("elsewhere.example");
    } else {
        spec["type"] = json!(if service.kind == ServiceKind::NodePort {
            "NodePort"
        } else {
            "ClusterIP"
        });
        let (families, policy): (&[&str], _) = match service.families {
            Families::V4 => (&["IPv4"], "SingleStack"),
            Families::V6 => (&["IPv6"], "SingleStack"),
            Families::V4V6 => (&["IPv4", "IPv6"], "RequireDualStack"),
            Families::V6V4 => (&["IPv6", "IPv4"], "RequireDualStack"),
        };
        spec["ipFamilies"] = json!(families);
        spec["ipFamilyPolicy"] = json!(policy);
        if service.kind == ServiceKind::Headless {
            spec["clusterIP"] = json!("None");
        }
    }
    json!({"metadata": {"name": name, "labels": service.labels, "annotations": service.annotations}, "spec": spec})
}

/// A Pod to be created, with no status: that goes through its own subresource.
pub fn pod(name: &str, pod: &Pod) -> Value {
    let container = |name: &str, of: Container| {
        let ports = pod.ports.iter().filter(|port| port.container == of);
        let ports: Vec<Value> = ports
            .map(|port| json!({"name": port.name, "containerPort": port.number, "protocol": port.protocol}))
            .collect();
        json!({"name": name, "image": "registry.invalid/none", "ports": ports})
    };
    let mut sidecar = container("sidecar", Container::Sidecar);
    sidecar["restartPolicy"] = json!("Always");
    json!({
        "metadata": {"name": name, "labels": pod.labels},
        "spec": {
            "nodeName": pod.node,
            "hostname": pod.hostname,
            "subdomain": pod.subdomain,
            "containers": [container("main", Container::Main)],
            "initContainers": [container("setup", Container::Init), sidecar],
        },
    })
}

/// A time of the stream's clock, in seconds since it began.
pub fn time(since: u64) -> String {
    let since = i64::try_from(since).unwrap_or_default();
    Timestamp::from_second(EPOCH + since).unwrap_or_default().to_string()
}

/// A merge patch for a Pod's status: lists are replaced as a whole.
pub fn status(status: &Status) -> Value {
    let ips: Vec<Value> = status.ips.iter().map(|ip| json!({"ip": ip})).collect();
    let conditions = status.ready.map(|ready| {
        let since = time(status.since);
        json!([{"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": since}])
    });
    json!({"status": {
        "phase": status.phase,
        "podIP": status.ips.first(),
        "podIPs": ips,
        "conditions": conditions,
    }})
}

/// Endpoints as a person makes them.
pub fn hand_made(name: &str, content: &HandMade) -> Value {
    let address = |address: &HandMadeAddress| {
        let target = address.target.as_ref().map(|name| json!({"kind": "Pod", "name": name}));
        json!({"ip": address.ip, "hostname": address.hostname, "nodeName": address.node, "targetRef": target})
    };
    let addresses = |all: &[HandMadeAddress]| all.iter().map(address).collect::<Vec<Value>>();
    let port = |port: &HandMadePort| {
        json!({
            "name": port.name, "port": port.number, "protocol": port.protocol, "appProtocol": port.app_protocol,
        })
    };
    let subsets = content.subsets.iter().map(|subset| {
        let ports: Vec<Value> = subset.ports.iter().map(port).collect();
        json!({
            "addresses": addresses(&subset.ready),
            "notReadyAddresses": addresses(&subset.not_ready),
            "ports": ports,
        })
    });
    let subsets: Vec<Value> = subsets.collect();
    json!({
        "metadata": {"name": name, "labels": content.labels, "annotations": content.annotations},
        "subsets": subsets,
    })
}

/// A slice that is none of our controllers' business: somebody else's, or with odd numbers nobody's in particular.
pub fn foreign_slice(name: &str, service: &str, number: u8, address: u8) -> Value {
    let mut labels = json!({SERVICE_NAME: service});
    if number.is_multiple_of(2) {
        labels[SLICE_MANAGED_BY] = json!("mesh.example");
    }
    json!({
        "metadata": {"name": name, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [format!("192.0.2.{address}")]}],
        "ports": [{"name": "mesh", "port": 15_000, "protocol": "TCP"}],
    })
}

/// A Node to be created, or a merge patch for one.
pub fn node(name: &str, node: &Node) -> Value {
    let control_plane = node.control_plane.then_some("");
    json!({"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": node.zone, CONTROL_PLANE: control_plane}}})
}

/// A merge patch for a Node's status.
pub fn node_status(node: &Node) -> Value {
    let ready = if node.ready { "True" } else { "False" };
    json!({"status": {
        "allocatable": {"cpu": node.cpus.to_string()},
        "conditions": [{"type": "Ready", "status": ready}],
    }})
}
