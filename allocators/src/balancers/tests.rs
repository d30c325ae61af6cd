//! Cases, one at a time. The names are of the spec's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::cluster_ips::IpFamily;
use crate::few::Few;
use crate::node_ports::Protocol;
use crate::pools::{FirstLast, Mode, PoolSpec, PoolTerms, parse_load_balancer_pool};
use crate::service::{Owner, ServiceKey};

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(super) fn set(texts: &[&str]) -> BTreeSet<IpAddr> {
    texts.iter().map(|text| ip(text)).collect()
}

/// `marsh/heron`, or a name in `marsh`.
pub(super) fn key(name: &str) -> ServiceKey {
    let (namespace, name) = name.split_once('/').unwrap_or(("marsh", name));
    ServiceKey::new(namespace, name)
}

pub(super) fn pool(name: &str, ranges: &[&str]) -> BalancerPool {
    with_spec(
        name,
        &PoolSpec {
            ranges: ranges.iter().map(ToString::to_string).collect(),
            ..PoolSpec::default()
        },
    )
}

pub(super) fn with_spec(name: &str, spec: &PoolSpec) -> BalancerPool {
    BalancerPool {
        terms: Arc::new(PoolTerms {
            name: name.into(),
            created: 0,
            priority: 0,
            auto_assign: true,
            mode: Mode::Active,
            enforce: false,
            reuse_delay: Duration::ZERO,
        }),
        holdings: parse_load_balancer_pool(spec, FirstLast::Allow).unwrap(),
        withheld: Vec::new(),
        order: Order::Lowest,
        on_removal: OnRemoval::Retain,
        ip_mode: IpMode::Vip,
    }
}

pub(super) fn terms(pool: BalancerPool, change: impl FnOnce(&mut PoolTerms)) -> BalancerPool {
    let mut terms = (*pool.terms).clone();
    change(&mut terms);
    BalancerPool {
        terms: Arc::new(terms),
        ..pool
    }
}

/// A SingleStack Service of IPv4 with port 80, that does not share.
pub(super) fn service(name: &str, created: i64) -> Facts {
    let service = key(name);
    Facts {
        share: Share {
            key: None,
            ports: [(Protocol::Tcp, 80)].into(),
            terms: Arc::new(Terms {
                namespace: Arc::clone(&service.namespace),
                consent: Consent::default(),
                traffic: Traffic::Cluster,
            }),
        },
        owner: Owner { created, service },
        is_leaving: false,
        ask: Ok(Ask {
            families: vec![IpFamily::IPv4],
            ..Ask::default()
        }),
        admitted: Few::default(),
    }
}

pub(super) fn asking(facts: Facts, change: impl FnOnce(&mut Ask)) -> Facts {
    let mut ask = facts.ask.clone().unwrap();
    change(&mut ask);
    Facts { ask: Ok(ask), ..facts }
}

fn sharing(mut facts: Facts, key: &str, port: (Protocol, u16)) -> Facts {
    facts.share.key = Some(key.into());
    facts.share.ports = [port].into();
    facts
}

fn dual(facts: Facts, policy: Policy) -> Facts {
    asking(facts, |ask| {
        ask.families = vec![IpFamily::IPv4, IpFamily::IPv6];
        ask.policy = policy;
    })
}

/// Balancers beside the status that the apiserver would hold.
struct Rig {
    balancers: Balancers,
    pools: Vec<BalancerPool>,
    now: Instant,
}

impl Rig {
    fn new(pools: Vec<BalancerPool>) -> Self {
        let mut rig = Self {
            balancers: Balancers::default(),
            pools: Vec::new(),
            now: Instant::now(),
        };
        rig.set_pools(pools);
        rig.balancers.start(&BTreeMap::new(), rig.now);
        rig
    }

    fn all(&self) -> Few<Arc<str>> {
        self.pools.iter().map(|pool| Arc::clone(&pool.terms.name)).collect()
    }

    fn set_pools(&mut self, pools: Vec<BalancerPool>) {
        self.pools.clone_from(&pools);
        let all = self.all();
        self.balancers.set_pools(pools, |_| all.clone(), self.now);
        self.write();
    }

    /// Stores it with the status that it has.
    fn set(&mut self, facts: Facts) -> Outcome {
        let service = facts.owner.service.clone();
        let known = self.balancers.services.get(&service);
        let shown = known.map(|known| known.shown.clone()).unwrap_or_default();
        let admitted = self.all();
        self.balancers.set_service(Facts { admitted, ..facts }, shown, self.now);
        self.write();
        self.outcome(&service.to_string())
    }

