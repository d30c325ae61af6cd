//! Reads the values of a pool's spec. Every error names its field; all are reported at once.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use thiserror::Error;

use super::{ClusterIpHoldings, FirstLast, Holdings, LoadBalancerHoldings, NodePortHoldings, PoolSpec};
use crate::address::{parse_address, parse_cidr};
use crate::interval::{Interval, Segments};
use crate::service::ServiceKey;
use crate::value::{NodePort, Value};

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {value:?} {message}")]
pub struct FieldError {
    /// Its path: `spec.ranges[2]`.
    pub field: String,
    /// What it says.
    pub value: String,
    /// What is wrong: `must be …`.
    pub message: String,
}

/// The values of a ClusterIPPool.
pub fn parse_cluster_ip_pool(spec: &PoolSpec) -> Result<ClusterIpHoldings, Vec<FieldError>> {
    parse_address_pool(spec, parse_addresses)
}

/// The values of a LoadBalancerPool.
pub fn parse_load_balancer_pool(
    spec: &PoolSpec,
    first_last: FirstLast,
) -> Result<LoadBalancerHoldings, Vec<FieldError>> {
    parse_address_pool(spec, |text| {
        let addresses = parse_addresses(text)?;
        if let Some(what) = addresses.unusable() {
            return Err(format!(
                "must not have {what} addresses: no client can reach a Service there"
            ));
        }
        let is_network = text.contains('/') && first_last == FirstLast::Reserve;
        Ok(if is_network { addresses.within() } else { addresses })
    })
}

fn parse_address_pool(
    spec: &PoolSpec,
    range: impl Fn(&str) -> Result<Addresses, String>,
) -> Result<ClusterIpHoldings, Vec<FieldError>> {
    let mut errors = Vec::new();
    let ranges = read_all("spec.ranges", &spec.ranges, range, &mut errors);
    let excluded = read_all("spec.excluded", &spec.excluded, parse_addresses, &mut errors);
    let value = |text: &str| parse_address(text).map_err(|error| error.to_string());
    let reservations = read_reservations(spec, value, &mut errors);
    let v4 = |address: IpAddr| match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    };
    let v6 = |address: IpAddr| match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => Some(v6),
    };
    let holdings = ClusterIpHoldings {
        ipv4: holdings(&ranges, &excluded, &reservations, Addresses::ipv4, v4, &mut errors),
        ipv6: holdings(&ranges, &excluded, &reservations, Addresses::ipv6, v6, &mut errors),
    };
    finish(holdings, spec, errors)
}

/// The values of a NodePortPool.
pub fn parse_node_port_pool(spec: &PoolSpec) -> Result<NodePortHoldings, Vec<FieldError>> {
    let mut errors = Vec::new();
    let ranges = read_all("spec.ranges", &spec.ranges, parse_ports, &mut errors);
    let excluded = read_all("spec.excluded", &spec.excluded, parse_ports, &mut errors);
    let reservations = read_reservations(spec, parse_port, &mut errors);
    let holdings = holdings(
        &ranges,
        &excluded,
        &reservations,
        |ports| Some(*ports),
        Some,
        &mut errors,
    );
    finish(holdings, spec, errors)
}

/// Entries of `spec.excluded` of a ClusterIPPool or LoadBalancerPool that take nothing out of `spec.ranges`: as a rule a slip
/// of the pen. Entries that cannot be read are left out.
pub fn idle_address_exclusions(ranges: &[String], excluded: &[String]) -> Vec<FieldError> {
    idle_exclusions(ranges, excluded, parse_addresses, Addresses::overlaps)
}

/// The same of a NodePortPool.
pub fn idle_node_port_exclusions(ranges: &[String], excluded: &[String]) -> Vec<FieldError> {
    idle_exclusions(ranges, excluded, parse_ports, |left, right| {
        left.intersection(*right).is_some()
    })
}

fn idle_exclusions<T>(
    ranges: &[String],
    excluded: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
    overlap: impl Fn(&T, &T) -> bool,
) -> Vec<FieldError> {
    let ranges: Vec<T> = ranges.iter().filter_map(|text| parse(text).ok()).collect();
    let idle = excluded
        .iter()
        .enumerate()
        .filter(|(_, text)| parse(text).is_ok_and(|values| !ranges.iter().any(|range| overlap(range, &values))));
    idle.map(|(index, text)| {
        error(
            format!("spec.excluded[{index}]"),
            text,
            "takes nothing out of spec.ranges",
        )
    })
    .collect()
}

fn finish<T>(holdings: T, spec: &PoolSpec, mut errors: Vec<FieldError>) -> Result<T, Vec<FieldError>> {
    if spec.ranges.is_empty() {
        errors.push(error("spec.ranges", "", "must name at least one value"));
    }
    errors.sort_by(|left, right| left.field.cmp(&right.field));
    if errors.is_empty() { Ok(holdings) } else { Err(errors) }
}

fn error(field: impl Into<String>, value: &str, message: impl Into<String>) -> FieldError {
    FieldError {
        field: field.into(),
        value: value.into(),
        message: message.into(),
    }
}

/// Values of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addresses {
    V4(Interval<Ipv4Addr>),
    V6(Interval<Ipv6Addr>),
}

impl Addresses {
    /// Without the first and the last address, if there are others.
    fn within(self) -> Self {
        match self {
            Self::V4(interval) => Self::V4(within(interval)),
            Self::V6(interval) => Self::V6(within(interval)),
        }
    }

