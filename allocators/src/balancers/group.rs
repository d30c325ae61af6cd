//! The Services at one address.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::share::{Port, Refusal, Share, Terms};
use crate::few::Few;
use crate::service::ServiceKey;

/// The Services at one address. Each pair of them passes the rule.
#[derive(Clone, Debug, Default)]
pub struct Group(Members);

/// Most addresses are one Service's: it takes no index.
#[derive(Clone, Debug, Default)]
enum Members {
    #[default]
    None,
    One(ServiceKey, Share),
    /// At least two.
    Several(Box<Crowd>),
}

/// Several, with what a newcomer is compared with.
#[derive(Clone, Debug, Default)]
struct Crowd {
    members: BTreeMap<ServiceKey, Share>,
    ports: BTreeMap<Port, ServiceKey>,
    /// Few are different, however many members there are.
    terms: BTreeMap<Arc<Terms>, Few<ServiceKey>>,
}

impl Group {
    /// Nobody.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Members::None)
    }

    fn one(&self) -> Option<(&ServiceKey, &Share)> {
        match &self.0 {
            Members::One(service, share) => Some((service, share)),
            _ => None,
        }
    }

    fn crowd(&self) -> Option<&Crowd> {
        match &self.0 {
            Members::Several(crowd) => Some(crowd),
            _ => None,
        }
    }

    fn all(&self) -> impl Iterator<Item = (&ServiceKey, &Share)> {
        let several = self.crowd().into_iter().flat_map(|crowd| &crowd.members);
        self.one().into_iter().chain(several)
    }

    /// What they bring, each once, with the first of those who do.
    fn terms(&self) -> impl Iterator<Item = (&Terms, &ServiceKey)> {
        let several = self.crowd().into_iter().flat_map(|crowd| &crowd.terms);
        let several = several.filter_map(|(terms, services)| Some((&**terms, services.iter().next()?)));
        let one = self.one().map(|(service, share)| (&*share.terms, service));
        one.into_iter().chain(several)
    }

    /// Who occupies this port.
    fn at_port(&self, port: Port) -> Option<&ServiceKey> {
        match &self.0 {
            Members::None => None,
            Members::One(service, share) => share.ports.contains(&port).then_some(service),
            Members::Several(crowd) => crowd.ports.get(&port),
        }
    }

    /// This Service is in it.
    pub fn has(&self, service: &ServiceKey) -> bool {
        match &self.0 {
            Members::None => false,
            Members::One(one, _) => one == service,
            Members::Several(crowd) => crowd.members.contains_key(service),
        }
    }

    /// Who is in it, by name.
    pub fn members(&self) -> impl Iterator<Item = &ServiceKey> {
        self.all().map(|(service, _)| service)
    }

    /// The key that they share under.
    pub fn key(&self) -> Option<&Arc<str>> {
        let (_, share) = self.all().next()?;
        share.key.as_ref()
    }

    /// One of them, for words.
    pub fn holder(&self) -> Option<&ServiceKey> {
        self.members().next()
    }

    /// Somebody of a namespace that would have to agree and does not, if there is one.
    pub fn denies(&self, terms: &Terms) -> Option<&ServiceKey> {
        let mut others = self.terms().filter(|(other, _)| !other.namespaces_agree(terms));
        others.next().map(|(_, service)| service)
    }

    /// Whether a Service that is not in it may join.
    ///
    /// # Errors
    /// Why not, with the holder.
    pub fn admits(&self, share: &Share) -> Result<(), Refusal> {
        let Some(holder) = self.holder().cloned() else {
            return Ok(());
        };
        let (Some(ours), Some(key)) = (self.key(), &share.key) else {
            let it_shares = self.key().is_some();
            return Err(Refusal::NotShared { holder, it_shares });
        };
        if ours != key {
            let key = Arc::clone(ours);
            return Err(Refusal::Key { holder, key });
        }
        if let Some(holder) = self.denies(&share.terms) {
            let holder = holder.clone();
            return Err(Refusal::Namespace { holder });
        }
        let mut policies = self.terms();
        if let Some((_, holder)) = policies.find(|(other, _)| !other.traffic.goes_with(&share.terms.traffic)) {
            let holder = holder.clone();
            return Err(Refusal::Policy { holder });
        }
        let taken = share.ports.iter().find_map(|port| Some((port, self.at_port(*port)?)));
        match taken {
            Some((&(transport, port), holder)) => Err(Refusal::Port {
                holder: holder.clone(),
                port,
                transport,
            }),
            None => Ok(()),
        }
    }

    /// Adds a Service that [`admits`](Self::admits) has passed.
    pub fn add(&mut self, service: &ServiceKey, share: Share) {
        self.remove(service);
        self.0 = match std::mem::take(&mut self.0) {
            Members::None => Members::One(service.clone(), share),
            Members::One(first, its_share) => {
                let mut crowd = Box::<Crowd>::default();
                crowd.add(&first, its_share);
                crowd.add(service, share);
                Members::Several(crowd)
            }
            Members::Several(mut crowd) => {
                crowd.add(service, share);
                Members::Several(crowd)
            }
        };
    }

    /// Takes a Service out, if it is in.
    pub fn remove(&mut self, service: &ServiceKey) {
        match &mut self.0 {
            Members::One(one, _) if one == service => self.0 = Members::None,
            Members::None | Members::One(..) => {}
            Members::Several(crowd) => {
                crowd.remove(service);
                if crowd.members.len() < 2 {
                    let last = crowd.members.pop_first();
                    self.0 = last.map_or(Members::None, |(service, share)| Members::One(service, share));
                }
            }
        }
    }
}

impl Crowd {
    fn add(&mut self, service: &ServiceKey, share: Share) {
        for port in &*share.ports {
            self.ports.insert(*port, service.clone());
        }
        let alike = self.terms.entry(Arc::clone(&share.terms)).or_default();
        alike.insert(service.clone());
        self.members.insert(service.clone(), share);
    }

    fn remove(&mut self, service: &ServiceKey) {
        let Some(share) = self.members.remove(service) else {
            return;
        };
        for port in &*share.ports {
            self.ports.remove(port);
        }
        if let Some(alike) = self.terms.get_mut(&share.terms) {
            alike.remove(service);
            if alike.is_empty() {
                self.terms.remove(&share.terms);
            }
        }
    }
}
