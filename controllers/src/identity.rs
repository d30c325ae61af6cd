//! Under whose name EndpointSlices are kept.

use clap::ValueEnum;

use crate::args::Controllers;
use crate::controller::Controller;
use crate::model::Manager;

/// `--identity`: the value of the label `endpointslice.kubernetes.io/managed-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Identity {
    /// Those of kube-controller-manager's controllers: in their place, on the same objects.
    DropIn,
    /// svcplane.io: beside them, on objects of its own, which consumers read as well.
    Own,
}

impl Identity {
    /// Whose slices those of Services with a selector are.
    pub fn manager(self) -> Manager {
        match self {
            Self::DropIn => Manager::Selector,
            Self::Own => Manager::Own,
        }
    }

    /// Checks what clap cannot check alone. The error names the flag and what would be right.
    pub fn check(self, controllers: &Controllers, canary: bool) -> Result<(), String> {
        if self == Self::DropIn {
            return Ok(());
        }
        if controllers.of_endpoints() != [Controller::Slices] {
            return Err(
                "--identity=own keeps EndpointSlices and nothing else, because a Service has one Endpoints object and one set of mirrors: run it with \
                 --controllers=*,-endpoints-controller,-endpointslice-mirroring-controller"
                    .to_owned(),
            );
        }
        if canary {
            return Err(
                "--identity=own fights with nobody, so there is nothing for --canary to show: leave it out".to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_slices_are_all_that_can_be_kept_beside_others() {
        let table = [
            (Identity::DropIn, "*", true, None),
            (Identity::Own, "endpointslice-controller", false, None),
            (
                Identity::Own,
                "*,-endpoints-controller,-endpointslice-mirroring-controller",
                false,
                None,
            ),
            (Identity::Own, "*", false, Some("--controllers=")),
            (Identity::Own, "repair-controller", false, Some("--controllers=")),
            (Identity::Own, "endpointslice-controller", true, Some("--canary")),
        ];
        for (identity, controllers, canary, why) in table {
            let checked = identity.check(&controllers.parse().unwrap(), canary);
            match why {
                Some(why) => assert!(checked.unwrap_err().contains(why), "{controllers}"),
                None => checked.unwrap(),
            }
        }
    }
}
