//! What is wrong with which field, in the API's own terms.

use std::fmt;

pub use svcplane_allocators::quoted::quoted;

/// The kind of a fault, as in `status.details.causes[].reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A value is missing.
    Required,
    /// A value is malformed or does not go with another one.
    Invalid,
    /// A value may not be there at all.
    Forbidden,
    /// A value stands there twice.
    Duplicate,
    /// A value is not one of those allowed.
    NotSupported,
    /// A value is too long.
    TooLong,
}

impl Reason {
    /// The API's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TooLong => "FieldValueTooLong",
        }
    }
}

/// One fault of one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause {
    /// The path, as the apiserver writes it: `spec.ports[0].name`.
    pub field: String,
    /// The kind of the fault.
    pub reason: Reason,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// The most causes and warnings that one answer has; a Service can break a rule a hundred thousand times.
pub const MOST_CAUSES: usize = 100;

/// Faults as they are found, in order, each once.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    causes: Vec<Cause>,
    doubts: Vec<Cause>,
    left_out: usize,
}

impl Findings {
    /// The faults for which any apiserver refuses.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// The faults for which an apiserver with `StrictIPCIDRValidation` refuses.
    pub fn doubts(&self) -> &[Cause] {
        &self.doubts
    }

    /// How many faults any apiserver refuses for were found, with those left out.
    pub(crate) fn count(&self) -> usize {
        self.causes.len() + self.left_out
    }

    /// How many faults were found beyond [`MOST_CAUSES`].
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// A value is missing.
    pub fn required(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.add(field, Reason::Required, message);
    }

    /// A value is wrong.
    pub fn invalid(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.add(field, Reason::Invalid, message);
    }

    /// A value may not be there.
    pub fn forbidden(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.add(field, Reason::Forbidden, message);
    }

    /// A value is there twice.
    pub fn duplicate(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.add(field, Reason::Duplicate, message);
    }

    /// A value is not one of these.
    pub fn not_supported(&mut self, field: impl Into<String>, value: &str, allowed: &[&str]) {
        let message = format!("{} is not known; use {}", quoted(value), allowed.join(", "));
        self.add(field, Reason::NotSupported, message);
    }

    /// A value is too long.
    pub fn too_long(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.add(field, Reason::TooLong, message);
    }

    /// A value is wrong for an apiserver with `StrictIPCIDRValidation`.
    pub fn doubted(&mut self, field: impl Into<String>, message: impl Into<String>) {
        let mut left_out = 0;
        push(
            &mut self.doubts,
            &mut left_out,
            field.into(),
            Reason::Invalid,
            message.into(),
        );
    }

    fn add(&mut self, field: impl Into<String>, reason: Reason, message: impl Into<String>) {
        push(
            &mut self.causes,
            &mut self.left_out,
            field.into(),
            reason,
            message.into(),
        );
    }
}

/// The apiserver, too, tells equal errors once.
fn push(list: &mut Vec<Cause>, left_out: &mut usize, field: String, reason: Reason, message: String) {
    let cause = Cause { field, reason, message };
    if list.contains(&cause) {
    } else if list.len() < MOST_CAUSES {
        list.push(cause);
    } else {
        *left_out += 1;
    }
}