    fn remove(&mut self, name: &str) {
        self.balancers.remove_service(&key(name), self.now);
        self.write();
    }

    /// Each change is written, and seen.
    fn write(&mut self) {
        loop {
            let changed = self.balancers.take_changed();
            if changed.is_empty() {
                return;
            }
            for service in changed {
                let shown: Few<IpAddr> = self
                    .balancers
                    .outcome(&service)
                    .unwrap()
                    .addresses
                    .iter()
                    .copied()
                    .collect();
                self.balancers.set_shown(&service, shown, self.now);
            }
        }
    }

    fn outcome(&self, name: &str) -> Outcome {
        self.balancers.outcome(&key(name)).unwrap().clone()
    }

    fn has(&self, name: &str) -> Vec<String> {
        let outcome = self.outcome(name);
        outcome.addresses.iter().map(ToString::to_string).collect()
    }

    fn reason(&self, name: &str) -> Reason {
        self.outcome(name).reason
    }
}

#[test]
fn b63_a_restart_gives_a_held_address_to_nobody_else() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.64"])]);
    rig.set(service("heron", 2));
    rig.set(service("egret", 1));
    assert_eq!(
        (rig.has("heron"), rig.reason("egret")),
        (vec!["203.0.113.64".into()], Reason::Exhausted)
    );
    rig.balancers.start(&BTreeMap::new(), rig.now);
    assert_eq!(
        (rig.has("heron"), rig.has("egret")),
        (vec!["203.0.113.64".into()], vec![])
    );
}

#[test]
fn b64_what_becomes_free_goes_to_the_oldest_who_waits() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.64"])]);
    rig.set(service("heron", 1));
    rig.set(service("younger", 3));
    rig.set(service("older", 2));
    rig.remove("heron");
    assert_eq!((rig.has("older").len(), rig.has("younger").len()), (1, 0));
    rig.set_pools(vec![pool("reed", &["203.0.113.64-203.0.113.65"])]);
    assert_eq!(rig.has("younger"), ["203.0.113.65"]);
}

/// Until the apiserver has stored that the old one lets go, the address is nobody else's.
#[test]
fn an_address_that_is_still_shown_is_not_given() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.64-203.0.113.65"])]);
    rig.set(service("heron", 1));
    let pinned = |address| asking(service("heron", 1), |ask| ask.addresses = vec![ip(address)]);
    let mut facts = pinned("203.0.113.65");
    facts.admitted = rig.all();
    rig.balancers.set_service(facts, set(&["203.0.113.64"]), rig.now);
    let mut other = service("egret", 2);
    other.admitted = rig.all();
    rig.balancers.set_service(other, BTreeSet::new(), rig.now);
    assert_eq!(
        (rig.has("heron"), rig.has("egret")),
        (vec!["203.0.113.65".into()], vec![])
    );
    rig.balancers.set_shown(&key("heron"), set(&["203.0.113.65"]), rig.now);
    assert_eq!(rig.has("egret"), ["203.0.113.64"]);
}

#[test]
fn b66_an_edit_of_a_pool_moves_nobody_whom_it_still_covers() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.64-203.0.113.71"])]);
    for (number, name) in (0..).zip(["a", "b", "c"]) {
        rig.set(service(name, number));
    }
    for ranges in [
        &["203.0.113.62-203.0.113.71"][..],
        &["203.0.113.64-203.0.113.65", "203.0.113.66"],
    ] {
        rig.set_pools(vec![pool("reed", ranges)]);
        assert_eq!(
            [rig.reason("a"), rig.reason("b"), rig.reason("c")],
            [Reason::Assigned; 3]
        );
    }
    rig.set_pools(vec![pool("sedge", &["203.0.113.65-203.0.113.71"])]);
    assert_eq!([rig.reason("a"), rig.reason("b")], [Reason::Retained, Reason::Assigned]);
    assert_eq!(
        (rig.has("a"), rig.has("b")),
        (vec!["203.0.113.64".into()], vec!["203.0.113.65".into()])
    );
}

