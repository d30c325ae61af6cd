//! Endpoints and EndpointSlices that are not what the controllers would make of what is stored. A plan that is empty is no drift, so what they
//! leave alone (made by hand, other managers' slices, times of last changes) is none either.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use svcplane_allocators::service::ServiceKey;

use super::report::{Finding, Subject};
use crate::books::{list, pages};
use crate::explain::{Compared, Kept, Limits, Objects, State};
use crate::feed::Watched;
use crate::index::{Index, Snapshot};
use crate::mirroring;
use crate::model::{Interner, ObjectKey};
use crate::wire::{WireEndpoints, WireNode, WirePod, WireService, WireSlice};

/// All that endpoints depend on.
#[derive(Default)]
pub struct World {
    index: Index,
    /// Namespaces that are being deleted.
    ending: BTreeSet<String>,
}

/// Reads it. The error is one line.
pub async fn gather(client: &Client) -> Result<World, String> {
    let place = (Mutex::new(Interner::default()), Mutex::new(Index::default()));
    read::<WireNode>(client, &place).await?;
    read::<WirePod>(client, &place).await?;
    read::<WireService>(client, &place).await?;
    read::<WireEndpoints>(client, &place).await?;
    read::<WireSlice>(client, &place).await?;
    let namespaces = list::<Namespace>(client).await?.unwrap_or_default();
    let ending = namespaces
        .iter()
        .filter(|namespace| namespace.metadata.deletion_timestamp.is_some());
    Ok(World {
        index: place.1.into_inner(),
        ending: ending.map(ResourceExt::name_any).collect(),
    })
}

async fn read<K: Watched>(client: &Client, (interner, index): &(Mutex<Interner>, Mutex<Index>)) -> Result<(), String> {
    index.lock().begin(K::KIND);
    let take = |object: K| {
        let model = object.read(interner, index);
        let mut index = index.lock();
        K::apply(model, &mut index);
        // Nobody waits for it.
        index.take_affected();
        Ok(())
    };
    pages(&Api::<K>::all(client.clone()), K::RESOURCE, take).await?;
    index.lock().sweep(K::KIND);
    Ok(())
}

/// All that a leader would write on its first look.
pub fn findings(World { index, ending }: &mut World, limits: &Limits) -> Vec<Finding> {
    let keys = index.start_term();
    let mut findings = Vec::new();
    for key in keys {
        let snapshot = index.snapshot(&key);
        findings.extend(match snapshot.service.clone() {
            Some(service) => {
                let ends = ending.contains(&*key.namespace);
                let kept = Kept::of(&Objects::all_read(key.clone(), service, snapshot, ends), limits);
                let compared = kept.endpoints.into_iter().chain(kept.slices).flatten();
                compared.filter_map(|compared| of_object(&key, compared)).collect()
            }
            None if key.is_apiservers_own() => Vec::new(),
            None => of_nobody(&key, &snapshot, limits),
        });
    }
    findings
}

fn drift(rule: &'static str, key: &ObjectKey, field: String, message: String) -> Finding {
    let service = ServiceKey::new(Arc::clone(&key.namespace), Arc::clone(&key.name));
    Finding::error(rule, Subject::Service(service), field, message)
}

fn of_object(key: &ObjectKey, compared: Compared) -> Option<Finding> {
    let State::Differs(words) = compared.state else {
        return None;
    };
    let rule = if compared.kind == "Endpoints" {
        "EndpointsDrift"
    } else {
        "EndpointSliceDrift"
    };
    let field = [Some(compared.kind), compared.name.as_deref(), compared.family];
    let field: Vec<&str> = field.into_iter().flatten().collect();
    Some(drift(rule, key, field.join(" "), words.join(", ")))
}

