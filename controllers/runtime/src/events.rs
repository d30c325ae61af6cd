//! Kubernetes Events (`events.k8s.io/v1`). A controller hands an [`Event`] to an [`EventSink`], which never waits; one
//! task, the [`EventWriter`], writes them. Events are information, best effort: what does not fit the queue or the rate,
//! or is refused, is dropped and counted (`svcplane_events_dropped_total`).
//!
//! Not kube's `Recorder`: it waits for the apiserver in the caller, without deadline, and has no rate limit.

mod correlate;
mod write;

use std::fmt;

use prometheus::IntCounter;
use tokio::sync::mpsc;

use crate::metrics::Metrics;

pub use write::EventWriter;

/// How many Events wait at most (client-go: 1000).
const QUEUE: usize = 1000;

/// Whether an Event tells of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// It does not.
    Normal,
    /// It does.
    Warning,
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        })
    }
}

/// The object an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// Its `apiVersion`, such as `v1`.
    pub api_version: &'static str,
    /// Its kind, such as `Service`.
    pub kind: &'static str,
    /// Its namespace; empty when it has none (the Event then goes to `default`).
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; empty when not known.
    pub uid: String,
}

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// Which object.
    pub regarding: Regarding,
    /// Whether it is trouble.
    pub event_type: EventType,
    /// Why, in CamelCase: at most 128 characters, not empty.
    pub reason: &'static str,
    /// What was done or failed, in CamelCase: at most 128 characters, not empty.
    pub action: &'static str,
    /// The text for people; cut at 1024 bytes.
    pub note: String,
    /// Who tells, such as `endpoint-controller`: a qualified name.
    pub controller: &'static str,
}

/// Where controllers put Events. Cheap to clone.
#[derive(Clone)]
pub struct EventSink {
    queue: mpsc::Sender<Event>,
    full: IntCounter,
}

impl EventSink {
    /// Hands `event` on. It never waits: when the queue is full the Event is dropped and counted.
    pub fn emit(&self, event: Event) {
        if self.queue.try_send(event).is_err() {
            self.full.inc();
        }
    }
}

/// Events that were emitted and not yet taken.
pub struct EventQueue {
    waiting: mpsc::Receiver<Event>,
}

impl EventQueue {
    /// Takes the oldest Event, if there is one.
    pub fn take(&mut self) -> Option<Event> {
        self.waiting.try_recv().ok()
    }
}

/// A sink and the queue behind it, for an [`EventWriter`] to write or for a test to look at.
pub fn queue(metrics: &Metrics) -> (EventSink, EventQueue) {
    let (queue, waiting) = mpsc::channel(QUEUE);
    (
        EventSink {
            queue,
            full: metrics.events_dropped("queue_full"),
        },
        EventQueue { waiting },
    )
}
