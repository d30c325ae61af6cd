//! The breaker at work: looks at objects that somebody else has changed, and stops writing if that is a built-in controller again and
//! again. Nothing is looked at while all is quiet.

use std::time::{Duration, Instant};

use http::Request;
use http::header::DATE;
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822;
use kube::api::ListParams;
use kube::client::Body;
use kube::{Api, Client};
use svcplane_runtime::api::{Failure, Repeated, call};
use svcplane_runtime::leader::{MODE_ANNOTATION, Standing, Term, TermHandle};
use tokio::sync::mpsc;

use crate::breaker::{Breaker, built_in_write, counts_after};
use crate::controller::Controller;
use crate::endpointslice::{MANAGED_BY_LABEL, SERVICE_NAME_LABEL};
use crate::gate::Gate;
use crate::lease_notes::LeaseNotes;
use crate::metrics::{ControllerMetrics, FoundBy};
use crate::model::{Manager, ObjectKey, Uid};
use crate::orders::{REASON_ANNOTATION, Reason, kinds};

/// Services that wait to be looked at. What does not fit is not needed: a fight goes on.
const QUEUE: usize = 64;

/// Between two looks, so that whoever edits thousands of objects costs a few calls a second.
const PACE: Duration = Duration::from_millis(200);

/// What one call may take.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// Between two tries to note on the Lease that writing has stopped.
const RETRY: Duration = Duration::from_secs(1);

/// A Service of whose objects somebody else has written one.
#[derive(Clone, Debug)]
pub struct Suspect {
    /// Whose object it is.
    pub whose: Controller,
    /// Namespace and name of the Service.
    pub service: ObjectKey,
}

/// Where Services are handed in. It never waits.
#[derive(Clone, Debug)]
pub struct Suspects(mpsc::Sender<Suspect>);

impl Suspects {
    /// Somebody else has written an object of this Service.
    pub fn add(&self, whose: Controller, service: &ObjectKey) {
        let service = service.clone();
        let _ = self.0.try_send(Suspect { whose, service });
    }
}

/// The two ends.
pub fn suspects() -> (Suspects, mpsc::Receiver<Suspect>) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (Suspects(sender), receiver)
}

/// All that it takes.
pub struct ForeignWriters {
    /// To the apiserver.
    pub client: Client,
    /// What it closes.
    pub gate: Gate,
    /// The election.
    pub term: TermHandle,
    /// Where it is noted that writing has stopped, and where it is told.
    pub notes: LeaseNotes,
    /// Shows it.
    pub metrics: ControllerMetrics,
    /// Who is to be looked at.
    pub suspects: mpsc::Receiver<Suspect>,
}

impl ForeignWriters {
    /// Runs for ever.
    pub async fn run(mut self) {
        let (mut breaker, mut trouble) = (Breaker::default(), Repeated::default());
        // The Lease has said observe since the breaker was tripped.
        let mut obeyed = false;
        // Since when this process may write.
        let mut writing: Option<Instant> = None;
        let mut holds = self.gate.holds();
        self.follow(&self.term.term(), &mut obeyed);
        loop {
            let open = self.gate.check().is_ok();
            writing = open.then(|| writing.unwrap_or_else(Instant::now));
            let suspect = tokio::select! {
                suspect = self.suspects.recv() => suspect,
                term = self.term.changed() => {
                    self.follow(&term, &mut obeyed);
                    continue;
                }
                _ = holds.changed() => continue,
            };
            let Some(suspect) = suspect else {
                return std::future::pending().await;
            };
            // An observer is not concerned by who writes.
            let Some(since) = writing.filter(|_| self.gate.check().is_ok()) else {
                continue;
            };
            match self.look(&suspect, since, &mut breaker).await {
                Ok(Some(whose)) => {
                    self.trip(whose).await;
                    (breaker, obeyed) = (Breaker::default(), false);
                    self.follow(&self.term.term(), &mut obeyed);
                }
                Ok(None) => {}
                Err(failure) => {
                    if trouble.news(&failure, Instant::now()).is_some() {
                        tracing::warn!(error = %failure, "cannot see who else writes our objects");
                    }
                }
            }
            tokio::time::sleep(PACE).await;
        }
    }

    /// All objects of that kind, not only the one that has changed: a deletion leaves no mark, and what a built-in controller makes in its
    /// place has one.
    async fn look(
        &self,
        suspect: &Suspect,
        since: Instant,
        breaker: &mut Breaker,
    ) -> Result<Option<Vec<Controller>>, Failure> {
        let stored = self.stored(suspect).await?;
        let after = counts_after(server_time(&self.client).await?, since.elapsed());
        for object in stored {
            let fields = object.managed_fields.unwrap_or_default();
            let Some(time) = built_in_write(&fields, after) else {
                continue;
            };
            let uid = Uid::parse(object.uid.as_deref().unwrap_or_default());
            let tripped = breaker.note(suspect.whose, &uid, time, Instant::now());
            if tripped.is_some() {
                return Ok(tripped);
            }
        }
        Ok(None)
    }