#[test]
fn a_fence_that_is_put_up_later_says_so_to_whoever_is_outside_of_it() {
    for (on_removal, mode, has, reason) in [
        (OnRemoval::Retain, Mode::Active, "203.0.113.60", Reason::Retained),
        (OnRemoval::Retain, Mode::Drain, "203.0.113.60", Reason::Retained),
        (OnRemoval::Reassign, Mode::Active, "203.0.113.50", Reason::Assigned),
    ] {
        let mut open = terms(pool("open", &["203.0.113.60"]), |terms| terms.mode = mode);
        open.on_removal = on_removal;
        let mut rig = Rig::new(vec![pool("open", &["203.0.113.60"])]);
        assert_eq!(rig.set(service("s", 1)).addresses, [ip("203.0.113.60")]);
        let fence = terms(pool("fence", &["203.0.113.50"]), |terms| terms.enforce = true);
        rig.set_pools(vec![fence, open.clone()]);
        assert_eq!((rig.has("s"), rig.reason("s")), (vec![has.into()], reason), "{mode:?}");
        rig.set_pools(vec![open]);
        let after = if has == "203.0.113.60" {
            Reason::Assigned
        } else {
            Reason::Retained
        };
        assert_eq!(
            (rig.has("s"), rig.reason("s")),
            (vec![has.into()], after),
            "the fence is gone"
        );
    }
}

#[test]
fn b67_a_pool_that_is_gone_gives_nothing_and_takes_nothing() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.64-203.0.113.65"])]);
    rig.set(service("osprey", 1));
    rig.set_pools(vec![]);
    assert_eq!((rig.has("osprey").len(), rig.reason("osprey")), (1, Reason::Retained));
    assert_eq!(rig.set(service("kite", 2)).reason, Reason::NoPool);
    rig.remove("osprey");
    assert_eq!(rig.set(service("osprey", 3)).reason, Reason::NoPool);
    rig.set_pools(vec![pool("reed", &["203.0.113.64-203.0.113.65"])]);
    assert_eq!(
        (rig.has("kite"), rig.has("osprey")),
        (vec!["203.0.113.64".into()], vec!["203.0.113.65".into()])
    );
}

#[test]
fn with_reassign_a_removed_range_moves_its_users() {
    let reassigning = |ranges: &[&str]| BalancerPool {
        on_removal: OnRemoval::Reassign,
        ..pool("reed", ranges)
    };
    let mut rig = Rig::new(vec![reassigning(&["203.0.113.64"])]);
    rig.set(service("heron", 1));
    rig.set_pools(vec![reassigning(&["203.0.113.70"])]);
    assert_eq!(rig.has("heron"), ["203.0.113.70"]);
    rig.set_pools(vec![]);
    assert_eq!((rig.has("heron").len(), rig.reason("heron")), (0, Reason::NoPool));
}

#[test]
fn b76_a_wish_for_another_pool_is_followed_and_a_contradiction_changes_nothing() {
    let mut rig = Rig::new(vec![
        pool("reed", &["203.0.113.64-203.0.113.67"]),
        pool("sedge", &["203.0.113.80-203.0.113.83"]),
    ]);
    rig.set(service("pintail", 1));
    let from_sedge = asking(service("pintail", 1), |ask| ask.pools = vec!["sedge".into()]);
    assert_eq!(rig.set(from_sedge.clone()).addresses, [ip("203.0.113.80")]);
    let torn = rig.set(asking(from_sedge, |ask| ask.addresses = vec![ip("203.0.113.64")]));
    assert_eq!(
        (torn.addresses, torn.reason),
        (vec![ip("203.0.113.80")], Reason::RequestConflict)
    );
    let unknown = rig.set(asking(service("other", 2), |ask| ask.pools = vec!["rush".into()]));
    assert_eq!(unknown.reason, Reason::PoolUnknown);
}

#[test]
fn b81_prefer_degrades_and_upgrades_and_require_holds_nothing() {
    let v4 = pool("reed", &["203.0.113.64-203.0.113.67"]);
    let mut rig = Rig::new(vec![v4.clone()]);
    let prefer = rig.set(dual(service("prefer", 1), Policy::Prefer));
    assert_eq!(
        (prefer.addresses.len(), prefer.satisfied, prefer.reason),
        (1, true, Reason::PartiallyAssigned)
    );
    let require = rig.set(dual(service("require", 2), Policy::Require));
    assert_eq!(
        (require.addresses.len(), require.reason),
        (0, Reason::FamilyUnavailable)
    );
    assert_eq!(rig.balancers.counts("reed", IpFamily::IPv4).unwrap().held, 1);
    rig.set_pools(vec![v4, pool("six", &["2001:db8::/64"])]);
    assert_eq!([rig.has("prefer").len(), rig.has("require").len()], [2, 2]);
    assert_eq!([rig.reason("prefer"), rig.reason("require")], [Reason::Assigned; 2]);
    // Back to one family: the other address goes.
    assert_eq!(rig.set(service("require", 2)).addresses.len(), 1);
}

