//! One quiet point: what is asked, done and counted until the sides are the same or are not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tokio::time::Instant;

use super::effects::Effects;
use super::exempt::{Cause, Tally};
use super::judge::{Need, Verdict};
use super::model::World;
use super::ops::{Key, Kind, Window};
use super::report::Difference;
use super::side::Retries;
use super::snapshot::{Content, Manager, Owned, SlicesContent, Snapshot};

/// One quiet point.
pub struct Look<'a> {
    /// What was applied.
    pub window: &'a Window,
    /// When that was done.
    pub applied: Instant,
    /// What it does, by the operations alone.
    pub effects: Effects,
    /// The reference's retries since the window began.
    pub retries: Retries,
    /// What had to be done before things could be compared.
    pub done: BTreeSet<(Key, Need)>,
    /// Causes counted already.
    counted: BTreeSet<(Subject, Cause)>,
    /// What svcplane said when its time was over.
    pub first: Option<Said>,
    /// What is counted, if all is the same.
    pub tally: Tally,
}

/// What a verdict is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Endpoints.
    Endpoints(Key),
    /// The slices of one controller for one Service.
    Slices(Owned),
}

impl Subject {
    /// The Service that it belongs to.
    pub fn key(&self) -> &Key {
        match self {
            Self::Endpoints(key) | Self::Slices(Owned { key, .. }) => key,
        }
    }

    /// Everything that either side has, and the slices that somebody should have written.
    pub fn all(world: &World, ours: &Snapshot, theirs: &Snapshot) -> BTreeSet<Self> {
        let live = world.services.iter().filter(|(_, service)| service.is_live());
        let live = live.map(|(key, _)| (key, Manager::Selector));
        let due = live.chain(world.loose.keys().map(|key| (key, Manager::Mirroring)));
        let due = due.map(|(key, manager)| {
            Self::Slices(Owned {
                key: key.clone(),
                manager,
            })
        });
        due.chain(Self::stored([ours, theirs])).collect()
    }

    fn stored<'a>(both: [&'a Snapshot; 2]) -> impl Iterator<Item = Self> + 'a {
        let endpoints = both.into_iter().flat_map(|side| side.endpoints.keys());
        let slices = both.into_iter().flat_map(|side| side.slices.keys());
        let endpoints = endpoints.map(|key| Self::Endpoints(key.clone()));
        endpoints.chain(slices.map(|owned| Self::Slices(owned.clone())))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoints(key) => write!(f, "Endpoints {key}"),
            Self::Slices(Owned { key, manager }) => match manager {
                Manager::Selector => write!(f, "EndpointSlices of {key}"),
                Manager::Mirroring => write!(f, "mirrored EndpointSlices of {key}"),
            },
        }
    }
}

/// What each object of one side says.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Endpoints.
    pub endpoints: BTreeMap<Key, Content>,
    /// Slices.
    pub slices: BTreeMap<Owned, SlicesContent>,
}

impl Said {
    /// In a snapshot.
    pub fn by(snapshot: &Snapshot) -> Self {
        let endpoints = snapshot.endpoints.iter();
        let slices = snapshot.slices.iter();
        Self {
            endpoints: endpoints
                .map(|(key, seen)| (key.clone(), seen.content.clone()))
                .collect(),
            slices: slices
                .map(|(owned, sliced)| (owned.clone(), sliced.content.clone()))
                .collect(),
        }
    }

    fn says_the_same(&self, later: &Snapshot, subject: &Subject) -> bool {
        match subject {
            Subject::Endpoints(key) => match (self.endpoints.get(key), later.endpoints.get(key)) {
                (Some(before), Some(after)) => before.says_the_same(&after.content),
                (before, after) => before.is_none() && after.is_none(),
            },
            Subject::Slices(owned) => self.slices.get(owned) == later.slices.get(owned).map(|sliced| &sliced.content),
        }
    }
}

impl<'a> Look<'a> {
    /// Begins it.
    pub fn new(window: &'a Window, effects: Effects, retries: Retries) -> Self {
        Self {
            window,
            applied: Instant::now(),
            effects,
            retries,
            done: BTreeSet::new(),
            counted: BTreeSet::new(),
            first: None,
            tally: Tally::default(),
        }
    }

    /// Counts a cause, once for each object.
    pub fn count(&mut self, subject: &Subject, cause: Cause) {
        if self.counted.insert((subject.clone(), cause)) {
            self.tally.note(cause);
        }
    }

    /// What is left open when all time is over.
    pub fn differences(&self, open: &[(Subject, Verdict)], ours: &Snapshot, theirs: &Snapshot) -> Vec<Difference> {
        let kind = match self.window.kind {
            Kind::Isolated => "isolated round",
            Kind::Burst => "burst",
        };
        let differ = open.iter().map(|(subject, verdict)| {
            let what = match verdict {
                Verdict::Different(what) => format!("{what} ({kind})"),
                other => format!("{other:?} ({kind})"),
            };
            Difference::of_object(self.window, subject, &what, ours, theirs)
        });
        differ.collect()
    }

    /// What svcplane changed after its time, with nobody having asked for it. It may take longer where it is `patient`
    /// with other writers.
    pub fn late(&self, ours: &Snapshot, theirs: &Snapshot, patient: impl Fn(&Key) -> bool) -> Vec<Difference> {
        const WHAT: &str = "svcplane was late: below is what it said first";
        let Some(first) = &self.first else { return Vec::new() };
        // These let controllers look again and give them nothing new to say.
        let idle = |need: &Need| matches!(need, Need::Touch | Need::Remirror);
        let asked = |key: &Key| self.done.iter().any(|(done, need)| done == key && !idle(need));
        let endpoints = first.endpoints.keys().map(|key| Subject::Endpoints(key.clone()));
        let slices = first.slices.keys().map(|owned| Subject::Slices(owned.clone()));
        let mut subjects: BTreeSet<Subject> = Subject::stored([ours, ours]).collect();
        subjects.extend(endpoints.chain(slices));
        let late = subjects
            .into_iter()
            .filter(|subject| !first.says_the_same(ours, subject))
            .filter(|subject| !asked(subject.key()) && !patient(subject.key()))
            .map(|subject| Difference::of_first(self.window, &subject, WHAT, first, theirs));
        late.collect()
    }
}
