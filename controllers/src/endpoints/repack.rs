//! The canonical form of subsets: each port in one subset, each address once per port, everything in one order.

use std::collections::BTreeMap;

use crate::model::{Address, EndpointPort, Subset, Uid};

/// Rewrites subsets, whoever made them, in canonical form: two lists that say the same give the same result.
///
/// * An address is the same if its IP text and its target's uid are (no target counts as an empty uid); of different spellings of the rest
///   the first one stays, counting subset by subset, ready addresses before not ready ones.
/// * One address both ready and not ready for a port is not ready. Ports with the same addresses in the same states share a subset.
/// * A port number of 0 or less, like an empty port list, stands for "no port": it keeps the addresses and is not listed.
/// * Addresses are in bytewise order of their IP text (`10.0.0.10` before `10.0.0.9`), then of their target's uid, as upstream.
///
/// Differs from upstream in two places. Ports, and subsets by their first ports, are in the natural order of name, number, protocol and
/// appProtocol, where upstream orders them by a hash (nobody may rely on either, and both compare without regard to order). Two equal
/// appProtocols are equal, where upstream compares their memory addresses.
pub fn repack(subsets: Vec<Subset>) -> Vec<Subset> {
    let input = Input::flatten(subsets);
    let (mut stock, members) = rank(input.addresses, &input.origins, input.subset_count);

    // Ports that stand in the same subsets have the same addresses: those are put together once for all of them.
    let mut together: BTreeMap<Vec<usize>, Vec<Option<EndpointPort>>> = BTreeMap::new();
    for (port, homes) in input.homes {
        together.entry(homes).or_default().push(port);
    }
    let mut groups: BTreeMap<Vec<Member>, Vec<EndpointPort>> = BTreeMap::new();
    for (homes, ports) in together {
        groups
            .entry(union(&homes, &members))
            .or_default()
            .extend(ports.into_iter().flatten());
    }

    for member in groups.keys().flatten() {
        stock.reserve(member.rank);
    }
    let mut packed: Vec<Subset> = groups
        .into_iter()
        .map(|(members, mut ports)| {
            ports.sort_unstable();
            let mut subset = Subset {
                ports,
                ..Subset::default()
            };
            for member in members {
                let addresses = if member.ready {
                    &mut subset.addresses
                } else {
                    &mut subset.not_ready_addresses
                };
                addresses.extend(stock.draw(member.rank));
            }
            subset
        })
        .collect();
    // No two subsets share a port and at most one has none.
    packed.sort_unstable_by(|a, b| a.ports.cmp(&b.ports));
    packed
}

/// All subsets laid end to end, and where each port stands.
struct Input {
    addresses: Vec<Option<Address>>,
    /// Beside each address: which subset it comes from, and whether it is ready there.
    origins: Vec<(usize, bool)>,
    /// For each port the subsets that list it, ascending; `None` = no port.
    homes: BTreeMap<Option<EndpointPort>, Vec<usize>>,
    subset_count: usize,
}

impl Input {
    fn flatten(subsets: Vec<Subset>) -> Self {
        let total = subsets.iter().map(Subset::len).sum();
        let mut input = Self {
            addresses: Vec::with_capacity(total),
            origins: Vec::with_capacity(total),
            homes: BTreeMap::new(),
            subset_count: subsets.len(),
        };
        for (number, subset) in subsets.into_iter().enumerate() {
            if subset.is_empty() {
                continue;
            }
            if subset.ports.is_empty() {
                input.house(None, number);
            }
            for port in subset.ports {
                input.house((port.port > 0).then_some(port), number);
            }
            for (addresses, ready) in [(subset.addresses, true), (subset.not_ready_addresses, false)] {
                input
                    .origins
                    .extend(std::iter::repeat_n((number, ready), addresses.len()));
                input.addresses.extend(addresses.into_iter().map(Some));
            }
        }
        input
    }

    fn house(&mut self, port: Option<EndpointPort>, subset: usize) {
        let homes = self.homes.entry(port).or_default();
        if homes.last() != Some(&subset) {
            homes.push(subset);
        }
    }
}

/// One address of a subset: its place in the canonical order of all addresses, and its state. Not ready sorts first, so that it wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    rank: usize,
    ready: bool,
}

/// The different addresses in canonical order, and for each subset its members, ascending and each rank once.
fn rank(
    mut addresses: Vec<Option<Address>>,
    origins: &[(usize, bool)],
    subset_count: usize,
) -> (Stock, Vec<Vec<Member>>) {
    let identity_at = |index: usize| addresses.get(index).and_then(Option::as_ref).map(identity);
    let mut order: Vec<(u128, usize)> = addresses
        .iter()
        .enumerate()
        .map(|(index, address)| (address.as_ref().map_or(0, |address| head(&address.ip)), index))
        .collect();
    order.sort_unstable_by(|&(head_a, a), &(head_b, b)| {
        head_a
            .cmp(&head_b)
            .then_with(|| identity_at(a).cmp(&identity_at(b)))
            .then(a.cmp(&b))
    });

    let mut stock = Stock(Vec::with_capacity(addresses.len()));
    let mut members = vec![Vec::new(); subset_count];
    for (_, index) in order {
        let Some(address) = addresses.get_mut(index).and_then(Option::take) else {
            continue;
        };
        let rank = stock.add(address);
        let Some((list, ready)) = origins
            .get(index)
            .and_then(|&(subset, ready)| Some((members.get_mut(subset)?, ready)))
        else {
            continue;
        };
        match list.last_mut() {
            Some(Member {
                rank: last,
                ready: state,
            }) if *last == rank => *state &= ready,
            _ => list.push(Member { rank, ready }),
        }
    }
    (stock, members)
}

/// What tells one address from another, in canonical order.
fn identity(address: &Address) -> (&str, Option<&Uid>) {
    let uid = address.target.as_ref().map(|target| &target.uid);
    (&address.ip, uid.filter(|uid| !uid.is_empty()))
}

/// The first 16 bytes of the text, zero padded: they compare as the text does and decide almost every comparison without touching it.
fn head(text: &str) -> u128 {
    let mut bytes = [0; 16];
    for (byte, from) in bytes.iter_mut().zip(text.bytes()) {
        *byte = from;
    }
    u128::from_be_bytes(bytes)
}

/// The members of several subsets together.
fn union(homes: &[usize], members: &[Vec<Member>]) -> Vec<Member> {
    let mut all: Vec<Member> = homes
        .iter()
        .filter_map(|&subset| members.get(subset))
        .flatten()
        .copied()
        .collect();
    if homes.len() > 1 {
        all.sort_unstable();
        all.dedup_by_key(|member| member.rank);
    }
    all
}

/// The different addresses by rank, each with the number of subsets that will still ask for it: only the last one need not copy.
struct Stock(Vec<(Option<Address>, usize)>);

impl Stock {
    /// Adds the next address in canonical order, unless it is the same as the last one. Returns its rank.
    fn add(&mut self, address: Address) -> usize {
        let last = self.0.last().and_then(|(last, _)| last.as_ref());
        if last.map(identity) != Some(identity(&address)) {
            self.0.push((Some(address), 0));
        }
        self.0.len() - 1
    }

    fn reserve(&mut self, rank: usize) {
        if let Some((_, uses)) = self.0.get_mut(rank) {
            *uses += 1;
        }
    }

    fn draw(&mut self, rank: usize) -> Option<Address> {
        let (address, uses) = self.0.get_mut(rank)?;
        *uses = uses.saturating_sub(1);
        if *uses == 0 { address.take() } else { address.clone() }
    }
}

#[cfg(test)]
pub(super) mod tests;