#[test]
fn b82_who_breaks_the_rule_leaves_and_the_others_stay() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.70"])]);
    let tcp = sharing(service("dns-t", 1), "dns", (Protocol::Tcp, 53));
    let udp = sharing(service("dns-u", 2), "dns", (Protocol::Udp, 53));
    rig.set(tcp.clone());
    assert_eq!(rig.set(udp).addresses, [ip("203.0.113.70")]);
    let clash = rig.set(sharing(service("dns-t", 1), "dns", (Protocol::Udp, 53)));
    assert_eq!((clash.addresses.len(), clash.reason), (0, Reason::SharingPortConflict));
    assert!(
        clash.message.contains("marsh/dns-u has port 53/UDP"),
        "{}",
        clash.message
    );
    assert_eq!(rig.has("dns-u"), ["203.0.113.70"]);
    assert_eq!(rig.set(tcp).addresses, [ip("203.0.113.70")]);
    rig.remove("dns-t");
    assert_eq!(rig.set(service("loner", 3)).reason, Reason::Exhausted);
    rig.remove("dns-u");
    assert_eq!(rig.has("loner"), ["203.0.113.70"]);
}

#[test]
fn each_rule_of_sharing_has_its_reason() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.70-203.0.113.79"])]);
    let pinned = |facts: Facts| asking(facts, |ask| ask.addresses = vec![ip("203.0.113.70")]);
    let local = |mut facts: Facts, app: &str, permits_others| {
        let traffic = Traffic::Local {
            selector: [("app".to_owned(), app.to_owned())].into(),
            permits_others,
        };
        Arc::make_mut(&mut facts.share.terms).traffic = traffic;
        facts
    };
    rig.set(sharing(service("first", 1), "k", (Protocol::Tcp, 80)));
    let other = |port| sharing(service("second", 2), "k", (Protocol::Tcp, port));
    let table = [
        (pinned(service("second", 2)), Reason::AddressTaken),
        (
            pinned(sharing(service("second", 2), "j", (Protocol::Tcp, 81))),
            Reason::SharingKeyMismatch,
        ),
        (pinned(other(80)), Reason::SharingPortConflict),
        (pinned(local(other(81), "web", true)), Reason::SharingPolicyMismatch),
        (
            pinned(sharing(service("fen/second", 2), "k", (Protocol::Tcp, 81))),
            Reason::SharingNamespaceDenied,
        ),
        (pinned(other(81)), Reason::Assigned),
    ];
    for (facts, reason) in table {
        let name = facts.owner.service.to_string();
        assert_eq!(rig.set(facts).reason, reason);
        rig.remove(&name);
    }
    rig.remove("first");
    rig.set(local(
        sharing(service("first", 1), "k", (Protocol::Tcp, 80)),
        "web",
        true,
    ));
    let table = [("web", false, true), ("api", true, true), ("api", false, false)];
    for (app, permits, joins) in table {
        let outcome = rig.set(local(other(81), app, permits));
        assert_eq!(outcome.satisfied, joins, "{app}: {outcome:?}");
        rig.remove("second");
    }
}

#[test]
fn a_key_of_another_namespace_needs_the_consent_of_both() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.70-203.0.113.79"])]);
    let consenting = |mut facts: Facts, to: &str| {
        Arc::make_mut(&mut facts.share.terms).consent = Consent::Named([to.to_owned()].into());
        facts
    };
    rig.set(sharing(service("fen/a", 1), "k", (Protocol::Tcp, 80)));
    let alone = rig.set(sharing(service("marsh/b", 2), "k", (Protocol::Tcp, 81)));
    assert_eq!(alone.addresses, [ip("203.0.113.71")], "the same key by accident");
    rig.remove("marsh/b");
    let asking = rig.set(consenting(
        sharing(service("marsh/b", 2), "k", (Protocol::Tcp, 81)),
        "fen",
    ));
    assert_eq!(asking.reason, Reason::SharingNamespaceDenied);
    rig.set(consenting(
        sharing(service("fen/a", 1), "k", (Protocol::Tcp, 80)),
        "marsh",
    ));
    assert_eq!(rig.has("marsh/b"), ["203.0.113.70"], "woken by the other's consent");
}

