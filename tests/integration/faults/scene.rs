//! A svcplane, what it serves, and the changes that it must not miss.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::try_join;
use http::Method;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use svcplane_tests::cluster::Cluster;
use svcplane_tests::eventually::eventually_gone;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::process::Exit;
use svcplane_tests::proxy::{Action, FaultProxy, Match, Times, WatchEnd};
use svcplane_tests::svcplane::{Replica, Svcplane};

use super::places::{KINDS, Spoilt};
use super::table::{Fault, How};

const LEASE: Duration = Duration::from_secs(12);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(500);
/// Lines of a log that a single fault is worth: one per place, and one when it is over.
const WARNINGS: usize = 25;

/// Before svcplane starts.
pub struct Stage<'a> {
    cluster: &'a Cluster,
    pub namespace: TestNamespace,
    pub proxy: FaultProxy,
}

impl<'a> Stage<'a> {
    /// A Service for each kind of change: of a Pod, of the Service, by somebody else, none before and none after.
    pub async fn set(cluster: &'a Cluster) -> Result<Self> {
        let namespace = TestNamespace::create_with(cluster.client(), "faults").await?;
        for (name, ip) in [
            ("flips", "10.201.0.1"),
            ("ports", "10.201.0.2"),
            ("edited", "10.201.0.3"),
            ("new-0", "10.201.0.4"),
        ] {
            namespace.workload(name, &[ip]).await?;
        }
        let proxy = FaultProxy::start(cluster)?;
        Ok(Self {
            cluster,
            namespace,
            proxy,
        })
    }

    /// Starts svcplane and waits until all is right.
    pub async fn begin(self, fault: &'a Fault) -> Result<Scene<'a>> {
        let builder = Svcplane::builder()
            .lease_in(&self.namespace)
            .lease_times(LEASE, RENEW, RETRY);
        let replica = Replica::start_behind(self.proxy, self.cluster, builder).await?;
        let scene = Scene {
            fault,
            namespace: self.namespace,
            replica,
            round: 0,
        };
        scene.right().await?;
        scene.replica.wait_idle().await?;
        Ok(scene)
    }
}

/// A svcplane that serves.
pub struct Scene<'a> {
    fault: &'a Fault,
    pub namespace: TestNamespace,
    replica: Replica,
    round: u32,
}

