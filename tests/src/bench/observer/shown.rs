//! What the objects of one kind (Endpoints, or EndpointSlices) say of one Service's Pods, beside what they should say.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An object that has said so for longer did not say it for this change: the Pod is beyond the object's capacity.
const OVERTAKEN: Duration = Duration::from_millis(200);

/// What is said of a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// It is not listed.
    #[default]
    Nothing,
    /// It is, with these conditions.
    Endpoint {
        ready: bool,
        serving: bool,
        terminating: bool,
    },
}

impl Said {
    pub const READY: Self = Self::Endpoint {
        ready: true,
        serving: true,
        terminating: false,
    };
}

/// A Pod's change, and when an object said it or something newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The Pod's event.
    pub since: Instant,
    /// The object's, after so long.
    pub took: Duration,
}

/// See the module.
#[derive(Default)]
pub struct Shown {
    /// Pods that an object can list; 0: any number.
    capacity: usize,
    objects: HashMap<Arc<str>, Listed>,
    shown: HashMap<Arc<str>, Entry>,
    /// Pods that were listed, and when they ceased to be.
    gone: HashMap<Arc<str>, Instant>,
    wanted: HashMap<Arc<str>, Said>,
    /// Pods of which something else is said than is wanted, with the changes that are to be answered.
    wrong: HashMap<Arc<str>, Vec<(Said, Instant)>>,
    /// Changes that were taken back before they were answered.
    undone: u64,
    events: u64,
}

struct Listed {
    text: Box<[u8]>,
    pods: Vec<Arc<str>>,
}

struct Entry {
    said: Said,
    since: Instant,
    object: Arc<str>,
    /// The number of the event that said so last.
    event: u64,
}

impl Shown {
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    /// A Pod has changed. Answered already if the object's event has overtaken the Pod's.
    pub fn want(&mut self, pod: &str, said: Said, at: Instant) -> Option<Answered> {
        let before = match said {
            Said::Nothing => self.wanted.remove(pod),
            _ => self.wanted.insert(pod.into(), said),
        };
        if before.unwrap_or_default() == said {
            return None;
        }
        if self.said_of(pod) == said {
            let changes = self.wrong.remove(pod).unwrap_or_default();
            if !changes.is_empty() {
                self.undone += 1 + changes.len() as u64;
                return None;
            }
            let shown = self.shown.get(pod).map(|entry| entry.since);
            let since = shown.or_else(|| self.gone.get(pod).copied())?;
            let took = Duration::ZERO;
            return (at.saturating_duration_since(since) < OVERTAKEN).then_some(Answered { since: at, took });
        }
        let awaited = !self.is_full() || self.shown.contains_key(pod) || self.gone.contains_key(pod);
        let changes = self.wrong.entry(pod.into()).or_default();
        if awaited {
            changes.push((said, at));
        }
        None
    }

    /// An object says this now. `None`: the same as before.
    pub fn show(&mut self, object: &str, text: &[u8], pods: &[(&str, Said)], at: Instant) -> Option<Vec<Answered>> {
        let before = self.objects.remove(object);
        if let Some(before) = before.as_ref().filter(|before| *before.text == *text) {
            let same = Listed {
                text: before.text.clone(),
                pods: before.pods.clone(),
            };
            self.objects.insert(object.into(), same);
            return None;
        }
        self.events += 1;
        let (object, event): (Arc<str>, _) = (object.into(), self.events);
        let mut answered = Vec::new();
        let mut listed = Vec::with_capacity(pods.len());
        for (pod, said) in pods {
            let pod: Arc<str> = (*pod).into();
            let before = self.shown.get(&pod).filter(|before| before.said == *said);
            let (changed, since) = (before.is_none(), before.map_or(at, |before| before.since));
            let entry = Entry {
                said: *said,
                since,
                object: Arc::clone(&object),
                event,
            };
            self.shown.insert(Arc::clone(&pod), entry);
            self.gone.remove(&pod);
            if changed {
                self.changed(&pod, at, &mut answered);
            }
            listed.push(pod);
        }
        self.unlist(&object, before, event, at, &mut answered);
        let text = text.into();
        self.objects.insert(object, Listed { text, pods: listed });
        Some(answered)
    }

    /// An object is gone.
    pub fn deleted(&mut self, object: &str, at: Instant) -> Vec<Answered> {
        let mut answered = Vec::new();
        let before = self.objects.remove(object);
        self.events += 1;
        self.unlist(object, before, self.events, at, &mut answered);
        if self.objects.is_empty() {
            // A new start: what was listed once says nothing about what the next one lists.
            self.gone.clear();
        }
        answered
    }

    /// Takes away what an object said before and has not said in this event.
    fn unlist(&mut self, object: &str, before: Option<Listed>, event: u64, at: Instant, answered: &mut Vec<Answered>) {
        for pod in before.into_iter().flat_map(|before| before.pods) {
            // It may be another slice by now that lists it.
            let left = |entry: &Entry| *entry.object == *object && entry.event != event;
            if self.shown.get(&pod).is_some_and(left) {
                self.shown.remove(&pod);
                self.gone.insert(Arc::clone(&pod), at);
                self.changed(&pod, at, answered);
            }
        }
    }

    fn changed(&mut self, pod: &Arc<str>, at: Instant, answered: &mut Vec<Answered>) {
        let said = self.said_of(pod);
        let answer = |(_, since): (Said, Instant)| Answered {
            since,
            took: at.saturating_duration_since(since),
        };
        if self.wanted.get(pod).copied().unwrap_or_default() == said {
            answered.extend(self.wrong.remove(pod).into_iter().flatten().map(answer));
            return;
        }
        let changes = self.wrong.entry(Arc::clone(pod)).or_default();
        let newest = changes.iter().rposition(|(wanted, _)| *wanted == said);
        answered.extend(changes.drain(..newest.map_or(0, |newest| newest + 1)).map(answer));
    }

    fn said_of(&self, pod: &str) -> Said {
        self.shown.get(pod).map(|entry| entry.said).unwrap_or_default()
    }

    fn is_full(&self) -> bool {
        self.capacity > 0 && self.shown.len() >= self.capacity
    }

    /// Whether there is an object.
    pub fn exists(&self) -> bool {
        !self.objects.is_empty()
    }

    /// Whether everything is said, and nothing else; of more Pods than there is room for, as many as there is.
    pub fn is_right(&self) -> bool {
        self.wrong.is_empty() || (self.is_full() && self.wrong.keys().all(|pod| !self.shown.contains_key(pod)))
    }

    /// Changes taken back before they were answered.
    pub fn undone(&self) -> u64 {
        self.undone
    }

    /// Waits for no answer any more.
    pub fn reset(&mut self) {
        self.wrong.values_mut().for_each(Vec::clear);
        self.undone = 0;
    }
}

#[cfg(test)]
mod tests;
