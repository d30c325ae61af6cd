//! A Node as it comes over the watch.

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::{meta, nullable};
use crate::model::{Interner, Node};

/// Nodes with one of these labels, whatever its value, do not count for topology mode `Auto`.
const NOT_COUNTED: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// The fields of a Node that slices depend on.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = api::Node)]
pub struct WireNode {
    #[serde(deserialize_with = "meta::slim")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "nullable")]
    allocatable: Allocatable,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Allocatable {
    #[serde(deserialize_with = "nullable")]
    cpu: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type", deserialize_with = "nullable")]
    kind: String,
    #[serde(deserialize_with = "nullable")]
    status: String,
}

impl WireNode {
    /// Turns it into the model.
    pub fn into_model(self, interner: &mut Interner) -> Node {
        let Self { metadata, status } = self;
        let meta::Identity { key, revision, .. } = meta::identity(&metadata, interner);
        let labels = metadata.labels.unwrap_or_default();
        let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
        let counts = ready.is_some_and(|condition| condition.status == "True")
            && !NOT_COUNTED.iter().any(|label| labels.contains_key(*label));
        Node {
            name: key.name,
            revision,
            zone: labels
                .get(ZONE_LABEL)
                .filter(|zone| !zone.is_empty())
                .map(|zone| interner.get(zone)),
            cpu: counts.then(|| thousandths(&status.allocatable.cpu)),
        }
    }
}

/// A quantity of CPUs in thousandths, rounded up as upstream does; 0 if it is none.
fn thousandths(quantity: &str) -> u64 {
    let digits = quantity
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(digits);
    let Ok(number) = number.parse::<f64>() else { return 0 };
    let factor = match suffix {
        "" => 1e3,
        "m" => 1.0,
        "u" => 1e-3,
        "n" => 1e-6,
        "k" => 1e6,
        "M" => 1e9,
        "G" => 1e12,
        "T" => 1e15,
        "P" => 1e18,
        "E" => 1e21,
        "Ki" => 1024e3,
        "Mi" => 1024_f64.powi(2) * 1e3,
        "Gi" => 1024_f64.powi(3) * 1e3,
        "Ti" => 1024_f64.powi(4) * 1e3,
        "Pi" => 1024_f64.powi(5) * 1e3,
        "Ei" => 1024_f64.powi(6) * 1e3,
        exponent => match exponent.strip_prefix(['e', 'E']).map(str::parse::<i32>) {
            Some(Ok(power)) => 1e3 * 10_f64.powi(power),
            _ => return 0,
        },
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let thousandths = (number * factor).ceil() as u64;
    thousandths
}
