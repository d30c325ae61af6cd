//! Own writes laid over the watch, against a model of the apiserver: whatever the order of acts, replies, events and lists, in
//! the end the index shows what is stored, and what is stored is ours.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::tests::{endpoints, key, labels, service};
use super::{Index, Kind, WriteEnd};
use crate::model::{EndpointsObject, Revision, Uid};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The controller looks at the key, if it has a reason to and no write is under way.
    Look,
    /// The apiserver does what it was sent.
    Act,
    /// Its reply arrives; lost if `false`.
    Reply(bool),
    /// The controller waits no longer; the apiserver may still act.
    GiveUp,
    /// Something else is wanted, or what was wanted before.
    Want,
    /// Somebody else deletes the object.
    Delete,
    /// Somebody else changes it, or makes it.
    Edit,
    /// The next event of the watch arrives.
    Event,
    /// A list begins: what it will bring is fixed.
    List,
    /// It is complete.
    Listed,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Look),
        3 => Just(Step::Act),
        3 => Just(Step::Reply(true)),
        1 => Just(Step::Reply(false)),
        1 => Just(Step::GiveUp),
        2 => Just(Step::Want),
        2 => Just(Step::Delete),
        1 => Just(Step::Edit),
        2 => Just(Step::Event),
        2 => Just(Step::List),
        2 => Just(Step::Listed),
    ];
    proptest::collection::vec(step, 1..40)
}

/// A write on its way: what is sent, what it replaces, and how it ended on the server.
struct Write {
    content: EndpointsObject,
    replaces: Option<(Uid, Revision)>,
    ended: Option<WriteEnd>,
}

#[derive(Default)]
struct World {
    index: Index,
    stored: Option<EndpointsObject>,
    revision: u64,
    /// What the watch has not shown yet: the object, and whether it was deleted.
    events: VecDeque<(EndpointsObject, bool)>,
    /// What the list under way will bring.
    listing: Option<Vec<EndpointsObject>>,
    write: Option<Write>,
    /// Given up before the server acted.
    late: Option<Write>,
    due: bool,
    /// Which of two things is wanted.
    other: bool,
}

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        world
            .index
            .apply_service(service("web", Some(labels(&[("app", "web")])), 1));
        world
    }

    fn wanted(&self) -> EndpointsObject {
        let mut wanted = endpoints("web", "", 0, true);
        if self.other {
            wanted.annotations.insert("want".into(), "other".into());
        }
        wanted
    }

    fn is_right(&self, known: &EndpointsObject) -> bool {
        let wanted = self.wanted();
        (&known.labels, &known.annotations) == (&wanted.labels, &wanted.annotations)
    }

    fn store(&mut self, content: EndpointsObject, uid: Option<Uid>) -> (Uid, Revision) {
        self.revision += 1;
        let revision = Revision(self.revision);
        let uid = uid.unwrap_or_else(|| Uid::parse(&format!("u-{}", self.revision)));
        let object = EndpointsObject {
            uid: uid.clone(),
            revision,
            ..content
        };
        self.stored = Some(object.clone());
        self.events.push_back((object, false));
        (uid, revision)
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Look => self.look(),
            Step::Act => self.act(),
            Step::Reply(arrives) => self.reply(arrives),
            Step::GiveUp => {
                if self.write.is_some() {
                    self.late = self.write.take().filter(|write| write.ended.is_none());
                    self.due = true;
                    self.index.finish_endpoints(&key("web"), WriteEnd::Unknown);
                }
            }
            Step::Want => (self.other, self.due) = (!self.other, true),
            Step::Delete => {
                if let Some(object) = self.stored.take() {
                    self.revision += 1;
                    let revision = Revision(self.revision);
                    self.events.push_back((EndpointsObject { revision, ..object }, true));
                }
            }
            Step::Edit => {
                let uid = self.stored.as_ref().map(|object| object.uid.clone());
                self.store(endpoints("web", "", 0, false), uid);
            }
            Step::Event => {
                if self.listing.is_none()
                    && let Some((object, deleted)) = self.events.pop_front()
                {
                    if deleted {
                        self.index.delete_endpoints(&key("web"), object.revision);
                    } else {
                        self.index.apply_endpoints(object);
                    }
                }
            }
            Step::List => {
                if self.listing.is_none() {
                    self.index.begin(Kind::Endpoints);
                    self.listing = Some(self.stored.iter().cloned().collect());
                    // The watch goes on from here.
                    self.events.clear();
                }
            }
            Step::Listed => {
                if let Some(listed) = self.listing.take() {
                    for object in listed {
                        self.index.apply_endpoints(object);
                    }
                    self.index.sweep(Kind::Endpoints);
                }
            }
        }
        self.due |= !self.index.take_affected().is_empty();
    }

    fn look(&mut self) {
        if !self.due || self.write.is_some() {
            return;
        }
        self.due = false;
        let known = self.index.snapshot(&key("web")).endpoints;
        if known.as_ref().is_some_and(|object| self.is_right(object)) {
            return;
        }
        let replaces = known.map(|object| (object.uid.clone(), object.revision));
        let (uid, revision) = replaces.clone().unwrap_or((Uid::parse(""), Revision::default()));
        self.index.expect_endpoints(&Arc::new(EndpointsObject {
            uid,
            revision,
            ..self.wanted()
        }));
        self.write = Some(Write {
            content: self.wanted(),
            replaces,
            ended: None,
        });
    }

    fn act(&mut self) {
        if let Some(late) = self.late.take() {
            self.execute(&late);
        }
        if let Some(mut write) = self.write.take_if(|write| write.ended.is_none()) {
            write.ended = Some(self.execute(&write));
            self.write = Some(write);
        }
    }

    fn execute(&mut self, write: &Write) -> WriteEnd {
        let stored = self.stored.as_ref().map(|object| (object.uid.clone(), object.revision));
        if stored != write.replaces {
            return WriteEnd::Refused;
        }
        let (uid, revision) = self.store(write.content.clone(), stored.map(|(uid, _)| uid));
        WriteEnd::Stored(uid, revision)
    }

    fn reply(&mut self, arrives: bool) {
        let Some(Write { ended: Some(end), .. }) = self.write.take_if(|write| write.ended.is_some()) else {
            return;
        };
        let end = if arrives { end } else { WriteEnd::Unknown };
        // A write that failed is tried again.
        self.due |= !matches!(end, WriteEnd::Stored(..));
        self.index.finish_endpoints(&key("web"), end);
    }

    /// Everything under way arrives, and the controller looks until it has no reason to.
    fn settle(&mut self) {
        for _ in 0..8 {
            for step in [Step::Listed, Step::Look, Step::Act, Step::Reply(true)] {
                self.take(step);
            }
            while !self.events.is_empty() {
                self.take(Step::Event);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn in_the_end_the_index_shows_what_is_stored(steps in steps()) {
        let mut world = World::new();
        world.take(Step::Event);
        for step in steps {
            world.take(step);
        }
        world.settle();
        let known = world.index.snapshot(&key("web")).endpoints.map(|object| (*object).clone());
        prop_assert_eq!(&known, &world.stored);
        prop_assert!(known.is_some_and(|known| world.is_right(&known)));
        prop_assert!(!world.due && world.write.is_none());
    }
}
