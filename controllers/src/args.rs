//! The command line. Flags bear kube-controller-manager's names where it has one.

use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use svcplane_runtime::admin::AdminArgs;
use svcplane_runtime::args::duration;
use svcplane_runtime::client::ClusterArgs;
use svcplane_runtime::leader::LeaderElectionArgs;
use svcplane_runtime::watch::WatchList;

use crate::gate::Mode;
use crate::identity::Identity;

mod audit;
mod canary;
mod certificate;
mod controllers;
mod explain;
mod handback;
mod load_balancer;
mod pools;
mod preflight;
mod ranges;
mod selftest;
mod sizes;
mod tuning;
mod webhook;

pub use audit::AuditArgs;
pub use canary::CanaryArgs;
pub use certificate::{CertificateArgs, Source};
pub use controllers::Controllers;
pub use explain::{ExplainArgs, Form, Named};
pub use handback::{HandbackArgs, LeaseArgs};
pub use load_balancer::{LoadBalancerArgs, Product};
pub use pools::{Advertise, Announcer, ExportArgs, Giver, ImportArgs, PoolsAction, PoolsArgs};
pub use preflight::PreflightArgs;
pub use ranges::RangeArgs;
pub use selftest::SelftestArgs;
pub use sizes::SizeArgs;
pub use tuning::TuningArgs;
pub use webhook::WebhookArgs;

