//! The `--leader-elect-*` flags of kube-controller-manager.

use std::fmt;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::notes::LeaseName;
use super::record::{JITTER_FACTOR, Timing};
use crate::args::{InvalidFlag, dns_label, dns_subdomain, duration, format_duration};

/// Where a Pod finds its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

const LEASE_DURATION: &str = "--leader-elect-lease-duration";
const RENEW_DEADLINE: &str = "--leader-elect-renew-deadline";
const RETRY_PERIOD: &str = "--leader-elect-retry-period";
const RESOURCE_NAME: &str = "--leader-elect-resource-name";
pub(super) const RESOURCE_NAMESPACE: &str = "--leader-elect-resource-namespace";

/// Flags of the leader election. Names and defaults are kube-controller-manager's, but for the Lease's name and place.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub struct LeaderElectionArgs {
    /// Start a leader election client and gain leadership before writing. Disable it only where a single replica runs.
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub leader_elect: bool,

    /// How long other replicas wait after a renewal before they take over. Whole seconds.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration, allow_hyphen_values = true)]
    pub leader_elect_lease_duration: Duration,

    /// How long the leader writes after its last successful renewal. Less than the lease duration.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub leader_elect_renew_deadline: Duration,

    /// The time between two tries to acquire or renew.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration, allow_hyphen_values = true)]
    pub leader_elect_retry_period: Duration,

    /// The name of the Lease.
    #[arg(long, value_name = "NAME", default_value = "svcplane")]
    pub leader_elect_resource_name: String,

    /// The namespace of the Lease [default: the Pod's own, else svcplane].
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", hide_env_values = true)]
    pub leader_elect_resource_namespace: Option<String>,
}

/// Which Lease is contended for, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The durations.
    pub timing: Timing,
}

