//! From the watches into the index, and from the index into the queue.

use std::fmt::Debug;
use std::sync::Arc;

use kube::Resource;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::books::Intake;
use crate::index::{Index, Kind};
use crate::model::{EndpointsObject, Interner, LabelledPod, Node, ObjectKey, Revision, Service, Slice, Uid};
use crate::reconcile::Reconciler;
use crate::wire::{WireEndpoints, WireNode, WirePod, WireService, WireSlice};

/// A kind that is watched: how it is read and where it goes.
pub trait Watched: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static {
    /// Its place in the index.
    const KIND: Kind;
    /// Its plural name, as metrics and messages show it.
    const RESOURCE: &'static str;
    /// What goes into the index.
    type Model;
    /// Reads it.
    fn read(self, interner: &Mutex<Interner>, index: &Mutex<Index>) -> Self::Model;
    /// It is stored like this.
    fn apply(model: Self::Model, index: &mut Index);
    /// It is gone.
    fn delete(index: &mut Index, key: &ObjectKey, revision: Revision);
    /// Tells admission, if it wants to know.
    fn tell(_event: &Event<Self>, _services: &Mutex<Intake<WireService>>) {}
}

impl Watched for WireService {
    const KIND: Kind = Kind::Service;
    const RESOURCE: &'static str = "services";
    type Model = Service;
    fn read(self, interner: &Mutex<Interner>, _: &Mutex<Index>) -> Service {
        self.into_model(&mut interner.lock())
    }
    fn apply(model: Service, index: &mut Index) {
        index.apply_service(model);
    }
    fn delete(index: &mut Index, key: &ObjectKey, revision: Revision) {
        index.delete_service(key, revision);
    }
    fn tell(event: &Event<Self>, services: &Mutex<Intake<Self>>) {
        services.lock().event(event);
    }
}

impl Watched for WirePod {
    const KIND: Kind = Kind::Pod;
    const RESOURCE: &'static str = "pods";
    type Model = LabelledPod;
    fn read(self, interner: &Mutex<Interner>, _: &Mutex<Index>) -> LabelledPod {
        self.into_model(&mut interner.lock())
    }
    fn apply(model: LabelledPod, index: &mut Index) {
        index.apply_pod(model);
    }
    fn delete(index: &mut Index, key: &ObjectKey, revision: Revision) {
        index.delete_pod(key, revision);
    }
}

impl Watched for WireEndpoints {
    const KIND: Kind = Kind::Endpoints;
    const RESOURCE: &'static str = "endpoints";
    type Model = SeenEndpoints;
    fn read(self, interner: &Mutex<Interner>, index: &Mutex<Index>) -> SeenEndpoints {
        // Most often it is the echo of a write of ours, whose content is at hand.
        let known = index.lock().known_endpoints(&self.key());
        let known = || known.iter().flatten();
        let (uid, revision) = self.version();
        if let Some(known) = known().find(|known| self.repeats(known)) {
            return SeenEndpoints::Known(Arc::clone(known), uid, revision);
        }
        let key = self.key();
        let parsed = match self.parse() {
            Ok(parsed) => parsed,
            Err(error) => {
                tracing::error!(endpoints = %key, %error, "cannot be read");
                return SeenEndpoints::Unreadable;
            }
        };
        match known().find(|known| parsed.says(known)) {
            Some(known) => SeenEndpoints::Known(Arc::clone(known), uid, revision),
            None => SeenEndpoints::New(parsed.into_model(&mut interner.lock())),
        }
    }
    fn apply(model: SeenEndpoints, index: &mut Index) {
        match model {
            SeenEndpoints::Known(known, uid, revision) => index.apply_known_endpoints(&known, uid, revision),
            SeenEndpoints::New(object) => index.apply_endpoints(object),
            SeenEndpoints::Unreadable => {}
        }
    }
    fn delete(index: &mut Index, key: &ObjectKey, revision: Revision) {
        index.delete_endpoints(key, revision);
    }
}

