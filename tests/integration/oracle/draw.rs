//! Random values and changes of JSON.

use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Map, Value, json};

/// Random draws with a few words for JSON.
pub(super) struct Draw<'a>(pub &'a mut StdRng);

impl Draw<'_> {
    /// True once in so many times.
    pub(super) fn once_in(&mut self, times: u32) -> bool {
        self.0.random_range(0..times) == 0
    }

    /// From 0, below this.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0.random_range(0..limit)
    }

    /// One of these.
    pub(super) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of.choose(self.0).expect("something to choose from").clone()
    }

    /// A legal value or an illegal one.
    pub(super) fn either(&mut self, bad: bool, legal: &[Value], illegal: &[Value]) -> Value {
        self.one(if bad { illegal } else { legal })
    }

    /// A free address of the service range, most likely.
    pub(super) fn ipv4(&mut self) -> String {
        format!("10.96.{}.{}", self.0.random_range(1..255), self.0.random_range(1..255))
    }

    /// The same for IPv6.
    pub(super) fn ipv6(&mut self) -> String {
        format!("fd00:10:96::{:x}", self.0.random_range(1..65_535))
    }

    /// A nodePort of the default range, likely free.
    pub(super) fn node_port(&mut self) -> i64 {
        self.0.random_range(30_000..32_768)
    }

    /// The index of a port, if there is any.
    pub(super) fn port(&mut self, service: &Value) -> Option<usize> {
        let ports = service["spec"]["ports"].as_array().map_or(0, Vec::len);
        (ports > 0).then(|| self.below(ports))
    }
}

/// Sets `spec.field`.
pub(super) fn set(service: &mut Value, field: &str, value: Value) {
    service["spec"][field] = value;
}

/// Removes fields of the spec.
pub(super) fn unset(service: &mut Value, fields: &[&str]) {
    if let Some(spec) = service["spec"].as_object_mut() {
        for field in fields {
            spec.remove(*field);
        }
    }
}

/// Sets a field of one port.
pub(super) fn set_port(service: &mut Value, i: usize, field: &str, value: Value) {
    service["spec"]["ports"][i][field] = value;
}

/// A map under `metadata`, made if it is not there.
pub(super) fn metadata_map<'a>(service: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let map = &mut service["metadata"][field];
    if !map.is_object() {
        *map = json!({});
    }
    map.as_object_mut().expect("an object")
}

/// Is the Service of this type?
pub(super) fn is(service: &Value, service_type: &str) -> bool {
    service["spec"]["type"].as_str().unwrap_or("ClusterIP") == service_type
}

/// The entries of a JSON list.
pub(super) fn entries(list: Value) -> Vec<Value> {
    match list {
        Value::Array(entries) => entries,
        other => vec![other],
    }
}

/// Values as JSON.
macro_rules! values {
    ($($entries:tt)*) => { &$crate::oracle::draw::entries(serde_json::json!([$($entries)*]))[..] };
}
pub(super) use values;
