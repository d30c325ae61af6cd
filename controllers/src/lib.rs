//! svcplane: a Kubernetes Service control plane.
//!
//! ```text
//! apiserver ─watch─► wire ─► model ─► index ──affected keys──► queue ─► compute ─► plan ─► write ─► apiserver
//! ```
//!
//! * [`args`]: the command line.
//! * [`audit`](mod@audit): `svcplane audit`.
//! * [`books`]: from the watches into the books of admission.
//! * [`certificate`]: the webhook's certificate, from files.
//! * [`cli`]: from the command line to an exit code.
//! * [`contention`]: patience with other writers.
//! * [`controller`]: the controllers by name.
//! * [`crds`](mod@crds): the custom resource definitions.
//! * [`endpoints`]: what the Endpoints of a Service should be.
//! * [`endpointslice`]: what its slices should be.
//! * [`explain`]: `svcplane explain`.
//! * [`feed`]: from the watches into the index, and from there into the queue.
//! * [`first_look`]: how much an observer finds to write.
//! * [`gate`]: may this process write now?
//! * [`index`]: what is stored, and who is affected by a change.
//! * [`leadership`]: the life of a term.
//! * [`metrics`]: what the controllers count.
//! * [`mirroring`]: what the slices of hand-made Endpoints should be.
//! * [`model`]: what the controllers know, in types that cannot be wrong.
//! * [`permissions`]: missing rights, named at start.
//! * [`pool_status`]: keeps the status of pools true.
//! * [`pools`](mod@pools): `svcplane pools`.
//! * [`reconcile`]: brings all that is made of one Service to what it should be.
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
pub mod certificate;
pub mod cli;
pub mod contention;
pub mod controller;
pub mod crds;
pub mod endpoints;
pub mod endpointslice;
pub mod explain;
pub mod feed;
pub mod first_look;
pub mod gate;
pub mod index;
pub mod leadership;
pub mod metrics;
pub mod mirroring;
pub mod model;
pub mod permissions;
pub mod pool_status;
pub mod pools;
pub mod reconcile;
pub mod run;
pub mod selftest;
pub mod serving;
pub mod signals;
pub mod start;
pub mod state;
pub mod watches;
pub mod wire;
pub mod write;
