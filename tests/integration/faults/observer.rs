//! A svcplane whose first lists are spoilt, in pages and as streams.

use anyhow::Result;
use svcplane_tests::cluster::Cluster;
use svcplane_tests::metrics::Metrics;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::endpoints;
use svcplane_tests::proxy::{Action, FaultProxy, Match, Times};
use svcplane_tests::svcplane::{Replica, Svcplane};

use super::places::{KINDS, Spoilt};
use super::scene::{ended, spoil_events, struck};
use super::table::{Fault, How};

/// It only observes, so that it can run beside one that acts.
pub struct Observer<'a> {
    cluster: &'a Cluster,
    namespace: TestNamespace,
    proxy: FaultProxy,
    spoilt: Vec<Spoilt>,
    list_style: &'static str,
}

impl<'a> Observer<'a> {
    /// With three objects of each kind.
    pub async fn new(cluster: &'a Cluster) -> Result<Self> {
        let namespace = TestNamespace::create_with(cluster.client(), "listed").await?;
        for name in ["a", "b", "c"] {
            namespace.workload(name, &["10.201.0.9"]).await?;
            endpoints(&format!("by-hand-{name}")).create(&namespace).await?;
        }
        Ok(Self {
            cluster,
            namespace,
            proxy: FaultProxy::start(cluster)?,
            spoilt: Vec::new(),
            list_style: "on",
        })
    }

    /// Lists come in pages, the first of which is spoilt once, and so is one after it.
    pub fn spoil_pages(&mut self, action: &Action) {
        self.list_style = "off";
        for kind in KINDS {
            for (page, matcher) in [
                ("first pages", Match::lists(kind).when(|it| !it.is_continued)),
                ("next pages", Match::continued_lists(kind)),
            ] {
                self.spoilt.push(Spoilt {
                    name: format!("{page} of {kind}"),
                    rule: self.proxy.rule(matcher.clone(), action.clone(), Times::First(1)),
                    // Two tries that fail, and before each next one the version of the newest state is asked for.
                    at_most: if page == "first pages" { 5 } else { usize::MAX },
                    matcher,
                });
            }
            let pages = Match::lists(kind);
            self.proxy.rule(pages, Action::Pages(2), Times::Always);
        }
    }

    /// Streaming lists are spoilt after their first object.
    pub fn spoil_streams(&mut self, how: &How) {
        for kind in KINDS {
            let spoilt = match how {
                How::Event(action) => spoil_events(&self.proxy, kind, action),
                How::End(how) => {
                    let ends = Action::EndWatch {
                        after: 1,
                        how: how.clone(),
                    };
                    Spoilt {
                        name: format!("lists of {kind}"),
                        matcher: Match::watches(kind),
                        rule: self.proxy.rule(Match::watches(kind), ends, Times::First(1)),
                        at_most: 3,
                    }
                }
            };
            self.spoilt.push(spoilt);
        }
    }

    /// Starts it, and waits until it has met the fault everywhere and knows all there is.
    pub async fn learns_all(self, fault: &Fault) -> Result<()> {
        let builder = Svcplane::builder()
            .lease_in(&self.namespace)
            .observe()
            .arg(&format!("--watch-list={}", self.list_style));
        let replica = Replica::start_behind(self.proxy, self.cluster, builder).await?;
        struck(replica.proxy(), &self.spoilt, fault.within).await?;
        let ready = |page: &Metrics| {
            let known = page.sum("svcplane_objects", &[]);
            (known > 8.0).then_some(()).ok_or_else(|| format!("{known} objects"))
        };
        replica.wait_metrics("informed", fault.within, ready).await?;
        replica.wait_informed(&self.namespace.client()).await?;
        struck(replica.proxy(), &self.spoilt, fault.within).await?;
        ended(&replica).await
    }
}
