//! Who asks: a Service as far as a choice depends on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use svcplane_allocators::service::{ChoiceKey, Field, Requester, ServiceKey};

use crate::pools::{Labels, Pool};
use crate::review::Request;
use crate::service::Service;

/// The Service of a request.
#[derive(Debug)]
pub(crate) struct Asker<'a> {
    namespace: Arc<str>,
    requester: Requester,
    /// Of the namespace; none, if it is not known.
    namespace_labels: Labels,
    labels: &'a Labels,
}

impl<'a> Asker<'a> {
    /// The Service of this request, in a namespace with these labels.
    pub fn new(request: &Request<'_>, new: &'a Service, namespace_labels: Labels) -> Self {
        let given = [new.metadata.name.as_str(), request.name.as_deref().unwrap_or_default()];
        let name = given.into_iter().find(|name| !name.is_empty());
        let requester = match name {
            Some(name) => Requester::Named(name.into()),
            None => Requester::Generated {
                prefix: new.metadata.generate_name.as_str().into(),
                user: (*request.user_info.username).into(),
            },
        };
        Self {
            namespace: namespace_of(request, new).into(),
            requester,
            namespace_labels,
            labels: &new.metadata.labels,
        }
    }

    /// The key of a choice for this field.
    pub fn key(&self, field: Field) -> ChoiceKey {
        ChoiceKey {
            namespace: Arc::clone(&self.namespace),
            requester: self.requester.clone(),
            field,
        }
    }

    /// The Service, if its name is known.
    pub fn service(&self) -> Option<ServiceKey> {
        self.key(Field::ClusterIp).service()
    }

    /// Where the Service is, or will be.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Is the pool of this name for the Service?
    pub fn is_selected_by_pool<H>(&self, pools: &BTreeMap<Arc<str>, Pool<H>>, name: &str) -> bool {
        let pool = pools.get(name);
        pool.is_some_and(|pool| {
            pool.selection
                .selects(&self.namespace, &self.namespace_labels, self.labels)
        })
    }
}

/// Where the Service of this request is, or will be.
pub(crate) fn namespace_of<'a>(request: &'a Request<'_>, new: &'a Service) -> &'a str {
    request.namespace.as_deref().unwrap_or(&new.metadata.namespace)
}
