//! In which state a value is, and how many of a range or pool are in which.

use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Instant;

use crate::service::{ChoiceKey, Owner, ServiceKey};

/// What a value is at one moment. Every value of a range is exactly one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nobody has it and it can be given.
    #[default]
    Free,
    /// Kept by `spec.reservations` of a pool for a Service that does not hold it now.
    Reserved,
    /// Chosen, or seen to pass validation, and not stored yet as far as the watches tell.
    Pending,
    /// Listed by a stored Service, or named by an IPAddress whose Service has not been seen yet.
    Used,
    /// Given back so lately that the apiserver may still refuse it, or held back by a pool's `reuseDelay`.
    Quarantined,
}

/// How many values of a range or pool are in which state. At every moment `capacity` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub capacity: u64,
    /// In [`State::Free`].
    pub free: u64,
    /// In [`State::Reserved`].
    pub reserved: u64,
    /// In [`State::Pending`].
    pub pending: u64,
    /// In [`State::Used`].
    pub used: u64,
    /// In [`State::Quarantined`].
    pub quarantined: u64,
}

impl Counts {
    /// So many values, all free.
    pub(super) fn all_free(capacity: u64) -> Self {
        Self {
            capacity,
            free: capacity,
            ..Self::default()
        }
    }

    /// One value has left one state for another.
    pub(super) fn shift(&mut self, from: State, to: State) {
        self[from] = self[from].saturating_sub(1);
        self[to] = self[to].saturating_add(1);
    }

    /// Each value is in one state.
    pub fn add_up(&self) -> bool {
        self.capacity == self.free + self.reserved + self.pending + self.used + self.quarantined
    }
}

impl Index<State> for Counts {
    type Output = u64;

    fn index(&self, state: State) -> &u64 {
        match state {
            State::Free => &self.free,
            State::Reserved => &self.reserved,
            State::Pending => &self.pending,
            State::Used => &self.used,
            State::Quarantined => &self.quarantined,
        }
    }
}

impl IndexMut<State> for Counts {
    fn index_mut(&mut self, state: State) -> &mut u64 {
        match state {
            State::Free => &mut self.free,
            State::Reserved => &mut self.reserved,
            State::Pending => &mut self.pending,
            State::Used => &mut self.used,
            State::Quarantined => &mut self.quarantined,
        }
    }
}

/// A choice that waits for the watch to show it.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub key: ChoiceKey,
    pub until: Instant,
    /// The validating call has seen it.
    pub confirmed: bool,
    /// This replica has chosen it.
    pub ours: bool,
    /// The range it came from, whose breaker hears how it ended; none for what another replica chose.
    pub range: Option<Arc<str>>,
}

/// Why a value is in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// This Service has let go of it. From then on the apiserver would give it to a Service of that name again, and nobody else is to have it.
    Used(ServiceKey, Instant),
    /// It was chosen for a request that came to nothing: if that was refused early, the apiserver never had it.
    Unstored,
    /// It was given up for another one, and may stay reserved for good.
    Renounced,
}

/// An IPAddress of the apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub parent: Option<ServiceKey>,
    /// Its Service is gone and it is about to go.
    pub left_behind: bool,
    /// It is of a choice of this replica whose Service has not been seen yet.
    pub chosen_here: bool,
}

/// All that is known of one value. A value without an entry is free.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    /// Stored Services that list it, the oldest first. More than one is a conflict.
    pub owners: Vec<Arc<Owner>>,
    pub object: Option<Object>,
    /// The IPAddress of the present owners was seen and has gone.
    pub object_gone: bool,
    pub pending: Option<Pending>,
    pub quarantined: Option<Instant>,
    pub reserved: Option<ServiceKey>,
}

impl Entry {
    /// What is stored outweighs what is chosen, and that what is only written in a pool.
    pub fn state(&self) -> State {
        match self {
            Self { owners, .. } if !owners.is_empty() => State::Used,
            Self {
                object: Some(object), ..
            } if object.left_behind => State::Quarantined,
            Self { object: Some(_), .. } => State::Used,
            Self { pending: Some(_), .. } => State::Pending,
            Self {
                quarantined: Some(_), ..
            } => State::Quarantined,
            Self { reserved: Some(_), .. } => State::Reserved,
            _ => State::Free,
        }
    }
}
