//! Flags of the endpoint controllers, under kube-controller-manager's names.
//!
//! One pool of workers does all that is due for one Service at a time, so of flags that kube-controller-manager has for each controller apart the
//! greatest of those that run here counts.

use std::time::Duration;

use clap::Args;
use svcplane_runtime::args::{duration, whole_number};

use super::{Controllers, SizeArgs};
use crate::controller::Controller;

/// See the module.
#[derive(Debug, Args)]
pub struct TuningArgs {
    /// Services whose Endpoints are worked on at the same time; the greatest of the three flags for controllers that run counts for all of
    /// them
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole_number(1..=256), allow_negative_numbers = true)]
    pub concurrent_endpoint_syncs: u16,

    /// Services whose EndpointSlices are worked on at the same time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole_number(1..=256), allow_negative_numbers = true)]
    pub concurrent_service_endpoint_syncs: u16,

    /// Services whose Endpoints are mirrored at the same time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole_number(1..=256), allow_negative_numbers = true)]
    pub mirroring_concurrent_service_endpoint_syncs: u16,

    /// How long a change of a Pod may wait for others of the same Service, so that one write covers them; the longest of the three flags for
    /// controllers that run counts for all of them
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration, allow_hyphen_values = true)]
    pub endpoint_updates_batch_period: Duration,

    /// The same for EndpointSlices
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration, allow_hyphen_values = true)]
    pub endpointslice_updates_batch_period: Duration,

    /// The same for mirroring
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration, allow_hyphen_values = true)]
    pub mirroring_endpointslice_updates_batch_period: Duration,

    /// How much goes into one slice.
    #[command(flatten)]
    pub sizes: SizeArgs,
}

impl TuningArgs {
    /// How many Services are worked on at the same time.
    pub fn workers(&self, running: &Controllers) -> u16 {
        let of = |controller| match controller {
            Controller::Endpoints => self.concurrent_endpoint_syncs,
            Controller::Slices => self.concurrent_service_endpoint_syncs,
            Controller::Mirroring => self.mirroring_concurrent_service_endpoint_syncs,
            Controller::Repair | Controller::LoadBalancers => 1,
        };
        running.running().into_iter().map(of).max().unwrap_or(1)
    }

    /// How long a change of a Pod waits.
    pub fn batch_period(&self, running: &Controllers) -> Duration {
        let of = |controller| match controller {
            Controller::Endpoints => self.endpoint_updates_batch_period,
            Controller::Slices => self.endpointslice_updates_batch_period,
            Controller::Mirroring => self.mirroring_endpointslice_updates_batch_period,
            Controller::Repair | Controller::LoadBalancers => Duration::ZERO,
        };
        running.running().into_iter().map(of).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        tuning: TuningArgs,
    }

    #[test]
    fn the_greatest_of_those_that_run_counts() {
        let arguments = [
            "svcplane",
            "--concurrent-endpoint-syncs=7",
            "--concurrent-service-endpoint-syncs=9",
            "--mirroring-endpointslice-updates-batch-period=2s",
            "--endpoint-updates-batch-period=1s",
        ];
        let tuning = Cli::parse_from(arguments).tuning;
        let table = [
            ("*", 9, 2),
            ("endpoints-controller", 7, 1),
            ("endpointslice-mirroring-controller", 5, 2),
            ("*,-endpointslice-controller", 7, 2),
            ("endpointslice-controller", 9, 0),
            ("repair-controller", 1, 0),
        ];
        for (running, workers, seconds) in table {
            let running = running.parse().unwrap();
            assert_eq!(tuning.workers(&running), workers);
            assert_eq!(tuning.batch_period(&running), Duration::from_secs(seconds));
        }
    }
}
