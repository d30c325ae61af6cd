//! What a Service can have that does not have it yet, or why it cannot.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::ask::{Ask, Facts};
use super::book::Blocked;
use super::choose::serves;
use super::decide::Standing;
use super::engine::Balancers;
use super::group::Group;
use super::reason::Reason;
use super::share::Refusal;
use super::trouble::{Trouble, family_name, refused};
use super::wait::Wait;
use crate::cluster_ips::IpFamily;
use crate::few::Few;
use crate::pools::PoolVerdict;
use crate::quoted::quoted;

/// Pools that a message names.
const NAMED: usize = 8;

impl Balancers {
    /// Any addresses of the family: one that it shows still, those of the group that its key names, or one of a pool.
    pub(super) fn any(
        &self,
        facts: &Facts,
        ask: &Ask,
        family: IpFamily,
        shown: &Few<IpAddr>,
    ) -> Result<Vec<IpAddr>, Trouble> {
        // That it shows: nothing new is given, even where the pool gives nothing new.
        let mut still = shown.iter().copied().filter(|it| IpFamily::of(*it) == family);
        let still = still.find(|address| self.may_stay(facts, ask, *address));
        if let Some(address) = still {
            return Ok(vec![address]);
        }
        if let Some(key) = &facts.share.key {
            let theirs = self.theirs(facts, family, key)?;
            for address in &theirs {
                self.may_take(facts, ask, *address).map_err(|mut trouble| {
                    // The group may move or end.
                    trouble
                        .waits
                        .extend([Wait::Address(*address), Wait::Key(Arc::clone(key))]);
                    trouble
                })?;
            }
            if !theirs.is_empty() {
                return Ok(theirs);
            }
        }
        let picked = self.books.pick(family, &self.pools, facts, ask);
        picked.map(|address| vec![address]).ok_or_else(|| {
            let mut trouble = self.why_none(facts, ask, family);
            trouble.waits.extend(facts.share.key.clone().map(Wait::Key));
            trouble
        })
    }

    /// A Service may go on showing an address that it has lost to others who are gone by now.
    fn may_stay(&self, facts: &Facts, ask: &Ask, address: IpAddr) -> bool {
        self.books.pool_at(address).is_some()
            && self.standing(address, facts) != Standing::Lost
            && self.is_from(address, &ask.pools)
            && self.books.may_join(address, facts).is_ok()
    }

    /// The addresses of those that share under this key and whose namespaces agree.
    fn theirs(&self, facts: &Facts, family: IpFamily, key: &str) -> Result<Vec<IpAddr>, Trouble> {
        let terms = &facts.share.terms;
        let (mut open, mut denied) = (Vec::new(), None);
        for address in self.books.shared(family, key) {
            let Some(group) = self.books.group(address) else {
                continue;
            };
            match group.denies(terms) {
                None => open.push((group, address)),
                // Only who asks for that namespace by name is waiting for it.
                Some(holder) if terms.consent.names(&holder.namespace) => {
                    let refusal = Refusal::Namespace { holder: holder.clone() };
                    denied = Some(refused(address, &refusal));
                }
                Some(_) => {}
            }
        }
        let is_near =
            |(group, _): &&(&Group, IpAddr)| group.members().any(|member| member.namespace == terms.namespace);
        let first = open.iter().find(is_near).or(open.first());
        match (first.and_then(|(group, _)| group.holder()), denied) {
            (Some(founder), _) => Ok(open
                .iter()
                .filter(|(group, _)| group.has(founder))
                .map(|(_, address)| *address)
                .collect()),
            (None, Some(denied)) => Err(denied),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Whether the Service may take this address now.
    pub(super) fn may_take(&self, facts: &Facts, ask: &Ask, address: IpAddr) -> Result<(), Trouble> {
        let Some(pool) = self.books.pool_at(address) else {
            return Err(self.why_no_pool_has(address));
        };
        let name = &pool.terms.name;
        if !self.is_from(address, &ask.pools) {
            let message = format!("{address} is of pool {name:?}, which is not the one that is asked for");
            return Err(Trouble::lasting(Reason::RequestConflict, message));
        }
        if let Some(verdict) = serves(&self.pools, pool, facts) {
            let message = format!("{address} is of pool {name:?}, which {verdict}");
            return Err(Trouble::lasting(Reason::PoolNotEligible, message));
        }
        self.books.may_join(address, facts).map_err(|blocked| match blocked {
            Blocked::By(refusal) => refused(address, &refusal),
            Blocked::Leaving(who) => {
                let message = format!("{address} is taken: {who} is about to let go of it");
                Trouble::at(address, Reason::AddressTaken, message)
            }
            Blocked::Reserved(who) => {
                let message = format!("{address} is taken: pool {name:?} keeps it for {who}");
                Trouble::at(address, Reason::AddressTaken, message)
            }
            Blocked::Resting(who) => {
                let message = format!("{address} is taken: it rests after use by {who}");
                Trouble::at(address, Reason::AddressTaken, message)
            }
        })
    }

    fn why_no_pool_has(&self, address: IpAddr) -> Trouble {
        match self.pools.iter().find_map(|pool| pool.user_of(address)) {
            Some(user) => Trouble::at(
                address,
                Reason::AddressTaken,
                format!("{address} is taken: {user} uses it"),
            ),
            None => Trouble::lasting(Reason::NoPool, format!("{address} lies in no pool")),
        }
    }

    /// Why no pool gives an address of this family.
    fn why_none(&self, facts: &Facts, ask: &Ask, family: IpFamily) -> Trouble {
        let lacks = format!("no {} address", family_name(family));
        let unknown = ask
            .pools
            .iter()
            .find(|name| !self.pools.iter().any(|pool| pool.terms.name == **name));
        if let Some(unknown) = unknown {
            let message = format!("{lacks}: there is no pool {}, which is asked for", quoted(unknown));
            return Trouble::lasting(Reason::PoolUnknown, message);
        }
        let verdicts = self.books.verdicts(family, &self.pools, facts, ask);
        let full: BTreeSet<Wait> = verdicts
            .iter()
            .filter(|(_, verdict)| *verdict == PoolVerdict::Full)
            .map(|(pool, _)| Wait::Pool(family, Arc::clone(&pool.terms.name)))
            .collect();
        let has = |wanted: PoolVerdict| verdicts.iter().any(|(_, verdict)| *verdict == wanted);
        let reason = match () {
            () if verdicts.is_empty() => Reason::NoPool,
            () if !full.is_empty() => Reason::Exhausted,
            () if has(PoolVerdict::NoValues) => Reason::FamilyUnavailable,
            () => Reason::PoolNotEligible,
        };
        let relevant: Vec<_> = verdicts
            .iter()
            .filter(|(_, verdict)| *verdict != PoolVerdict::NotRequested)
            .collect();
        let mut causes: Vec<String> = relevant
            .iter()
            .take(NAMED)
            .map(|(pool, verdict)| format!("pool {:?} {verdict}", pool.terms.name))
            .collect();
        if relevant.len() > NAMED {
            causes.push(format!("{} more pools", relevant.len() - NAMED));
        }
        if causes.is_empty() {
            causes.push("there is no LoadBalancerPool".into());
        }
        Trouble {
            reason,
            message: format!("{lacks}: {}", causes.join(", ")),
            waits: full,
        }
    }
}
