//! What the annotations of a Service and its `spec.loadBalancerIP` ask for: ours, and those of other products that are read as well, so that
//! a migration needs no edits of manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::reason::{Reason, Wrong};
use super::share::Consent;
use crate::quoted::quoted;

/// Whose annotations are read beside ours.
#[expect(clippy::struct_excessive_bools, reason = "a switch for each product")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Products {
    /// `metallb.io/…` and `metallb.universe.tf/…`.
    pub metallb: bool,
    /// `lbipam.cilium.io/…` and `io.cilium/lb-ipam-…`.
    pub cilium: bool,
    /// `kube-vip.io/…`.
    pub kube_vip: bool,
    /// `purelb.io/…`.
    pub purelb: bool,
}

impl Products {
    /// All of them.
    pub const ALL: Self = Self {
        metallb: true,
        cilium: true,
        kube_vip: true,
        purelb: true,
    };

    /// None of them.
    pub const NONE: Self = Self {
        metallb: false,
        cilium: false,
        kube_vip: false,
        purelb: false,
    };

    fn has(self, product: Product) -> bool {
        match product {
            Product::Ours => true,
            Product::MetalLb => self.metallb,
            Product::Cilium => self.cilium,
            Product::KubeVip => self.kube_vip,
            Product::PureLb => self.purelb,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Product {
    Ours,
    MetalLb,
    Cilium,
    KubeVip,
    PureLb,
}

use Product::{Cilium, KubeVip, MetalLb, Ours, PureLb};

type Names = &'static [(Product, &'static str)];

const ADDRESSES: Names = &[
    (Ours, "svcplane.io/load-balancer-ips"),
    (MetalLb, "metallb.io/loadBalancerIPs"),
    (MetalLb, "metallb.universe.tf/loadBalancerIPs"),
    (Cilium, "lbipam.cilium.io/ips"),
    (Cilium, "io.cilium/lb-ipam-ips"),
    (KubeVip, "kube-vip.io/loadbalancerIPs"),
    (PureLb, "purelb.io/addresses"),
];
const POOLS: Names = &[
    (Ours, "svcplane.io/load-balancer-pool"),
    (MetalLb, "metallb.io/address-pool"),
    (MetalLb, "metallb.universe.tf/address-pool"),
    (PureLb, "purelb.io/service-group"),
];
const KEYS: Names = &[
    (Ours, "svcplane.io/sharing-key"),
    (MetalLb, "metallb.io/allow-shared-ip"),
    (MetalLb, "metallb.universe.tf/allow-shared-ip"),
    (Cilium, "lbipam.cilium.io/sharing-key"),
    (Cilium, "io.cilium/lb-ipam-sharing-key"),
    (PureLb, "purelb.io/allow-shared-ip"),
];
const NAMESPACES: Names = &[
    (Ours, "svcplane.io/sharing-namespaces"),
    (Cilium, "lbipam.cilium.io/sharing-cross-namespace"),
    (Cilium, "io.cilium/lb-ipam-sharing-cross-namespace"),
];
const DIFFERENT_PODS: Names = &[
    (Ours, "svcplane.io/sharing-different-pods"),
    (Cilium, "lbipam.cilium.io/sharing-permit-different-pods"),
];
const FIELD: &str = "spec.loadBalancerIP";

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Exactly these addresses.
    pub addresses: Vec<IpAddr>,
    /// Only from these pools.
    pub pools: Vec<Arc<str>>,
    /// Share under this key.
    pub key: Option<Arc<str>>,
    /// With these other namespaces.
    pub consent: Consent,
    /// Also with Services whose Pods are elsewhere.
    pub different_pods: bool,
}

/// Whether this annotation can mean anything here, whatever products are read.
pub fn is_request(annotation: &str) -> bool {
    let all = [ADDRESSES, POOLS, KEYS, NAMESPACES, DIFFERENT_PODS];
    all.iter()
        .any(|names| names.iter().any(|(_, name)| *name == annotation))
}

