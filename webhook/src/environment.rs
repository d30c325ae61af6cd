//! Legal names that make trouble in the environment variables that a kubelet gives to Pods (`pkg/kubelet/envvars`). They are
//! worth a Warning, never a refusal.
//!
//! Port names of one Service cannot meet there, nor in DNS: legal names that differ make variables and SRV records that
//! differ. Variables of two Services can; to see that takes the other Service.

use crate::cause::quoted;
use crate::service::{EXTERNAL_NAME, HEADLESS, Service};

/// Warnings about the name of a Service in this namespace. One without an address makes no variables.
pub fn warnings(service: &Service, namespace: &str) -> Vec<String> {
    let (name, spec) = (service.metadata.name.as_str(), &service.spec);
    let mut warnings = Vec::new();
    if spec.is(EXTERNAL_NAME) || spec.cluster_ip == HEADLESS {
        return warnings;
    }
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
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(name: &str, namespace: &str, cluster_ip: &str) -> usize {
        let mut service = Service::default();
        service.metadata.name = name.into();
        service.spec.cluster_ip = cluster_ip.into();
        warnings(&service, namespace).len()
    }

    #[test]
    fn names_that_make_trouble() {
        assert_eq!(warned("web", "shop", "10.96.0.7"), 0);
        assert_eq!(warned("1-web", "shop", "10.96.0.7"), 1);
        assert_eq!(warned("1-web", "shop", "None"), 0);
        assert_eq!(warned("kubernetes", "shop", "10.96.0.7"), 1);
        assert_eq!(warned("kubernetes", "default", "10.96.0.1"), 0);
    }
}