    /// The metadata, with the marks of all writers: the watches leave them out, because they are half of an object.
    async fn stored(&self, suspect: &Suspect) -> Result<Vec<ObjectMeta>, Failure> {
        let Suspect { whose, service } = suspect;
        let manager = match whose {
            Controller::Endpoints => {
                let endpoints: Api<Endpoints> = Api::namespaced(self.client.clone(), &service.namespace);
                let stored = call(CALL_LIMIT, endpoints.get_metadata_opt(&service.name)).await?;
                return Ok(stored.map(|stored| stored.metadata).into_iter().collect());
            }
            Controller::Slices => Manager::Selector.as_str(),
            Controller::Mirroring => Manager::Mirroring.as_str(),
            // They write neither.
            Controller::Repair | Controller::LoadBalancers => return Ok(Vec::new()),
        };
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &service.namespace);
        let of_service = format!("{SERVICE_NAME_LABEL}={},{MANAGED_BY_LABEL}={manager}", service.name);
        let stored = call(
            CALL_LIMIT,
            slices.list_metadata(&ListParams::default().labels(&of_service)),
        )
        .await?;
        Ok(stored.items.into_iter().map(|stored| stored.metadata).collect())
    }

    /// Stops writing at once, and for good: the Lease tells whoever leads.
    async fn trip(&self, whose: Vec<Controller>) {
        self.gate.hold(|holds| holds.foreign_writer = true);
        self.metrics.foreign_writers(FoundBy::Breaker, &whose);
        let text = stopped(&whose, self.notes.lease.is_some());
        tracing::error!("{text}");
        self.notes.warn("ForeignWriter", text);
        let reason = Reason::ForeignWriter(whose).to_string();
        let changes = [
            (MODE_ANNOTATION, Some("observe".to_owned())),
            (REASON_ANNOTATION, Some(reason)),
        ];
        while !self.notes.set(&changes).await && self.term.check(Instant::now()).is_ok() {
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Shows what the Lease says, and goes on when its word is taken back, or when another leads.
    fn follow(&self, term: &Term, obeyed: &mut bool) {
        *obeyed |= term.forced_observe;
        let leads = term.standing != Standing::Follower;
        let tripped = self.gate.is_held(|holds| holds.foreign_writer);
        if tripped && (!leads || (*obeyed && !term.forced_observe)) {
            self.gate.hold(|holds| holds.foreign_writer = false);
            tracing::info!("the breaker is closed again");
        }
        let shown = match Reason::in_force(term) {
            Some(Reason::ForeignWriter(whose)) if leads => whose,
            // The Lease is yet to say it.
            _ if self.gate.is_held(|holds| holds.foreign_writer) => return,
            _ => Vec::new(),
        };
        self.metrics.foreign_writers(FoundBy::Breaker, &shown);
    }
}

/// What is said of it. `elected`: there is a Lease.
fn stopped(whose: &[Controller], elected: bool) -> String {
    let then = if elected {
        format!("take the annotation {MODE_ANNOTATION} off the Lease")
    } else {
        "start svcplane again".to_owned()
    };
    format!(
        "kube-controller-manager writes {}, as svcplane does: svcplane has stopped writing. Switch its endpoint controllers off, then {then}",
        kinds(whose)
    )
}

/// The apiserver's clock, in whole seconds: the head `Date` of an answer that anybody may ask for.
async fn server_time(client: &Client) -> Result<Timestamp, Failure> {
    let request = Request::get("/version").body(Body::empty());
    let request = request.map_err(|error| Failure::from(&kube::Error::HttpError(error)))?;
    let answer = call(CALL_LIMIT, client.send(request)).await?;
    let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
    date.and_then(of_date)
        .ok_or_else(|| Failure::Garbled("no Date in its head".to_owned()))
}

fn of_date(date: &str) -> Option<Timestamp> {
    rfc2822::parse(date).ok().map(|time| time.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_read_as_servers_write_it() {
        let time = of_date("Wed, 02 Dec 2026 00:54:28 GMT");
        assert_eq!(time, "2026-12-02T00:54:28Z".parse().ok());
        assert_eq!(of_date("yesterday"), None);
    }

    #[test]
    fn it_says_what_lets_it_write_again() {
        let whose = [Controller::Endpoints, Controller::Slices];
        for (elected, want) in [
            (true, "then take the annotation svcplane.io/mode off the Lease"),
            (false, "then start svcplane again"),
        ] {
            let text = stopped(&whose, elected);
            assert!(
                text.starts_with("kube-controller-manager writes Endpoints,EndpointSlice,") && text.ends_with(want),
                "{text}"
            );
        }
    }
}
