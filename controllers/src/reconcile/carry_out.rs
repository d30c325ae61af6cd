//! How plans for slices are carried out.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::discovery::v1 as api;
use parking_lot::Mutex;
use svcplane_runtime::api::Failure;
use svcplane_runtime::events::{Event, EventType};

use super::outcome::{Synced, write_end};
use super::{Desk, SLICES_ACTION, regarding};
use crate::controller::Controller;
use crate::endpointslice::{Operation, Plan, name};
use crate::index::{DeleteEnd, Snapshot};
use crate::listing::{self, Listing};
use crate::metrics::{CONTENT, slice_reason};
use crate::model::{Interner, IpFamily, ObjectKey, Revision, Slice, SliceContent, Uid};

/// Slices of one Service that are written at the same time.
const AT_ONCE: usize = 8;
/// Names that are tried for one slice before its Service has to wait.
const NAMES_AT_ONCE: u32 = 8;

/// Makes the writes of a plan for the slices of `owner`: those of one step at the same time, a step only after the one before it.
pub(super) async fn carry_out(
    desk: &Desk,
    controller: Controller,
    owner: &ObjectKey,
    snapshot: &Snapshot,
    plan: Plan,
) -> Synced {
    if plan.is_empty() {
        return Synced::Unchanged;
    }
    let names = Mutex::new(Names::of(desk, snapshot));
    let mut synced = Synced::Unchanged;
    for step in plan.steps {
        let writes: Vec<_> = step
            .into_iter()
            .map(|operation| Write::of(operation, owner, &names))
            .collect();
        let mut writes = stream::iter(writes)
            .map(|write| write.make(desk, controller, &names))
            .buffer_unordered(AT_ONCE);
        // To the end, whatever comes: a write that is dropped half-way is one of which nobody knows whether it was made.
        while let Some(made) = writes.next().await {
            synced = synced.worse(made);
        }
        if matches!(synced, Synced::Failed(_) | Synced::NotLeading | Synced::Skipped) {
            break;
        }
    }
    if let Synced::Failed(failure) = &synced {
        report(desk, controller, owner, snapshot, failure);
    }
    synced
}

fn report(desk: &Desk, controller: Controller, owner: &ObjectKey, snapshot: &Snapshot, failure: &Failure) {
    tracing::warn!(service = %owner, controller = controller.as_str(), error = %failure, "cannot write EndpointSlices, trying again");
    let (kind, uid) = match (controller, &snapshot.service, &snapshot.endpoints) {
        (Controller::Mirroring, _, Some(endpoints)) => ("Endpoints", &endpoints.uid),
        (_, Some(service), _) => ("Service", &service.uid),
        _ => return,
    };
    desk.events.emit(Event {
        regarding: regarding(kind, owner, uid),
        event_type: EventType::Warning,
        reason: "FailedToUpdateEndpointSlices",
        action: SLICES_ACTION,
        note: format!("Error updating Endpoint Slices for Service {owner}: {failure}"),
        controller: controller.event_source(),
    });
}

/// Names that a new slice of this namespace must not have.
struct Names {
    taken: HashSet<Arc<str>, ahash::RandomState>,
    /// Up to where numbers have been tried, by family.
    tried: HashMap<Option<IpFamily>, u32, ahash::RandomState>,
}

impl Names {
    fn of(desk: &Desk, snapshot: &Snapshot) -> Self {
        let stored = snapshot.slices.iter().map(|slice| Arc::clone(&slice.key.name));
        Self {
            taken: stored.chain(desk.taken.lock().iter().cloned()).collect(),
            tried: HashMap::default(),
        }
    }

    /// A name for this content. There are millions, and each is tried once.
    fn take(&mut self, content: &SliceContent) -> Arc<str> {
        let number = self.tried.entry(content.family).or_default();
        loop {
            let name: Arc<str> = name(content, *number).into();
            *number = number.wrapping_add(1);
            if self.taken.insert(Arc::clone(&name)) || *number == 0 {
                return name;
            }
        }
    }
}

/// A write with all that it needs.
enum Write {
    Put {
        slice: Arc<Slice>,
        over: Option<Arc<Slice>>,
    },
    Delete(Arc<Slice>),
}

impl Write {
    fn of(operation: Operation, owner: &ObjectKey, names: &Mutex<Names>) -> Self {
        match operation {
            Operation::Create(content) => {
                let key = ObjectKey::new(Arc::clone(&owner.namespace), names.lock().take(&content));
                let slice = Slice {
                    key,
                    uid: Uid::default(),
                    revision: Revision::default(),
                    terminating: false,
                    content,
                };
                Self::Put {
                    slice: Arc::new(slice),
                    over: None,
                }
            }
            Operation::Update(over, content) => {
                let slice = Slice {
                    key: over.key.clone(),
                    uid: over.uid.clone(),
                    revision: over.revision,
                    terminating: false,
                    content,
                };
                Self::Put {
                    slice: Arc::new(slice),
                    over: Some(over),
                }
            }
            Operation::Delete(slice) => Self::Delete(slice),
        }
    }