impl Watched for WireSlice {
    const KIND: Kind = Kind::Slice;
    const RESOURCE: &'static str = "endpointslices";
    type Model = SeenSlice;
    fn read(self, interner: &Mutex<Interner>, _: &Mutex<Index>) -> SeenSlice {
        let (key, revision) = key_and_revision(&self);
        match self.into_model(&mut interner.lock()) {
            Some(slice) => SeenSlice::Ours(Box::new(slice)),
            None => SeenSlice::Nobodys(key, revision),
        }
    }
    fn apply(model: SeenSlice, index: &mut Index) {
        match model {
            SeenSlice::Ours(slice) => index.apply_slice(*slice),
            SeenSlice::Nobodys(key, revision) => index.delete_slice(&key, revision),
        }
    }
    fn delete(index: &mut Index, key: &ObjectKey, revision: Revision) {
        index.delete_slice(key, revision);
    }
}

impl Watched for WireNode {
    const KIND: Kind = Kind::Node;
    const RESOURCE: &'static str = "nodes";
    type Model = Node;
    fn read(self, interner: &Mutex<Interner>, _: &Mutex<Index>) -> Node {
        self.into_model(&mut interner.lock())
    }
    fn apply(model: Node, index: &mut Index) {
        index.apply_node(model);
    }
    fn delete(index: &mut Index, key: &ObjectKey, revision: Revision) {
        index.delete_node(&key.name, revision);
    }
}

/// An Endpoints object as the watch shows it.
pub enum SeenEndpoints {
    /// With the content of this one, under this uid and revision.
    Known(Arc<EndpointsObject>, Uid, Revision),
    /// With other content.
    New(EndpointsObject),
    /// Something else, which no apiserver sends. What was known of it stays.
    Unreadable,
}

/// A slice as the watch shows it.
pub enum SeenSlice {
    /// One of our controllers', for a Service.
    Ours(Box<Slice>),
    /// It names no Service, or not any more: to the Service that it named it is gone.
    Nobodys(ObjectKey, Revision),
}

/// Where events go. Clones share everything.
#[derive(Clone)]
pub struct Feed {
    /// One copy of every text, for all kinds.
    pub interner: Arc<Mutex<Interner>>,
    /// What is stored.
    pub index: Arc<Mutex<Index>>,
    /// Who is told what is affected. `None`: endpoints are others' business, and nothing goes into the index.
    pub controller: Option<Arc<Reconciler>>,
    /// What admission learns of Services, if it is served.
    pub services: Option<Arc<Mutex<Intake<WireService>>>>,
}

impl Feed {
    /// Takes one event of a watch.
    pub fn event<K: Watched>(&self, event: Event<K>) {
        if let Some(services) = &self.services {
            K::tell(&event, services);
        }
        let Some(controller) = &self.controller else { return };
        match event {
            Event::Init => self.change(controller, |index| index.begin(K::KIND)),
            Event::InitApply(object) | Event::Apply(object) => {
                let model = object.read(&self.interner, &self.index);
                self.change(controller, |index| K::apply(model, index));
            }
            Event::Delete(object) => {
                let (key, revision) = key_and_revision(&object);
                self.change(controller, |index| K::delete(index, &key, revision));
            }
            Event::InitDone => self.change(controller, |index| index.sweep(K::KIND)),
        }
    }

    fn change(&self, controller: &Reconciler, change: impl FnOnce(&mut Index)) {
        let affected = {
            let mut index = self.index.lock();
            change(&mut index);
            index.take_affected()
        };
        controller.enqueue(affected);
    }
}

fn key_and_revision<K: Watched>(object: &K) -> (ObjectKey, Revision) {
    let meta = object.meta();
    let text = |field: &Option<String>| field.as_deref().unwrap_or_default().to_owned();
    let key = ObjectKey::new(text(&meta.namespace), text(&meta.name));
    (key, Revision::parse(&text(&meta.resource_version)))
}
