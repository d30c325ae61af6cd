//! Which values of a range are free, who holds the others, and which one is given next. Pure: time, randomness and the replicas at work
//! are arguments; nothing here waits, writes or reads a clock.
//!
//! ```text
//! value ─► interval ─► range ─► slots     what there is, and where the next free one is
//!                        └──────┬─────────┘
//! service, pools ──────────► books        who holds what, and who gets what
//! ```
//!
//! * [`address`]: the text of addresses and CIDRs, in the one form that is stored.
//! * [`balancers`]: LoadBalancer addresses.
//! * [`books`]: every value of the ranges with its state, and the choice of the next one at admission.
//! * [`cluster_ips`]: the books of both IP families.
//! * [`few`]: sets that nearly always have one value.
//! * [`freshness`]: whether what a watch has told is recent enough to choose by.
//! * [`interval`]: sets of values as intervals.
//! * [`node_ports`]: `--service-node-port-range`, and what each port of a Service needs.
//! * [`pools`]: the specs of ClusterIPPools and NodePortPools.
//! * [`quoted`]: users' texts in messages.
//! * [`range`](mod@range): the values of a ServiceCIDR or of the nodePort range that can be given, and their bands.
//! * [`service`]: who asks for a value and who holds one.
//! * [`slots`]: the places `0..n` of a range as a set of used ones, and the next free one in a few steps at any fill.
//! * [`value`]: what a range is made of: addresses of either family, nodePorts.

pub mod address;
pub mod balancers;
pub mod books;
pub mod cluster_ips;
pub mod few;
pub mod freshness;
pub mod interval;
pub mod node_ports;
pub mod pools;
pub mod quoted;
pub mod range;
pub mod service;
pub mod slots;
pub mod value;