#[test]
fn who_joins_a_set_of_addresses_gets_the_set() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.70-203.0.113.79"])]);
    let first = sharing(service("first", 1), "k", (Protocol::Tcp, 80));
    rig.set(asking(first, |ask| {
        ask.addresses = vec![ip("203.0.113.72"), ip("203.0.113.74")];
    }));
    rig.set(sharing(service("second", 2), "k", (Protocol::Tcp, 81)));
    assert_eq!(rig.has("second"), ["203.0.113.72", "203.0.113.74"]);
}

#[test]
fn pins_may_lie_in_several_pools_and_what_can_be_had_is_given() {
    let mut rig = Rig::new(vec![
        pool("reed", &["203.0.113.64"]),
        pool("sedge", &["203.0.113.80-203.0.113.81"]),
    ]);
    let pinned = |name: &str, pins: &[&str]| {
        asking(service(name, 1), |ask| {
            ask.addresses = pins.iter().map(|it| ip(it)).collect();
        })
    };
    assert_eq!(
        rig.set(pinned("both", &["203.0.113.80", "203.0.113.64"])).addresses,
        [ip("203.0.113.80"), ip("203.0.113.64")]
    );
    let part = rig.set(pinned("part", &["203.0.113.64", "203.0.113.81"]));
    assert_eq!(
        (part.addresses, part.reason, part.satisfied),
        (vec![ip("203.0.113.81")], Reason::PartiallyAssigned, false)
    );
    assert!(part.message.contains("marsh/both has it"), "{}", part.message);
    assert_eq!(rig.set(pinned("outside", &["192.0.2.1"])).reason, Reason::NoPool);
    assert_eq!(
        rig.set(pinned("six", &["2001:db8::1"])).reason,
        Reason::FamilyUnavailable
    );
    rig.remove("both");
    assert_eq!(rig.has("part").len(), 2);
}

#[test]
fn a_message_does_not_grow_with_what_is_asked_for() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.0-203.0.113.255"])]);
    let pins = |net: &str| (0..200).map(|host| ip(&format!("{net}.{host}"))).collect::<Vec<_>>();
    let has = rig.set(asking(service("web", 1), |ask| ask.addresses = pins("203.0.113")));
    assert_eq!((has.addresses.len(), has.reason), (200, Reason::Assigned));
    assert!(
        has.message.starts_with("203.0.113.0, ") && has.message.ends_with(", 203.0.113.15, and 184 more"),
        "{}",
        has.message
    );
    let lacks = rig.set(asking(service("api", 2), |ask| ask.addresses = pins("198.51.100")));
    assert!(lacks.message.ends_with("; and 184 more"), "{}", lacks.message);
    assert!(lacks.message.len() < 1000, "{}", lacks.message);
}

#[test]
fn pools_serve_by_priority_mode_and_fence() {
    let low = terms(pool("zz", &["203.0.113.10"]), |terms| terms.priority = -1);
    let mut rig = Rig::new(vec![pool("a", &["203.0.113.20-203.0.113.21"]), low.clone()]);
    assert_eq!(rig.set(service("s1", 1)).addresses, [ip("203.0.113.10")]);
    assert_eq!(rig.set(service("s2", 2)).addresses, [ip("203.0.113.20")]);
    let drained = terms(pool("a", &["203.0.113.20-203.0.113.21"]), |terms| {
        terms.mode = Mode::Drain;
    });
    rig.set_pools(vec![drained, low]);
    assert_eq!(
        (rig.reason("s2"), rig.set(service("s3", 3)).reason),
        (Reason::Assigned, Reason::Exhausted)
    );
    assert!(
        rig.outcome("s3").message.contains("pool \"a\" is being drained"),
        "{:?}",
        rig.outcome("s3")
    );
    let on_request = terms(pool("quiet", &["203.0.113.40"]), |terms| terms.auto_assign = false);
    let fence = terms(pool("fence", &["203.0.113.50"]), |terms| terms.enforce = true);
    rig.set_pools(vec![on_request.clone()]);
    assert_eq!(rig.reason("s3"), Reason::PoolNotEligible);
    rig.set_pools(vec![on_request, fence, pool("open", &["203.0.113.60"])]);
    assert_eq!(rig.has("s3"), ["203.0.113.50"]);
    assert_eq!(
        rig.set(service("s4", 4)).reason,
        Reason::Exhausted,
        "the fence binds those whom it selects"
    );
}

