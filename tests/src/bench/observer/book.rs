//! All objects of one kind, by Service.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::decode::Event;
use super::shown::{Answered, Said, Shown};

/// Namespace and name.
type Key = (String, String);

/// Addresses that an Endpoints object lists at the most.
const CAPACITY: usize = 1000;

/// Which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One object per Service, of its name.
    Endpoints,
    /// Any number of them, each with its Service's name on it.
    Slices,
}

impl Kind {
    /// Where it is watched.
    pub fn path(self) -> &'static str {
        match self {
            Self::Endpoints => "api/v1/endpoints",
            Self::Slices => "apis/discovery.k8s.io/v1/endpointslices",
        }
    }

    /// What an object says begins here, and ends with the object.
    fn first_field(self) -> &'static [u8] {
        match self {
            Self::Endpoints => b",\"subsets\":",
            Self::Slices => b",\"addressType\":",
        }
    }

    /// Without it: what is said as text.
    fn text(self, line: &[u8]) -> &[u8] {
        let field = self.first_field();
        let found = line.windows(field.len()).position(|window| window == field);
        found.and_then(|at| line.get(at..)).unwrap_or_default()
    }

    fn shown(self) -> Shown {
        match self {
            Self::Endpoints => Shown::with_capacity(CAPACITY),
            Self::Slices => Shown::default(),
        }
    }

    /// What it should say of a Pod: Endpoints are only asked for their ready addresses.
    fn wants(self, pod: Said) -> Said {
        match self {
            Self::Endpoints if pod != Said::READY => Said::Nothing,
            _ => pod,
        }
    }
}

/// An answer to a Pod's change, and whose object gave it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The Service's name.
    pub service: Box<str>,
    /// The Pod's event.
    pub since: Instant,
    /// The object's, after so long.
    pub took: Duration,
}

/// What was seen of one kind since the last reset.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Events of objects, but those of deletions.
    pub events: u64,
    /// Their size as JSON.
    pub bytes: u64,
    /// Those that changed nothing that is said.
    pub redundant: u64,
    /// From a Pod's event to the first event of its Service's objects that says the same or something newer.
    pub answers: Vec<Answer>,
    /// Changes of Pods that were taken back before an object said them.
    pub undone: u64,
    /// The last event of an object.
    pub last: Option<Instant>,
    /// The last answer.
    pub last_answer: Option<Instant>,
}

/// See the module.
pub struct Book {
    kind: Kind,
    services: HashMap<Key, Shown>,
    seen: Seen,
}

impl Book {
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            services: HashMap::new(),
            seen: Seen::default(),
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A Pod of this Service has changed.
    pub fn pod(&mut self, namespace: &str, service: &str, pod: &str, said: Said, at: Instant) {
        let said = self.kind.wants(said);
        let answered = self.service(namespace, service).want(pod, said, at);
        self.answered(service, answered, at);
    }

    /// An object has changed.
    pub fn object(&mut self, event: &Event<'_>, line: &[u8], at: Instant) {
        let meta = &event.object.metadata;
        let labelled = meta.labels.as_ref().and_then(|labels| labels.service_name);
        let Some(service) = (match self.kind {
            Kind::Endpoints => Some(meta.name),
            Kind::Slices => labelled,
        }) else {
            return;
        };
        self.seen.last = Some(at);
        let kind = self.kind;
        if event.kind == "DELETED" {
            let answered = self.service(meta.namespace, service).deleted(meta.name, at);
            self.answered(service, answered, at);
            return;
        }
        self.seen.events += 1;
        self.seen.bytes += line.len() as u64;
        let pods = match kind {
            Kind::Endpoints => event.object.in_endpoints(),
            Kind::Slices => event.object.in_slice(),
        };
        let shown = self.service(meta.namespace, service);
        match shown.show(meta.name, kind.text(line), &pods, at) {
            Some(answered) => self.answered(service, answered, at),
            None => self.seen.redundant += 1,
        }
    }

    fn service(&mut self, namespace: &str, service: &str) -> &mut Shown {
        let key = (namespace.to_owned(), service.to_owned());
        let kind = self.kind;
        self.services.entry(key).or_insert_with(|| kind.shown())
    }

    fn answered(&mut self, service: &str, answered: impl IntoIterator<Item = Answered>, at: Instant) {
        for Answered { since, took } in answered {
            self.seen.last_answer = Some(at);
            let service = service.into();
            self.seen.answers.push(Answer { service, since, took });
        }
    }

    /// Services that have an object.
    pub fn count(&self) -> usize {
        self.services.values().filter(|shown| shown.exists()).count()
    }

    /// Whether exactly so many Services have objects, and these say what they should.
    pub fn is_right(&self, services: usize) -> bool {
        self.services.values().all(Shown::is_right) && self.count() == services
    }

    /// Services whose objects do not say what they should.
    pub fn wrong(&self) -> usize {
        self.services.values().filter(|shown| !shown.is_right()).count()
    }

    pub fn last(&self) -> Option<Instant> {
        self.seen.last
    }

    pub fn seen(&self) -> Seen {
        let undone = self.services.values().map(Shown::undone).sum();
        Seen {
            undone,
            ..self.seen.clone()
        }
    }

    pub fn reset(&mut self) {
        self.seen = Seen::default();
        self.services.values_mut().for_each(Shown::reset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_object_the_text_is_what_it_says() {
        let line = br#"{"kind":"EndpointSlice","metadata":{"name":"s"},"addressType":"IPv4","endpoints":null}"#;
        assert_eq!(Kind::Slices.text(line), br#","addressType":"IPv4","endpoints":null}"#);
        assert_eq!(Kind::Endpoints.text(line), b"");
    }

    #[test]
    fn slices_belong_to_the_service_on_their_label() {
        let line = |version: u32| {
            format!(
                r#"{{"type":"MODIFIED","object":{{"metadata":{{"name":"web-x1","namespace":"n","resourceVersion":"{version}",
                "labels":{{"kubernetes.io/service-name":"web"}}}},"addressType":"IPv4","endpoints":[
                {{"addresses":["10.0.0.1"],"conditions":{{"ready":true,"serving":true,"terminating":false}},"targetRef":{{"name":"web-0"}}}}]}}}}"#
            )
        };
        let (mut book, at) = (Book::new(Kind::Slices), Instant::now());
        book.pod("n", "web", "web-0", Said::READY, at);
        assert!(!book.is_right(1));
        for version in 1..=2 {
            let line = line(version);
            book.object(&serde_json::from_str(&line).unwrap(), line.as_bytes(), at);
        }
        assert!(book.is_right(1));
        assert!(!book.is_right(2));
        let seen = book.seen();
        assert_eq!((seen.events, seen.redundant, seen.answers.len()), (2, 1, 1));
        assert_eq!(&*seen.answers[0].service, "web");
    }
}
