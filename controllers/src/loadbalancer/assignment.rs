//! One Service of ours: what is stored, what was sent, and what is to be written.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use svcplane_allocators::balancers::{IpMode, Outcome, Reason};
use svcplane_allocators::few::Few;

use super::condition::{Change, Condition, Wanted};
use super::contention::{Contention, PATIENCE};
use super::wire::Seen;
use crate::model::Timestamp;

/// Writes that are remembered.
const REMEMBERED: usize = 4;

/// See the head of this module.
#[derive(Debug)]
pub struct Kept {
    /// The newest version that is known.
    pub seen: Box<Seen>,
    /// Since when it has asked for what it has not been given.
    pub since: Option<Instant>,
    /// The last ones of those that may still be stored: the answer to a write may be lost, and it shows later.
    sent: Vec<Wanted>,
    /// The version that the last of them was written over.
    sent_over: u64,
    contention: Contention,
}

impl Kept {
    /// A Service that was not known.
    pub fn new(seen: Box<Seen>, now: Instant) -> Self {
        Self {
            seen,
            since: Some(now),
            sent: Vec::new(),
            sent_over: 0,
            contention: Contention::default(),
        }
    }

    /// A term begins: what was sent before is another's. `claim`: what was told of a fight, if it goes on.
    pub fn begin(&mut self, claim: Option<&BTreeSet<IpAddr>>, now: Instant) {
        self.sent.clear();
        self.contention = match claim {
            Some(_) => Contention::told_before(&self.seen.other_writer, now),
            None => Contention::default(),
        };
        self.since = claim.is_none().then_some(now);
    }

    /// The addresses that were to be shown when it was stored that somebody else writes the status, if what is shown is not just these.
    pub fn claim(&self) -> Option<BTreeSet<IpAddr>> {
        let condition = self.seen.condition.as_ref();
        let told = condition.filter(|it| it.reason == Reason::Contended.as_str())?;
        let claim = claimed(&told.message);
        let shown = &self.seen.shown;
        let is_over = !shown.has_others && claim.iter().copied().eq(shown.keys());
        (!is_over).then_some(claim)
    }

    /// A newer version. `outcome` is what it should show, if this replica leads.
    pub fn replace(&mut self, seen: Box<Seen>, outcome: Option<&Outcome>, now: Instant) {
        let before = std::mem::replace(&mut self.seen, seen);
        let Some(outcome) = outcome.filter(|_| before.uid == self.seen.uid) else {
            return;
        };
        let seen = &self.seen;
        let is_undone = before.shown.addresses != seen.shown.addresses || seen.shown.has_others;
        let shows_ours = seen.shown.is_just(&outcome.addresses);
        let lost_words = before.condition.is_some() && before.condition != seen.condition;
        let as_sent = self.sent.iter().any(|sent| sent.is_shown_by(seen));
        if (is_undone && !shows_ours || lost_words) && !as_sent {
            self.contention.note(&seen.other_writer, now);
            tracing::warn!(
                service = %seen.key, writer = seen.other_writer,
                "the status of a Service of ours was changed by somebody else"
            );
        } else if shows_ours && is_undone {
            self.contention.end();
        }
    }

    /// What is to be written now.
    pub fn plan(
        &mut self,
        outcome: &Outcome,
        mode: impl Fn(IpAddr) -> Option<IpMode>,
        wall: Timestamp,
        now: Instant,
    ) -> Option<Change> {
        if self.seen.is_leaving() {
            return None;
        }
        let wanted = match self.contention.with(now) {
            Some(_) if self.contention.told => return None,
            Some(writer) => contended(writer, outcome),
            None => {
                self.contention.end();
                // What no pool has any more stays as it is.
                let stored = |address| self.seen.shown.mode(address);
                let with_mode = |address: &IpAddr| {
                    (
                        *address,
                        mode(*address).or_else(|| stored(*address)).unwrap_or_default(),
                    )
                };
                Wanted {
                    ingress: Some(outcome.addresses.iter().map(with_mode).collect()),
                    satisfied: outcome.satisfied,
                    reason: outcome.reason,
                    message: outcome.message.clone(),
                }
            }
        };
        let change = wanted.over(&self.seen, wall);
        if change.is_none() {
            self.contention.told = wanted.reason == Reason::Contended;
            self.since = None;
            // What was written over an older version is stored by now, or never will be.
            if self.sent_over < self.seen.version {
                self.sent = Vec::new();
            }
            return None;
        }
        self.since.get_or_insert(now);
        self.sent_over = self.seen.version;
        if self.sent.last() != Some(&wanted) {
            if self.sent.len() >= REMEMBERED {
                self.sent.remove(0);
            }
            self.sent.push(wanted);
        }
        change
    }

