//! What a drill leaves behind for the judge: the states of the Lease, whose they are, and the writes at the proxies.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::judge::{Stored, Verdict, Write, judge};
use super::observer::LeaseSight;
use super::rig::{Member, Rig};
use crate::proxy::{Match, Record};

/// What is no write of a controller: the election, Events and questions about one's own rights.
const NOT_COUNTED: [&str; 4] = [
    "leases",
    "events",
    "selfsubjectaccessreviews",
    "selfsubjectrulesreviews",
];

impl Rig<'_> {
    /// The replica that sent exactly this.
    pub(super) fn sent_by(&self, state: &LeaseSight) -> Option<usize> {
        let sent = |member: &Member| {
            let writes = member.replica.proxy().requests(&Match::writes("leases"));
            writes
                .iter()
                .any(|write| sent_spec(write).as_ref() == Some(&state.spec))
        };
        self.members.iter().position(sent)
    }

    /// All states of the Lease: those that the watch has shown, and those that replicas were told of while it was broken.
    pub fn stored(&self) -> Vec<Stored> {
        let mut states = self.observer.sights().lease.clone();
        for member in &self.members {
            for write in member.replica.proxy().requests(&Match::writes("leases")) {
                let (Some(version), Some(at), Some(spec)) = (write.version, write.answered, sent_spec(&write)) else {
                    continue;
                };
                if states.iter().all(|state| state.version != version) {
                    states.push(LeaseSight { version, at, spec });
                }
            }
        }
        states.sort_by_key(|state| state.version);
        let stored = states.iter().map(|state| Stored {
            version: state.version,
            at: state.at,
            holder: state.spec["holderIdentity"].as_str().unwrap_or_default().into(),
            duration: Duration::from_secs(state.spec["leaseDurationSeconds"].as_u64().unwrap_or_default()),
            by: self.sent_by(state),
        });
        stored.collect()
    }

    /// The writes of a replica that changed an object, or may have.
    pub fn writes(&self, place: usize) -> Vec<Write> {
        let mut writes = self.members[place]
            .replica
            .proxy()
            .writes_that_changed(&Match::all_writes());
        writes.retain(|write| !NOT_COUNTED.contains(&write.request.resource.as_str()));
        let write = |record: &Record| Write {
            version: record.version,
            at: record.answered.unwrap_or(record.at),
        };
        writes.iter().map(write).collect()
    }

    /// What each write of each replica was.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let stored = self.stored();
        let members = self.members.iter().enumerate();
        let of_member = members.flat_map(|(place, member)| {
            let writes = self.writes(place).into_iter();
            let stored = &stored;
            writes.map(move |write| judge(stored, place, &member.identity, &write))
        });
        of_member.collect()
    }

    /// Checks that each replica that has held the Lease wrote times of the clock that it was given.
    ///
    /// # Errors
    /// It did not.
    pub fn check_clocks(&self) -> Result<()> {
        for member in &self.members {
            let writes = member.replica.proxy().requests(&Match::writes("leases"));
            let Some((write, spec)) = writes.last().and_then(|write| Some((write, sent_spec(write)?))) else {
                continue;
            };
            let renewed: Timestamp = spec["renewTime"].as_str().context("no renewTime")?.parse()?;
            let at = Timestamp::try_from(write.wall)?;
            let ahead = renewed.duration_since(at).as_secs();
            ensure!(
                (ahead - member.clock).abs() < 30,
                "the clock of {} is {ahead} s ahead, not {}",
                member.identity,
                member.clock
            );
        }
        Ok(())
    }

    /// The replicas that have ended although no drill ended them.
    pub fn ended(&self) -> Vec<String> {
        let ended = |member: &&Member| !member.to_end && member.replica.process().exit().is_some();
        self.members
            .iter()
            .filter(ended)
            .map(|member| member.identity.clone())
            .collect()
    }
}

fn sent_spec(write: &Record) -> Option<Value> {
    let body: Value = serde_json::from_slice(write.body.as_ref()?).ok()?;
    Some(body["spec"].clone())
}
