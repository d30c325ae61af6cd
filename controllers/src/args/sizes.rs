//! How much goes into one slice.

use clap::Args;

/// See the module.
#[derive(Clone, Copy, Debug, Args)]
pub struct SizeArgs {
    /// Endpoints in one EndpointSlice
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_endpoints_per_slice: u16,

    /// Addresses mirrored of one subset
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub mirroring_max_endpoints_per_subset: u16,
}
