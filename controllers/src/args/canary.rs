//! Flags of the canary.

use std::time::Duration;

use clap::Args;
use svcplane_runtime::args::duration;

use super::Controllers;
use super::explain::canary;
use crate::controller::Controller;
use crate::gate::Holds;
use crate::model::ObjectKey;

/// See the module.
#[derive(Debug, Args)]
#[command(next_help_heading = "Canary")]
pub struct CanaryArgs {
    /// A headless Service with the label svcplane.io/canary and a selector that matches nothing: active mode begins when no built-in
    /// controller has made anything for it, and ends when one does
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = canary)]
    pub canary: Option<ObjectKey>,

    /// How often the canary is asked while it passes
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, allow_hyphen_values = true)]
    pub canary_interval: Duration,
}

impl CanaryArgs {
    /// Checks what clap cannot check alone. The error names the flag and what would be right.
    pub fn check(&self, controllers: &Controllers) -> Result<(), String> {
        if self.canary_interval < Duration::from_secs(1) {
            return Err("--canary-interval must be at least 1s; the default is 5m".to_owned());
        }
        let shown = [Controller::Endpoints, Controller::Slices];
        if self.canary.is_some() && !shown.iter().any(|shown| controllers.runs(*shown)) {
            return Err(
                "--canary shows endpoints-controller and endpointslice-controller, and --controllers runs neither here: leave it out".to_owned(),
            );
        }
        Ok(())
    }

    /// What holds writes back until it has passed.
    pub fn holds(&self) -> Holds {
        Holds {
            canary: self.canary.is_some(),
            ..Holds::default()
        }
    }
}
