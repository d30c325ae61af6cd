//! What is noted on the Lease for whoever leads: why no endpoints are written, and what the last canary said.

use std::fmt;

use svcplane_runtime::leader::{Notes, Term};

use crate::controller::Controller;

/// Why the Lease says observe.
pub const REASON_ANNOTATION: &str = "svcplane.io/mode-reason";

/// Why svcplane was told to observe, as far as svcplane itself has written it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The breaker: a built-in controller wrote objects of these.
    ForeignWriter(Vec<Controller>),
    /// `svcplane handback`: the built-in controllers are to take over.
    Handback,
}

const FOREIGN_WRITER: &str = "foreign-writer ";
const HANDBACK: &str = "handback";

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignWriter(whose) => write!(f, "{FOREIGN_WRITER}{}", kinds(whose)),
            Self::Handback => f.write_str(HANDBACK),
        }
    }
}

impl Reason {
    /// What is noted; a text of somebody else's is none.
    pub fn noted(notes: &Notes) -> Option<Self> {
        let text = notes.get(REASON_ANNOTATION)?;
        if text == HANDBACK {
            return Some(Self::Handback);
        }
        text.strip_prefix(FOREIGN_WRITER)
            .map(|whose| Self::ForeignWriter(of_kinds(whose)))
    }

    /// Why this term's Lease says observe, if it does.
    pub fn in_force(term: &Term) -> Option<Self> {
        Self::noted(&term.notes).filter(|_| term.forced_observe)
    }
}

/// `Endpoints,EndpointSlice`.
pub fn kinds(whose: &[Controller]) -> String {
    let kinds: Vec<&str> = whose.iter().map(|controller| controller.kind()).collect();
    kinds.join(",")
}

/// Reads what [`kinds`] has written; words of other versions are left out.
pub fn of_kinds(text: &str) -> Vec<Controller> {
    let known = |word: &str| {
        Controller::OF_ENDPOINTS
            .into_iter()
            .find(|controller| controller.kind() == word.trim())
    };
    text.split(',').filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_read_as_it_was_written() {
        let table = [
            (Reason::Handback, "handback"),
            (
                Reason::ForeignWriter(vec![Controller::Endpoints, Controller::Slices]),
                "foreign-writer Endpoints,EndpointSlice",
            ),
            (
                Reason::ForeignWriter(vec![Controller::Mirroring]),
                "foreign-writer MirroredEndpointSlice",
            ),
        ];
        for (reason, text) in table {
            assert_eq!(reason.to_string(), text);
            let notes = Notes::from([(REASON_ANNOTATION.to_owned(), text.to_owned())]);
            assert_eq!(Reason::noted(&notes), Some(reason));
        }
        let by_hand = Notes::from([(REASON_ANNOTATION.to_owned(), "because".to_owned())]);
        assert_eq!((Reason::noted(&by_hand), Reason::noted(&Notes::new())), (None, None));
    }
}
