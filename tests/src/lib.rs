//! svcplane's test kit: a real control plane on loopback, objects, waiting, and svcplane itself as a process.
//!
//! ```text
//! tools ──► cluster ──► etcd, kube-apiserver, kube-controller-manager ─┐
//! svcplane ──────────► svcplane ───────────────────────────────────────┴─► process ──► reaper ──► child
//! namespace, objects, eventually, subsets, caught_up: what a test says to the apiserver and waits for
//! ```
//!
//! Nothing here outlives the process that uses it, however that process ends: see [`process`].

pub mod admission;
pub mod asked;
pub mod balanced;
pub mod balancer;
pub mod balancer_mutations;
pub mod bench;
pub mod binaries;
pub mod caught_up;
pub mod chart;
pub mod cluster;
pub mod cluster_ip;
pub mod demo;
pub mod differential;
pub mod drill;
pub mod eventually;
pub mod fetch;
pub mod governed;
pub mod installed;
pub mod kubelet;
pub mod lease;
pub mod load;
pub mod metallb;
pub mod metrics;
pub mod mutate;
pub mod namespace;
pub mod objects;
pub mod plant;
pub mod private_network;
pub mod process;
pub mod process_kubelet;
pub mod proxy;
pub mod ran;
pub mod rights;
pub mod slices;
pub mod subsets;
pub mod svcplane;
pub mod tools;
pub mod usage;
