//! What differs between what is stored and what should be, as `stored -> expected`, each field by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Listed, Listing, hint_names};
use crate::endpoints::{CAPACITY, Content, OVER_CAPACITY_ANNOTATION};
use crate::model::{EndpointsObject, Labels, Manager, OwnerReference, SliceContent, Subset};

/// Differences named of one object.
const NAMED: usize = 8;

/// Of a slice.
pub fn of_slice(before: &SliceContent, after: &SliceContent) -> Vec<String> {
    let items = |listing: Listing| {
        let item = |listed| Item {
            listed,
            ports: Vec::new(),
        };
        (
            listing.ports,
            listing.endpoints.into_iter().map(item).collect::<Vec<_>>(),
        )
    };
    let (ports, before_items) = items(Listing::of_slice(before));
    let (after_ports, after_items) = items(Listing::of_slice(after));
    let mut words: Vec<String> = ports_differ(&ports, &after_ports).into_iter().collect();
    words.extend(endpoints_differ(&before_items, &after_items));
    words.extend(pairs_differ("label", &before.labels, &after.labels));
    // Of the other manager's slices annotations are no reason to write.
    if after.manager == Manager::Mirroring {
        words.extend(pairs_differ("annotation", &before.annotations, &after.annotations));
    }
    if before.owner_references != after.owner_references {
        let (one, other) = (owners(&before.owner_references), owners(&after.owner_references));
        words.push(format!("ownerReferences {one} -> {other}"));
    }
    finished(words)
}

/// Of an Endpoints object. One that lists too many addresses is not of our making, and of any size: it is not compared.
pub fn of_endpoints(before: &EndpointsObject, after: &Content) -> Vec<String> {
    let size: usize = before.subsets.iter().map(Subset::len).sum();
    if size > CAPACITY {
        return vec![format!("lists {size} addresses, and should {CAPACITY} at most")];
    }
    let (before_items, after_items) = (by_address(&before.subsets), by_address(&after.subsets));
    let mut words = Vec::new();
    match (uniform(&before_items), uniform(&after_items)) {
        (Some(one), Some(other)) if one != other => {
            words.extend(ports_differ(one, other));
            let portless = |items: Vec<Item>| -> Vec<Item> { items.into_iter().map(Item::portless).collect() };
            let (one, other) = (portless(before_items.clone()), portless(after_items.clone()));
            words.extend(endpoints_differ(&one, &other));
        }
        _ => words.extend(endpoints_differ(&before_items, &after_items)),
    }
    words.extend(pairs_differ("label", &before.labels, &after.labels));
    let mark = |annotations: &Labels| annotations.get(OVER_CAPACITY_ANNOTATION).cloned();
    let key = OVER_CAPACITY_ANNOTATION;
    words.extend(value_differs(
        "annotation",
        key,
        mark(&before.annotations),
        mark(&after.annotations),
    ));
    finished(words)
}

/// The first few of them, and how many more.
pub fn limited(mut words: Vec<String>) -> Vec<String> {
    let more = words.len().saturating_sub(NAMED);
    words.truncate(NAMED);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words
}

fn finished(mut words: Vec<String>) -> Vec<String> {
    if words.is_empty() {
        words.push("the same in another form".to_owned());
    }
    limited(words)
}

/// One endpoint, and in Endpoints its ports: in a slice all have the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    listed: Listed,
    ports: Vec<String>,
}

impl Item {
    fn portless(self) -> Self {
        Self {
            ports: Vec::new(),
            ..self
        }
    }
}

/// Each address once, with the ports of all subsets that it stands in.
fn by_address(subsets: &[Subset]) -> Vec<Item> {
    let mut all: BTreeMap<Listed, BTreeSet<String>> = BTreeMap::new();
    for subset in subsets {
        let Listing { ports, endpoints } = Listing::of_subset(subset);
        for listed in endpoints {
            all.entry(listed).or_default().extend(ports.iter().cloned());
        }
    }
    let item = |(listed, ports): (Listed, BTreeSet<String>)| Item {
        listed,
        ports: ports.into_iter().collect(),
    };
    all.into_iter().map(item).collect()
}

/// The ports that all have.
fn uniform(items: &[Item]) -> Option<&[String]> {
    let (first, rest) = items.split_first()?;
    rest.iter().all(|it| it.ports == first.ports).then_some(&first.ports)
}

fn ports_differ(before: &[String], after: &[String]) -> Option<String> {
    let text = |ports: &[String]| {
        if ports.is_empty() {
            "none".to_owned()
        } else {
            ports.join(" ")
        }
    };
    (before != after).then(|| format!("ports {} -> {}", text(before), text(after)))
}

