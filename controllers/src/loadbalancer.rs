//! Addresses of Services of type LoadBalancer: chosen from pools by [`svcplane_allocators::balancers`], and written into their status.
//!
//! ```text
//! Services, LoadBalancerPools, Namespaces ─watch─► desk ─► Balancers (pure) ──due──► queue ─► worker: patch of the status
//!                                                   ▲                                            │
//!                                                   └──────────── what is stored now ◄───────────┘
//! ```
//!
//! Every replica feeds its desk; only the leader decides and writes. A term begins with a fresh list, from which everything is imported before
//! the first decision. There is no other record than the status of the Services.

mod assignment;
mod condition;
mod contention;
mod controller;
mod desk;
mod metrics;
mod neighbours;
mod offline;
mod pool_status;
mod wire;

pub use self::condition::CONDITION;
pub use self::controller::{LoadBalancers, Settings};
pub use self::desk::{Desk, Scope};
pub use self::offline::{Choice, PoolVerdict, read};
pub use self::wire::{BalancedService, Seen, Shown};

/// `fieldManager` of our writes.
pub const FIELD_MANAGER: &str = "svcplane";
