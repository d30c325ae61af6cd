//! Who waits for what, the oldest first.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::cluster_ips::IpFamily;
use crate::service::{Owner, ServiceKey};

/// What a Service waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wait {
    /// Something happens at this address.
    Address(IpAddr),
    /// An address of this family becomes free in this pool.
    Pool(IpFamily, Arc<str>),
    /// Somebody gets an address that is shared under this key.
    Key(Arc<str>),
}

/// The waiting ones.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    queues: BTreeMap<Wait, BTreeSet<Owner>>,
    by_service: BTreeMap<ServiceKey, (i64, BTreeSet<Wait>)>,
}

impl Waiting {
    /// This Service waits for these, and for nothing else.
    pub fn set(&mut self, owner: &Owner, waits: BTreeSet<Wait>) {
        self.remove(&owner.service);
        for wait in &waits {
            self.queues.entry(wait.clone()).or_default().insert(owner.clone());
        }
        if !waits.is_empty() {
            self.by_service.insert(owner.service.clone(), (owner.created, waits));
        }
    }

    /// It waits no more.
    pub fn remove(&mut self, service: &ServiceKey) {
        let Some((created, waits)) = self.by_service.remove(service) else {
            return;
        };
        let owner = Owner {
            created,
            service: service.clone(),
        };
        for wait in waits {
            if let Some(queue) = self.queues.get_mut(&wait) {
                queue.remove(&owner);
                if queue.is_empty() {
                    self.queues.remove(&wait);
                }
            }
        }
    }

    /// The first one behind `after` who waits for this.
    pub fn next(&self, wait: &Wait, after: Option<&Owner>) -> Option<Owner> {
        let queue = self.queues.get(wait)?;
        match after {
            None => queue.first().cloned(),
            Some(after) => {
                let behind = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
                queue.range::<Owner, _>(behind).next().cloned()
            }
        }
    }
}