    async fn make(self, desk: &Desk, controller: Controller, names: &Mutex<Names>) -> Synced {
        let (verb, key) = match &self {
            Self::Put { slice, over: None } => ("create", &slice.key),
            Self::Put { slice, over: Some(_) } => ("update", &slice.key),
            Self::Delete(slice) => ("delete", &slice.key),
        };
        desk.metrics.planned(controller, verb, CONTENT);
        let limit = match desk.open() {
            Ok(limit) => limit,
            Err(closed) => {
                return Synced::closed(closed, slice_reason(verb), || {
                    tracing::info!(slice = %key, verb, change = %Shown(&self), "would write (observe mode)");
                });
            }
        };
        let made = match &self {
            Self::Put {
                slice,
                over: Some(over),
            } => put(desk, slice, Some(over), limit).await,
            Self::Put { slice, over: None } => create(desk, slice, names, limit).await,
            Self::Delete(slice) => delete(desk, slice, limit).await,
        };
        let outcome = made.as_ref().err().map_or("ok", Failure::as_str);
        desk.metrics.operation(controller, verb, outcome);
        match made {
            Ok(()) => {
                tracing::debug!(slice = %key, verb, "written");
                Synced::Written(None)
            }
            Err(Failure::NamespaceTerminating) if verb == "create" => Synced::Skipped,
            Err(failure) => Synced::Failed(failure),
        }
    }
}

async fn put(desk: &Desk, slice: &Arc<Slice>, over: Option<&Slice>, limit: Duration) -> Result<(), Failure> {
    desk.index.lock().expect_slice(slice);
    let replaces = over.map(Slice::version);
    let stored = desk.writer.put_slice(slice, replaces.as_ref(), limit).await;
    desk.index.lock().finish_slice(slice, write_end(&stored));
    stored.map(drop)
}

/// Creates a slice, under another name if its own is somebody's.
async fn create(desk: &Desk, slice: &Arc<Slice>, names: &Mutex<Names>, limit: Duration) -> Result<(), Failure> {
    let mut slice = Arc::clone(slice);
    let mut made = put(desk, &slice, None, limit).await;
    for _ in 1..NAMES_AT_ONCE {
        if !matches!(made, Err(Failure::AlreadyExists)) {
            break;
        }
        let Some(found) = desk.writer.slice(&slice.key, limit).await? else {
            return made;
        };
        match found.into_model(&mut Interner::default()) {
            // The reply to an earlier create of ours was lost: what is there has to be known before the next try.
            Some(found) if found.content.service == slice.content.service => {
                desk.index.lock().apply_slice(found);
                return made;
            }
            _ => desk.take(&slice.key.name),
        }
        let name = names.lock().take(&slice.content);
        let key = ObjectKey::new(Arc::clone(&slice.key.namespace), name);
        slice = Arc::new(Slice {
            key,
            ..Slice::clone(&slice)
        });
        let Ok(limit) = desk.open() else { break };
        made = put(desk, &slice, None, limit).await;
    }
    made
}

async fn delete(desk: &Desk, slice: &Slice, limit: Duration) -> Result<(), Failure> {
    desk.index.lock().expect_slice_delete(&slice.key);
    let gone = desk
        .writer
        .delete::<api::EndpointSlice>(&slice.key, &slice.version(), limit)
        .await;
    let end = match &gone {
        Ok(true) => DeleteEnd::Gone,
        Ok(false) => DeleteEnd::Going,
        Err(failure) if failure.may_have_acted() => DeleteEnd::Going,
        Err(_) => DeleteEnd::Refused,
    };
    desk.index.lock().finish_slice_delete(slice, end);
    gone.map(drop)
}

/// What a write would change, or all that it would make or delete, for a person who reads the log of an observer.
struct Shown<'a>(&'a Write);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Write::Put { slice, .. } | Write::Delete(slice)) = self.0;
        match self.0 {
            Write::Put { over: Some(over), .. } => {
                f.write_str(&listing::of_slice(&over.content, &slice.content).join(", "))
            }
            Write::Put { over: None, .. } | Write::Delete(_) => {
                f.write_str(&Listing::of_slice(&slice.content).text(true))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Labels, Manager, OwnerReference};

    fn content(family: IpFamily) -> SliceContent {
        SliceContent {
            service: "web".into(),
            manager: Manager::Selector,
            family: Some(family),
            generate_name: Some("web-".into()),
            labels: Labels::new(),
            annotations: Labels::new(),
            finalizers: Vec::new(),
            owner_references: vec![OwnerReference::controller("Service", "web", &Uid::parse("u"))],
            ports: Vec::new().into(),
            endpoints: Vec::new(),
        }
    }

    /// However many slices a Service needs, each gets a name of its own; none that is taken, and the first ones always in the same order.
    #[test]
    fn names_do_not_run_out() {
        let mut names = Names {
            taken: HashSet::default(),
            tried: HashMap::default(),
        };
        let [v4, v6] = [content(IpFamily::V4), content(IpFamily::V6)];
        names.taken.insert(name(&v4, 0).into());
        assert_eq!(
            [names.take(&v4), names.take(&v6)],
            [name(&v4, 1).into(), name(&v6, 0).into()]
        );
        let more: HashSet<_> = (0..5000).flat_map(|_| [names.take(&v4), names.take(&v6)]).collect();
        assert_eq!(more.len(), 10_000);
    }
}
