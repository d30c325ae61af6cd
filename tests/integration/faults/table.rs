//! The faults.

use std::time::Duration;

use svcplane_tests::proxy::{Action, Refusal, WatchEnd};

/// Where a fault can strike.
pub enum Kind {
    /// Any request: a read, a write, the start of a list or of a watch.
    Request(Action),
    /// A watch that is open, or a streaming list.
    Watch(How),
}

/// What becomes of an open watch.
#[derive(Clone)]
pub enum How {
    /// It ends so.
    End(WatchEnd),
    /// This becomes of its next event.
    Event(Action),
}

/// One row of the table.
pub struct Fault {
    pub name: &'static str,
    pub kind: Kind,
    /// How long after it everything is right.
    pub within: Duration,
    /// Nothing is to be asked twice: it was only slow.
    pub harmless: bool,
    /// How often each kind is to be listed anew, once a watch has met it.
    pub relists: f64,
}

const SECONDS: Duration = Duration::from_secs(20);

fn request(name: &'static str, action: Action) -> Fault {
    Fault {
        name,
        kind: Kind::Request(action),
        within: SECONDS,
        harmless: false,
        relists: 0.0,
    }
}

fn refused(name: &'static str, refusal: Refusal) -> Fault {
    request(name, Action::Refuse(refusal))
}

fn watch(name: &'static str, how: How) -> Fault {
    Fault {
        kind: Kind::Watch(how),
        ..request(name, Action::Hang)
    }
}

fn ends(name: &'static str, end: WatchEnd) -> Fault {
    watch(name, How::End(end))
}

/// All of them, those that take long first.
pub fn faults() -> Vec<Fault> {
    vec![
        Fault {
            // No sign of life is expected for the minute that the server keeps a watch open.
            within: Duration::from_secs(90),
            ..watch("a watch that falls silent", How::Event(Action::Silence))
        },
        Fault {
            // A minute is believed.
            within: Duration::from_secs(80),
            ..refused("429 with a Retry-After of a day", Refusal::too_many_requests(86_400))
        },
        Fault {
            // The head of an answer gets 10 s.
            within: Duration::from_secs(40),
            ..request("no answer", Action::Hang)
        },
        refused("409", Refusal::conflict()),
        Fault {
            relists: 1.0,
            ..refused("410", Refusal::expired_continue())
        },
        refused("429 with a Retry-After of a second", Refusal::too_many_requests(1)),
        refused(
            "429 with a Retry-After beyond all numbers",
            Refusal::too_many_requests(u64::MAX),
        ),
        refused("429 in plain text", Refusal::overloaded()),
        refused("500", Refusal::internal_error()),
        refused("502 in HTML", Refusal::bad_gateway()),
        refused("503", Refusal::unavailable()),
        request("a reset before the server acted", Action::ResetBefore),
        request("a reset after the server acted", Action::LoseReply),
        request("a reply cut in the middle", Action::CutReply),
        Fault {
            relists: 1.0,
            ..request("a reply that is garbage", Action::GarbleReply)
        },
        Fault {
            harmless: true,
            ..request("a slow server", Action::Delay(Duration::from_secs(2)))
        },
        Fault {
            harmless: true,
            ..request("slow headers", Action::DelayReply(Duration::from_secs(2)))
        },
        Fault {
            relists: 1.0,
            ..ends("410 in a watch", WatchEnd::Error(Refusal::expired()))
        },
        ends("500 in a watch", WatchEnd::Error(Refusal::internal_error())),
        ends("429 in a watch", WatchEnd::Error(Refusal::too_many_requests(86_400))),
        ends("the end of a watch", WatchEnd::Close),
        ends("a watch cut between two events", WatchEnd::Fin),
        ends("a watch cut within an event", WatchEnd::MidEvent),
        ends("a watch that is reset", WatchEnd::Reset),
        Fault {
            relists: 1.0,
            ..watch("an event that is garbage", How::Event(Action::GarbleEvents))
        },
        Fault {
            harmless: true,
            ..watch("late events", How::Event(Action::DelayEvents(Duration::from_secs(1))))
        },
    ]
}
