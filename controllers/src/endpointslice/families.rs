//! All slices of one Service at once.

use std::sync::Arc;

use super::desired::Desired;
use super::plan::{Plan, Terms, plan, remove};
use super::wanted::Wanted;
use crate::index::{PodChange, PodEvent};
use crate::model::{Distribution, IpFamily, NodeTable, Pod, Service, Slice};

/// The plans for the slices of one Service.
#[derive(Debug)]
pub struct Plans {
    /// One for each of its families.
    pub families: Vec<(IpFamily, Plan)>,
    /// For slices of families that it does not have.
    pub others: Plan,
}

/// The Pods that the selector of a Service matches.
#[derive(Clone, Copy, Debug)]
pub enum Matched<'a> {
    /// All of them.
    All(&'a [Arc<Pod>]),
    /// What has become of some, in this order. For the others and for the Service nothing has changed since all slices were right. Not
    /// enough for topology mode `Auto`, where one Pod's change may move the hints of others.
    Changes(&'a [PodChange]),
}

/// [`Desired`] and [`plan`] for each family of `service`. Of `stored`, all slices that name it, those of other controllers and those that are
/// being deleted do not count.
pub fn plan_all(
    service: &Service,
    pods: Matched<'_>,
    stored: &[Arc<Slice>],
    nodes: &NodeTable,
    terms: Terms<'_>,
) -> Plans {
    let counts = |slice: &&Arc<Slice>| slice.content.manager == terms.manager && !slice.terminating;
    let mut others: Vec<Arc<Slice>> = stored.iter().filter(counts).cloned().collect();
    let mut families = Vec::new();
    for family in service.families() {
        let of_family: Vec<_> = others
            .extract_if(.., |slice| slice.content.family == Some(family))
            .collect();
        let mut desired = Desired::new(service, family, nodes);
        let complete = matches!(pods, Matched::All(_));
        let mut wanted = Wanted::new(complete, service.distribution == Distribution::Auto);
        match pods {
            Matched::All(pods) => {
                for pod in pods {
                    wanted.say(Arc::clone(&pod.name), desired.endpoint(pod));
                }
            }
            Matched::Changes(changes) => {
                for PodChange { pod, what } in changes {
                    let gone = *what == PodEvent::Gone;
                    let listed = if gone { None } else { desired.endpoint(pod) };
                    wanted.say(Arc::clone(&pod.name), listed);
                }
            }
        }
        families.push((family, plan(service, family, &of_family, wanted, terms)));
    }
    Plans {
        families,
        others: remove(others),
    }
}
