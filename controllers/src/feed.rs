//! From the watches into the index, and from the index into the queue.

use std::fmt::Debug;
use std::sync::Arc;

use kube::Resource;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::endpoints::EndpointsController;
use crate::index::{Index, Kind};
use crate::model::{EndpointsObject, Interner, LabelledPod, ObjectKey, Revision, Service};
use crate::wire::{WireEndpoints, WirePod, WireService};

/// A kind that is watched: how it is read and where it goes.
pub trait Watched: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static {
    /// Its place in the index.
    const KIND: Kind;
    /// Its plural name, as metrics and messages show it.
    const RESOURCE: &'static str;
    /// What the index holds of it.
    type Model;
    /// Reads it.
    fn read(self, interner: &mut Interner) -> Self::Model;
    /// It is stored like this.
    fn apply(model: Self::Model, index: &mut Index);
    /// It is gone.
    fn delete(index: &mut Index, key: &ObjectKey, revision: Revision);
}

impl Watched for WireService {
    const KIND: Kind = Kind::Service;
    const RESOURCE: &'static str = "services";
    type Model = Service;
    fn read(self, interner: &mut Interner) -> Service {
        self.into_model(interner)
    }
    fn apply(model: Service, index: &mut Index) {
        index.apply_service(model);
    }
    fn delete(index: &mut Index, key: &ObjectKey, revision: Revision) {
        index.delete_service(key, revision);
    }
}

impl Watched for WirePod {
    const KIND: Kind = Kind::Pod;
    const RESOURCE: &'static str = "pods";
    type Model = LabelledPod;
    fn read(self, interner: &mut Interner) -> LabelledPod {
        self.into_model(interner)
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
    type Model = EndpointsObject;
    fn read(self, interner: &mut Interner) -> EndpointsObject {
        self.into_model(interner)
    }
    fn apply(model: EndpointsObject, index: &mut Index) {
        index.apply_endpoints(model);
    }
    fn delete(index: &mut Index, key: &ObjectKey, revision: Revision) {
        index.delete_endpoints(key, revision);
    }
}

/// Where events go. Clones share everything.
#[derive(Clone)]
pub struct Feed {
    /// One copy of every text, for all kinds.
    pub interner: Arc<Mutex<Interner>>,
    /// What is stored.
    pub index: Arc<Mutex<Index>>,
    /// Who is told what is affected.
    pub controller: Arc<EndpointsController>,
}

impl Feed {
    /// Takes one event of a watch.
    pub fn event<K: Watched>(&self, event: Event<K>) {
        match event {
            Event::Init => self.change(|index| index.begin(K::KIND)),
            Event::InitApply(object) | Event::Apply(object) => {
                let model = object.read(&mut self.interner.lock());
                self.change(|index| K::apply(model, index));
            }
            Event::Delete(object) => {
                let meta = object.meta();
                let text = |field: &Option<String>| field.as_deref().unwrap_or_default().to_owned();
                let key = ObjectKey::new(text(&meta.namespace), text(&meta.name));
                let revision = Revision::parse(&text(&meta.resource_version));
                self.change(|index| K::delete(index, &key, revision));
            }
            Event::InitDone => self.change(|index| index.sweep(K::KIND)),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Index)) {
        let affected = {
            let mut index = self.index.lock();
            change(&mut index);
            index.take_affected()
        };
        self.controller.enqueue(affected);
    }
}
