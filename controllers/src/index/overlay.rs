//! Objects of one kind that we write: what the watch has shown, with our own writes laid over it.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Epoch, is_old, is_older};
use crate::model::{Revision, Uid};

/// What the overlay must know of an object.
pub(super) trait Stored: Clone {
    /// `metadata.name`.
    fn name(&self) -> &Arc<str>;
    /// `metadata.uid` and `metadata.resourceVersion`.
    fn stamp(&self) -> (&Uid, Revision);
    /// The same content under another version.
    fn with_version(self, uid: Uid, revision: Revision) -> Self;
    /// Equal in all that we read or write; who stored it when does not matter.
    fn same_content(&self, other: &Self) -> bool;
}

/// How a write of ours ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteEnd {
    /// It is stored under this uid and revision.
    Stored(Uid, Revision),
    /// The apiserver refused it.
    Refused,
    /// No answer came: it may be stored or not, now or in a moment.
    Unknown,
}

/// How a deletion of ours ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteEnd {
    /// It is gone.
    Gone,
    /// It will go: a finalizer holds it, or no answer came and only the watch can tell.
    Going,
    /// The apiserver refused it.
    Refused,
}

/// What an object that the watch shows means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing new, or a write of ours.
    Nothing,
    /// A write of ours whose answer was lost turns out to be made. What is wanted may have changed meanwhile, unseen by those who took it for
    /// not made.
    Found,
    /// Somebody else changed it.
    Disturbed,
    /// There was none of that name, or, if `replaces`, another one.
    Appeared {
        /// It is what we have sent.
        expected: bool,
        /// There was another one of that name.
        replaces: bool,
    },
}

/// What the end of a write means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    /// Nothing more.
    Nothing,
    /// It is not clear whether the object is there: to be looked at again.
    Unclear,
    /// There is an object now that was not there.
    Made,
}

#[derive(Debug)]
struct Entry<T> {
    object: Arc<T>,
    epoch: Epoch,
    /// The watch has shown it. Until then the reply to our create is all that tells of it.
    shown: bool,
}

/// Content that a writer of ours has sent.
#[derive(Debug)]
struct Expected<T> {
    object: Arc<T>,
    /// The watch has shown a deletion at this revision since it was sent.
    deleted: Revision,
    /// A list was completed since it was sent. One without the object is either older than it, and the watch will show it, or younger
    /// than its deletion: the answer alone does not tell.
    listed: bool,
    /// The answer was lost: whether it is stored, only the watch can tell.
    answer_lost: bool,
    /// The answer to an earlier try was lost: a refusal of this one may mean that the earlier one is stored.
    earlier_lost: bool,
}

impl<T> Expected<T> {
    fn new(object: Arc<T>, answer_lost: bool) -> Self {
        Self {
            object,
            deleted: Revision::default(),
            listed: false,
            answer_lost,
            earlier_lost: false,
        }
    }
}

/// See the module. Names are those of one namespace.
#[derive(Debug)]
pub(super) struct Overlay<T> {
    entries: HashMap<Arc<str>, Entry<T>, ahash::RandomState>,
    expected: HashMap<Arc<str>, Expected<T>, ahash::RandomState>,
    /// Objects that we have deleted and whose end the watch has not shown yet. What it shows of them until then is over.
    deleted: HashMap<Arc<str>, Uid, ahash::RandomState>,
}

impl<T> Default for Overlay<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::default(),
            expected: HashMap::default(),
            deleted: HashMap::default(),
        }
    }
}

