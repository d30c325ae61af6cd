//! What a person reads.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::look::{Said, Subject};
use super::ops::{Key, Op, Window};
use super::snapshot::Snapshot;

/// How much of an object is shown.
const SHOWN: usize = 6000;
/// How many operations on one Service are shown.
const LAST: usize = 12;

/// A difference that no cause excuses.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The number of the window.
    pub window: u64,
    /// The Service, if it is about what belongs to one.
    pub key: Option<Key>,
    /// The object, if it is one.
    #[serde(skip)]
    pub subject: Option<Subject>,
    /// The object, in words.
    pub object: String,
    /// What is the matter.
    pub what: String,
    /// svcplane's object.
    pub ours: Value,
    /// The reference's.
    pub theirs: Value,
}

impl Difference {
    pub(super) fn of_object(
        window: &Window,
        subject: &Subject,
        what: &str,
        ours: &Snapshot,
        theirs: &Snapshot,
    ) -> Self {
        Self {
            window: window.number,
            key: Some(subject.key().clone()),
            subject: Some(subject.clone()),
            object: subject.to_string(),
            what: what.into(),
            ours: stored(subject, ours),
            theirs: stored(subject, theirs),
        }
    }

    /// The same where svcplane's object is another one now.
    pub(super) fn of_first(window: &Window, subject: &Subject, what: &str, first: &Said, theirs: &Snapshot) -> Self {
        let ours = match subject {
            Subject::Endpoints(key) => json!(first.endpoints.get(key)),
            Subject::Slices(owned) => json!(first.slices.get(owned)),
        };
        Self {
            ours,
            ..Self::of_object(window, subject, what, theirs, theirs)
        }
    }

    pub(super) fn of_trespass(window: &Window, slice: &Key, what: &str) -> Self {
        Self {
            window: window.number,
            key: None,
            subject: None,
            object: format!("EndpointSlice {slice}"),
            what: format!("svcplane: {what}"),
            ours: Value::Null,
            theirs: Value::Null,
        }
    }

    pub(super) fn of_counts(window: &Window, ours: usize, theirs: usize) -> Self {
        Self {
            window: window.number,
            key: None,
            subject: None,
            object: "all EndpointSlices".into(),
            what: format!("svcplane has {ours} slices where the reference has {theirs}"),
            ours: Value::Null,
            theirs: Value::Null,
        }
    }

    pub(super) fn of_outcome(window: &Window, op: &Op, ours: &str, theirs: &str) -> Self {
        Self {
            window: window.number,
            key: None,
            subject: None,
            object: String::new(),
            what: format!(
                "one server takes what the other refuses: beside svcplane {ours}, beside the reference {theirs}: {op:?}"
            ),
            ours: Value::Null,
            theirs: Value::Null,
        }
    }

    /// Whether it is of the same kind, so that a shorter stream with it explains this one.
    pub fn is_like(&self, other: &Self) -> bool {
        let kind = |it: &Self| it.object.split(' ').next().map(str::to_owned);
        // In brackets: how the round was compared.
        let what = |it: &Self| it.what.split(" (").next().map(str::to_owned);
        let is_same_thing = self.key.is_none() || what(self) == what(other);
        self.key.is_some() == other.key.is_some() && kind(self) == kind(other) && is_same_thing
    }

    /// Everything about it.
    pub fn text(&self, history: &[(u64, Op)]) -> String {
        let mut text = format!("DIFFERENCE in window {}", self.window);
        if !self.object.is_empty() {
            let _ = write!(text, ", {}", self.object);
        }
        let _ = writeln!(text, ": {}", self.what);
        if self.key.is_some() {
            let _ = writeln!(text, "  svcplane:  {}", shown(&self.ours));
            let _ = writeln!(text, "  reference: {}", shown(&self.theirs));
        }
        for (window, op) in history.iter().rev().take(LAST).rev() {
            let _ = writeln!(text, "  window {window}: {}", op_line(op));
        }
        text
    }
}

/// What a side says of an object.
pub(super) fn stored(subject: &Subject, side: &Snapshot) -> Value {
    match subject {
        Subject::Endpoints(key) => json!(side.endpoints.get(key).map(|seen| &seen.content)),
        Subject::Slices(owned) => side.slices.get(owned).map_or(
            Value::Null,
            |sliced| json!({"sizes": sliced.sizes, "triggers": sliced.triggers, "groups": sliced.content.groups}),
        ),
    }
}

fn shown(content: &Value) -> String {
    let mut text = if content.is_null() {
        "none".into()
    } else {
        content.to_string()
    };
    if text.len() > SHOWN {
        text.truncate(text.floor_char_boundary(SHOWN));
        text.push_str("... (cut)");
    }
    text
}

/// One line per operation.
pub fn op_line(op: &Op) -> String {
    let mut text = match op {
        Op::CreateCrowd { pods } => format!("CreateCrowd of {} Pods", pods.len()),
        Op::DeleteCrowd { keys } => format!("DeleteCrowd of {} Pods", keys.len()),
        op => serde_json::to_string(op).unwrap_or_default(),
    };
    if text.len() > SHOWN / 4 {
        text.truncate(text.floor_char_boundary(SHOWN / 4));
        text.push_str("... (cut)");
    }
    text
}
