//! The admission webhook, wired in one place. Every replica serves it, whoever leads.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use kube::Client;
use parking_lot::Mutex;
use prometheus::Registry;
use svcplane_runtime::leader::TermHandle;
use svcplane_runtime::readiness::Readiness;
use svcplane_runtime::supervise::Supervisor;
use svcplane_runtime::watch::Pulse;
use svcplane_webhook::admission::Admission;
use svcplane_webhook::certificate::Certificates;
use svcplane_webhook::ledger::{Kind, Ledger, SharedLedger};
use svcplane_webhook::metrics::WebhookMetrics;
use svcplane_webhook::pools::PoolUsers;
use svcplane_webhook::server::Server;
use tokio_util::sync::CancellationToken;

use crate::args::{Source, WebhookArgs};
use crate::books::{BookCollector, BookWatches, Intake, Members, keep_time, readiness, require_ranges};
use crate::certificate::{CertificateMetrics, CertificateReader, Display, Keeping, SecretCertificate, Watching};
use crate::model::ObjectKey;
use crate::pool_status;
use crate::run::until;
use crate::watches::Watches;
use crate::wire::WireService;

/// The first minor version of Kubernetes with ServiceCIDRs and IPAddresses switched on.
const WITH_OBJECTS: u32 = 33;

/// Where its certificate comes from.
enum Certified {
    Files(CertificateReader),
    Secret(SecretCertificate),
    SelfManaged(SecretCertificate, Keeping, CertificateMetrics),
}

impl Certified {
    /// Reads what can be read without the apiserver. The error names the flag.
    async fn open(source: Source, registry: &Registry, certified: Readiness) -> Result<(Self, Certificates), String> {
        let metrics = CertificateMetrics::new(registry).map_err(|error| error.to_string())?;
        let (display, certificates) = Display::new(metrics.clone(), certified);
        let opened = match source {
            Source::Files(files) => Self::Files(CertificateReader::open(files, display).await?),
            Source::Secret(key) => Self::Secret(SecretCertificate::new(key, display)),
            Source::SelfManaged(keeping) => {
                metrics.self_managed(registry).map_err(|error| error.to_string())?;
                let secret = SecretCertificate::new(keeping.secret.clone(), display);
                Self::SelfManaged(secret, keeping, metrics)
            }
        };
        Ok((opened, certificates))
    }

    /// Follows it until `watching` stops. It is served at `server`.
    fn start(self, client: &Client, term: TermHandle, server: SocketAddr, watching: &mut Watching<'_>) {
        match self {
            Self::Files(reader) => {
                let follow = until(watching.stop, reader.follow());
                watching.tasks.spawn("webhook certificate", watching.stop, follow);
            }
            Self::Secret(secret) => drop(secret.start(client, watching)),
            Self::SelfManaged(secret, keeping, metrics) => {
                let known = secret.start(client, watching);
                keeping.start(client, term, metrics, known, server, watching);
            }
        }
    }
}

/// A webhook that listens and is not served yet.
pub struct Webhook {
    server: Server,
    certificates: Certificates,
    certified: Certified,
    has_certificate: Readiness,
    admission: Admission,
    ledger: SharedLedger,
    members: Option<(ObjectKey, Members)>,
    ready: Vec<(Kind, Readiness)>,
}

impl Webhook {
    /// Opens its files and its port; `None` if it is not wanted. The error names the flag.
    pub async fn open(args: &WebhookArgs, registry: &Registry) -> Result<Option<Self>, String> {
        let (Some(address), Some(source)) = (args.webhook_address, args.source()?) else {
            return Ok(None);
        };
        let has_certificate = Readiness::new("webhook certificate");
        let (certified, certificates) = Certified::open(source, registry, has_certificate.clone()).await?;
        let now = Instant::now();
        let mut ledger = Ledger::new(args.ranges.ranges(), now);
        let (me, all) = args.members();
        ledger.set_members(me, &all, now);
        let ledger = Arc::new(Mutex::new(ledger));
        let metrics = WebhookMetrics::new(registry).map_err(|error| error.to_string())?;
        let collector = BookCollector::new(Arc::clone(&ledger)).map_err(|error| error.to_string())?;
        registry
            .register(Box::new(collector))
            .map_err(|error| error.to_string())?;
        let server = Server::bind(address).await;
        let server = server.map_err(|error| format!("--webhook-address: cannot listen on {address}: {error}"))?;
        tracing::info!(address = %server.address(), "webhook listening");
        Ok(Some(Self {
            server,
            certificates,
            certified,
            has_certificate,
            admission: Admission::new(args.settings(), metrics, Some(Arc::clone(&ledger))),
            ready: readiness(&ledger),
            members: args.webhook_service.clone().map(|service| {
                let me = args.webhook_self.clone().unwrap_or_default();
                (service, Members::new(Arc::clone(&ledger), me))
            }),
            ledger,
        }))
    }

    /// What must be listed once before this replica is ready.
    pub fn readiness(&self) -> impl Iterator<Item = Readiness> + '_ {
        self.ready.iter().map(|(_, ready)| ready.clone())
    }

    /// Raised with the first certificate.
    pub fn has_certificate(&self) -> Readiness {
        self.has_certificate.clone()
    }

    /// Where the watch of Services tells what it sees.
    pub fn services(&self) -> Arc<Mutex<Intake<WireService>>> {
        Arc::new(Mutex::new(Intake::new(Arc::clone(&self.ledger))))
    }

    /// LoadBalancerPools are judged by what this one knows.
    pub fn ask(&mut self, pool_users: Arc<dyn PoolUsers>) {
        self.admission = self.admission.clone().with_pool_users(pool_users);
    }

    /// The books, to look at.
    pub fn ledger(&self) -> SharedLedger {
        Arc::clone(&self.ledger)
    }

    /// Fits itself to a server of this minor version. The error names the flag.
    pub fn adapt(&mut self, minor: Option<u32>) -> Result<(), String> {
        if minor.is_none_or(|minor| minor >= WITH_OBJECTS) {
            return Ok(());
        }
        let mut ledger = self.ledger.lock();
        ledger.without_objects(Instant::now());
        self.ready.retain(|(kind, ready)| {
            if kind.is_of_1_33() {
                ready.raise();
            }
            !kind.is_of_1_33()
        });
        require_ranges(&ledger)
    }

    /// Serves it, keeps its books and, where this replica leads, the status of pools, until `stop`. Beside `watches` it starts its own.
    pub fn start(self, watches: Watches, term: TermHandle, tasks: &mut Supervisor, stop: &CancellationToken) {
        let services = watches.services;
        let watches = BookWatches {
            client: watches.client,
            style: watches.style,
            metrics: watches.metrics,
            ledger: Arc::clone(&self.ledger),
        };
        let mut pulses: BTreeMap<Kind, Pulse> = watches.start_all(tasks, stop, &self.ready);
        pulses.insert(Kind::Services, services);
        if let Some((service, members)) = self.members {
            watches.start_members(tasks, stop, &service, members);
        }
        let mut watching = Watching {
            tasks: &mut *tasks,
            stop,
            metrics: &watches.metrics,
            style: watches.style,
        };
        let server = self.server.address();
        self.certified
            .start(&watches.client, term.clone(), server, &mut watching);
        let statuses = pool_status::keep(watches.client, Arc::clone(&self.ledger), term);
        tasks.spawn("pool status", stop, until(stop, statuses));
        tasks.spawn("books", stop, until(stop, keep_time(self.ledger, pulses)));
        tasks.spawn(
            "webhook",
            stop,
            self.server.run(self.admission, self.certificates, stop.clone()),
        );
    }
}
