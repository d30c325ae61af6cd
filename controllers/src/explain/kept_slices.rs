//! Slices as they should be, beside those that are stored.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1 as discovery;

use super::kept::{APISERVERS, Compared, State};
use crate::endpointslice::{MANAGED_BY_LABEL, Operation, Plan};
use crate::listing::{self, Listing};
use crate::model::{IpFamily, Manager, ObjectKey, Slice, SliceContent};

/// Compares what is stored with what the plan makes of it, and says what that is.
pub fn compare(stored: &[&Arc<Slice>], plan: Plan) -> (Vec<Compared>, Vec<SliceContent>) {
    let (mut updates, mut creates, mut deletes) = (HashMap::new(), Vec::new(), Vec::new());
    for operation in plan.steps.into_iter().flatten() {
        match operation {
            Operation::Create(content) => creates.push(content),
            Operation::Update(slice, content) => {
                updates.insert(Arc::clone(&slice.key.name), content);
            }
            Operation::Delete(slice) => deletes.push(Arc::clone(&slice.key.name)),
        }
    }
    let (mut compared, mut contents) = (Vec::new(), Vec::new());
    for slice in stored {
        let before = Listing::of_slice(&slice.content);
        let (state, after) = if let Some(content) = updates.remove(&slice.key.name) {
            (
                State::Differs(listing::of_slice(&slice.content, &content)),
                Some(content),
            )
        } else if deletes.contains(&slice.key.name) {
            (State::Differs(vec!["there should be no such slice".to_owned()]), None)
        } else {
            (State::Same, Some(slice.content.clone()))
        };
        compared.push(Compared {
            name: Some(slice.key.name.to_string()),
            expected: after.as_ref().map(Listing::of_slice).into_iter().collect(),
            stored: vec![before],
            ..a_slice(slice.content.family, state)
        });
        contents.extend(after);
    }
    for content in creates {
        let state = State::Differs(vec!["there is none".to_owned()]);
        compared.push(Compared {
            expected: vec![Listing::of_slice(&content)],
            ..a_slice(content.family, state)
        });
        contents.push(content);
    }
    (compared, contents)
}

fn a_slice(family: Option<IpFamily>, state: State) -> Compared {
    Compared {
        kind: "EndpointSlice",
        name: None,
        family: family.map(IpFamily::as_str),
        state,
        expected: Vec::new(),
        stored: Vec::new(),
    }
}

fn as_stored(slice: &Slice, state: State) -> Compared {
    Compared {
        name: Some(slice.key.name.to_string()),
        stored: vec![Listing::of_slice(&slice.content)],
        ..a_slice(slice.content.family, state)
    }
}

/// Slices that nobody keeps.
pub fn left_alone(stored: &[&Arc<Slice>], why: &str) -> Vec<Compared> {
    let one = |slice: &&Arc<Slice>| as_stored(slice, State::LeftAlone(why.to_owned()));
    stored.iter().map(one).collect()
}

/// Slices of which nobody can tell what they should be. That is said even if none is stored.
pub fn not_known(stored: &[&Arc<Slice>], why: &str) -> Vec<Compared> {
    let state = || State::NotKnown(why.to_owned());
    if stored.is_empty() {
        return vec![a_slice(None, state())];
    }
    stored.iter().map(|slice| as_stored(slice, state())).collect()
}

fn being_deleted(slice: &discovery::EndpointSlice) -> String {
    let held_by = slice.metadata.finalizers.as_deref().unwrap_or_default().join(", ");
    if held_by.is_empty() {
        "being deleted".to_owned()
    } else {
        format!("being deleted, held by finalizer {held_by}")
    }
}

/// A slice of another manager, or one that is going; consumers read it all the same.
pub fn foreign(slice: &discovery::EndpointSlice, service: &ObjectKey) -> Option<Compared> {
    let labels = slice.metadata.labels.as_ref();
    let manager = labels
        .and_then(|labels| labels.get(MANAGED_BY_LABEL))
        .map(String::as_str);
    let is_ours = matches!(
        manager.and_then(Manager::parse),
        Some(Manager::Selector | Manager::Mirroring)
    );
    let ends = slice.metadata.deletion_timestamp.is_some();
    if is_ours && !ends {
        return None;
    }
    let whose = match manager.filter(|text| !text.is_empty()) {
        Some(manager) => format!("kept by {manager}"),
        None if is_apiservers(slice, service) => APISERVERS.to_owned(),
        None => "kept by nobody that it names".to_owned(),
    };
    let whose = if ends { being_deleted(slice) } else { whose };
    let family = match slice.address_type.as_str() {
        "IPv4" => Some(IpFamily::V4),
        "IPv6" => Some(IpFamily::V6),
        _ => None,
    };
    let why = format!(
        "{whose}; kube-proxy and DNS read it {}",
        if ends { "until it is gone" } else { "too" }
    );
    Some(Compared {
        name: slice.metadata.name.clone(),
        stored: vec![Listing::of_foreign(slice)],
        ..a_slice(family, State::LeftAlone(why))
    })
}

/// The one slice of `default/kubernetes` that the apiserver writes: of its name, without a manager.
fn is_apiservers(slice: &discovery::EndpointSlice, service: &ObjectKey) -> bool {
    service.is_apiservers_own() && slice.metadata.name.as_deref() == Some(&*service.name)
}