/// What has changed, what comes, what goes. Endpoints are taken for the same by all that they are, else by address and target, else by address.
fn endpoints_differ(before: &[Item], after: &[Item]) -> Vec<String> {
    let (mut gone, mut new): (Vec<&Item>, Vec<&Item>) = (before.iter().collect(), after.iter().collect());
    pair(&mut gone, &mut new, |it| it);
    let mut paired = pair(&mut gone, &mut new, |it| (&it.listed.addresses, &it.listed.target));
    paired.extend(pair(&mut gone, &mut new, |it| &it.listed.addresses));
    paired.sort_unstable_by_key(|(_, after)| *after);
    let changed = paired.into_iter().filter_map(|(one, other)| changed(one, other));
    let come = new.into_iter().map(|it| format!("+{}", it.listed.text(false)));
    let goes = gone.into_iter().map(|it| format!("-{}", it.listed.text(false)));
    changed.chain(come).chain(goes).collect()
}

/// Takes out of both those whose keys are equal.
fn pair<'a, K: Ord>(
    before: &mut Vec<&'a Item>,
    after: &mut Vec<&'a Item>,
    key: impl Fn(&'a Item) -> K,
) -> Vec<(&'a Item, &'a Item)> {
    let mut known: BTreeMap<K, Vec<&Item>> = BTreeMap::new();
    for item in before.drain(..).rev() {
        known.entry(key(item)).or_default().push(item);
    }
    let mut paired = Vec::new();
    after.retain(|item| {
        let old = known.get_mut(&key(item)).and_then(Vec::pop);
        paired.extend(old.map(|old| (old, *item)));
        old.is_none()
    });
    before.extend(known.into_values().flatten());
    paired
}

/// `10.1.0.1: ready -> not ready, zone a -> b`.
fn changed(before: &Item, after: &Item) -> Option<String> {
    let (one, other) = (&before.listed, &after.listed);
    let mut words = Vec::new();
    if one.standing() == other.standing() {
        let text = |field: Option<bool>| field.map(|it| it.to_string());
        words.extend(field_differs("serving", text(one.serving), text(other.serving)));
        words.extend(field_differs(
            "terminating",
            text(one.terminating),
            text(other.terminating),
        ));
    } else {
        words.push(format!("{} -> {}", one.standing(), other.standing()));
    }
    let of = |listed: &Listed| {
        let Listed {
            target,
            hostname,
            node,
            zone,
            hints,
            ..
        } = listed.clone();
        let hints = (!hints.is_empty()).then(|| hint_names(&hints));
        [target, hostname, node, zone, hints]
    };
    let names = ["targetRef", "hostname", "nodeName", "zone", "hints"];
    let fields = names.into_iter().zip(of(one).into_iter().zip(of(other)));
    words.extend(fields.filter_map(|(name, (one, other))| field_differs(name, one, other)));
    if one.target == other.target {
        words.extend(field_differs(
            "targetRef.uid",
            one.target_uid.clone(),
            other.target_uid.clone(),
        ));
    }
    words.extend(ports_differ(&before.ports, &after.ports));
    (!words.is_empty()).then(|| format!("{}: {}", other.addresses.join("+"), words.join(", ")))
}

fn field_differs(name: &str, before: Option<String>, after: Option<String>) -> Option<String> {
    let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    (before != after).then(|| format!("{name} {} -> {}", text(before), text(after)))
}

/// `label app none -> "web"`.
fn pairs_differ(kind: &'static str, before: &Labels, after: &Labels) -> Vec<String> {
    let keys: BTreeSet<&Arc<str>> = before.keys().chain(after.keys()).collect();
    let value = |labels: &Labels, key: &str| labels.get(key).cloned();
    let all = keys
        .into_iter()
        .filter_map(|key| value_differs(kind, key, value(before, key), value(after, key)));
    all.collect()
}

fn value_differs(kind: &str, key: &str, before: Option<Arc<str>>, after: Option<Arc<str>>) -> Option<String> {
    let quoted = |value: Option<Arc<str>>| value.map(|value| format!("{value:?}"));
    field_differs(&format!("{kind} {key}"), quoted(before), quoted(after))
}

fn owners(owners: &[OwnerReference]) -> String {
    let text = |owner: &OwnerReference| format!("{} {} ({})", owner.kind, owner.name, owner.uid);
    let all: Vec<String> = owners.iter().map(text).collect();
    if all.is_empty() {
        "none".to_owned()
    } else {
        all.join(" ")
    }
}

#[cfg(test)]
mod tests;