    /// When a Service that is left alone is to be looked at again, from `now`.
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        let until = self.contention.until()?;
        Some(until.saturating_duration_since(now).min(PATIENCE))
    }

    /// Somebody else writes its status, and it is left alone.
    pub fn is_contended(&self, now: Instant) -> bool {
        self.contention.with(now).is_some()
    }

    /// A write has been stored: how long the Service had waited for it.
    pub fn acknowledge(&mut self, now: Instant) -> Option<Duration> {
        let since = self.since.take()?;
        Some(now.saturating_duration_since(since))
    }
}

impl Wanted {
    /// The status says just this.
    fn is_shown_by(&self, seen: &Seen) -> bool {
        let addresses: Option<Few<(IpAddr, IpMode)>> =
            self.ingress.as_ref().map(|ingress| ingress.iter().copied().collect());
        addresses.is_none_or(|addresses| addresses == seen.shown.addresses && !seen.shown.has_others)
            && seen.condition.as_ref().is_some_and(|it| self.says(it))
    }

    /// The condition says just this.
    pub fn says(&self, condition: &Condition) -> bool {
        condition.status == self.status()
            && condition.reason == self.reason.as_str()
            && condition.message == self.message
    }
}

/// What stands in the message before the addresses that a Service does not show because somebody else writes its status. There is no other
/// record of them: a new leader reads them here.
const CLAIM: &str = "svcplane's addresses: ";

fn contended(writer: &str, outcome: &Outcome) -> Wanted {
    let who = if writer.is_empty() { "somebody else" } else { writer };
    let addresses: Vec<String> = outcome.addresses.iter().map(IpAddr::to_string).collect();
    let addresses = if addresses.is_empty() {
        "none".to_owned()
    } else {
        addresses.join(", ")
    };
    Wanted {
        ingress: None,
        satisfied: false,
        reason: Reason::Contended,
        message: format!(
            "{who} writes status.loadBalancer too; what it changed was put back once and is left alone now ({CLAIM}{addresses})"
        ),
    }
}

