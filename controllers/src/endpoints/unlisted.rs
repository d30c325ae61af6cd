//! Why a Pod that a Service's selector matches is not listed.

use std::net::IpAddr;

/// The first reason that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// Its phase is `Succeeded` or `Failed`.
    Finished,
    /// It is being deleted. Endpoints leave it out, slices do not.
    Terminating,
    /// It is not bound to a Node.
    NoNode,
    /// There is no Node of the name that it is bound to. Slices leave it out, Endpoints do not.
    UnknownNode,
    /// It has no address, or none of the family.
    NoAddress,
    /// The apiserver refuses this address of its in endpoints.
    Refused(IpAddr),
    /// It resolves none of the Service's ports. Endpoints leave it out, slices do not.
    NoPort,
    /// The Service has no ports and is not headless: its Endpoints list nobody.
    NoServicePorts,
}
