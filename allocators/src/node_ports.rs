//! nodePorts: the range that the apiserver was started with, and what each port of a Service needs.

mod needs;
mod port_range;

pub use self::needs::{Need, NodePorts, Protocol, ServicePort, needs_on_create, needs_on_update};
pub use self::port_range::{PortRange, PortRangeError};
