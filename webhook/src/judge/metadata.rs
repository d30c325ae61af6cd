//! Rules on `metadata` (validation.md 3, 11.5-11.8).

use ahash::AHashSet;

use super::{Case, Rule};
use crate::cause::{Findings, quoted};
use crate::names::{dns_label, dns_label_prefix, label_value, lowered, qualified_name};

/// Most bytes of keys and values of all annotations together.
const ANNOTATIONS_SIZE: usize = 256 * 1024;

/// How much of `generateName` is used; five letters follow.
const GENERATED_PREFIX: usize = 58;

/// Finalizers without a domain that the API knows.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

pub(super) const CREATE: &[Rule] = &[
    Rule::new(
        "metadata.generateName",
        "a DNS label that may end in '-'",
        generate_name,
    ),
    Rule::new("metadata", "a name or a generateName", name_present),
    Rule::new("metadata.name", "a DNS label", name),
    Rule::new("metadata", "no negative generation", generation),
];

pub(super) const UPDATE: &[Rule] = &[
    Rule::new("metadata.generateName", "no '/' and no '%'", generate_name_path),
    Rule::new("metadata", "no deletionTimestamp of one's own", deletion_timestamp),
    Rule::new(
        "metadata",
        "no deletionGracePeriodSeconds of one's own",
        deletion_grace_period,
    ),
];

pub(super) const ALWAYS: &[Rule] = &[
    Rule::new("metadata.labels", "legal keys and values", labels),
    Rule::new("metadata.annotations", "legal keys", annotation_keys),
    Rule::new("metadata.annotations", "at most 256 KiB", annotations_size),
    Rule::new("metadata.ownerReferences[]", "a legal apiVersion", owner_version),
    Rule::new("metadata.ownerReferences[]", "kind, name and uid", owner_fields),
    Rule::new("metadata.ownerReferences[]", "no Event", owner_kind),
    Rule::new("metadata.ownerReferences[]", "one controller", one_controller),
    Rule::new("metadata.finalizers[]", "qualified names", finalizers),
    Rule::new(
        "metadata.finalizers[]",
        "a domain, but for standard ones",
        finalizer_domains,
    ),
    Rule::new(
        "metadata.finalizers[]",
        "orphan or foregroundDeletion",
        finalizer_conflict,
    ),
    Rule::new(
        "metadata.annotations",
        "topology-mode like topology-aware-hints",
        topology,
    ),
];

fn generate_name(case: &Case<'_>, found: &mut Findings) {
    let prefix = &case.metadata.generate_name;
    if !prefix.is_empty() {
        for fault in dns_label_prefix(prefix) {
            found.invalid("metadata.generateName", format!("{}: {fault}", quoted(prefix)));
        }
    }
}

fn name_present(case: &Case<'_>, found: &mut Findings) {
    if case.metadata.name.is_empty() && case.metadata.generate_name.is_empty() {
        found.required("metadata.name", "give a name, or a generateName that a name is made of");
    }
}

/// A generated name is checked as it will be: webhooks come before it.
fn name(case: &Case<'_>, found: &mut Findings) {
    let metadata = case.metadata;
    if !metadata.name.is_empty() {
        for fault in dns_label(&metadata.name) {
            found.invalid("metadata.name", format!("{}: {fault}", quoted(&metadata.name)));
        }
    } else if !metadata.generate_name.is_empty() {
        let prefix = &metadata.generate_name;
        let kept = prefix.floor_char_boundary(GENERATED_PREFIX);
        let generated = format!("{}xxxxx", prefix.split_at(kept).0);
        for fault in dns_label(&generated) {
            found.invalid(
                "metadata.name",
                format!("made of generateName {}: {fault}", quoted(prefix)),
            );
        }
    }
}

fn generation(case: &Case<'_>, found: &mut Findings) {
    if case.metadata.generation < 0 {
        found.invalid("metadata.generation", "leave it out; the apiserver counts");
    }
}

fn generate_name_path(case: &Case<'_>, found: &mut Findings) {
    if case.metadata.generate_name.contains(['/', '%']) {
        found.invalid("metadata.generateName", "use no '/' and no '%'");
    }
}

fn deletion_timestamp(case: &Case<'_>, found: &mut Findings) {
    if case.metadata.deletion_timestamp.is_some() {
        found.invalid("metadata.deletionTimestamp", "leave it out; to delete, send DELETE");
    }
}

fn deletion_grace_period(case: &Case<'_>, found: &mut Findings) {
    let old = case.old_metadata.and_then(|old| old.deletion_grace_period_seconds);
    let new = case.metadata.deletion_grace_period_seconds;
    if new.is_some() && new != old {
        found.invalid(
            "metadata.deletionGracePeriodSeconds",
            "leave it out; to delete, send DELETE",
        );
    }
}