#[test]
fn a_reservation_outlives_the_service_and_a_rest_ends() {
    let spec = PoolSpec {
        ranges: vec!["203.0.113.64-203.0.113.66".into()],
        reservations: vec![("203.0.113.64".into(), "marsh/heron".into())],
        ..PoolSpec::default()
    };
    let resting = terms(with_spec("reed", &spec), |terms| {
        terms.reuse_delay = Duration::from_mins(1);
    });
    let mut rig = Rig::new(vec![resting]);
    assert_eq!(rig.set(service("egret", 1)).addresses, [ip("203.0.113.65")]);
    assert_eq!(rig.set(service("heron", 2)).addresses, [ip("203.0.113.64")]);
    rig.remove("heron");
    rig.remove("egret");
    assert_eq!(rig.set(service("ibis", 3)).addresses, [ip("203.0.113.66")]);
    assert_eq!(
        rig.set(service("kite", 4)).reason,
        Reason::Exhausted,
        "one is reserved, one rests"
    );
    let counts = rig.balancers.counts("reed", IpFamily::IPv4).unwrap();
    assert_eq!(
        (counts.held, counts.reserved, counts.quarantined, counts.free),
        (1, 1, 1, 0)
    );
    assert_eq!(
        rig.set(service("egret", 5)).addresses,
        [ip("203.0.113.65")],
        "the former owner need not wait"
    );
    rig.remove("egret");
    rig.now += Duration::from_mins(1);
    rig.balancers.advance(rig.now);
    assert_eq!(rig.has("kite"), ["203.0.113.65"]);
}

#[test]
fn orders_choose_and_spread_returns_to_the_same_address() {
    let ordered = |order, ranges: &[&str]| BalancerPool {
        order,
        ..pool("reed", ranges)
    };
    let mut rig = Rig::new(vec![ordered(Order::Highest, &["203.0.113.64-203.0.113.71"])]);
    assert_eq!(rig.set(service("heron", 1)).addresses, [ip("203.0.113.71")]);
    let six = |name: &str, created| asking(service(name, created), |ask| ask.families = vec![IpFamily::IPv6]);
    let mut rig = Rig::new(vec![ordered(Order::Spread, &["2001:db8::/64", "2001:db8:1::/64"])]);
    let first = rig.set(six("heron", 1)).addresses;
    let second = rig.set(six("egret", 2)).addresses;
    assert_ne!(first, second);
    rig.remove("heron");
    assert_eq!(rig.set(six("heron", 3)).addresses, first);
}

#[test]
fn the_older_of_two_that_show_one_address_keeps_it() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.64-203.0.113.65"])]);
    let mut shown = |name: &str, created| {
        let mut facts = service(name, created);
        facts.admitted = ["reed".into()].into_iter().collect();
        rig.balancers.stop();
        rig.balancers.set_service(facts, set(&["203.0.113.64"]), rig.now);
    };
    shown("younger", 2);
    shown("older", 1);
    rig.balancers.start(&BTreeMap::new(), rig.now);
    assert_eq!(
        (rig.has("older"), rig.has("younger")),
        (vec!["203.0.113.64".into()], vec!["203.0.113.65".into()])
    );
}

#[test]
fn who_has_left_the_rule_while_nobody_led_leaves_and_the_others_stay() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.64-203.0.113.69"])]);
    let other_key = sharing(service("oldest", 1), "other", (Protocol::Tcp, 80));
    for leaver in [service("oldest", 1), other_key] {
        rig.balancers.stop();
        for mut facts in [
            leaver,
            sharing(service("second", 2), "k", (Protocol::Tcp, 81)),
            sharing(service("third", 3), "k", (Protocol::Tcp, 82)),
        ] {
            facts.admitted = ["reed".into()].into_iter().collect();
            rig.balancers.set_service(facts, set(&["203.0.113.64"]), rig.now);
        }
        rig.balancers.start(&BTreeMap::new(), rig.now);
        assert_eq!(
            (rig.has("oldest"), rig.has("second"), rig.has("third")),
            (
                vec!["203.0.113.65".into()],
                vec!["203.0.113.64".into()],
                vec!["203.0.113.64".into()]
            )
        );
    }
}

