//! What svcplane itself notes on its Lease, and says about it.

use std::time::Duration;

use kube::Client;
use svcplane_runtime::events::{Event, EventSink, EventType, Regarding};
use svcplane_runtime::leader::{LeaseName, annotate};

/// What one call may take.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// The Lease of this process.
#[derive(Clone)]
pub struct LeaseNotes {
    /// To the apiserver.
    pub client: Client,
    /// `None`: there is no election, so nothing is noted.
    pub lease: Option<LeaseName>,
    /// Where Events go.
    pub events: EventSink,
}

impl LeaseNotes {
    /// Sets these notes, or takes them off. Answers whether they are as they should be now; the log says why they are not.
    pub async fn set(&self, changes: &[(&str, Option<String>)]) -> bool {
        let Some(lease) = &self.lease else { return true };
        match annotate(&self.client, lease, changes, CALL_LIMIT).await {
            Ok(_) => true,
            Err(failure) => {
                tracing::warn!(%lease, error = %failure, "cannot note on the lease");
                false
            }
        }
    }

    /// An Event on the Lease.
    pub fn warn(&self, reason: &'static str, note: String) {
        let Some(lease) = &self.lease else { return };
        self.events.emit(Event {
            regarding: Regarding {
                api_version: "coordination.k8s.io/v1",
                kind: "Lease",
                namespace: lease.namespace.clone(),
                name: lease.name.clone(),
                uid: String::new(),
            },
            event_type: EventType::Warning,
            reason,
            action: "StopWriting",
            note,
            controller: "svcplane",
        });
    }
}
