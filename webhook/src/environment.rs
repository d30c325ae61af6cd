//! Legal values that make trouble in Pods: in the environment variables that a kubelet gives them (`pkg/kubelet/envvars`) and in
//! DNS. They are worth a Warning, never a refusal.
//!
//! Port names of one Service cannot meet there: legal names that differ make variables and SRV records that differ. Variables
//! of two Services can; to see that takes the other Service.

use std::net::IpAddr;

use crate::cause::quoted;
use crate::service::{EXTERNAL_NAME, HEADLESS, Service};

/// Warnings about a Service in this namespace; on an update, about what is new in it.
pub fn warnings(new: &Service, old: Option<&Service>, namespace: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let has_address = |service: &Service| !service.spec.is(EXTERNAL_NAME) && service.spec.cluster_ip != HEADLESS;
    if has_address(new) && !old.is_some_and(has_address) {
        name(&new.metadata.name, namespace, &mut warnings);
    }
    let target = |service: &Service| {
        service
            .spec
            .is(EXTERNAL_NAME)
            .then(|| service.spec.external_name.clone())
    };
    if let Some(target_name) = target(new).filter(|new| old.and_then(target).as_ref() != Some(new)) {
        external_name(&target_name, &mut warnings);
    }
    warnings
}

/// The name of a Service that Pods get variables for.
fn name(name: &str, namespace: &str, warnings: &mut Vec<String>) {
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        warnings.push(format!(
            "metadata.name: {} begins with a digit: no shell can read variables like {}_SERVICE_HOST that Pods get for it",
            quoted(name),
            name.to_ascii_uppercase().replace('-', "_")
        ));
    }
    if name == "kubernetes" && namespace != "default" {
        warnings.push(
            "metadata.name: in Pods of this namespace, KUBERNETES_SERVICE_HOST and _PORT will mean this Service and no \
             longer the apiserver; choose another name"
                .to_owned(),
        );
    }
}

fn external_name(name: &str, warnings: &mut Vec<String>) {
    if name.parse::<IpAddr>().is_ok() {
        warnings.push(format!(
            "spec.externalName: DNS answers with {} as a name, which nobody can resolve; for an address, use a headless \
             Service without selector and an EndpointSlice",
            quoted(name)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, cluster_ip: &str) -> Service {
        let mut service = Service::default();
        service.metadata.name = name.into();
        service.spec.cluster_ip = cluster_ip.into();
        service
    }

    fn pointing(to: &str) -> Service {
        let mut service = service("db", "");
        service.spec.service_type = EXTERNAL_NAME.into();
        service.spec.external_name = to.into();
        service
    }

    #[test]
    fn names_that_make_trouble() {
        let warned = |name, namespace, ip| warnings(&service(name, ip), None, namespace).len();
        assert_eq!(warned("web", "shop", "10.96.0.7"), 0);
        assert_eq!(warned("1-web", "shop", "10.96.0.7"), 1);
        assert_eq!(warned("1-web", "shop", "None"), 0);
        assert_eq!(warned("kubernetes", "shop", "10.96.0.7"), 1);
        assert_eq!(warned("kubernetes", "default", "10.96.0.1"), 0);
    }

    /// B56.
    #[test]
    fn an_address_is_no_external_name() {
        assert_eq!(warnings(&pointing("192.0.2.15"), None, "shop").len(), 1);
        assert_eq!(warnings(&pointing("mirror.example.net."), None, "shop").len(), 0);
    }

    #[test]
    fn what_was_there_is_not_told_again() {
        let old = service("1-web", "10.96.0.7");
        assert_eq!(warnings(&old, Some(&old), "shop").len(), 0);
        assert_eq!(warnings(&old, Some(&service("1-web", "None")), "shop").len(), 1);
        let old = pointing("192.0.2.15");
        assert_eq!(warnings(&old, Some(&old), "shop").len(), 0);
        assert_eq!(warnings(&pointing("192.0.2.16"), Some(&old), "shop").len(), 1);
    }
}
