//! How much goes into one slice.

use clap::Args;
use svcplane_runtime::args::whole_number;

use crate::explain::Limits;

/// See the module.
#[derive(Clone, Copy, Debug, Args)]
pub struct SizeArgs {
    /// Endpoints in one EndpointSlice
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole_number(1..=1000), allow_negative_numbers = true)]
    pub max_endpoints_per_slice: u16,

    /// Addresses mirrored of one subset
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole_number(1..=1000), allow_negative_numbers = true)]
    pub mirroring_max_endpoints_per_subset: u16,
}

impl SizeArgs {
    /// For the pure part.
    pub fn limits(&self) -> Limits {
        Limits {
            max_endpoints_per_slice: self.max_endpoints_per_slice.into(),
            mirroring_max_endpoints_per_subset: self.mirroring_max_endpoints_per_subset.into(),
        }
    }
}
