//! What the watches tell. Whatever is stored is adopted, by whomever it was chosen.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::state::{Object, Rest};
use super::{Book, Listed};
use crate::service::{Owner, ServiceKey};
use crate::value::Value;

impl<V: Value> Book<V> {
    /// A stored Service and the values of this kind that it lists: of a ClusterIP book its `clusterIPs` of the family, of the nodePort book
    /// every `nodePort` and `healthCheckNodePort` that is not 0, **whatever its type** (an ExternalName Service that still carries
    /// numbers holds them). A value that it no longer lists goes into quarantine.
    pub fn set_service(&mut self, owner: Owner, values: impl IntoIterator<Item = V>, now: Instant) {
        self.advance(now);
        let values: BTreeSet<V> = values.into_iter().collect();
        let known = self.listed.get(&owner.service);
        if known.is_some_and(|known| *known.owner == owner && known.values == values) {
            return;
        }
        let owner = Arc::new(owner);
        let earlier = known.map(|known| known.values.clone()).unwrap_or_default();
        for value in earlier.difference(&values) {
            self.disown(*value, &owner.service, now);
        }
        for value in &values {
            self.own(*value, &owner, now);
        }
        if values.is_empty() {
            self.listed.remove(&owner.service);
        } else {
            let listed = Listed {
                owner: Arc::clone(&owner),
                values,
            };
            self.listed.insert(owner.service.clone(), listed);
        }
    }

    /// This Service is gone.
    pub fn remove_service(&mut self, service: &ServiceKey, now: Instant) {
        self.advance(now);
        if let Some(listed) = self.listed.remove(service) {
            for value in listed.values {
                self.disown(value, service, now);
            }
        }
    }

    /// A complete list of Services, at the start and after a gap in the watch: what is not in it is gone.
    pub fn replace_services(&mut self, services: impl IntoIterator<Item = (Owner, Vec<V>)>, now: Instant) {
        let mut missing: BTreeSet<ServiceKey> = self.listed.keys().cloned().collect();
        for (owner, values) in services {
            missing.remove(&owner.service);
            self.set_service(owner, values, now);
        }
        for service in missing {
            self.remove_service(&service, now);
        }
    }

    /// An IPAddress and the Service that its `parentRef` names, if it is one. It confirms a choice before the Service is stored.
    pub fn set_ip_address(&mut self, address: V, parent: Option<ServiceKey>, now: Instant) {
        self.advance(now);
        let chosen_here = self
            .unpend(address)
            .is_some_and(|pending| self.settle(&pending, parent.as_ref(), now));
        self.change(address, |entry| {
            let known = entry.object.take().filter(|known| known.parent == parent);
            entry.object_gone = false;
            entry.object = Some(known.unwrap_or(Object {
                parent,
                left_behind: false,
                chosen_here,
            }));
        });
    }

    /// This IPAddress is gone: the apiserver gives the address again.
    pub fn remove_ip_address(&mut self, address: V, now: Instant) {
        self.advance(now);
        self.change(address, |entry| {
            let known = entry.object.take().is_some();
            entry.object_gone = known && !entry.owners.is_empty();
        });
    }

    /// A complete list of IPAddresses of this family: what is not in it is gone.
    pub fn replace_ip_addresses(&mut self, addresses: impl IntoIterator<Item = (V, Option<ServiceKey>)>, now: Instant) {
        let known = self.entries.iter().filter(|(_, entry)| entry.object.is_some());
        let mut missing: BTreeSet<V> = known.map(|(address, _)| *address).collect();
        for (address, parent) in addresses {
            missing.remove(&address);
            self.set_ip_address(address, parent, now);
        }
        for address in missing {
            self.remove_ip_address(address, now);
        }
    }

    fn own(&mut self, value: V, owner: &Arc<Owner>, now: Instant) {
        let of_pending = self
            .unpend(value)
            .is_some_and(|pending| self.settle(&pending, Some(&owner.service), now));
        self.end_quarantine(value);
        let of_object = self.change(value, |entry| {
            entry.owners.retain(|other| other.service != owner.service);
            let place = entry.owners.partition_point(|other| other < owner);
            entry.owners.insert(place, Arc::clone(owner));
            let object = entry
                .object
                .as_mut()
                .filter(|object| object.parent.as_ref() == Some(&owner.service));
            object.is_some_and(|object| std::mem::take(&mut object.chosen_here))
        });
        self.stored_choices += u64::from(of_pending || of_object);
    }

    fn disown(&mut self, value: V, service: &ServiceKey, now: Instant) {
        let (by_rule, by_pool) = (self.rules.after_release, self.reuse_delay(value));
        let until_free = self.change(value, |entry| {
            entry.owners.retain(|owner| owner.service != *service);
            if !entry.owners.is_empty() {
                return None;
            }
            let seen_to_go = std::mem::take(&mut entry.object_gone);
            Some(match &mut entry.object {
                // It tells itself when it goes.
                Some(object) => {
                    object.left_behind = object.parent.as_ref() == Some(service);
                    Duration::ZERO
                }
                None if seen_to_go => Duration::ZERO,
                None => by_rule,
            })
        });
        if let Some(until_free) = until_free
            && let wait = until_free.max(by_pool)
            && !wait.is_zero()
        {
            self.quarantine(value, now + wait, Rest::Used(service.clone(), now + until_free));
        }
    }
}
