//! Who asks: a Service as far as it is known before it has a uid.

use std::sync::Arc;

use svcplane_allocators::service::{ChoiceKey, Field, Requester, ServiceKey};

use crate::review::Request;
use crate::service::Service;

/// The Service of a request.
#[derive(Debug)]
pub(crate) struct Asker {
    namespace: Arc<str>,
    requester: Requester,
}

impl Asker {
    /// The Service of this request.
    pub fn new(request: &Request<'_>, new: &Service) -> Self {
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
}

/// Where the Service of this request is, or will be.
pub(crate) fn namespace_of<'a>(request: &'a Request<'_>, new: &'a Service) -> &'a str {
    request.namespace.as_deref().unwrap_or(&new.metadata.namespace)
}