impl LeaseConfig {
    /// Which it is.
    pub fn lease(&self) -> LeaseName {
        LeaseName {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl fmt::Display for LeaseConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl LeaderElectionArgs {
    /// What the flags ask for; `None` with `--leader-elect=false`.
    ///
    /// # Errors
    /// client-go's rules: lease duration > renew deadline > retry period x 1.2 > 0. In addition the lease duration must
    /// be what a Lease can store, and the names must be names.
    pub fn config(&self) -> Result<Option<LeaseConfig>, InvalidFlag> {
        if !self.leader_elect {
            return Ok(None);
        }
        let namespace = match &self.leader_elect_resource_namespace {
            Some(namespace) => namespace.clone(),
            None => std::fs::read_to_string(NAMESPACE_FILE)
                .map_or_else(|_| "svcplane".to_owned(), |text| text.trim().to_owned()),
        };
        // Better refused at start than by the apiserver at every try.
        let wrong = |flag| move |problem: String| InvalidFlag::new(flag, problem);
        Ok(Some(LeaseConfig {
            namespace: dns_label(&namespace).map_err(wrong(RESOURCE_NAMESPACE))?,
            name: dns_subdomain(&self.leader_elect_resource_name).map_err(wrong(RESOURCE_NAME))?,
            timing: self.timing()?,
        }))
    }

    fn timing(&self) -> Result<Timing, InvalidFlag> {
        let timing = Timing {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        let Timing {
            lease_duration,
            renew_deadline,
            retry_period,
        } = timing;
        let (lease, renew, retry) = (
            format_duration(lease_duration),
            format_duration(renew_deadline),
            format_duration(retry_period),
        );
        if lease_duration.subsec_nanos() != 0
            || lease_duration.is_zero()
            || i32::try_from(lease_duration.as_secs()).is_err()
        {
            let problem =
                format!("{lease} does not fit into a Lease, which stores whole seconds from 1s on; the default is 15s");
            return Err(InvalidFlag::new(LEASE_DURATION, problem));
        }
        if renew_deadline >= lease_duration {
            return Err(InvalidFlag::new(
                RENEW_DEADLINE,
                format!("{renew} must be less than {LEASE_DURATION} ({lease})"),
            ));
        }
        if retry_period.is_zero() {
            return Err(InvalidFlag::new(
                RETRY_PERIOD,
                "0s must be greater than 0s; the default is 2s",
            ));
        }
        if retry_period
            .checked_mul(12)
            .is_none_or(|longest| longest / 10 >= renew_deadline)
        {
            let problem = format!("{retry} times {JITTER_FACTOR} must be less than {RENEW_DEADLINE} ({renew})");
            return Err(InvalidFlag::new(RETRY_PERIOD, problem));
        }
        Ok(timing)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        leader: LeaderElectionArgs,
    }

    fn config(flags: &[&str]) -> Result<Option<LeaseConfig>, String> {
        let namespace = ["svcplane", "--leader-elect-resource-namespace=marsh"];
        let args = Cli::try_parse_from(namespace.iter().chain(flags)).map_err(|error| error.to_string())?;
        args.leader.config().map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_kube_controller_managers() {
        let config = config(&[]).unwrap().unwrap();
        assert_eq!(
            config,
            LeaseConfig {
                namespace: "marsh".to_owned(),
                name: "svcplane".to_owned(),
                timing: Timing {
                    lease_duration: Duration::from_secs(15),
                    renew_deadline: Duration::from_secs(10),
                    retry_period: Duration::from_secs(2),
                },
            }
        );
    }

    #[test]
    fn election_can_be_switched_off() {
        for off in [&["--leader-elect=false"][..], &["--leader-elect", "false"]] {
            assert_eq!(config(off), Ok(None), "{off:?}");
        }
        for on in [
            &["--leader-elect"][..],
            &["--leader-elect=true"],
            &["--leader-elect", "true"],
            &["--leader-elect", "--leader-elect-lease-duration=20s"],
        ] {
            assert!(config(on).unwrap().is_some(), "{on:?}");
        }
        assert!(
            config(&["--leader-elect=maybe"])
                .unwrap_err()
                .contains("--leader-elect")
        );
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (flags, expected) in [
            (
                &["--leader-elect-lease-duration=10s"][..],
                "--leader-elect-renew-deadline: 10s must be less than --leader-elect-lease-duration (10s)",
            ),
            (
                &["--leader-elect-renew-deadline=20s"],
                "--leader-elect-renew-deadline: 20s must be less than --leader-elect-lease-duration (15s)",
            ),
            (
                &["--leader-elect-retry-period=9s"],
                "--leader-elect-retry-period: 9s times 1.2 must be less than --leader-elect-renew-deadline (10s)",
            ),
            (
                &["--leader-elect-renew-deadline=2400ms"],
                "--leader-elect-retry-period: 2s times 1.2 must be less than --leader-elect-renew-deadline (2.4s)",
            ),
            (
                &["--leader-elect-retry-period=0"],
                "--leader-elect-retry-period: 0s must be greater than 0s",
            ),
            (
                &["--leader-elect-lease-duration=0s"],
                "--leader-elect-lease-duration: 0s does not fit",
            ),
            (
                &["--leader-elect-lease-duration=10500ms"],
                "--leader-elect-lease-duration: 10.5s does not fit into a Lease",
            ),
            (
                &["--leader-elect-lease-duration=2000000h"],
                "--leader-elect-lease-duration: 2000000h0m0s does not fit into a Lease",
            ),
            (&["--leader-elect-lease-duration=15"], "--leader-elect-lease-duration"),
            (&["--leader-elect-lease-duration=-15s"], "negative"),
            (&["--leader-elect-lease-duration", "-15s"], "negative"),
            (
                &["--leader-elect-resource-name="],
                r#"--leader-elect-resource-name: "" is not a DNS-1123 subdomain"#,
            ),
            (
                &["--leader-elect-resource-name=Lease"],
                r#"--leader-elect-resource-name: "Lease" is not a DNS-1123 subdomain"#,
            ),
        ] {
            let error = config(flags).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(config(&["--leader-elect-renew-deadline=2401ms"]).is_ok());
        assert!(config(&["--leader-elect-resource-name=a.b-c"]).is_ok());
        let dotted = Cli::try_parse_from(["svcplane", "--leader-elect-resource-namespace=a.b"]).unwrap();
        let error = dotted.leader.config().unwrap_err();
        assert!(
            error
                .to_string()
                .contains(r#"--leader-elect-resource-namespace: "a.b""#),
            "{error}"
        );
    }
}