/// What is left of a Service that does not exist.
fn of_nobody(key: &ObjectKey, snapshot: &Snapshot, limits: &Limits) -> Vec<Finding> {
    let left = |rule, kind| {
        let message = "is left of a Service that does not exist".to_owned();
        drift(rule, key, format!("{kind} {}", key.name), message)
    };
    let endpoints = snapshot.orphan.is_some() && snapshot.endpoints.is_some();
    let max = limits.mirroring_max_endpoints_per_subset;
    let (plan, _) = mirroring::plan_all(None, snapshot.endpoints.as_deref(), &snapshot.slices, max);
    let endpoints = endpoints.then(|| left("EndpointsDrift", "Endpoints"));
    let slices = (!plan.is_empty()).then(|| left("EndpointSliceDrift", "EndpointSlices of"));
    endpoints.into_iter().chain(slices).collect()
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    struct Made(Mutex<Interner>, Mutex<Index>);

    impl Made {
        fn new() -> Self {
            Self(Mutex::default(), Mutex::default())
        }

        fn with<K: Watched + DeserializeOwned>(self, objects: &[Value]) -> Self {
            for object in objects {
                let object: K = serde_json::from_value(object.clone()).unwrap();
                let model = object.read(&self.0, &self.1);
                K::apply(model, &mut self.1.lock());
            }
            self
        }

        /// Rule and field of each finding.
        fn found(self) -> Vec<(&'static str, String)> {
            self.found_in(&[])
        }

        /// The same while these namespaces are being deleted.
        fn found_in(self, ending: &[&str]) -> Vec<(&'static str, String)> {
            let limits = Limits {
                max_endpoints_per_slice: 100,
                mirroring_max_endpoints_per_subset: 1000,
            };
            let mut world = World {
                index: self.1.into_inner(),
                ending: ending.iter().map(ToString::to_string).collect(),
            };
            let found = findings(&mut world, &limits).into_iter();
            found.map(|finding| (finding.rule, finding.field)).collect()
        }
    }

    fn metadata(name: &str) -> Value {
        json!({"namespace": "shop", "name": name, "uid": name, "resourceVersion": "5"})
    }

    fn service(selector: &Value) -> Value {
        json!({"metadata": metadata("web"), "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
            "ipFamilies": ["IPv4"], "selector": selector, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]}})
    }

    fn pod() -> Value {
        let mut metadata = metadata("web-1");
        metadata["labels"] = json!({"app": "web"});
        json!({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": "Running", "podIPs": [{"ip": "10.1.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}]}})
    }

    fn endpoints(address: &str, managed_by: &str) -> Value {
        let mut metadata = metadata("web");
        metadata["labels"] = json!({"endpoints.kubernetes.io/managed-by": managed_by});
        let target = json!({"kind": "Pod", "namespace": "shop", "name": "web-1", "uid": "web-1"});
        json!({"metadata": metadata, "subsets":
            [{"addresses": [{"ip": address, "targetRef": target}], "ports": [{"port": 8080, "protocol": "TCP"}]}]})
    }

    #[test]
    fn what_the_controllers_would_write_is_drift() {
        let world = Made::new()
            .with::<WirePod>(&[pod()])
            .with::<WireService>(&[service(&json!({"app": "web"}))])
            .with::<WireEndpoints>(&[endpoints("10.1.0.2", "endpoint-controller")]);
        assert_eq!(
            world.found(),
            [
                ("EndpointsDrift", "Endpoints web".to_owned()),
                ("EndpointSliceDrift", "EndpointSlice IPv4".to_owned())
            ]
        );
    }

    #[test]
    fn what_they_leave_alone_is_none() {
        let lone = Made::new().with::<WireEndpoints>(&[endpoints("10.1.0.2", "somebody")]);
        assert_eq!(lone.found(), []);
        // Endpoints made by hand that nobody mirrors.
        let mut by_hand = endpoints("10.1.0.2", "somebody");
        by_hand["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] = json!("true");
        let selectorless = Made::new()
            .with::<WirePod>(&[pod()])
            .with::<WireService>(&[service(&Value::Null)])
            .with::<WireEndpoints>(&[by_hand]);
        assert_eq!(selectorless.found(), []);
        // A canary that has shown that built-in controllers live, and one that has not.
        let mut canary = service(&json!({"app": "web"}));
        canary["metadata"]["labels"] = json!({"svcplane.io/canary": "true"});
        for made in [&[endpoints("10.1.0.2", "endpoint-controller")][..], &[]] {
            let world = Made::new().with::<WirePod>(&[pod()]);
            let world = world
                .with::<WireService>(std::slice::from_ref(&canary))
                .with::<WireEndpoints>(made);
            assert_eq!(world.found(), []);
        }
    }

    #[test]
    fn what_cannot_be_made_is_no_drift() {
        let made = || {
            Made::new()
                .with::<WirePod>(&[pod()])
                .with::<WireService>(&[service(&json!({"app": "web"}))])
        };
        assert_eq!(made().found().len(), 2);
        assert_eq!(made().found_in(&["shop"]), []);
        // What is there can be put right.
        let wrong = made().with::<WireEndpoints>(&[endpoints("10.1.0.2", "endpoint-controller")]);
        assert_eq!(
            wrong.found_in(&["shop"]),
            [("EndpointsDrift", "Endpoints web".to_owned())]
        );
    }

    #[test]
    fn what_is_left_of_a_service_is_drift_if_a_controller_made_it() {
        let world = Made::new().with::<WireEndpoints>(&[endpoints("10.1.0.2", "endpoint-controller")]);
        assert_eq!(world.found(), [("EndpointsDrift", "Endpoints web".to_owned())]);
    }
}
