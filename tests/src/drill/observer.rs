//! One task that watches the Pods, Endpoints and the Lease of a namespace, past every proxy, and notes what it sees by one
//! clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::stream::{Stream, StreamExt as _, select};
use k8s_openapi::api::core::v1::{Endpoints, Pod};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::history::{History, PODS, State};
use crate::eventually::Object;
use crate::lease;
use crate::namespace::TestNamespace;

/// The pause before a broken watch is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// The Lease as it was seen.
#[derive(Clone, Debug)]
pub struct LeaseSight {
    /// Its resourceVersion.
    pub version: u64,
    /// When it was seen.
    pub at: Instant,
    /// `spec`; null when the Lease was deleted.
    pub spec: Value,
}

/// All that was seen so far.
#[derive(Debug, Default)]
pub struct Sights {
    /// Pods and Endpoints.
    pub history: History,
    /// The Lease, in order.
    pub lease: Vec<LeaseSight>,
}

/// The running observer; it ends when this is dropped.
pub struct Observer {
    sights: Arc<Mutex<Sights>>,
    changes: watch::Receiver<()>,
    task: JoinHandle<()>,
}

/// What one event tells, with the version it tells it of.
enum Sight {
    Pod(u64, usize, bool),
    Endpoints(u64, Option<State>),
    Lease(u64, Value),
}

impl Observer {
    /// Starts it.
    pub fn start(namespace: &TestNamespace) -> Self {
        let sights = Arc::new(Mutex::new(Sights::default()));
        let (changed, changes) = watch::channel(());
        let pods = shown(namespace.pods(), "").filter_map(async |(pod, gone)| {
            let (index, ready) = pod_state(&pod).filter(|_| !gone)?;
            Some(Sight::Pod(version(&pod), index, ready))
        });
        let endpoints = shown(namespace.endpoints(), "metadata.name=web");
        let endpoints = endpoints.map(|(it, gone)| {
            let state = endpoints_state(&it).filter(|_| !gone);
            Sight::Endpoints(version(&it), state)
        });
        let leases = shown(namespace.any_leases(), &format!("metadata.name={}", lease::NAME));
        let leases = leases.map(|(it, gone)| {
            let spec = if gone { Value::Null } else { it.data["spec"].clone() };
            Sight::Lease(version(&it), spec)
        });
        let all = select(select(pods.boxed(), endpoints.boxed()), leases.boxed());
        let noted = Arc::clone(&sights);
        let task = tokio::spawn(async move {
            let mut all = std::pin::pin!(all);
            while let Some(sight) = all.next().await {
                noted.lock().note(Instant::now(), sight);
                changed.send_replace(());
            }
        });
        Self { sights, changes, task }
    }

    /// What was seen so far.
    pub fn sights(&self) -> MutexGuard<'_, Sights> {
        self.sights.lock()
    }

    /// Waits until the check finds something in what was seen.
    ///
    /// # Errors
    /// It has not at the deadline.
    pub async fn wait<T>(&self, what: &str, deadline: Duration, find: impl Fn(&Sights) -> Option<T>) -> Result<T> {
        let mut changes = self.changes.clone();
        let wait = async {
            loop {
                changes.borrow_and_update();
                if let Some(found) = find(&self.sights.lock()) {
                    return found;
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        match tokio::time::timeout(deadline, wait).await {
            Ok(found) => Ok(found),
            Err(_) => bail!(
                "{what}: not seen within {deadline:?}; the Lease was last {:?}",
                self.sights.lock().lease.last()
            ),
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sights {
    fn note(&mut self, at: Instant, sight: Sight) {
        match sight {
            Sight::Pod(version, index, ready) => self.history.pod(version, at, index, ready),
            Sight::Endpoints(version, state) => self.history.endpoints(version, at, state),
            // A new list shows what is known.
            Sight::Lease(version, _) if self.lease.last().is_some_and(|last| last.version >= version) => {}
            Sight::Lease(version, spec) => self.lease.push(LeaseSight { version, at, spec }),
        }
    }
}

/// Each object as it is shown, for ever; true = it is gone.
fn shown<K: Object>(api: Api<K>, fields: &str) -> impl Stream<Item = (K, bool)> + use<K> {
    let events = watcher(api, watcher::Config::default().fields(fields));
    events.filter_map(async |event| match event {
        Ok(Event::Apply(object) | Event::InitApply(object)) => Some((object, false)),
        Ok(Event::Delete(object)) => Some((object, true)),
        Ok(Event::Init | Event::InitDone) => None,
        Err(_) => {
            tokio::time::sleep(RETRY).await;
            None
        }
    })
}

fn version<K: kube::Resource>(object: &K) -> u64 {
    let version = object.resource_version().and_then(|version| version.parse().ok());
    version.expect("the apiserver's versions are numbers")
}

/// The number of `web-0`, …, and whether it is ready.
fn pod_state(pod: &Pod) -> Option<(usize, bool)> {
    let index = pod.name_any().strip_prefix("web-")?.parse().ok()?;
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((index, ready.status == "True"))
}

/// Which Pods are listed as ready, if all are listed, each once.
fn endpoints_state(endpoints: &Endpoints) -> Option<State> {
    let (mut ready, mut not_ready) = (0, 0);
    for subset in endpoints.subsets.iter().flatten() {
        let lists = [
            (&subset.addresses, &mut ready),
            (&subset.not_ready_addresses, &mut not_ready),
        ];
        for (addresses, state) in lists {
            for address in addresses.iter().flatten() {
                let last: State = address.ip.rsplit('.').next()?.parse().ok()?;
                let bit = 1 << last.checked_sub(1)?;
                if *state & bit != 0 {
                    return None;
                }
                *state |= bit;
            }
        }
    }
    (ready & not_ready == 0 && ready | not_ready == (1 << PODS) - 1).then_some(ready)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endpoints_that_list_each_pod_once_have_a_state() {
        let list = |numbers: &[usize]| -> Vec<Value> {
            let address = |number| json!({"ip": format!("10.201.0.{number}")});
            numbers.iter().map(address).collect()
        };
        let state = |ready: &[usize], not_ready: &[usize]| {
            let subsets = json!([{"addresses": list(ready), "notReadyAddresses": list(not_ready)}]);
            endpoints_state(&serde_json::from_value(json!({"metadata": {}, "subsets": subsets})).unwrap())
        };
        assert_eq!(state(&[1, 2, 3], &[4, 5, 6, 7, 8]), Some(0b111));
        assert_eq!(state(&[1, 2, 3, 4, 5, 6, 7, 8], &[]), Some(0b1111_1111));
        assert_eq!(state(&[1, 2, 3], &[5, 6, 7, 8]), None, "one is missing");
        assert_eq!(
            state(&[1, 2, 3, 4], &[4, 5, 6, 7, 8]),
            None,
            "one is ready and not ready"
        );
    }
}
