//! Whose requests had a value in them: `metadata.managedFields`.

use k8s_openapi::api::core::v1::ServicePort;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

/// The manager of what was there before the first server-side apply, if nothing is known of it.
const BEFORE: &str = "before-first-apply";

/// Who has written what of a Service.
pub struct Writers<'a> {
    /// Managers and their fields.
    managers: Vec<(&'a str, &'a Value)>,
    known: bool,
}

impl<'a> Writers<'a> {
    /// Of an object.
    pub fn of(metadata: &'a ObjectMeta) -> Self {
        let entries = metadata.managed_fields.iter().flatten();
        let of_object = entries.filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty());
        let managers: Vec<_> = of_object
            .filter_map(|entry| Some((entry.manager.as_deref()?, &entry.fields_v1.as_ref()?.0)))
            .collect();
        let known = !managers.is_empty() && managers.iter().all(|(manager, _)| *manager != BEFORE);
        Self { managers, known }
    }

    /// Of `spec.clusterIPs[index]`. The apiserver copies the first one from and to `spec.clusterIP`.
    pub fn of_cluster_ip(&self, index: usize) -> String {
        let names = |spec: &Value| {
            let in_list = spec.get("f:clusterIPs").is_some();
            in_list || index == 0 && spec.get("f:clusterIP").is_some()
        };
        self.say(names)
    }

    /// Of `nodePort` of this port.
    pub fn of_node_port(&self, port: &ServicePort) -> String {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let names = |spec: &Value| {
            let Some(ports) = spec.get("f:ports").and_then(Value::as_object) else {
                return false;
            };
            let mut own = ports.iter().filter(|(key, _)| is_key_of(key, port.port, protocol));
            own.any(|(_, fields)| fields.get("f:nodePort").is_some())
        };
        self.say(names)
    }

    fn say(&self, names: impl Fn(&Value) -> bool) -> String {
        let owners = self
            .managers
            .iter()
            .filter(|(_, fields)| fields.get("f:spec").is_some_and(&names));
        let mut owners: Vec<&str> = owners.map(|(manager, _)| *manager).filter(|it| *it != BEFORE).collect();
        owners.dedup();
        if !owners.is_empty() {
            return format!("named in a request of {}", owners.join(", "));
        }
        if self.known {
            "named in no request: chosen at admission, as by svcplane, or by the apiserver".to_owned()
        } else {
            "who wrote it is not known: managedFields do not tell".to_owned()
        }
    }
}

/// `k:{"port":80,"protocol":"TCP"}`.
fn is_key_of(key: &str, port: i32, protocol: &str) -> bool {
    let fields = key.strip_prefix("k:").map(serde_json::from_str::<PortKey<'_>>);
    let Some(Ok(fields)) = fields else { return false };
    fields.port == port && fields.protocol == protocol
}

/// What tells the entries of `spec.ports` apart.
#[derive(Deserialize)]
struct PortKey<'a> {
    port: i32,
    protocol: &'a str,
}
