//! Faults of the reference that were measured on it (kube-controller-manager 1.37.2), by the same steps beside each of the two: what the
//! reference makes of them is recorded, what svcplane makes of them is asserted. docs/differences.md has a line for each.
//!
//! | steps | the reference | svcplane |
//! | --- | --- | --- |
//! | a slice is claimed for another Service or manager, or held by a finalizer | writes no slice of that Service any more | goes on at once |
//! | a Pod has an address and no Node | its Endpoints freeze | both go on; the Pod is published if not ready addresses are |
//! | a Pod is on a Node that is not there | each sync fails, with an Event | no failure; listed when the Node comes |
//! | mirrored Endpoints of both families change | creates a name that exists, is refused, tries again | two writes, none refused |
//! | hand-made Endpoints with one port name twice | the mirror is refused again and again | the valid subsets are mirrored, an Event names the port |
//! | a Service carries labels of the controllers' own, and the process restarts | Endpoints are written | nothing is |
//! | a slice is deleted that the process has not written | it stays away | it is put back |

mod rows {
    mod mirroring;
    mod pods;
    mod restart;
    mod side;
    mod tracker;
}
