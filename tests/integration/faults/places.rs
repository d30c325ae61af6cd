//! What svcplane asks of the apiserver, and how often.

use http::Method;
use svcplane_tests::proxy::{Action, FaultProxy, Match, RuleHandle, Times};

/// The kinds that are watched.
pub const KINDS: [&str; 3] = ["services", "pods", "endpoints"];

/// One request that a fault can strike.
pub struct Place {
    name: &'static str,
    matcher: fn(&Match) -> Match,
    /// How often it is made when nothing goes wrong.
    usual: usize,
    /// How often at most when one goes wrong.
    at_most: usize,
    /// It is made only when another one failed.
    after_failure: bool,
}

const fn place(name: &'static str, usual: usize, at_most: usize, matcher: fn(&Match) -> Match) -> Place {
    Place {
        name,
        matcher,
        usual,
        at_most,
        after_failure: false,
    }
}

fn endpoints(within: &Match, method: Method, name: &str) -> Match {
    within.clone().resource("endpoints").method(method).name(name)
}

fn lease(within: &Match, method: Method) -> Match {
    within.clone().resource("leases").method(method)
}

/// The rights that are asked for, one by one.
const RIGHTS: usize = 24;
/// Renewals go on for as long as it takes.
const ANY: usize = usize::MAX;

/// At the start of the process.
pub const START: &[Place] = &[
    place("version", 1, 3, |_| Match::any().when(|it| it.path == "/version")),
    place("access reviews", RIGHTS, 2 * RIGHTS, |_| {
        Match::any().resource("selfsubjectaccessreviews")
    }),
    // A creation that meets 409 says that somebody else has made a Lease: it is believed for its 12 s, and looked for each
    // half second.
    place("reads of the Lease", 2, 30, |within| lease(within, Method::GET)),
    place("creations of the Lease", 1, 3, |within| lease(within, Method::POST)),
    place("lists of Services", 1, 3, |_| Match::watches("services")),
    place("lists of Pods", 1, 3, |_| Match::watches("pods")),
    place("lists of Endpoints", 1, 3, |_| Match::watches("endpoints")),
];

/// While the objects of the second round change.
pub const WRITES: &[Place] = &[
    place("POST", 1, 3, |within| endpoints(within, Method::POST, "new-1")),
    place("PUT after a Pod", 1, 3, |within| {
        endpoints(within, Method::PUT, "flips")
    }),
    place("PUT after a Service", 1, 3, |within| {
        endpoints(within, Method::PUT, "ports")
    }),
    place("PUT after an edit", 1, 3, |within| {
        endpoints(within, Method::PUT, "edited")
    }),
    place("DELETE", 1, 3, |within| endpoints(within, Method::DELETE, "new-0")),
    place("renewals of the Lease", ANY, ANY, |within| lease(within, Method::PUT)),
    Place {
        after_failure: true,
        ..place("Events", 0, 8, |within| within.clone().resource("events"))
    },
];

/// When watches have ended.
pub const WATCHES: &[Place] = &[
    place("watches of Services", 1, 3, |_| Match::watches("services")),
    place("watches of Pods", 1, 3, |_| Match::watches("pods")),
    place("watches of Endpoints", 1, 3, |_| Match::watches("endpoints")),
];

/// A place that is spoilt.
pub struct Spoilt {
    pub name: String,
    pub matcher: Match,
    pub rule: RuleHandle,
    pub at_most: usize,
}

/// Spoils the next request at each of these places. What is in a namespace is meant only in this one.
pub fn spoil(proxy: &FaultProxy, places: &[Place], action: &Action, harmless: bool, namespace: &str) -> Vec<Spoilt> {
    proxy.clear_records();
    let within = Match::any().namespace(namespace);
    let met = places.iter().filter(|place| !(place.after_failure && harmless));
    let spoil = |place: &Place| {
        let matcher = (place.matcher)(&within);
        Spoilt {
            name: place.name.into(),
            rule: proxy.rule(matcher.clone(), action.clone(), Times::First(1)),
            matcher,
            at_most: if harmless { place.usual } else { place.at_most },
        }
    };
    met.map(spoil).collect()
}
