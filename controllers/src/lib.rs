//! svcplane: a Kubernetes Service control plane.
//!
//! ```text
//! apiserver ─watch─► wire ─► model ─► index ──affected keys──► queue ─► compute ─► plan ─► write ─► apiserver
//! ```
//!
//! * [`args`]: the command line.
//! * [`audit`](mod@audit): `svcplane audit`.
//! * [`breaker`]: when to stop writing beside somebody who writes the same.
//! * [`books`]: from the watches into the books of admission.
//! * [`canary`]: does a built-in controller live?
//! * [`certificate`]: the webhook's certificate, from files.
//! * [`cli`]: from the command line to an exit code.
//! * [`coexistence`]: what keeps us from writing beside built-in controllers, wired in one place.
//! * [`contention`]: patience with other writers.
//! * [`controller`]: the controllers by name.
//! * [`crds`](mod@crds): the custom resource definitions.
//! * [`drift`]: how many objects differ from what would be stored.
//! * [`endpoints`]: what the Endpoints of a Service should be.
//! * [`endpointslice`]: what its slices should be.
//! * [`explain`]: `svcplane explain`.
//! * [`feed`]: from the watches into the index, and from there into the queue.
//! * [`first_look`]: how much an observer finds to write.
//! * [`foreign_writers`]: the breaker at work.
//! * [`gate`]: may this process write now?
//! * [`handback`](mod@handback): `svcplane handback`.
//! * [`identity`]: under whose name slices are kept.
//! * [`index`]: what is stored, and who is affected by a change.
//! * [`leadership`]: the life of a term.
//! * [`lease_notes`]: what svcplane notes on its Lease.
//! * [`listing`]: what Endpoints and slices list, and what differs.
//! * [`loadbalancer`]: addresses of Services of type LoadBalancer.
//! * [`metrics`]: what the controllers count.
//! * [`mirroring`]: what the slices of hand-made Endpoints should be.
//! * [`model`]: what the controllers know, in types that cannot be wrong.
//! * [`orders`]: the words of those notes.
//! * [`permissions`]: missing rights, named at start.
//! * [`pool_status`]: keeps the status of pools true.
//! * [`pools`](mod@pools): `svcplane pools`.
//! * [`preflight`](mod@preflight): `svcplane preflight`.
//! * [`reconcile`]: brings all that is made of one Service to what it should be.
//! * [`repair`]: tells of faults of stored values.
//! * [`run`]: `svcplane run`, wired in one place.
//! * [`selftest`](mod@selftest): `svcplane selftest`.
//! * [`signals`]: what ends the process.
//! * [`start`]: the log, and an apiserver that answers.
//! * [`serving`]: the admission webhook, wired in one place.
//! * [`state`]: what the process shows of itself.
//! * [`watches`]: which kinds are watched.
//! * [`wire`]: the API's JSON, read into the model.
//! * [`write`](mod@write): the calls that change something.

pub mod args;
pub mod audit;
pub mod books;
pub mod breaker;
pub mod canary;
pub mod certificate;
pub mod cli;
pub mod coexistence;
pub mod contention;
pub mod controller;
pub mod crds;
pub mod drift;
pub mod endpoints;
pub mod endpointslice;
pub mod explain;
pub mod feed;
pub mod first_look;
pub mod foreign_writers;
pub mod gate;
pub mod handback;
pub mod identity;
pub mod index;
pub mod leadership;
pub mod lease_notes;
pub mod listing;
pub mod loadbalancer;
pub mod metrics;
pub mod mirroring;
pub mod model;
pub mod orders;
pub mod permissions;
pub mod pool_status;
pub mod pools;
pub mod preflight;
pub mod reconcile;
pub mod repair;
pub mod run;
pub mod selftest;
pub mod serving;
pub mod signals;
pub mod start;
pub mod state;
pub mod watches;
pub mod wire;
pub mod write;