impl<T: Stored> Overlay<T> {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.entries.get(name).map(|entry| &entry.object)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<T>)> {
        self.entries.iter().map(|(name, entry)| (name, &entry.object))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.expected.is_empty() && self.deleted.is_empty()
    }

    /// What is known to be stored under this name, and what a write of ours is about to store there.
    pub(super) fn known(&self, name: &str) -> [Option<Arc<T>>; 2] {
        let ours = self.expected.get(name).map(|ours| Arc::clone(&ours.object));
        [self.get(name).cloned(), ours]
    }

    /// The watch shows the content of `known` under this version.
    pub(super) fn apply_known(&mut self, known: &Arc<T>, uid: Uid, revision: Revision, epoch: Epoch) -> Seen {
        match self.entries.get_mut(known.name()) {
            // The echo of what the reply has told already: nothing to do, so nothing to copy.
            Some(entry)
                if Arc::ptr_eq(&entry.object, known)
                    && known.stamp() == (&uid, revision)
                    && revision != Revision::default()
                    && !self.expected.contains_key(known.name()) =>
            {
                entry.epoch = epoch;
                entry.shown = true;
                Seen::Nothing
            }
            _ => self.apply(T::clone(known).with_version(uid, revision), epoch),
        }
    }

    /// The watch shows this object.
    pub(super) fn apply(&mut self, object: T, epoch: Epoch) -> Seen {
        let name = Arc::clone(object.name());
        if self.deleted.get(&name) == Some(object.stamp().0) {
            return Seen::Nothing;
        }
        let ours = self.expected.get(&name);
        let expected = ours.is_some_and(|ours| ours.object.same_content(&object));
        // What looks as before may have been written over what we have just written.
        let under_way = ours.is_some_and(|ours| !ours.answer_lost);
        let seen = self.settle(object, epoch, expected, under_way);
        if expected && self.expected.get(&name).is_some_and(|ours| ours.answer_lost) {
            self.expected.remove(&name);
            return Seen::Found;
        }
        seen
    }

    fn settle(&mut self, object: T, epoch: Epoch, expected: bool, under_way: bool) -> Seen {
        let (uid, revision) = object.stamp();
        let entry = self.entries.get_mut(object.name());
        let replaces = entry.is_some();
        if let Some(entry) = entry {
            entry.epoch = epoch;
            entry.shown = true;
            let (known_uid, known_revision) = entry.object.stamp();
            let same_object = known_uid == uid;
            // What we laid over is what we sent; admission has made something else of it. It would do so again: no reason to write at once.
            if same_object && revision == known_revision && !entry.object.same_content(&object) {
                entry.object = Arc::new(object);
                return Seen::Nothing;
            }
            if is_old(revision, known_revision) {
                return Seen::Nothing;
            }
            if same_object {
                let foreign = !expected && (under_way || !entry.object.same_content(&object));
                entry.object = Arc::new(object);
                return if foreign { Seen::Disturbed } else { Seen::Nothing };
            }
        }
        // Another object of that name: what was decided about the last one does not bind it.
        let name = Arc::clone(object.name());
        let entry = Entry {
            object: Arc::new(object),
            epoch,
            shown: true,
        };
        self.entries.insert(name, entry);
        Seen::Appeared { expected, replaces }
    }

    /// The object is gone, last seen at `revision`. Answers with what was known of it, if that was not something newer.
    pub(super) fn delete(&mut self, name: &str, revision: Revision) -> Option<Arc<T>> {
        self.deleted.remove(name);
        if let Some(ours) = self.expected.get_mut(name) {
            ours.deleted = ours.deleted.max(revision);
        }
        let entry = self.entries.get(name)?;
        if is_older(revision, entry.object.stamp().1) {
            return None;
        }
        self.entries.remove(name).map(|entry| entry.object)
    }

    /// What a complete list has not brought.
    pub(super) fn stale(&self, epoch: Epoch) -> Vec<Arc<T>> {
        let stale = self.entries.values().filter(|entry| entry.epoch != epoch);
        stale.map(|entry| Arc::clone(&entry.object)).collect()
    }

    /// A list is complete, and what was [`stale`](Self::stale) deleted. Answers with what only replies have told of.
    pub(super) fn listed(&mut self) -> Vec<Arc<T>> {
        // A complete list has shown whatever became of writes without an answer.
        self.expected.retain(|_, ours| !ours.answer_lost);
        self.deleted.clear();
        for ours in self.expected.values_mut() {
            ours.listed = true;
        }
        // The reply came while the list was under way, and the list is without the object.
        let unseen: Vec<_> = self.entries.extract_if(|_, entry| !entry.shown).collect();
        let unseen = unseen.into_iter().map(|(name, entry)| {
            let ours = Expected::new(Arc::clone(&entry.object), true);
            self.expected.entry(name).or_insert(ours);
            entry.object
        });
        unseen.collect()
    }

    /// We are about to write this content: should the watch show it before the reply comes, it is ours.
    pub(super) fn expect(&mut self, object: &Arc<T>) {
        let earlier = self.expected.get(object.name());
        let expected = Expected {
            earlier_lost: earlier.is_some_and(|earlier| earlier.answer_lost),
            ..Expected::new(Arc::clone(object), false)
        };
        self.expected.insert(Arc::clone(object.name()), expected);
    }

    /// The write of what was expected is over. What is stored is laid over what the watch has shown.
    pub(super) fn finish(&mut self, name: &Arc<str>, end: WriteEnd, epoch: Epoch) -> Finished {
        let (uid, revision) = match end {
            WriteEnd::Stored(uid, revision) => (uid, revision),
            WriteEnd::Refused if self.expected.get(name).is_none_or(|ours| !ours.earlier_lost) => {
                self.expected.remove(name);
                return Finished::Nothing;
            }
            WriteEnd::Refused | WriteEnd::Unknown => {
                // It may still turn up in the watch, and is ours then.
                if let Some(ours) = self.expected.get_mut(name) {
                    ours.answer_lost = true;
                }
                return Finished::Nothing;
            }
        };
        let known = self.entries.contains_key(name);
        if let Some(ours) = self.expected.get_mut(name)
            && ours.listed
            && !known
        {
            ours.answer_lost = true;
            return Finished::Unclear;
        }
        let Some(Expected { object, deleted, .. }) = self.expected.remove(name) else {
            return Finished::Nothing;
        };
        if deleted > revision {
            // The watch was faster than the reply, and what we wrote is gone again.
            return Finished::Nothing;
        }
        let stored = || Arc::new(Arc::unwrap_or_clone(object).with_version(uid, revision));
        match self.entries.get_mut(name) {
            Some(entry) if is_old(revision, entry.object.stamp().1) => Finished::Nothing,
            // Its epoch stays: what a list does not bring is gone, however late the reply to the last write of it comes.
            Some(entry) => {
                entry.object = stored();
                Finished::Nothing
            }
            None => {
                let entry = Entry {
                    object: stored(),
                    epoch,
                    shown: false,
                };
                self.entries.insert(Arc::clone(name), entry);
                Finished::Made
            }
        }
    }

    /// We have deleted the object of that uid. Answers with what was known of it.
    pub(super) fn finish_delete(&mut self, name: &str, uid: &Uid) -> Option<Arc<T>> {
        let known = self.entries.get(name)?;
        if known.object.stamp().0 != uid {
            return None;
        }
        self.deleted.insert(Arc::clone(known.object.name()), uid.clone());
        self.entries.remove(name).map(|entry| entry.object)
    }
}
