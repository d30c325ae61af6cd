//! Asks at start whether this account may do what it will have to do, so that a missing right is one line and not a puzzle.

use std::fmt;

use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use svcplane_runtime::api::{Failure, call};
use svcplane_runtime::client::RESPONSE_HEAD_LIMIT;
use svcplane_webhook::pools::GROUP;

use crate::args::Source;
use crate::controller::Controller;
use crate::gate::Mode;

const SLICES: (&str, &str) = ("discovery.k8s.io", "endpointslices");

/// One right: a verb on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    /// `None` = in every namespace.
    namespace: Option<String>,
    /// `None` = on every object.
    name: Option<String>,
}

impl Right {
    /// This verb on this resource; without a namespace in all of them.
    pub fn new(verb: &'static str, group: &'static str, resource: &'static str, namespace: Option<&str>) -> Self {
        Self {
            verb,
            group,
            resource,
            namespace: namespace.map(str::to_owned),
            name: None,
        }
    }

    /// On the object of this name alone.
    fn named(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            group,
            resource,
            namespace,
            name,
        } = self;
        write!(f, "{verb} on {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if let Some(name) = name {
            write!(f, " {name}")?;
        }
        match namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// All that `svcplane run` needs in this mode with these controllers. Events are not among them: without the right to write them only they are missing.
/// `lease`: its namespace and name.
pub fn needed(mode: Mode, running: &[Controller], lease: Option<(&str, &str)>, webhook: bool) -> Vec<Right> {
    let mut rights = Vec::new();
    let mut add = |group, resource, namespace: Option<&str>, verbs: &[&'static str]| {
        rights.extend(verbs.iter().map(|verb| Right::new(verb, group, resource, namespace)));
    };
    add("", "services", None, &["get", "list", "watch"]);
    if running.iter().any(|controller| controller.is_of_endpoints()) {
        add("", "pods", None, &["list", "watch"]);
        add("", "endpoints", None, &["list", "watch"]);
    }
    let active = mode == Mode::Active;
    if active && running.contains(&Controller::Endpoints) {
        add("", "endpoints", None, &["get", "create", "update", "delete"]);
    }
    if running
        .iter()
        .any(|controller| matches!(controller, Controller::Slices | Controller::Mirroring))
    {
        add(SLICES.0, SLICES.1, None, &["list", "watch"]);
        if active {
            add(SLICES.0, SLICES.1, None, &["get", "create", "update", "delete"]);
        }
    }
    if running.contains(&Controller::Slices) {
        add("", "nodes", None, &["list", "watch"]);
    }
    if webhook {
        add("", "namespaces", None, &["list", "watch"]);
        for resource in ["clusterippools", "nodeportpools"] {
            add(GROUP, resource, None, &["get", "list", "watch"]);
        }
    }
    for resource in ["servicecidrs", "ipaddresses"] {
        if webhook {
            add("networking.k8s.io", resource, None, &["list", "watch"]);
        } else if running.contains(&Controller::Repair) {
            add("networking.k8s.io", resource, None, &["list"]);
        }
    }
    if let Some((namespace, name)) = lease {
        let lease = |verb| Right::new(verb, "coordination.k8s.io", "leases", Some(namespace));
        // A right to create has no name.
        rights.extend([lease("get").named(name), lease("create"), lease("update").named(name)]);
    }
    rights
}

/// What the webhook's certificate needs beside.
pub fn for_certificate(source: &Source) -> Vec<Right> {
    let mut rights = Vec::new();
    let mut add = |group, resource, namespace: Option<&str>, name: &str, verbs: &[&'static str]| {
        let right = |verb: &&'static str| Right::new(verb, group, resource, namespace).named(name);
        rights.extend(verbs.iter().map(right));
    };
    let (secret, keeping) = match source {
        Source::Files(_) => return rights,
        Source::Secret(secret) => (secret, None),
        Source::SelfManaged(keeping) => (&keeping.secret, Some(keeping)),
    };
    let (namespace, name) = (&*secret.namespace, &*secret.name);
    add("", "secrets", Some(namespace), name, &["list", "watch"]);
    if let Some(keeping) = keeping {
        add("", "secrets", Some(namespace), name, &["update"]);
        for resource in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
            let verbs = ["list", "watch", "patch"];
            add(
                "admissionregistration.k8s.io",
                resource,
                None,
                &keeping.configuration,
                &verbs,
            );
        }
        if let Some(owner) = &keeping.owner {
            add("apps", "deployments", Some(namespace), owner, &["get"]);
        }
        rights.push(Right::new("create", "", "secrets", Some(namespace)));
    }
    rights
}

/// Those of `rights` that this account does not have.
pub async fn missing(client: &Client, rights: &[Right]) -> Result<Vec<Right>, Failure> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let params = PostParams::default();
    let answers = rights.iter().cloned().map(|right| {
        let (reviews, params) = (&reviews, &params);
        async move {
            let (resource, subresource) = match right.resource.split_once('/') {
                Some((resource, subresource)) => (resource, Some(subresource)),
                None => (right.resource, None),
            };
            let review = SelfSubjectAccessReview {
                spec: SelfSubjectAccessReviewSpec {
                    resource_attributes: Some(ResourceAttributes {
                        verb: Some(right.verb.to_owned()),
                        group: Some(right.group.to_owned()),
                        resource: Some(resource.to_owned()),
                        subresource: subresource.map(str::to_owned),
                        namespace: right.namespace.clone(),
                        name: right.name.clone(),
                        ..ResourceAttributes::default()
                    }),
                    non_resource_attributes: None,
                },
                ..SelfSubjectAccessReview::default()
            };
            let answer = call(RESPONSE_HEAD_LIMIT, reviews.create(params, &review)).await?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            Ok::<_, Failure>((!allowed).then_some(right))
        }
    });
    Ok(try_join_all(answers).await?.into_iter().flatten().collect())
}

/// The one line for an operator.
pub fn complaint(missing: &[Right]) -> String {
    let list: Vec<String> = missing.iter().map(Right::to_string).collect();
    format!(
        "missing permission: {}; grant it to this account in its Role or ClusterRole",
        list.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_named_by_verb_resource_and_place() {
        let rights = needed(Mode::Active, &Controller::ALL, Some(("svcplane", "lock")), true);
        let named: Vec<String> = rights.iter().map(Right::to_string).collect();
        assert!(named.contains(&"update on endpoints".to_owned()), "{named:?}");
        assert!(
            named.contains(&"update on leases.coordination.k8s.io lock in namespace svcplane".to_owned()),
            "{named:?}"
        );
        assert!(
            named.contains(&"get on endpointslices.discovery.k8s.io".to_owned()),
            "{named:?}"
        );
        let alone = needed(Mode::Active, &[Controller::Endpoints], None, false);
        assert!(
            !alone
                .iter()
                .any(|right| ["endpointslices", "nodes"].contains(&right.resource))
        );
        let managed = needed(Mode::Observe, &[Controller::Repair], None, true);
        assert!(
            !managed
                .iter()
                .any(|right| ["pods", "endpoints"].contains(&right.resource))
        );
        let observing = needed(Mode::Observe, &Controller::ALL, None, false);
        let writes = |right: &Right| !matches!(right.verb, "get" | "list" | "watch");
        assert!(!observing.iter().any(writes), "observe needs no write verb");
    }
}