/// A Kubernetes Service control plane.
#[derive(Debug, Parser)]
#[command(name = "svcplane", version, about, max_term_width = 120)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the controllers: the entry point of the Deployment
    Run(Box<RunArgs>),
    /// Explain one Service: which Pods are in and which are not and why, what should be stored and what is, what clients see of it
    Explain(Box<ExplainArgs>),
    /// Show how full the ranges and pools of addresses and nodePorts are, or who has a value; turn other products' pools into ours and back
    Pools(Box<PoolsArgs>),
    /// Check what is stored against the rules of allocation, validation and pools; exit with 1 if something is wrong
    Audit(Box<AuditArgs>),
    /// See what runs in the cluster and what to set before svcplane is installed; exit with 1 if something is to be done before active mode
    Preflight(Box<PreflightArgs>),
    /// Leave Endpoints and EndpointSlices to kube-controller-manager again: stop writing, wait, see that it is at work
    Handback(Box<HandbackArgs>),
    /// Make a Service, see that it gets an address and EndpointSlices, and take it away; exit with 1 if it does not
    Selftest(SelftestArgs),
    /// Print the custom resource definitions, for kubectl apply -f -
    Crds,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Flags of `svcplane run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Which one.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// What becomes of the writes that the endpoint controllers find necessary: `observe` plans, counts and logs them; `active` makes them
    #[arg(long, value_enum, default_value_t = Mode::Observe)]
    pub mode: Mode,

    /// Under whose name EndpointSlices are kept: kube-controller-manager's, in its place, or svcplane.io, beside it, which needs no acknowledgement and
    /// keeps nothing else
    #[arg(long, value_enum, default_value_t = Identity::DropIn)]
    pub identity: Identity,

    /// Confirms that kube-controller-manager runs without its endpoint controllers (--controllers=*,-endpoints-controller,…); --mode=active
    /// needs it, because two writers of the same objects fight
    #[arg(long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub acknowledge_builtins_disabled: bool,

    /// Controllers to run: `*` for all, `NAME` to add one, `-NAME` to leave one out
    #[arg(long, value_name = "NAME,…", default_value = "*", allow_hyphen_values = true)]
    pub controllers: Controllers,

    /// Every Service is looked at again at least this often (and at most twice as often), event or not; 0 turns it off
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = duration, allow_hyphen_values = true)]
    pub min_resync_period: Duration,

    /// How often the leader's repair-controller looks at all stored ClusterIPs and nodePorts
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = period, allow_hyphen_values = true)]
    pub repair_period: Duration,

    /// How the first state is fetched: in one stream (servers from 1.34 on) or in pages
    #[arg(long, value_enum, default_value_t = WatchList::Auto)]
    pub watch_list: WatchList,

    /// Form of the log on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: error, warn, info, debug or trace, also per module (`info,svcplane::endpoints=debug`)
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log_level: String,

    // What has a heading of its own in the help comes last: whatever follows would stand below it.
    /// The canary.
    #[command(flatten)]
    pub canary: CanaryArgs,

    /// The endpoint controllers.
    #[command(flatten, next_help_heading = "Endpoint controllers")]
    pub tuning: TuningArgs,

    /// Probes, metrics, state.
    #[command(flatten)]
    pub admin: AdminArgs,

    /// Leader election.
    #[command(flatten)]
    pub leader_election: LeaderElectionArgs,

    /// LoadBalancer addresses.
    #[command(flatten, next_help_heading = "LoadBalancer addresses")]
    pub load_balancer: LoadBalancerArgs,

    /// Admission.
    #[command(flatten)]
    pub webhook: WebhookArgs,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl RunArgs {
    /// Checks what clap cannot check alone. The error names the flag and what would be right.
    pub fn check(&self) -> Result<(), String> {
        self.identity.check(&self.controllers, self.canary.canary.is_some())?;
        let beside = self.identity == Identity::Own;
        if self.mode == Mode::Active && !beside && !self.acknowledge_builtins_disabled {
            return Err(format!(
                "--mode=active needs --acknowledge-builtins-disabled: set it once kube-controller-manager runs with --controllers={}, because two \
                 writers of the same objects fight",
                self.controllers.without()
            ));
        }
        self.canary.check(&self.controllers)?;
        self.webhook.check()?;
        let checked = self.admin.check().and_then(|()| self.leader_election.config());
        checked.map(drop).map_err(|error| error.to_string())
    }
}

/// A duration that is no busy loop.
fn period(text: &str) -> Result<Duration, String> {
    let period = duration(text)?;
    if period < Duration::from_secs(1) {
        return Err("must be 1s or longer, such as 3m".to_owned());
    }
    Ok(period)
}

/// clap's message as one line: what is wrong, and what would be right.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use clap::CommandFactory;

    fn run(arguments: &[&str]) -> Result<Box<RunArgs>, String> {
        let arguments = ["svcplane", "run"].iter().chain(arguments);
        let cli = Cli::try_parse_from(arguments).map_err(|error| one_line(&error))?;
        let Command::Run(arguments) = cli.command else {
            return Err("not run".into());
        };
        arguments.check()?;
        Ok(arguments)
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_readme_lists_exactly_the_flags_there_are() {
        let readme = include_str!("../../README.md");
        let section = readme
            .split("### Flags")
            .nth(1)
            .and_then(|rest| rest.split("### ").next())
            .unwrap();
        let written: BTreeSet<&str> = section
            .split('`')
            .filter_map(|text| text.strip_prefix("--"))
            .filter(|name| !name.contains(' '))
            .collect();
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        let flags: BTreeSet<&str> = run.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert_eq!(written, flags);
    }

    #[test]
    fn observe_is_the_default_and_active_must_be_meant() {
        assert_eq!(run(&[]).unwrap().mode, Mode::Observe);
        for unmeant in [
            &["--mode=active"][..],
            &["--mode=active", "--acknowledge-builtins-disabled=false"],
            &["--mode=active", "--acknowledge-builtins-disabled", "false"],
        ] {
            let error = run(unmeant).unwrap_err();
            assert!(error.contains("--acknowledge-builtins-disabled"), "{error}");
        }
        for meant in [
            &["--mode=active", "--acknowledge-builtins-disabled"][..],
            &["--mode=active", "--acknowledge-builtins-disabled=true"],
            &["--acknowledge-builtins-disabled", "--mode=active"],
        ] {
            assert_eq!(run(meant).unwrap().mode, Mode::Active, "{meant:?}");
        }
    }

    #[test]
    fn only_the_controllers_that_run_here_are_to_be_switched_off_there() {
        let table = [
            (
                "--controllers=*",
                "--controllers=*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller, because",
            ),
            (
                "--controllers=endpointslice-controller",
                "--controllers=*,-endpointslice-controller, because",
            ),
        ];
        for (here, there) in table {
            let error = run(&["--mode=active", here]).unwrap_err();
            assert!(error.contains(there), "{here}: {error}");
        }
    }

    #[test]
    fn a_self_managed_certificate_needs_names_and_lifetimes_that_leave_time_to_rotate() {
        let with = |more: &[&str]| {
            let all = [
                &[
                    "--webhook-address=127.0.0.1:9443",
                    "--webhook-tls-secret=a/tls",
                    "--webhook-tls-self-managed",
                ][..],
                more,
            ]
            .concat();
            run(&all).map(|args| args.webhook.source().unwrap().unwrap())
        };
        let table = [
            (&[][..], "--webhook-service"),
            (&["--webhook-tls-names=x", "--webhook-tls-lifetime=29s"], "30s"),
            (
                &["--webhook-tls-names=x", "--webhook-tls-authority-lifetime=4319h"],
                "twice",
            ),
        ];
        for (more, why) in table {
            let error = with(more).unwrap_err();
            assert!(error.contains(why), "{more:?}: {error}");
        }
        let Source::SelfManaged(keeping) = with(&[
            "--webhook-service=a/web",
            "--webhook-self=x",
            "--webhook-tls-names=10.0.0.1",
        ])
        .unwrap() else {
            panic!("not self-managed")
        };
        assert_eq!(keeping.names, ["web.a.svc", "web.a", "web", "10.0.0.1"]);
        let given = run(&["--webhook-address=127.0.0.1:9443", "--webhook-tls-secret=a/tls"]).unwrap();
        assert!(matches!(given.webhook.source(), Ok(Some(Source::Secret(_)))));
    }

    #[test]
    fn a_wrong_value_is_one_line_that_names_the_flag_and_what_would_be_right() {
        let table = [
            ("--mode=actve", "--mode", "observe, active"),
            (
                "--concurrent-endpoint-syncs=0",
                "--concurrent-endpoint-syncs",
                "from 1 to 256",
            ),
            (
                "--endpoint-updates-batch-period=soon",
                "--endpoint-updates-batch-period",
                "soon",
            ),
            (
                "--controllers=endpoint-controller",
                "--controllers",
                "endpoints-controller",
            ),
            ("--admin-address=localhost", "--admin-address", "localhost"),
            ("--debug-address=0.0.0.0:9809", "--debug-address", "127.0.0.1:9809"),
            (
                "--max-endpoints-per-slice=1001",
                "--max-endpoints-per-slice",
                "from 1 to 1000",
            ),
            (
                "--service-node-port-range=32767-30000",
                "--service-node-port-range",
                "30000-32767",
            ),
            (
                "--service-cluster-ip-range=10.96.0.0",
                "--service-cluster-ip-range",
                "10.96.0.0",
            ),
            (
                "--leader-elect-renew-deadline=20s",
                "--leader-elect-renew-deadline",
                "--leader-elect-lease-duration",
            ),
            ("--load-balancer-class=a b", "--load-balancer-class", "svcplane.io/lb"),
            (
                "--load-balancer-annotations=metal",
                "--load-balancer-annotations",
                "metallb",
            ),
            ("--webhook-peers=a,b", "--webhook-peers", "--webhook-self"),
            ("--webhook-service=svcplane", "--webhook-service", "NAMESPACE/NAME"),
            ("--canary=svcplane", "--canary", "NAMESPACE/NAME"),
            ("--canary-interval=0s", "--canary-interval", "at least 1s"),
            ("--webhook-address=127.0.0.1:9443", "--webhook-tls-cert-file", ""),
            ("--webhook-tls-cert-file=x", "--webhook-tls-private-key-file", ""),
            ("--webhook-tls-secret=tls", "--webhook-tls-secret", "NAMESPACE/NAME"),
            ("--allocate=some", "--allocate", "pooled"),
            ("--early-validation=no", "--early-validation", "warn"),
            ("--external-ips=192.0.2.1", "--external-ips", "203.0.113.0/24"),
            (
                "--concurrent-endpoint-syncs=x",
                "--concurrent-endpoint-syncs",
                "from 1 to 256",
            ),
            (
                "--mirroring-max-endpoints-per-subset=-1",
                "--mirroring-max-endpoints-per-subset",
                "from 1 to 1000",
            ),
            ("--min-resync-period=-5s", "--min-resync-period", "negative"),
            ("--repair-period=0", "--repair-period", "1s or longer"),
            (
                "--acknowledge-builtins-disabled=yes",
                "--acknowledge-builtins-disabled",
                "true, false",
            ),
            ("--controllers=", "--controllers", "endpointslice-mirroring-controller"),
            (
                "--controllers=-endpoints-controller",
                "--controllers",
                "leaves none to run; there are: endpoints-controller, endpointslice-controller",
            ),
            ("--frobnicate", "--frobnicate", ""),
        ];
        for (argument, flag, right) in table {
            let split: Vec<&str> = argument.splitn(2, '=').collect();
            for arguments in [&[argument][..], split.as_slice()] {
                let error = run(arguments).expect_err(argument);
                assert!(error.contains(flag) && error.contains(right), "{arguments:?}: {error}");
                assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
            }
        }
    }
}
