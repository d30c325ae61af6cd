//! What was told already, and what is news.

use std::collections::BTreeSet;

use svcplane_runtime::events::{Event, EventType, Regarding};

use crate::audit::{Finding, Subject};
use crate::controller::Controller;

/// Faults told after one look at most; the others have their turn after the next ones.
const AT_ONCE: usize = 50;

/// The faults that were told and last.
#[derive(Debug, Default)]
pub struct Told(BTreeSet<Finding>);

impl Told {
    /// All of these were told.
    pub fn covers(&self, found: &[Finding]) -> bool {
        found.iter().all(|finding| self.0.contains(finding))
    }

    /// What is to be told, if these are all faults that there are. One that is gone and comes again is news again.
    pub fn news(&mut self, found: Vec<Finding>) -> Vec<Finding> {
        let earlier = std::mem::take(&mut self.0);
        let (known, new): (Vec<_>, Vec<_>) = found.into_iter().partition(|finding| earlier.contains(finding));
        let new: Vec<_> = new.into_iter().take(AT_ONCE).collect();
        self.0.extend(known.into_iter().chain(new.iter().cloned()));
        new
    }
}

/// The Event of a fault, about the object of this uid.
pub fn event(finding: &Finding, uid: String) -> Event {
    let (api_version, kind, namespace, name) = match &finding.object {
        Subject::Service(service) => ("v1", "Service", &*service.namespace, &*service.name),
        Subject::IpAddress(name) => ("networking.k8s.io/v1", "IPAddress", "", name.as_str()),
        Subject::Pool(kind, name) => ("svcplane.io/v1alpha1", *kind, "", name.as_str()),
    };
    // As kube-apiserver's own repair names them.
    let action = match finding.rule {
        rule if rule.starts_with("IPAddress") => "IPAddressAllocation",
        rule if rule.starts_with("ClusterIP") => "ClusterIPAllocation",
        _ => "PortAllocation",
    };
    Event {
        regarding: Regarding {
            api_version,
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid,
        },
        event_type: EventType::Warning,
        reason: finding.rule,
        action,
        note: format!("{}: {}", finding.field, finding.message),
        controller: Controller::Repair.event_source(),
    }
}

#[cfg(test)]
mod tests {
    use svcplane_allocators::service::ServiceKey;

    use super::*;

    fn fault(rule: &'static str, name: &str) -> Finding {
        let service = Subject::Service(ServiceKey::new("shop", name));
        Finding::error(rule, service, "spec.clusterIPs[0]", "10.97.0.7 lies in no ServiceCIDR")
    }

    #[test]
    fn a_fault_is_news_once_and_again_when_it_comes_back() {
        let mut told = Told::default();
        let (one, other) = (fault("ClusterIPOutOfRange", "a"), fault("ClusterIPOutOfRange", "b"));
        assert!(told.covers(&[]));
        assert_eq!(told.news(vec![one.clone()]), std::slice::from_ref(&one));
        assert!(told.covers(std::slice::from_ref(&one)));
        assert_eq!(
            told.news(vec![one.clone(), other.clone()]),
            std::slice::from_ref(&other)
        );
        assert_eq!(told.news(vec![other]), []);
        assert_eq!(told.news(vec![one.clone()]), [one]);
    }

    #[test]
    fn what_is_too_much_at_once_is_told_later() {
        let mut told = Told::default();
        let all: Vec<Finding> = (0..120)
            .map(|number| fault("ClusterIPOutOfRange", &number.to_string()))
            .collect();
        let counts: Vec<usize> = (0..4).map(|_| told.news(all.clone()).len()).collect();
        assert_eq!(counts, [50, 50, 20, 0]);
        assert!(told.covers(&all));
    }

    #[test]
    fn an_event_names_the_object_the_rule_and_the_field() {
        let told = event(&fault("ClusterIPOutOfRange", "a"), "u".into());
        assert_eq!(
            told,
            Event {
                regarding: Regarding {
                    api_version: "v1",
                    kind: "Service",
                    namespace: "shop".into(),
                    name: "a".into(),
                    uid: "u".into(),
                },
                event_type: EventType::Warning,
                reason: "ClusterIPOutOfRange",
                action: "ClusterIPAllocation",
                note: "spec.clusterIPs[0]: 10.97.0.7 lies in no ServiceCIDR".into(),
                controller: "repair-controller",
            }
        );
        let orphan = Finding::error(
            "IPAddressNotAllocated",
            Subject::IpAddress("10.96.0.9".into()),
            "spec.parentRef",
            "",
        );
        let told = event(&orphan, String::new());
        assert_eq!(
            (told.regarding.kind, &*told.regarding.namespace, told.action),
            ("IPAddress", "", "IPAddressAllocation")
        );
        assert_eq!(
            event(&fault("PortAlreadyAllocated", "a"), String::new()).action,
            "PortAllocation"
        );
    }
}