impl Scene<'_> {
    pub fn proxy(&self) -> &FaultProxy {
        self.replica.proxy()
    }

    /// Something of each kind changes, and is told by the watch of that kind alone.
    pub async fn change(&mut self) -> Result<()> {
        self.round += 1;
        let (namespace, round) = (&self.namespace, self.round);
        let (params, merge) = (PatchParams::default(), |patch: Value| Patch::Merge(patch));
        let emptied = merge(json!({ "subsets": null }));
        namespace.endpoints().patch("edited", &params, &emptied).await?;
        namespace.set_pod_ready("flips-0", round.is_multiple_of(2)).await?;
        let port = json!({ "spec": { "ports": [{ "port": 80, "targetPort": 8080 + round }] } });
        namespace.patch_service("ports", &port).await?;
        namespace.workload(&format!("new-{round}"), &["10.201.0.4"]).await?;
        let last = format!("new-{}", round - 1);
        namespace.services().delete(&last, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until every change is seen in Endpoints.
    pub async fn right(&self) -> Result<()> {
        let (namespace, round, within) = (&self.namespace, self.round, self.fault.within);
        let mark = if round.is_multiple_of(2) { "" } else { "!" };
        let flips = format!("{mark}10.201.0.1 -> :8080/TCP");
        let ports = format!("10.201.0.2 -> :{}/TCP", 8080 + round);
        let new = format!("new-{round}");
        let become_ = async |name: &str, line: &str| {
            let lines = [line];
            let wait = namespace.endpoints_become_within(name, &lines, within);
            wait.await.map(drop)
        };
        let gone = async || match round {
            0 => Ok(()),
            _ => {
                eventually_gone(
                    "Endpoints",
                    within,
                    &namespace.endpoints(),
                    &format!("new-{}", round - 1),
                )
                .await
            }
        };
        try_join!(
            become_("flips", &flips),
            become_("ports", &ports),
            become_("edited", "10.201.0.3 -> :8080/TCP"),
            become_(&new, "10.201.0.4 -> :8080/TCP"),
            gone(),
        )?;
        Ok(())
    }

    /// Each of these places was struck and asked again a bounded number of times; the process is well.
    pub async fn check(&self, spoilt: &[Spoilt]) -> Result<()> {
        struck(self.proxy(), spoilt, self.fault.within).await?;
        healthy(&self.replica).await
    }

    /// However often it was tried, each object was changed once.
    pub async fn one_change_each(&self) -> Result<()> {
        self.namespace.caught_up().await?;
        let (created, deleted) = (format!("new-{}", self.round), format!("new-{}", self.round - 1));
        for (name, method) in [
            (created.as_str(), Method::POST),
            (&deleted, Method::DELETE),
            ("flips", Method::PUT),
            ("ports", Method::PUT),
            ("edited", Method::PUT),
        ] {
            let writes = Match::writes("endpoints").namespace(self.namespace.name());
            let changes = self
                .proxy()
                .writes_that_changed(&writes.name(name).method(method.clone()));
            ensure!(changes.len() == 1, "{} changes by {method} of {name}", changes.len());
        }
        Ok(())
    }

    /// Ends the watches, so that new ones start.
    pub fn close_watches(&self) -> Result<()> {
        self.end_watches(&WatchEnd::Close)
    }

    fn end_watches(&self, how: &WatchEnd) -> Result<()> {
        for kind in KINDS {
            let ended = self.proxy().end_watches(&Match::watches(kind), how);
            ensure!(ended == 1, "{ended} watches of {kind}");
        }
        Ok(())
    }

    /// Spoils the open watch of each kind.
    pub fn spoil_open_watches(&self, how: &How) -> Result<Vec<Spoilt>> {
        self.proxy().clear_records();
        match how {
            How::End(end) => self.end_watches(end).map(|()| Vec::new()),
            How::Event(action) => Ok(KINDS.map(|kind| spoil_events(self.proxy(), kind, action)).into()),
        }
    }

    /// Nothing was listed anew without need; the log is short; it ends as it should.
    pub async fn end(self) -> Result<()> {
        let page = self.replica.metrics().await?;
        for kind in KINDS {
            let relists = page.sum("svcplane_watch_relists_total", &[("resource", kind)]);
            ensure!(
                (relists - self.fault.relists).abs() < 0.1,
                "{relists} relists of {kind}"
            );
        }
        ensure!(self.replica.leads().await?, "it does not lead any more");
        ended(&self.replica).await
    }
}

pub fn spoil_events(proxy: &FaultProxy, kind: &str, action: &Action) -> Spoilt {
    let (matcher, late) = (Match::watches(kind), matches!(action, Action::DelayEvents(_)));
    let times = if late { Times::Always } else { Times::First(1) };
    Spoilt {
        name: format!("watches of {kind}"),
        rule: proxy.rule(matcher.clone(), action.clone(), times),
        matcher,
        at_most: 3,
    }
}

pub async fn struck(proxy: &FaultProxy, spoilt: &[Spoilt], within: Duration) -> Result<()> {
    for place in spoilt {
        place.rule.wait_hits(1, within).await.context(place.name.clone())?;
        let calls = proxy.requests(&place.matcher).len();
        ensure!(calls <= place.at_most, "{calls} {}", place.name);
    }
    Ok(())
}

async fn healthy(replica: &Replica) -> Result<()> {
    let (alive, said) = replica.get("/livez").await?;
    ensure!(alive.is_success(), "/livez: {said}");
    ensure!(replica.readyz().await?, "/readyz");
    Ok(())
}

pub async fn ended(replica: &Replica) -> Result<()> {
    healthy(replica).await?;
    let of_level = |level: &str| {
        let mut lines = replica.log_lines();
        lines.retain(|line| line.contains(&format!("\"level\":\"{level}\"")));
        lines
    };
    // An apiserver that does not answer at the start is an error, said once for each kind of trouble.
    let (errors, warnings) = (of_level("ERROR"), of_level("WARN"));
    ensure!(errors.len() <= 2, "{errors:#?}");
    ensure!(warnings.len() <= WARNINGS, "{} warnings: {warnings:#?}", warnings.len());
    let exit = replica.terminate().await?;
    ensure!(exit == Exit::Code(0), "it ended with {exit}");
    Ok(())
}