/// Reads them. An empty text is no request.
///
/// # Errors
/// A text that cannot be understood, or two sources that do not say the same.
pub fn read_request(
    annotations: &BTreeMap<String, String>,
    load_balancer_ip: &str,
    products: Products,
) -> Result<Request, Wrong> {
    let said = |names: Names| {
        let names = names.iter().filter(move |(product, _)| products.has(*product));
        let texts = names.filter_map(|(product, name)| Some((*product, Source::new(name, annotations.get(*name)?))));
        texts.filter(|(_, source)| !source.text.is_empty())
    };
    let mut addresses: Option<(Source<'_>, Vec<IpAddr>)> = None;
    for (_, source) in said(ADDRESSES) {
        addresses = Some(agreed(addresses, (source, read_addresses(source)?), |left, right| {
            left.iter().collect::<BTreeSet<_>>() == right.iter().collect::<BTreeSet<_>>()
        })?);
    }
    let field = Source::new(FIELD, load_balancer_ip);
    if !field.text.is_empty() {
        // The field has room for one of two families.
        addresses = Some(agreed(addresses, (field, read_addresses(field)?), |left, right| {
            right.iter().all(|address| left.contains(address))
        })?);
    }
    let mut pools: Option<(Source<'_>, Vec<Arc<str>>)> = None;
    for (_, source) in said(POOLS) {
        let named: Vec<Arc<str>> = words(source.text).map(Arc::from).collect();
        if named.is_empty() {
            return Err(source.invalid("names no pool"));
        }
        pools = Some(agreed(pools, (source, named), Vec::eq)?);
    }
    let (mut key, mut is_open): (Option<(Source<'_>, Arc<str>)>, bool) = (None, false);
    for (product, source) in said(KEYS) {
        // Those two ask no namespace for its consent.
        is_open |= matches!(product, MetalLb | PureLb);
        key = Some(agreed(key, (source, source.text.into()), Arc::eq)?);
    }
    let mut consent: Option<(Source<'_>, Consent)> = None;
    for (_, source) in said(NAMESPACES) {
        let named: BTreeSet<String> = words(source.text).map(str::to_owned).collect();
        let named = if named.contains("*") {
            Consent::All
        } else {
            Consent::Named(named)
        };
        consent = Some(agreed(consent, (source, named), Consent::eq)?);
    }
    let mut different_pods: Option<(Source<'_>, bool)> = None;
    for (_, source) in said(DIFFERENT_PODS) {
        let is_wanted = source
            .text
            .parse()
            .map_err(|_| source.invalid("must be true or false"))?;
        different_pods = Some(agreed(different_pods, (source, is_wanted), bool::eq)?);
    }
    let unasked = if is_open { Consent::All } else { Consent::default() };
    Ok(Request {
        addresses: addresses.map(|(_, listed)| listed).unwrap_or_default(),
        pools: pools.map(|(_, named)| named).unwrap_or_default(),
        key: key.map(|(_, text)| text),
        consent: consent.map_or(unasked, |(_, consent)| consent),
        different_pods: different_pods.is_some_and(|(_, is_wanted)| is_wanted),
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// An annotation, or the field, and what stands there.
#[derive(Clone, Copy)]
struct Source<'a> {
    name: &'static str,
    text: &'a str,
}

impl<'a> Source<'a> {
    fn new(name: &'static str, text: &'a str) -> Self {
        Self {
            name,
            text: text.trim(),
        }
    }

    fn invalid(self, problem: &str) -> Wrong {
        Wrong {
            reason: Reason::InvalidRequest,
            message: format!("{}: {} {problem}", self.name, quoted(self.text)),
        }
    }
}

/// The first of two sources, if the second says the same.
fn agreed<'a, T>(
    first: Option<(Source<'a>, T)>,
    (source, second): (Source<'a>, T),
    same: impl Fn(&T, &T) -> bool,
) -> Result<(Source<'a>, T), Wrong> {
    match first {
        None => Ok((source, second)),
        Some((earlier, first)) if same(&first, &second) => Ok((earlier, first)),
        Some((earlier, _)) => Err(Wrong {
            reason: Reason::RequestConflict,
            message: format!(
                "{} ({}) and {} ({}) do not ask for the same: take one of them away",
                earlier.name,
                quoted(earlier.text),
                source.name,
                quoted(source.text)
            ),
        }),
    }
}

fn read_addresses(source: Source<'_>) -> Result<Vec<IpAddr>, Wrong> {
    let mut listed = Vec::new();
    for text in words(source.text) {
        let word = Source { text, ..source };
        let address: IpAddr = text
            .parse()
            .map_err(|_| word.invalid("must be an IPv4 or IPv6 address, or several with commas between them"))?;
        let is_mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
        if is_mapped || address.is_unspecified() {
            return Err(word.invalid("is no address that a Service can have"));
        }
        if !listed.contains(&address) {
            listed.push(address);
        }
    }
    if listed.is_empty() {
        return Err(source.invalid("names no address"));
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)], field: &str) -> Result<Request, Wrong> {
        let annotations = annotations.iter().map(|(name, text)| ((*name).into(), (*text).into()));
        read_request(&annotations.collect(), field, Products::ALL)
    }

    #[test]
    fn each_product_is_understood() {
        for name in ADDRESSES.iter().map(|(_, name)| *name) {
            let request = read(&[(name, " 203.0.113.7, 2001:DB8::0007,203.0.113.7")], "").unwrap();
            let want: Vec<IpAddr> = vec!["203.0.113.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
            assert_eq!(request.addresses, want, "{name}");
            assert!(is_request(name));
        }
        for name in POOLS.iter().map(|(_, name)| *name) {
            assert_eq!(
                read(&[(name, "reed")], "").unwrap().pools,
                [Arc::from("reed")],
                "{name}"
            );
        }
        for (product, name) in KEYS {
            let request = read(&[(name, "dns")], "").unwrap();
            assert_eq!(request.key.as_deref(), Some("dns"), "{name}");
            let is_open = matches!(product, MetalLb | PureLb);
            assert_eq!(request.consent == Consent::All, is_open, "{name}");
        }
        for name in NAMESPACES.iter().map(|(_, name)| *name) {
            assert!(read(&[(name, "a, b")], "").unwrap().consent.names("b"), "{name}");
            assert_eq!(read(&[(name, "*")], "").unwrap().consent, Consent::All, "{name}");
        }
        for name in DIFFERENT_PODS.iter().map(|(_, name)| *name) {
            assert!(read(&[(name, "true")], "").unwrap().different_pods, "{name}");
        }
        assert_eq!(read(&[("example.org/x", "y")], "").unwrap(), Request::default());
    }

    #[test]
    fn a_product_can_be_left_out() {
        let annotations = BTreeMap::from([("metallb.io/loadBalancerIPs".to_owned(), "203.0.113.7".to_owned())]);
        let read = |products| read_request(&annotations, "", products).unwrap().addresses.len();
        let without = Products {
            metallb: false,
            ..Products::ALL
        };
        assert_eq!((read(Products::ALL), read(without), read(Products::NONE)), (1, 0, 0));
    }

    #[test]
    fn two_sources_that_disagree_are_both_named() {
        let both = [
            ("svcplane.io/load-balancer-ips", "203.0.113.7"),
            ("lbipam.cilium.io/ips", "203.0.113.8"),
        ];
        let wrong = read(&both, "").unwrap_err();
        assert_eq!(wrong.reason, Reason::RequestConflict);
        for (name, text) in both {
            assert!(
                wrong.message.contains(&format!("{name} ({text:?})")),
                "{}",
                wrong.message
            );
        }
        let wrong = read(&both[..1], "203.0.113.9").unwrap_err();
        assert!(wrong.message.contains(FIELD), "{}", wrong.message);
        let alike = [
            ("svcplane.io/load-balancer-ips", "203.0.113.7,2001:db8::7"),
            ("metallb.io/loadBalancerIPs", "2001:db8::7,203.0.113.7"),
        ];
        assert_eq!(read(&alike, "203.0.113.7").unwrap().addresses.len(), 2);
    }

    #[test]
    fn what_cannot_be_understood_names_its_source() {
        let table = [
            ("svcplane.io/load-balancer-ips", "web.example.org"),
            ("kube-vip.io/loadbalancerIPs", "0.0.0.0"),
            ("metallb.io/loadBalancerIPs", "::ffff:203.0.113.7"),
            ("svcplane.io/load-balancer-ips", ","),
            ("metallb.io/address-pool", ", ,"),
            ("svcplane.io/sharing-different-pods", "maybe"),
        ];
        for (name, text) in table {
            let wrong = read(&[(name, text)], "").unwrap_err();
            assert_eq!(wrong.reason, Reason::InvalidRequest);
            assert!(
                wrong.message.contains(name) && wrong.message.contains(text),
                "{}",
                wrong.message
            );
        }
        assert!(read(&[], "example").unwrap_err().message.contains(FIELD));
    }
}
