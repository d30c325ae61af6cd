//! The webhook's certificate: from files, or from a Secret that is read through the API by every replica and, if it is self-managed, kept by
//! the leader.
//!
//! * `files`: from files that may change at any time.
//! * `keeper`: the leader's part: carries out the steps of [`svcplane_webhook::rotation`].
//! * `metrics`: what is counted.
//! * `one`: one object, as its watch shows it.
//! * `published`: whom the webhook configurations trust.
//! * `secret`: from the Secret into the server.

mod files;
mod keeper;
mod metrics;
mod one;
mod published;
mod secret;

use svcplane_runtime::readiness::Readiness;
use svcplane_webhook::certificate::{Certificate, Certificates};
use tokio::sync::watch;

pub use self::files::{CertificateFiles, CertificateReader};
pub use self::keeper::Keeping;
pub use self::metrics::CertificateMetrics;
pub use self::one::Watching;
pub use self::secret::SecretCertificate;

/// What the server shows. The last certificate that could be used stays, whatever comes after it.
pub struct Display {
    shown: watch::Sender<Option<Certificate>>,
    metrics: CertificateMetrics,
    ready: Readiness,
}

impl Display {
    /// Nothing shown yet. `ready` is raised with the first certificate.
    pub fn new(metrics: CertificateMetrics, ready: Readiness) -> (Self, Certificates) {
        let (shown, certificates) = watch::channel(None);
        let display = Self { shown, metrics, ready };
        (display, certificates)
    }

    /// Shows this one from the next handshake on.
    fn show(&mut self, certificate: Certificate) {
        self.metrics.expiry(certificate.ends());
        let first = self.shown.send_replace(Some(certificate)).is_none();
        self.ready.raise();
        if !first {
            tracing::info!("the webhook's certificate has changed");
        }
    }

    /// There is one that cannot be used. What was shown before is shown on: chain and key may change one after the other.
    fn refuse(&mut self, error: &str) {
        self.metrics.unusable();
        tracing::warn!("{error}; the webhook goes on with what it has");
    }
}