    /// What some of them are, if no traffic can be addressed to it.
    fn unusable(&self) -> Option<&'static str> {
        let v4 = |first: [u8; 4], last: [u8; 4]| self.ipv4()?.intersection(Interval::new(first.into(), last.into())?);
        let v6 = |first: u128, last: u128| {
            let span = Interval::new(Ipv6Addr::from_bits(first), Ipv6Addr::from_bits(last))?;
            self.ipv6()?.intersection(span)
        };
        let table = [
            (
                "unspecified",
                v4([0, 0, 0, 0], [0, 255, 255, 255]).is_some() || v6(0, 0).is_some(),
            ),
            (
                "loopback",
                v4([127, 0, 0, 0], [127, 255, 255, 255]).is_some() || v6(1, 1).is_some(),
            ),
            (
                "multicast",
                v4([224, 0, 0, 0], [239, 255, 255, 255]).is_some() || v6(0xff << 120, u128::MAX).is_some(),
            ),
            ("broadcast", v4([255; 4], [255; 4]).is_some()),
        ];
        table.iter().find(|(_, is_some)| *is_some).map(|(what, _)| *what)
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::V4(left), Self::V4(right)) => left.intersection(*right).is_some(),
            (Self::V6(left), Self::V6(right)) => left.intersection(*right).is_some(),
            _ => false,
        }
    }

    fn ipv4(&self) -> Option<Interval<Ipv4Addr>> {
        match self {
            Self::V4(interval) => Some(*interval),
            Self::V6(_) => None,
        }
    }

    fn ipv6(&self) -> Option<Interval<Ipv6Addr>> {
        match self {
            Self::V4(_) => None,
            Self::V6(interval) => Some(*interval),
        }
    }
}

fn within<V: Value>(interval: Interval<V>) -> Interval<V> {
    let ends = interval.first().next().zip(interval.last().previous());
    let inner = ends.and_then(|(first, last)| Interval::new(first, last));
    inner.unwrap_or(interval)
}

const REVERSED: &str = "must not end below its start";

fn ordered<V: Value>(first: V, last: V) -> Result<Interval<V>, String> {
    Interval::new(first, last).ok_or_else(|| REVERSED.into())
}

fn parse_addresses(text: &str) -> Result<Addresses, String> {
    let address = |text: &str| parse_address(text).map_err(|error| error.to_string());
    if text.contains('/') {
        return match parse_cidr(text).map_err(|error| error.to_string())? {
            IpNet::V4(net) => ordered(net.network(), net.broadcast()).map(Addresses::V4),
            IpNet::V6(net) => ordered(net.network(), net.broadcast()).map(Addresses::V6),
        };
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (address(first)?, address(last)?) {
        (IpAddr::V4(first), IpAddr::V4(last)) => ordered(first, last).map(Addresses::V4),
        (IpAddr::V6(first), IpAddr::V6(last)) => ordered(first, last).map(Addresses::V6),
        _ => Err("must not mix IPv4 and IPv6".into()),
    }
}

fn parse_ports(text: &str) -> Result<Interval<NodePort>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    ordered(parse_port(first)?, parse_port(last)?)
}

fn parse_port(text: &str) -> Result<NodePort, String> {
    let port = text.parse().ok().and_then(NodePort::new);
    let canonical = port.filter(|port| port.to_string() == text);
    canonical.ok_or_else(|| "must be a port from 1 to 65535 or two of them, such as 30100-30199".into())
}

fn read_all<T>(
    field: &str,
    texts: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
    errors: &mut Vec<FieldError>,
) -> Vec<T> {
    let mut read = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match parse(text) {
            Ok(values) => read.push(values),
            Err(message) => errors.push(error(format!("{field}[{index}]"), text, message)),
        }
    }
    read
}

/// A value, the Service that it is for, and where in the list that stands.
type Reservation<T> = (usize, T, ServiceKey);

fn read_reservations<T>(
    spec: &PoolSpec,
    parse: impl Fn(&str) -> Result<T, String>,
    errors: &mut Vec<FieldError>,
) -> Vec<Reservation<T>> {
    let mut read = Vec::new();
    for (index, (value, service)) in spec.reservations.iter().enumerate() {
        let field = format!("spec.reservations[{index}]");
        let value = parse(value).map_err(|message| errors.push(error(format!("{field}.value"), value, message)));
        let parts = service
            .split_once('/')
            .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains('/'));
        match (value, parts) {
            (Ok(value), Some((namespace, name))) => read.push((index, value, ServiceKey::new(namespace, name))),
            (Err(()), Some(_)) => {}
            (_, None) => errors.push(error(
                format!("{field}.service"),
                service,
                "must be namespace/name of a Service",
            )),
        }
    }
    read
}

/// The part of one kind of what was read.
fn holdings<T, W: Copy, V: Value>(
    ranges: &[T],
    excluded: &[T],
    reservations: &[Reservation<W>],
    part: impl Fn(&T) -> Option<Interval<V>>,
    value: impl Fn(W) -> Option<V>,
    errors: &mut Vec<FieldError>,
) -> Holdings<V> {
    let excluded: Segments<V> = excluded.iter().filter_map(&part).collect();
    let values = ranges
        .iter()
        .filter_map(&part)
        .collect::<Segments<V>>()
        .minus(&excluded);
    let mut kept = BTreeMap::new();
    for (index, reserved, service) in reservations {
        let Some(reserved) = value(*reserved) else { continue };
        let field = format!("spec.reservations[{index}].value");
        let text = reserved.to_string();
        if !values.contains(reserved) {
            errors.push(error(field, &text, "must lie in spec.ranges and not in spec.excluded"));
        } else if kept.insert(reserved, service.clone()).is_some() {
            errors.push(error(field, &text, "must not be reserved twice"));
        }
    }
    Holdings {
        values,
        reservations: kept,
    }
}
