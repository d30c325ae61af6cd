//! The replicas that serve the webhook, from the EndpointSlices of its Service: no write and no Lease of theirs is needed for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt as _;
use kube::runtime::watcher::Event;
use svcplane_webhook::ledger::SharedLedger;

/// Takes the events of the slices.
pub struct Members {
    ledger: SharedLedger,
    me: String,
    /// The uids of the Pods of each slice, by its name.
    slices: BTreeMap<String, Vec<Arc<str>>>,
    told: Option<Vec<Arc<str>>>,
}

impl Members {
    /// This replica is the Pod of this uid.
    pub fn new(ledger: SharedLedger, me: String) -> Self {
        Self {
            ledger,
            me,
            slices: BTreeMap::new(),
            told: None,
        }
    }

    /// Takes one event.
    pub fn event(&mut self, event: &Event<EndpointSlice>) {
        match event {
            Event::Init => {
                self.slices.clear();
                return;
            }
            Event::InitApply(slice) => {
                self.slices.insert(slice.name_any(), serving(slice));
                return;
            }
            Event::Apply(slice) => {
                self.slices.insert(slice.name_any(), serving(slice));
            }
            Event::Delete(slice) => {
                self.slices.remove(&slice.name_any());
            }
            Event::InitDone => {}
        }
        let mut all: Vec<Arc<str>> = self.slices.values().flatten().cloned().collect();
        all.sort();
        all.dedup();
        if self.told.as_ref() != Some(&all) {
            tracing::info!(
                replicas = all.len(),
                among_them = all.iter().any(|uid| **uid == *self.me),
                "the webhook is served by"
            );
            self.ledger.lock().set_members(&self.me, &all, Instant::now());
            self.told = Some(all);
        }
    }
}

/// The Pods that answer.
fn serving(slice: &EndpointSlice) -> Vec<Arc<str>> {
    let endpoints = serving_endpoints(slice);
    let uids = endpoints.filter_map(|endpoint| endpoint.target_ref.as_ref()?.uid.as_deref());
    uids.map(Into::into).collect()
}

/// Those of a slice that answer. One that is going still does.
pub fn serving_endpoints(slice: &EndpointSlice) -> impl Iterator<Item = &Endpoint> {
    slice.endpoints.iter().flatten().filter(|endpoint| {
        let conditions = endpoint.conditions.as_ref();
        let ready = conditions.and_then(|it| it.ready).unwrap_or(true);
        conditions.and_then(|it| it.serving).unwrap_or(ready)
    })
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use serde_json::json;
    use svcplane_webhook::ledger::{Ledger, Ranges};

    use super::*;

    fn slice(name: &str, pods: &[(&str, bool)]) -> EndpointSlice {
        let endpoints: Vec<_> = pods
            .iter()
            .map(|(uid, serving)| {
                json!({"addresses": ["10.0.0.1"], "conditions": {"ready": false, "serving": serving, "terminating": true},
                    "targetRef": {"kind": "Pod", "uid": uid}})
            })
            .collect();
        let object = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": name},
            "addressType": "IPv4", "endpoints": endpoints});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn all_slices_count_once_they_are_all_there_and_only_those_that_serve() {
        let ranges = Ranges {
            cidrs: Vec::new(),
            ports: "30000-32767".parse().unwrap(),
        };
        let ledger = Arc::new(Mutex::new(Ledger::new(ranges, Instant::now())));
        let mut members = Members::new(ledger, "a".into());
        let told = |members: &Members| {
            let told = members.told.iter().flatten();
            told.map(ToString::to_string).collect::<Vec<_>>()
        };
        members.event(&Event::Init);
        members.event(&Event::InitApply(slice("one", &[("b", true), ("c", false)])));
        assert_eq!(members.told, None, "half a list");
        members.event(&Event::InitApply(slice("two", &[("a", true), ("b", true)])));
        members.event(&Event::InitDone);
        assert_eq!(told(&members), ["a", "b"]);
        members.event(&Event::Apply(slice("one", &[("c", true)])));
        assert_eq!(told(&members), ["a", "b", "c"]);
        members.event(&Event::Delete(slice("two", &[])));
        assert_eq!(told(&members), ["c"]);
    }
}
