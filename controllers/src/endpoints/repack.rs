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
///
/// An address is repeated for every group of ports that it serves: for hand-made subsets the result can be that many times larger.
pub fn repack(subsets: Vec<Subset>) -> Vec<Subset> {
    pack(subsets).subsets
}

/// The canonical form, and whether it says all that the input said.
pub(super) struct Packed {
    pub(super) subsets: Vec<Subset>,
    /// No address stood in two states for one port or with two spellings of what is not its identity, so nothing had to give way.
    pub(super) consistent: bool,
}

pub(super) fn pack(subsets: Vec<Subset>) -> Packed {
    let (addresses, homes) = flatten(subsets);
    let mut ranked = Ranked::new(addresses);

    // Ports that stand in the same subsets have the same addresses: those are put together once for all of them.
    let mut together: BTreeMap<Vec<usize>, Vec<Option<EndpointPort>>> = BTreeMap::new();
    for (port, homes) in homes {
        together.entry(homes).or_default().push(port);
    }
    let mut groups: BTreeMap<Vec<Member>, Vec<EndpointPort>> = BTreeMap::new();
    for (homes, ports) in together {
        groups
            .entry(ranked.union(&homes))
            .or_default()
            .extend(ports.into_iter().flatten());
    }

    ranked.count_uses(groups.keys().flatten());
    let mut subsets: Vec<Subset> = groups
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
                addresses.extend(ranked.draw(member.rank));
            }
            subset
        })
        .collect();
    // No two subsets share a port and at most one has none.
    subsets.sort_unstable_by(|a, b| a.ports.cmp(&b.ports));
    Packed {
        subsets,
        consistent: ranked.consistent,
    }
}

/// An address of the input.
struct Listed {
    address: Address,
    /// The number of its subset.
    subset: usize,
    ready: bool,
}

/// For each port the subsets that list it, ascending; `None` = no port.
type Homes = BTreeMap<Option<EndpointPort>, Vec<usize>>;

/// All addresses end to end, and where each port stands.
fn flatten(subsets: Vec<Subset>) -> (Vec<Listed>, Homes) {
    let mut listed = Vec::with_capacity(subsets.iter().map(Subset::len).sum());
    let mut homes = Homes::new();
    for (number, subset) in subsets.into_iter().enumerate() {
        if subset.is_empty() {
            continue;
        }
        let portless = subset.ports.is_empty().then_some(None);
        let ports = subset.ports.into_iter().map(|port| (port.port > 0).then_some(port));
        for port in ports.chain(portless) {
            let homes = homes.entry(port).or_default();
            if homes.last() != Some(&number) {
                homes.push(number);
            }
        }
        for (addresses, ready) in [(subset.addresses, true), (subset.not_ready_addresses, false)] {
            listed.extend(addresses.into_iter().map(|address| Listed {
                address,
                subset: number,
                ready,
            }));
        }
    }
    (listed, homes)
}

/// One address of a subset: its place in the canonical order of all addresses, and its state. Not ready sorts first, so that it wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    rank: usize,
    ready: bool,
}

/// The different addresses in canonical order.
struct Ranked {
    /// By rank. Beside each the number of subsets that will still ask for it: all but the last one get a copy.
    addresses: Vec<(Option<Address>, usize)>,
    /// For each input subset its members, ascending and each rank once.
    members: Vec<Vec<Member>>,
    /// See [`Packed::consistent`].
    consistent: bool,
}

impl Ranked {
    fn new(listed: Vec<Listed>) -> Self {
        let mut ranked = Self {
            addresses: Vec::with_capacity(listed.len()),
            members: vec![Vec::new(); listed.last().map_or(0, |last| last.subset + 1)],
            consistent: true,
        };
        for Listed { address, subset, ready } in in_order(listed) {
            match ranked.addresses.last() {
                Some((Some(last), _)) if identity(last) == identity(&address) => ranked.consistent &= *last == address,
                _ => ranked.addresses.push((Some(address), 0)),
            }
            let rank = ranked.addresses.len() - 1;
            let Some(members) = ranked.members.get_mut(subset) else {
                continue;
            };
            match members.last_mut() {
                Some(last) if last.rank == rank => {
                    ranked.consistent &= last.ready == ready;
                    last.ready &= ready;
                }
                _ => members.push(Member { rank, ready }),
            }
        }
        ranked
    }

    /// The members of several subsets together.
    fn union(&mut self, subsets: &[usize]) -> Vec<Member> {
        let lists = subsets.iter().filter_map(|&subset| self.members.get(subset));
        let mut all: Vec<Member> = lists.flatten().copied().collect();
        if subsets.len() > 1 {
            all.sort_unstable();
            all.dedup_by(|again, kept| {
                let same = again.rank == kept.rank;
                self.consistent &= !same || again.ready == kept.ready;
                same
            });
        }
        all
    }

    fn count_uses<'a>(&mut self, members: impl Iterator<Item = &'a Member>) {
        for member in members {
            if let Some((_, uses)) = self.addresses.get_mut(member.rank) {
                *uses += 1;
            }
        }
    }

    fn draw(&mut self, rank: usize) -> Option<Address> {
        let (address, uses) = self.addresses.get_mut(rank)?;
        *uses = uses.saturating_sub(1);
        if *uses == 0 { address.take() } else { address.clone() }
    }
}

/// Sorts by identity and, where that is equal, by place in the input.
fn in_order(listed: Vec<Listed>) -> impl Iterator<Item = Listed> {
    let mut slots: Vec<Option<Listed>> = listed.into_iter().map(Some).collect();
    let identity_at = |index: usize| slots.get(index)?.as_ref().map(|listed| identity(&listed.address));
    // Sorting small keys instead of addresses: the first bytes decide almost every comparison.
    let mut order: Vec<(u128, usize)> = (0..slots.len())
        .map(|index| (identity_at(index).map_or(0, |(ip, _)| head(ip)), index))
        .collect();
    order.sort_unstable_by(|&(head_a, a), &(head_b, b)| {
        head_a
            .cmp(&head_b)
            .then_with(|| identity_at(a).cmp(&identity_at(b)))
            .then(a.cmp(&b))
    });
    order
        .into_iter()
        .filter_map(move |(_, index)| slots.get_mut(index).and_then(Option::take))
}

/// What tells one address from another, in canonical order.
pub(super) fn identity(address: &Address) -> (&str, Option<&Uid>) {
    let uid = address.target.as_ref().map(|target| &target.uid);
    (&address.ip, uid.filter(|uid| !uid.is_empty()))
}

/// The first 16 bytes of the text, zero padded: where they differ, they compare as the texts do.
fn head(text: &str) -> u128 {
    let mut bytes = [0; 16];
    for (byte, from) in bytes.iter_mut().zip(text.bytes()) {
        *byte = from;
    }
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
pub(super) mod tests;
