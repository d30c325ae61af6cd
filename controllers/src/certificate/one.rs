//! One object, as its watch shows it.

use std::fmt::Debug;

use kube::runtime::watcher::Event;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use svcplane_runtime::metrics::Metrics;
use svcplane_runtime::readiness::Readiness;
use svcplane_runtime::supervise::Supervisor;
use svcplane_runtime::watch::{self, ListStyle, Pulse, Selection};
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

use crate::watches::spawn;

/// What is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known<K> {
    /// Nothing yet.
    Nothing,
    /// It is not there.
    Missing,
    /// It is there.
    There(K),
}

/// Takes the events of a watch.
struct Intake<K> {
    listed: Option<K>,
    known: channel::Sender<Known<K>>,
}

impl<K> Intake<K> {
    fn event(&mut self, event: Event<K>) {
        let known = match event {
            Event::Init => {
                self.listed = None;
                return;
            }
            Event::InitApply(object) => {
                self.listed = Some(object);
                return;
            }
            Event::InitDone => self.listed.take().map_or(Known::Missing, Known::There),
            Event::Apply(object) => Known::There(object),
            Event::Delete(_) => Known::Missing,
        };
        self.known.send_replace(known);
    }
}

/// How the watches of single objects are started.
pub struct Watching<'a> {
    /// Who owns them.
    pub tasks: &'a mut Supervisor,
    /// When they end.
    pub stop: &'a CancellationToken,
    /// Counts.
    pub metrics: &'a Metrics,
    /// How the first state is fetched.
    pub style: ListStyle,
}

impl Watching<'_> {
    /// Starts the watch of the object of this name. The right to it by name is enough.
    pub fn start<K>(&mut self, resource: &'static str, api: Api<K>, name: &str) -> channel::Receiver<Known<K>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let (known, receiver) = channel::channel(Known::Nothing);
        let mut intake = Intake { listed: None, known };
        let selection = Selection::named(self.style, name);
        let watch = watch::run(
            resource,
            api,
            selection,
            self.metrics.watch(resource),
            Readiness::new(resource),
            Pulse::default(),
            move |event| intake.event(event),
        );
        spawn(self.tasks, self.stop, resource, watch);
        receiver
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_missing_only_once_a_list_has_said_so() {
        let (known, receiver) = channel::channel(Known::Nothing);
        let mut intake = Intake { listed: None, known };
        let mut after = |event| {
            intake.event(event);
            receiver.borrow().clone()
        };
        assert_eq!(after(Event::Init), Known::Nothing);
        assert_eq!(after(Event::InitDone), Known::Missing);
        assert_eq!(after(Event::Apply(1)), Known::There(1));
        assert_eq!(after(Event::Init), Known::There(1));
        assert_eq!(after(Event::InitApply(2)), Known::There(1));
        assert_eq!(after(Event::InitDone), Known::There(2));
        assert_eq!(after(Event::Delete(2)), Known::Missing);
    }
}
