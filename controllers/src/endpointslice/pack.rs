//! Which endpoint goes into which slice.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::desired::Group;
use super::wanted::{Homeless, Verdict, Wanted};
use crate::model::{Endpoint, PodEndpoint, Slice};

/// A slice that is there already.
#[derive(Clone, Debug)]
pub struct Existing {
    /// As stored.
    pub slice: Arc<Slice>,
    /// The Service of today owns it. One left behind by an earlier Service of that name goes.
    pub owned: bool,
    /// Its labels are not what they should be.
    pub mislabelled: bool,
}

/// What becomes of an existing slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing is written.
    Stays,
    /// It is written with this content.
    Becomes(Batch),
    /// It is deleted.
    Goes,
}

/// Ports and endpoints of one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// `ports`.
    pub ports: Group,
    /// `endpoints`.
    pub endpoints: Vec<PodEndpoint>,
}

/// The outcome.
#[derive(Debug)]
pub struct Packing {
    /// For each existing slice, in the order given.
    pub fates: Vec<Fate>,
    /// Slices to be made.
    pub creates: Vec<Batch>,
    /// For each existing slice: whether it may hold a Pod of which something was said.
    pub touched: Vec<bool>,
}

/// Finds a place for every endpoint that is wanted, with the fewest writes, as upstream does:
///
/// 1. An endpoint stays in its slice, whatever about it changes, as long as its ports are the slice's. Slices that lose all of theirs go.
/// 2. What has no place goes into slices that must be written anyway, the fullest first.
/// 3. Then full slices are made, and the rest goes into the one slice that it fills best, or else into one more.
/// 4. A slice to be made takes over one that is to go, so that one write does for two; preferably one that has some of the same Pods.
/// 5. There is always a slice: one without endpoints and ports if nothing is listed.
///
/// Existing slices are not rebalanced. Beyond upstream: what is more than `max` moves on, a slice without endpoints that nobody needs
/// goes, and a slice is taken over only if that unlists no Pod for a moment.
pub fn pack(existing: &[Existing], mut wanted: Wanted, max: usize) -> Packing {
    let touched = wanted.touched(existing);
    let first = existing.iter().zip(&touched).enumerate();
    let first = first.map(|(place, (it, touched))| match touched {
        true => first_fate(it, place, &mut wanted, max),
        false => Fate::Stays,
    });
    let mut packer = Packer {
        existing,
        max,
        fates: first.collect(),
        creates: Vec::new(),
        moving: HashMap::new(),
    };
    let homeless = wanted.homeless();
    for place in homeless.values().flatten().filter_map(|pod| pod.home) {
        *packer.moving.entry(place).or_default() += 1;
    }
    packer.remove_empty();
    for (group, pods) in homeless {
        packer.place(&group, pods);
    }
    packer.keep_a_placeholder();
    Packing {
        fates: packer.fates,
        creates: packer.creates,
        touched,
    }
}

/// What becomes of a slice as far as its own endpoints tell.
fn first_fate(existing: &Existing, place: usize, wanted: &mut Wanted, max: usize) -> Fate {
    let slice = &*existing.slice;
    if !existing.owned {
        return Fate::Goes;
    }
    let stored = &slice.content.endpoints;
    let pods = |count: usize| stored.iter().take(count).filter_map(Endpoint::as_pod).cloned();
    let mut changed: Option<Vec<PodEndpoint>> = None;
    for (position, endpoint) in stored.iter().enumerate() {
        match wanted.judge(endpoint, slice, place) {
            Verdict::Same => {
                if let Some(list) = &mut changed {
                    list.extend(endpoint.as_pod().cloned());
                }
            }
            Verdict::Replaced(new) => changed.get_or_insert_with(|| pods(position).collect()).push(new),
            Verdict::Dropped => {
                changed.get_or_insert_with(|| pods(position).collect());
            }
        }
    }
    if wanted.is_complete() {
        let left = changed.as_ref().map_or(stored.len(), Vec::len);
        if left > max {
            let list = changed.get_or_insert_with(|| pods(left).collect());
            for surplus in list.drain(max..) {
                wanted.evict(&surplus.name, place);
            }
        } else if existing.mislabelled {
            changed.get_or_insert_with(|| pods(left).collect());
        }
    }
    match changed {
        None => Fate::Stays,
        Some(endpoints) if endpoints.is_empty() && !stored.is_empty() => Fate::Goes,
        Some(endpoints) => Fate::Becomes(Batch {
            ports: Arc::clone(&slice.content.ports),
            endpoints,
        }),
    }
}

struct Packer<'a> {
    existing: &'a [Existing],
    max: usize,
    fates: Vec<Fate>,
    creates: Vec<Batch>,
    /// How many Pods have to move out of the slice at each place.
    moving: HashMap<usize, usize>,
}