/// The addresses that such a message names.
fn claimed(message: &str) -> BTreeSet<IpAddr> {
    let listed = message.rsplit_once(CLAIM).map_or("", |(_, listed)| listed);
    let words = listed.trim_end_matches(')').split(", ");
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use svcplane_allocators::balancers::Products;

    use super::super::wire::BalancedService;
    use super::*;

    fn seen(version: u64, addresses: &[&str], condition: Option<&Wanted>, writer: &str) -> Box<Seen> {
        let ingress: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip, "ipMode": "VIP"})).collect();
        let condition = condition.map(|it| {
            json!({"type": super::super::CONDITION, "status": it.status(), "reason": it.reason.as_str(), "message": it.message})
        });
        let object = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": version.to_string(),
                "managedFields": [{"manager": writer, "subresource": "status", "time": "2026-01-02T03:04:05Z"}]},
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": ingress}, "conditions": Vec::from_iter(condition)}});
        let service: BalancedService = serde_json::from_value(object).unwrap();
        Box::new(service.read(Products::ALL).unwrap())
    }

    fn outcome(addresses: &[&str]) -> Outcome {
        Outcome {
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            satisfied: true,
            reason: Reason::Assigned,
            message: "words".into(),
        }
    }

    /// What is written now, as far as it says why.
    fn plan(kept: &mut Kept, outcome: &Outcome, now: Instant) -> Option<Wanted> {
        let change = kept.plan(outcome, |_| Some(IpMode::Vip), Timestamp(0), now);
        change.map(|change| change.says)
    }

    #[test]
    fn what_was_sent_and_shows_later_is_our_own() {
        let now = Instant::now();
        let mut kept = Kept::new(seen(1, &[], None, ""), now);
        let first = plan(&mut kept, &outcome(&["203.0.113.7"]), now).unwrap();
        // Its answer is lost, and something else is decided meanwhile.
        let then = outcome(&["203.0.113.8"]);
        plan(&mut kept, &then, now).unwrap();
        kept.replace(seen(2, &["203.0.113.7"], Some(&first), "other"), Some(&then), now);
        kept.replace(seen(3, &[], Some(&first), "other"), Some(&then), now);
        assert!(!kept.is_contended(now), "one foreign change");
        let again = plan(&mut kept, &then, now).unwrap();
        assert_eq!(again.reason, Reason::Assigned);
    }

    #[test]
    fn what_was_sent_is_forgotten_once_it_cannot_be_stored_any_more() {
        let now = Instant::now();
        let (first, then) = (outcome(&["203.0.113.7"]), outcome(&["203.0.113.8"]));
        let mut kept = Kept::new(seen(1, &[], None, ""), now);
        let sent = plan(&mut kept, &first, now).unwrap();
        kept.replace(seen(2, &["203.0.113.7"], Some(&sent), "svcplane"), Some(&first), now);
        let late = plan(&mut kept, &then, now).unwrap();
        // What is wished for is what is stored again, and the write may still arrive.
        assert_eq!(plan(&mut kept, &first, now), None);
        assert_eq!(kept.sent, [sent.clone(), late.clone()]);
        kept.replace(seen(3, &["203.0.113.8"], Some(&late), "svcplane"), Some(&first), now);
        let back = plan(&mut kept, &first, now).unwrap();
        kept.replace(seen(4, &["203.0.113.7"], Some(&back), "svcplane"), Some(&first), now);
        assert_eq!(plan(&mut kept, &first, now), None);
        assert_eq!(kept.sent.capacity(), 0);
    }

    #[test]
    fn a_fight_is_told_once_and_looked_at_again_after_a_while() {
        let (now, ours) = (Instant::now(), outcome(&["203.0.113.7"]));
        let mut kept = Kept::new(seen(1, &[], None, ""), now);
        let sent = plan(&mut kept, &ours, now).unwrap();
        let mut version = 1;
        for _ in 0..2 {
            version += 2;
            kept.replace(seen(version, &["203.0.113.7"], Some(&sent), "rival"), Some(&ours), now);
            assert_eq!(plan(&mut kept, &ours, now), None);
            kept.replace(
                seen(version + 1, &["198.51.100.9"], Some(&sent), "rival"),
                Some(&ours),
                now,
            );
        }
        let told = plan(&mut kept, &ours, now).unwrap();
        assert_eq!((told.reason, &told.ingress), (Reason::Contended, &None));
        assert!(
            told.message.starts_with("rival") && told.message.contains("203.0.113.7"),
            "{}",
            told.message
        );
        kept.replace(seen(9, &["198.51.100.9"], Some(&told), "rival"), Some(&ours), now);
        assert_eq!(plan(&mut kept, &ours, now), None);
        // The other one takes our condition away: no fight over that, either.
        kept.replace(seen(10, &["198.51.100.9"], None, "rival"), Some(&ours), now);
        assert_eq!(plan(&mut kept, &ours, now), None);
        let later = now + kept.rest(now).unwrap();
        assert_eq!(plan(&mut kept, &ours, later).unwrap().reason, Reason::Assigned);
    }

    #[test]
    fn a_fight_goes_on_in_the_next_term_and_its_addresses_are_known() {
        let (now, ours) = (Instant::now(), outcome(&["203.0.113.7", "2001:db8::7"]));
        let told = contended("rival", &ours);
        let mut kept = Kept::new(seen(9, &["198.51.100.9"], Some(&told), "rival"), now);
        let claim = kept.claim().unwrap();
        assert_eq!(claim, ours.addresses.iter().copied().collect());
        kept.begin(Some(&claim), now);
        assert!(kept.is_contended(now));
        assert_eq!(plan(&mut kept, &ours, now), None);
        let later = now + kept.rest(now).unwrap();
        assert_eq!(plan(&mut kept, &ours, later).unwrap().reason, Reason::Assigned);
        let over = Kept::new(seen(9, &["203.0.113.7", "2001:db8::7"], Some(&told), "rival"), now);
        assert_eq!(over.claim(), None);
        let none = Kept::new(
            seen(9, &["198.51.100.9"], Some(&contended("", &outcome(&[]))), "rival"),
            now,
        );
        assert_eq!(none.claim(), Some(BTreeSet::new()));
    }

    #[test]
    fn what_is_being_deleted_is_not_written() {
        let now = Instant::now();
        let object = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "1", "deletionTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"type": "LoadBalancer"}});
        let service: BalancedService = serde_json::from_value(object).unwrap();
        let mut kept = Kept::new(Box::new(service.read(Products::ALL).unwrap()), now);
        assert_eq!(plan(&mut kept, &outcome(&["203.0.113.7"]), now), None);
    }
}
