//! The one condition of ours, and the patch that brings a status to what it should be.

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use svcplane_allocators::balancers::{IpMode, Reason};
use svcplane_allocators::few::Few;

use super::wire::Seen;
use crate::model::Timestamp;

/// Its type.
pub const CONDITION: &str = "svcplane.io/AddressesAssigned";

/// A condition as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// `type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// A [`Reason`], as a text.
    pub reason: String,
    /// For people.
    pub message: String,
    /// When `status` last changed, as the API writes it.
    pub last_transition_time: Option<String>,
}

/// What a status should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The addresses in order, if they are ours to write.
    pub ingress: Option<Vec<(IpAddr, IpMode)>>,
    /// The condition's status.
    pub satisfied: bool,
    /// Its reason.
    pub reason: Reason,
    /// Its message.
    pub message: String,
}

/// What a patch changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The patch, a strategic merge with the version as its precondition: the list of addresses as a whole, of conditions ours alone.
    pub patch: Value,
    /// It changes the addresses.
    pub of_addresses: bool,
    /// It changes the reason or its words.
    pub of_reason: bool,
    /// What the condition says then.
    pub says: Wanted,
    /// `metadata.uid` of the Service.
    pub uid: String,
    /// The version that it is written over.
    pub version: u64,
}

/// The patch that takes our condition off a Service of this uid and version.
pub fn farewell(uid: &str, version: u64) -> Value {
    json!({
        "metadata": {"uid": uid, "resourceVersion": version.to_string()},
        "status": {"conditions": [{"type": CONDITION, "$patch": "delete"}]},
    })
}

impl Wanted {
    /// `status` of the condition.
    pub fn status(&self) -> &'static str {
        if self.satisfied { "True" } else { "False" }
    }

    /// What is to be written over what is stored; `None` if that says the same. A different order, and what others have added to an entry, is no
    /// difference.
    pub fn over(&self, seen: &Seen, now: Timestamp) -> Option<Change> {
        let ingress = self.ingress.as_ref().filter(|ingress| {
            let wanted: Few<(IpAddr, IpMode)> = ingress.iter().copied().collect();
            seen.shown.addresses != wanted || seen.shown.has_others
        });
        let (status, before) = (self.status(), seen.condition.as_ref());
        let same = before.is_some_and(|before| self.says(before));
        if ingress.is_none() && same {
            return None;
        }
        let mut changes = Map::new();
        if let Some(ingress) = ingress {
            let entry = |(address, mode): &(IpAddr, IpMode)| json!({"ip": address, "ipMode": mode.as_str()});
            let entries: Vec<Value> = ingress.iter().map(entry).collect();
            let list = if entries.is_empty() {
                Value::Null
            } else {
                entries.into()
            };
            changes.insert("loadBalancer".into(), json!({ "ingress": list }));
        }
        if !same {
            let since = before.filter(|before| before.status == status);
            let since = since.and_then(|before| before.last_transition_time.clone());
            let condition = json!({
                "type": CONDITION,
                "status": status,
                "reason": self.reason.as_str(),
                "message": self.message,
                "lastTransitionTime": since.unwrap_or_else(|| now.to_string()),
            });
            changes.insert("conditions".into(), json!([condition]));
        }
        Some(Change {
            patch: json!({
                "metadata": {"uid": seen.uid, "resourceVersion": seen.version.to_string()},
                "status": changes,
            }),
            of_addresses: ingress.is_some(),
            of_reason: !same,
            says: self.clone(),
            uid: seen.uid.clone(),
            version: seen.version,
        })
    }
}

#[cfg(test)]
mod tests {
    use svcplane_allocators::balancers::Products;

    use super::super::wire::BalancedService;
    use super::*;

    fn seen(status: &Value) -> Seen {
        let object = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
            "spec": {"type": "LoadBalancer"}, "status": status});
        let service: BalancedService = serde_json::from_value(object).unwrap();
        service.read(Products::ALL).unwrap()
    }

    fn wanted(addresses: &[&str]) -> Wanted {
        let ingress = addresses.iter().map(|text| (text.parse().unwrap(), IpMode::Vip));
        Wanted {
            ingress: Some(ingress.collect()),
            satisfied: true,
            reason: Reason::Assigned,
            message: "words".into(),
        }
    }

    fn condition(status: &str, reason: &str) -> Value {
        json!({"type": CONDITION, "status": status, "reason": reason, "message": "words", "lastTransitionTime": "2026-01-02T03:04:05Z"})
    }

    #[test]
    fn only_what_differs_is_written_under_the_version_that_was_seen() {
        let now = Timestamp(1_767_323_046);
        let bare = wanted(&["203.0.113.7"]).over(&seen(&json!(null)), now).unwrap();
        let ingress = json!([{"ip": "203.0.113.7", "ipMode": "VIP"}]);
        let mut ours = condition("True", "Assigned");
        ours["lastTransitionTime"] = json!("2026-01-02T03:04:06Z");
        assert_eq!(
            bare.patch,
            json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"loadBalancer": {"ingress": ingress}, "conditions": [ours]}})
        );
        assert!(bare.of_addresses && bare.of_reason);
        let shown = json!([{"ip": "203.0.113.8", "ipMode": "VIP"}, {"ip": "203.0.113.7", "ports": [{"port": 80}]}]);
        let stored = json!({"loadBalancer": {"ingress": shown}, "conditions": [condition("True", "Assigned")]});
        let same = wanted(&["203.0.113.7", "203.0.113.8"]).over(&seen(&stored), now);
        assert_eq!(same, None, "neither order nor ports are a difference");
        let fewer = wanted(&[]).over(&seen(&stored), now).unwrap();
        assert_eq!(fewer.patch["status"], json!({"loadBalancer": {"ingress": null}}));
    }

    #[test]
    fn a_status_that_stays_keeps_its_time() {
        let now = Timestamp(1_767_323_046);
        let stored = |status| seen(&json!({"conditions": [condition(status, "Retained")]}));
        let since = |status| {
            let change = wanted(&[]).over(&stored(status), now).unwrap();
            change.patch["status"]["conditions"][0]["lastTransitionTime"].clone()
        };
        assert_eq!(since("True"), "2026-01-02T03:04:05Z");
        assert_eq!(since("False"), "2026-01-02T03:04:06Z");
    }

    #[test]
    fn a_host_name_or_another_mode_is_a_difference() {
        let now = Timestamp(0);
        let conditions = json!([condition("True", "Assigned")]);
        for entry in [
            json!({"hostname": "a.example"}),
            json!({"ip": "203.0.113.7", "ipMode": "Proxy"}),
        ] {
            let stored = json!({"loadBalancer": {"ingress": [entry]}, "conditions": conditions});
            let change = wanted(&["203.0.113.7"]).over(&seen(&stored), now).unwrap();
            assert!(change.of_addresses && !change.of_reason);
        }
    }
}