impl Packer<'_> {
    /// Slices without endpoints go, unless they are taken over.
    fn remove_empty(&mut self) {
        let empty = self.sizes().filter(|(_, _, size)| *size == 0);
        let empty: Vec<usize> = empty.map(|(place, _, _)| place).collect();
        for place in empty {
            self.set(place, Fate::Goes);
        }
    }

    /// Place, ports and number of endpoints of the slices that do not go.
    fn sizes(&self) -> impl Iterator<Item = (usize, &Group, usize)> {
        let both = self.fates.iter().zip(self.existing).enumerate();
        both.filter_map(|(place, (fate, existing))| match fate {
            Fate::Stays => {
                let content = &existing.slice.content;
                Some((place, &content.ports, content.endpoints.len()))
            }
            Fate::Becomes(batch) => Some((place, &batch.ports, batch.endpoints.len())),
            Fate::Goes => None,
        })
    }

    fn set(&mut self, place: usize, fate: Fate) {
        if let Some(slot) = self.fates.get_mut(place) {
            *slot = fate;
        }
    }

    /// Finds a place for Pods of one group.
    fn place(&mut self, group: &Group, mut pods: Vec<Homeless>) {
        self.fill_written(group, &mut pods);
        let rest = pods.len() % self.max;
        let best = self
            .sizes()
            .filter(|(place, ports, size)| {
                *ports == group && size + rest <= self.max && matches!(self.fates.get(*place), Some(Fate::Stays))
            })
            .max_by_key(|(place, _, size)| (*size, Reverse(*place)))
            .map(|(place, _, _)| place)
            .filter(|_| rest > 0);
        let into_best = if best.is_some() { rest } else { 0 };
        let batches = (pods.len() - into_best).div_ceil(self.max);
        let takeovers = self.takeovers(&pods, batches);
        // Those that a slice to be taken over has stay in it, so that they are listed all the while.
        let mut own: Vec<Vec<PodEndpoint>> = vec![Vec::new(); takeovers.len()];
        let mut others = Vec::with_capacity(pods.len());
        for pod in pods {
            let at_home = takeovers.iter().position(|place| pod.home == Some(*place));
            match at_home.and_then(|index| own.get_mut(index)) {
                Some(list) => list.push(pod.endpoint),
                None => others.push(pod.endpoint),
            }
        }
        if let Some(place) = best.filter(|_| !others.is_empty()) {
            let added = others.split_off(others.len().saturating_sub(into_best));
            self.add(place, added);
        }
        let mut others = others.into_iter();
        for (place, mut endpoints) in takeovers.into_iter().zip(own) {
            endpoints.extend(others.by_ref().take(self.max - endpoints.len()));
            let ports = Arc::clone(group);
            self.set(place, Fate::Becomes(Batch { ports, endpoints }));
        }
        while others.len() > 0 {
            self.creates.push(Batch {
                ports: Arc::clone(group),
                endpoints: others.by_ref().take(self.max).collect(),
            });
        }
    }

    /// Fills the slices of that group that are to be written anyway, the fullest first.
    fn fill_written(&mut self, group: &Group, pods: &mut Vec<Homeless>) {
        let (max, mut written) = (self.max, Vec::new());
        for fate in &mut self.fates {
            if let Fate::Becomes(batch) = fate
                && batch.ports == *group
                && batch.endpoints.len() < max
            {
                written.push(batch);
            }
        }
        written.sort_by_key(|batch| Reverse(batch.endpoints.len()));
        for batch in written {
            let room = (max - batch.endpoints.len()).min(pods.len());
            batch.endpoints.extend(pods.drain(..room).map(|pod| pod.endpoint));
        }
    }

    /// Adds endpoints to a slice that would not have been written otherwise.
    fn add(&mut self, place: usize, added: Vec<PodEndpoint>) {
        let Some(existing) = self.existing.get(place) else {
            return;
        };
        let content = &existing.slice.content;
        let mut endpoints: Vec<PodEndpoint> = content.endpoints.iter().filter_map(Endpoint::as_pod).cloned().collect();
        endpoints.extend(added);
        let ports = Arc::clone(&content.ports);
        self.set(place, Fate::Becomes(Batch { ports, endpoints }));
    }

    /// Up to `count` slices that are to go and can become slices of `pods` instead, those with the most of them first. If other Pods of
    /// a slice are still to be listed elsewhere, it is not taken over: they would be missing until that is written.
    fn takeovers(&self, pods: &[Homeless], count: usize) -> Vec<usize> {
        let mut at_home: HashMap<usize, usize> = HashMap::new();
        for place in pods.iter().filter_map(|pod| pod.home) {
            *at_home.entry(place).or_default() += 1;
        }
        let mut candidates: Vec<(usize, usize)> = self
            .going()
            .filter_map(|place| {
                let here = at_home.get(&place).copied().unwrap_or(0);
                let moving = self.moving.get(&place).copied().unwrap_or(0);
                (moving == here && here <= self.max).then_some((place, here))
            })
            .collect();
        candidates.sort_by_key(|(place, here)| (Reverse(*here), *place));
        candidates.into_iter().take(count).map(|(place, _)| place).collect()
    }

    /// Places of slices that are to go and are the Service's own.
    fn going(&self) -> impl Iterator<Item = usize> {
        let both = self.fates.iter().zip(self.existing).enumerate();
        both.filter(|(_, (fate, existing))| **fate == Fate::Goes && existing.owned)
            .map(|(place, _)| place)
    }

    /// If nothing else would be left, one slice says that nothing is listed.
    fn keep_a_placeholder(&mut self) {
        if !self.creates.is_empty() || self.fates.iter().any(|fate| *fate != Fate::Goes) {
            return;
        }
        let is_placeholder = |place: &usize| {
            self.existing.get(*place).is_some_and(|existing| {
                let content = &existing.slice.content;
                content.ports.is_empty() && content.endpoints.is_empty() && !existing.mislabelled
            })
        };
        let kept = self.going().find(is_placeholder);
        let empty = Batch {
            ports: Vec::new().into(),
            endpoints: Vec::new(),
        };
        let first = self.going().next();
        match (kept, first) {
            (Some(place), _) => self.set(place, Fate::Stays),
            (None, Some(place)) => self.set(place, Fate::Becomes(empty)),
            (None, None) => self.creates.push(empty),
        }
    }
}