#[test]
fn who_is_being_deleted_keeps_what_it_has_and_gets_nothing() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.64"])]);
    rig.set(service("heron", 1));
    let going = Facts {
        is_leaving: true,
        ..service("heron", 1)
    };
    assert_eq!(rig.set(going).addresses, [ip("203.0.113.64")]);
    let late = Facts {
        is_leaving: true,
        ..service("late", 2)
    };
    rig.remove("heron");
    assert!(rig.set(late).addresses.is_empty());
}

#[test]
fn what_somebody_else_shows_for_a_service_is_nobodys_and_its_claim_stands() {
    let mut rig = Rig::new(vec![pool("reed", &["203.0.113.64-203.0.113.66"])]);
    rig.set(service("heron", 1));
    rig.balancers.set_shown(&key("heron"), set(&["203.0.113.65"]), rig.now);
    let claims = BTreeMap::from([(key("heron"), set(&["203.0.113.64"]))]);
    rig.balancers.start(&claims, rig.now);
    assert_eq!(rig.has("heron"), ["203.0.113.64"]);
    assert_eq!(rig.set(service("egret", 2)).addresses, [ip("203.0.113.66")]);
    // Somebody shows what is claimed: a claim is no proof.
    rig.balancers
        .start(&BTreeMap::from([(key("heron"), set(&["203.0.113.66"]))]), rig.now);
    assert_eq!(
        (rig.has("heron"), rig.has("egret")),
        (vec!["203.0.113.64".into()], vec!["203.0.113.66".into()])
    );
}

/// A standby sees who lets go of what, and leads later.
#[test]
fn what_a_standby_has_seen_come_to_rest_rests_when_it_leads() {
    let rest = |pool| terms(pool, |terms| terms.reuse_delay = Duration::from_mins(1));
    let mut rig = Rig::new(vec![rest(pool("reed", &["203.0.113.64-203.0.113.65"]))]);
    rig.set(service("heron", 1));
    rig.balancers.stop();
    rig.balancers.remove_service(&key("heron"), rig.now);
    rig.balancers.start(&BTreeMap::new(), rig.now);
    assert_eq!(rig.set(service("egret", 2)).addresses, [ip("203.0.113.65")]);
    assert_eq!(
        rig.set(service("heron", 3)).addresses,
        [ip("203.0.113.64")],
        "the former owner is exempt"
    );
}

#[test]
fn what_a_standby_has_seen_given_up_is_given_up_when_it_leads() {
    let reed = BalancerPool {
        on_removal: OnRemoval::Reassign,
        ..pool("reed", &["203.0.113.64"])
    };
    let sedge = pool("sedge", &["203.0.113.80"]);
    let mut rig = Rig::new(vec![reed, sedge.clone()]);
    rig.set(service("heron", 1));
    assert_eq!(rig.has("heron"), ["203.0.113.64"]);
    rig.balancers.stop();
    rig.set_pools(vec![sedge]);
    rig.balancers.start(&BTreeMap::new(), rig.now);
    assert_eq!(rig.has("heron"), ["203.0.113.80"]);
}

#[test]
fn a_rest_ends_although_somebody_else_shows_the_address_meanwhile() {
    let rest = |pool| terms(pool, |terms| terms.reuse_delay = Duration::from_mins(1));
    let mut rig = Rig::new(vec![rest(pool("reed", &["203.0.113.64-203.0.113.65"]))]);
    rig.set(service("heron", 1));
    rig.set(service("egret", 2));
    rig.remove("heron");
    rig.now += Duration::from_secs(30);
    let own = set(&["203.0.113.65"]);
    rig.balancers
        .set_shown(&key("egret"), &own | &set(&["203.0.113.64"]), rig.now);
    rig.balancers.set_shown(&key("egret"), own, rig.now);
    rig.now += Duration::from_secs(59);
    rig.balancers.advance(rig.now);
    assert!(rig.set(service("late", 3)).addresses.is_empty(), "it rests anew");
    rig.now += Duration::from_secs(1);
    rig.balancers.advance(rig.now);
    rig.write();
    assert_eq!(rig.has("late"), ["203.0.113.64"]);
}
