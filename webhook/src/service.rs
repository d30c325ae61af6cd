//! A Service as far as it is judged, read from the JSON that the apiserver sends: what is not here is not looked at.
//!
//! The reader is lenient where the apiserver is (a null list is an empty one, unknown fields are skipped), so that what it
//! cannot read is no Service at all.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use svcplane_allocators::value::NodePort;

/// The value of `clusterIP` that asks for no address.
pub const HEADLESS: &str = "None";

/// A v1 Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Service {
    /// Its metadata.
    #[serde(default, deserialize_with = "object")]
    pub metadata: Metadata,
    /// Its specification.
    #[serde(default, deserialize_with = "object")]
    pub spec: Spec,
}

/// `metadata`. An empty text is a missing one, as in the API.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct Metadata {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub generate_name: String,
    #[serde(deserialize_with = "nullable")]
    pub namespace: String,
    #[serde(deserialize_with = "nullable")]
    pub generation: i64,
    pub deletion_timestamp: Option<String>,
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "objects")]
    pub owner_references: Vec<OwnerReference>,
    #[serde(deserialize_with = "nullable")]
    pub finalizers: Vec<String>,
}

/// `metadata.ownerReferences[]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct OwnerReference {
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
    pub controller: Option<bool>,
}

/// `spec`. Texts with a closed set of values stay texts: what is not in the set is for the judge to say.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct Spec {
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub service_type: String,
    #[serde(rename = "clusterIP", deserialize_with = "nullable")]
    pub cluster_ip: String,
    #[serde(rename = "clusterIPs", deserialize_with = "nullable")]
    pub cluster_ips: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub ip_families: Vec<String>,
    pub ip_family_policy: Option<String>,
    #[serde(deserialize_with = "objects")]
    pub ports: Vec<Port>,
    #[serde(deserialize_with = "nullable")]
    pub selector: BTreeMap<String, String>,
    #[serde(rename = "externalIPs", deserialize_with = "nullable")]
    pub external_ips: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub external_name: String,
    #[serde(deserialize_with = "nullable")]
    pub session_affinity: String,
    pub session_affinity_config: Option<SessionAffinityConfig>,
    #[serde(deserialize_with = "nullable")]
    pub load_balancer_source_ranges: Vec<String>,
    pub load_balancer_class: Option<String>,
    pub allocate_load_balancer_node_ports: Option<bool>,
    #[serde(deserialize_with = "nullable")]
    pub external_traffic_policy: String,
    pub internal_traffic_policy: Option<String>,
    pub traffic_distribution: Option<String>,
    /// 64 bits: beyond 32 are our stand-ins for what the apiserver will choose.
    #[serde(deserialize_with = "nullable")]
    pub health_check_node_port: i64,
}

/// `spec.ports[]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct Port {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub protocol: String,
    #[serde(deserialize_with = "nullable")]
    pub port: i64,
    #[serde(deserialize_with = "nullable")]
    pub target_port: TargetPort,
    /// 64 bits, as [`Spec::health_check_node_port`].
    #[serde(deserialize_with = "nullable")]
    pub node_port: i64,
    pub app_protocol: Option<String>,
}

/// `spec.sessionAffinityConfig`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct SessionAffinityConfig {
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIpConfig>,
}

/// `spec.sessionAffinityConfig.clientIP`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct ClientIpConfig {
    pub timeout_seconds: Option<i64>,
}

/// A number, or the name of a container port.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TargetPort {
    /// A port number.
    Number(i64),
    /// The name of a port of the Pods.
    Name(String),
}

impl Default for TargetPort {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl<'de> Deserialize<'de> for TargetPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = TargetPort;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a text")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<TargetPort, E> {
                Ok(TargetPort::Number(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<TargetPort, E> {
                i64::try_from(number).map(TargetPort::Number).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<TargetPort, E> {
                Ok(TargetPort::Name(name.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// The type that has neither address nor allocated ports.
pub const EXTERNAL_NAME: &str = "ExternalName";

impl Service {
    /// It goes: what heals must not be blocked.
    pub fn is_being_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Reads one from JSON.
    ///
    /// # Errors
    /// It is no object, or a field has a wrong type.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text).map(|Object(service)| service)
    }
}

/// A nodePort or health check port as it stands in a Service; `None` for 0 and for what is no port.
pub fn port_number(number: i64) -> Option<NodePort> {
    NodePort::new(u16::try_from(number).ok()?)
}

impl Spec {
    /// `clusterIPs`, or `clusterIP` alone where there are none: in what users send, and in Services from before there were.
    pub fn listed_cluster_ips(&self) -> &[String] {
        if self.cluster_ips.is_empty() {
            std::slice::from_ref(&self.cluster_ip)
        } else {
            &self.cluster_ips
        }
    }

    /// Is it of this type?
    pub fn is(&self, service_type: &str) -> bool {
        self.service_type == service_type
    }

    /// Validation's notion of headless: exactly one entry, `None`.
    pub fn is_headless(&self) -> bool {
        matches!(self.cluster_ips.as_slice(), [only] if only == HEADLESS)
    }

    /// Can it be reached from outside the cluster?
    pub fn is_externally_accessible(&self) -> bool {
        self.is("NodePort") || self.is("LoadBalancer") || (self.is("ClusterIP") && !self.external_ips.is_empty())
    }

    /// Does it have a health check port?
    pub fn needs_health_check(&self) -> bool {
        self.is("LoadBalancer") && self.external_traffic_policy == "Local"
    }
}

/// An object or null. Without this a list would do, read by position.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    nullable(deserializer).map(|Object(object)| object)
}

/// A list of objects, or null.
fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let objects: Vec<Object<T>> = nullable(deserializer)?;
    Ok(objects.into_iter().map(|Object(object)| object).collect())
}

#[derive(Default)]
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, fields: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_absent_and_the_unknown_is_skipped() {
        let text = r#"{"kind":"Service","metadata":{"name":"web","labels":null,"managedFields":[{"a":[1]}]},
            "spec":{"ports":null,"clusterIPs":null,"selector":null,"later":{"x":1}},"status":{"loadBalancer":{}}}"#;
        let service = Service::parse(text).unwrap();
        assert_eq!(service.metadata.name, "web");
        assert_eq!(service.spec, Spec::default());
    }

    #[test]
    fn a_list_is_no_object() {
        for text in [
            "[]",
            r#"{"spec":[]}"#,
            r#"{"spec":{"ports":[[]]}}"#,
            r#"{"metadata":{"ownerReferences":[1]}}"#,
        ] {
            assert!(Service::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_target_port_is_a_number_or_a_name() {
        let read = |text: &str| serde_json::from_str::<Port>(text).map(|port| port.target_port);
        assert_eq!(read(r#"{"targetPort":80}"#).unwrap(), TargetPort::Number(80));
        assert_eq!(
            read(r#"{"targetPort":"http"}"#).unwrap(),
            TargetPort::Name("http".into())
        );
        assert_eq!(read(r#"{"targetPort":null}"#).unwrap(), TargetPort::Number(0));
        assert!(read(r#"{"targetPort":[]}"#).is_err());
    }
}