fn labels(case: &Case<'_>, found: &mut Findings) {
    pairs("metadata.labels", &case.metadata.labels, found);
}

/// Labels and selectors have one form.
pub(super) fn pairs(field: &str, pairs: &std::collections::BTreeMap<String, String>, found: &mut Findings) {
    for (key, value) in pairs {
        for fault in qualified_name(key) {
            found.invalid(field, format!("key {}: {fault}", quoted(key)));
        }
        for fault in label_value(value) {
            found.invalid(field, format!("value {} of {}: {fault}", quoted(value), quoted(key)));
        }
    }
}

fn annotation_keys(case: &Case<'_>, found: &mut Findings) {
    for key in case.metadata.annotations.keys() {
        for fault in qualified_name(&lowered(key)) {
            found.invalid("metadata.annotations", format!("key {}: {fault}", quoted(key)));
        }
    }
}

fn annotations_size(case: &Case<'_>, found: &mut Findings) {
    let size: usize = case
        .metadata
        .annotations
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if size > ANNOTATIONS_SIZE {
        let message = format!("{size} bytes of keys and values; use at most {ANNOTATIONS_SIZE}");
        found.too_long("metadata.annotations", message);
    }
}

/// Group and version; an empty version is none.
fn group_version(text: &str) -> Option<(&str, &str)> {
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    (!version.is_empty() && !version.contains('/')).then_some((group, version))
}

fn owner_version(case: &Case<'_>, found: &mut Findings) {
    for (i, owner) in case.metadata.owner_references.iter().enumerate() {
        let field = || format!("metadata.ownerReferences[{i}].apiVersion");
        if owner.api_version.is_empty() {
            found.required(field(), "name the owner's group and version, for example apps/v1");
        } else if group_version(&owner.api_version).is_none() {
            let message = format!(
                "{}: use GROUP/VERSION or VERSION, for example apps/v1",
                quoted(&owner.api_version)
            );
            found.invalid(field(), message);
        }
    }
}

fn owner_fields(case: &Case<'_>, found: &mut Findings) {
    for (i, owner) in case.metadata.owner_references.iter().enumerate() {
        for (name, value) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
            if value.is_empty() {
                let field = format!("metadata.ownerReferences[{i}].{name}");
                found.required(field, format!("give the owner's {name}"));
            }
        }
    }
}

fn owner_kind(case: &Case<'_>, found: &mut Findings) {
    for (i, owner) in case.metadata.owner_references.iter().enumerate() {
        if owner.kind == "Event" && group_version(&owner.api_version) == Some(("", "v1")) {
            found.invalid(format!("metadata.ownerReferences[{i}]"), "an Event cannot own anything");
        }
    }
}

fn one_controller(case: &Case<'_>, found: &mut Findings) {
    let mut controllers = case
        .metadata
        .owner_references
        .iter()
        .filter(|owner| owner.controller == Some(true));
    if let (Some(first), Some(second)) = (controllers.next(), controllers.next()) {
        let name = |owner: &crate::service::OwnerReference| quoted(&format!("{}/{}", owner.kind, owner.name));
        let message = format!("{} and {}: set controller on one owner only", name(first), name(second));
        found.invalid("metadata.ownerReferences", message);
    }
}

fn finalizers(case: &Case<'_>, found: &mut Findings) {
    for finalizer in &case.metadata.finalizers {
        for fault in qualified_name(finalizer) {
            found.invalid("metadata.finalizers", format!("{}: {fault}", quoted(finalizer)));
        }
    }
}

fn finalizer_domains(case: &Case<'_>, found: &mut Findings) {
    for (i, finalizer) in case.metadata.finalizers.iter().enumerate() {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer.as_str()) {
            let message = format!(
                "{}: put a domain before it, for example example.com/name",
                quoted(finalizer)
            );
            found.invalid(format!("metadata.finalizers[{i}]"), message);
        }
    }
}

fn finalizer_conflict(case: &Case<'_>, found: &mut Findings) {
    let names: AHashSet<&str> = case.metadata.finalizers.iter().map(String::as_str).collect();
    if names.contains("orphan") && names.contains("foregroundDeletion") {
        found.invalid("metadata.finalizers", "use orphan or foregroundDeletion, not both");
    }
}

fn topology(case: &Case<'_>, found: &mut Findings) {
    const MODE: &str = "service.kubernetes.io/topology-mode";
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let annotations = &case.metadata.annotations;
    if let (Some(mode), Some(hints)) = (annotations.get(MODE), annotations.get(HINTS))
        && mode != hints
    {
        let message = format!(
            "{} here, {} in the older {HINTS}; remove the older one",
            quoted(mode),
            quoted(hints)
        );
        found.invalid(format!("metadata.annotations[{MODE}]"), message);
    }
}
