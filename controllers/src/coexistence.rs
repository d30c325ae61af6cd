//! What keeps svcplane from writing beside the built-in controllers, wired in one place: the breaker and the canary.

use kube::Client;
use svcplane_runtime::events::EventSink;
use svcplane_runtime::leader::{LeaseName, TermHandle};
use svcplane_runtime::supervise::Supervisor;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::args::RunArgs;
use crate::canary::{Probe, Tended};
use crate::controller::Controller;
use crate::foreign_writers::{ForeignWriters, Suspect};
use crate::gate::Mode;
use crate::lease_notes::LeaseNotes;
use crate::reconcile::Desk;
use crate::run::until;

/// What both need.
pub struct Coexistence {
    /// To the apiserver.
    pub client: Client,
    /// The Lease, if there is an election.
    pub lease: Option<LeaseName>,
    /// Where Events go.
    pub events: EventSink,
    /// The election.
    pub term: TermHandle,
    /// Which controllers run.
    pub running: Vec<Controller>,
}

impl Coexistence {
    /// Starts what this mode needs; it runs until `stop`.
    pub fn start(
        self,
        args: &RunArgs,
        desk: &Desk,
        suspects: mpsc::Receiver<Suspect>,
        tasks: &mut Supervisor,
        stop: &CancellationToken,
    ) {
        let notes = LeaseNotes {
            client: self.client.clone(),
            lease: self.lease,
            events: self.events,
        };
        // An observer may not write, and deletes nothing to see whether it comes back.
        if let Some(canary) = args.canary.canary.clone().filter(|_| args.mode == Mode::Active) {
            let tended = Tended {
                probe: Probe::new(self.client.clone(), canary, &self.running),
                interval: args.canary.canary_interval,
                gate: desk.gate.clone(),
                term: self.term.clone(),
                notes: notes.clone(),
                metrics: desk.metrics.clone(),
            };
            tasks.spawn("canary", stop, until(stop, tended.run()));
        }
        let breaker = ForeignWriters {
            client: self.client,
            gate: desk.gate.clone(),
            term: self.term,
            notes,
            metrics: desk.metrics.clone(),
            suspects,
        };
        tasks.spawn("breaker", stop, until(stop, breaker.run()));
    }
}
