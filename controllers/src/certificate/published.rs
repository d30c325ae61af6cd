//! Whom the webhook configurations trust, and the patch that tells them. Only `caBundle` is touched, entry by entry: everything else is the
//! chart's.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::one::Known;

/// A webhook configuration of either kind.
pub trait Configuration {
    /// Its metadata.
    fn meta(&self) -> &ObjectMeta;
    /// Its entries: name, and where they lead.
    fn entries(&self) -> Vec<(&str, &WebhookClientConfig)>;
}

impl Configuration for MutatingWebhookConfiguration {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn entries(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let entries = self.webhooks.iter().flatten();
        entries.map(|it| (it.name.as_str(), &it.client_config)).collect()
    }
}

impl Configuration for ValidatingWebhookConfiguration {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn entries(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let entries = self.webhooks.iter().flatten();
        entries.map(|it| (it.name.as_str(), &it.client_config)).collect()
    }
}

/// Does it trust exactly `bundle`? `None` = there is none.
pub fn trusts<C: Configuration>(configuration: &Known<C>, bundle: &str) -> Option<bool> {
    let Known::There(configuration) = configuration else {
        return None;
    };
    Some(others(configuration, bundle).is_empty())
}

/// The patch after which every entry trusts exactly `bundle`, if one does not. It applies only to the version that was looked at.
pub fn patch<C: Configuration>(configuration: &Known<C>, bundle: &str) -> Option<Value> {
    let Known::There(configuration) = configuration else {
        return None;
    };
    let entry = |name: &str| json!({"name": name, "clientConfig": {"caBundle": ByteString(bundle.into())}});
    let entries: Vec<Value> = others(configuration, bundle).into_iter().map(entry).collect();
    let version = &configuration.meta().resource_version;
    (!entries.is_empty()).then(|| json!({"metadata": {"resourceVersion": version}, "webhooks": entries}))
}

/// Whom its entries trust now, as PEM.
pub fn trusted<C: Configuration>(configuration: &Known<C>) -> String {
    let Known::There(configuration) = configuration else {
        return String::new();
    };
    let entries = configuration.entries();
    let bundles = entries.iter().filter_map(|(_, client)| client.ca_bundle.as_ref());
    bundles.map(|it| String::from_utf8_lossy(&it.0) + "\n").collect()
}

/// The names of the entries that trust something else.
fn others<'a, C: Configuration>(configuration: &'a C, bundle: &str) -> Vec<&'a str> {
    let other = |client: &WebhookClientConfig| client.ca_bundle.as_ref().is_none_or(|it| it.0 != bundle.as_bytes());
    let entries = configuration.entries().into_iter();
    entries
        .filter(|(_, client)| other(client))
        .map(|(name, _)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(bundles: &[Option<&str>]) -> Known<MutatingWebhookConfiguration> {
        let entry = |(number, bundle): (usize, Option<&str>)| {
            let bundle = bundle.map(|it| ByteString(it.into()));
            json!({"name": format!("w{number}"), "clientConfig": {"caBundle": bundle},
                "sideEffects": "None", "admissionReviewVersions": ["v1"]})
        };
        let webhooks: Vec<Value> = bundles.iter().copied().enumerate().map(entry).collect();
        let object = json!({"metadata": {"name": "zz-svcplane", "resourceVersion": "7"}, "webhooks": webhooks});
        Known::There(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn only_entries_that_trust_somebody_else_are_patched() {
        let some = configuration(&[Some("b"), None, Some("a"), Some("")]);
        let patch = patch(&some, "b").unwrap();
        let names: Vec<&str> = patch["webhooks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["w1", "w2", "w3"]);
        assert_eq!(patch["webhooks"][0]["clientConfig"]["caBundle"], "Yg==");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(trusts(&some, "b"), Some(false));
        assert_eq!(trusted(&some), "b\na\n\n");
        let all = configuration(&[Some("b"), Some("b")]);
        assert_eq!((super::patch(&all, "b"), trusts(&all, "b")), (None, Some(true)));
        for none in [Known::Missing, Known::Nothing] {
            assert_eq!(trusts::<MutatingWebhookConfiguration>(&none, "b"), None);
            assert_eq!(super::patch::<MutatingWebhookConfiguration>(&none, "b"), None);
        }
    }
}
