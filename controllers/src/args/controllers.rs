//! `--controllers`.

use std::str::FromStr;

use crate::controller::Controller;

/// Which controllers run, by kube-controller-manager's rule: what is named is on, what is named with `-` is off, and `*` decides the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(Vec<String>);

impl Controllers {
    /// Those that run.
    pub fn running(&self) -> Vec<Controller> {
        Controller::ALL.into_iter().filter(|known| self.runs(*known)).collect()
    }

    /// Of these, the ones that keep endpoints: kube-controller-manager has them too, and `--mode` governs them.
    pub fn of_endpoints(&self) -> Vec<Controller> {
        let mut running = self.running();
        running.retain(|known| known.is_of_endpoints());
        running
    }

    /// Is this one to run?
    pub fn runs(&self, controller: Controller) -> bool {
        let (name, mut all) = (controller.as_str(), false);
        for word in &self.0 {
            match word.as_str() {
                "*" => all = true,
                word if word == name => return true,
                word if word.strip_prefix('-') == Some(name) => return false,
                _ => {}
            }
        }
        all
    }

    /// What kube-controller-manager's `--controllers` has to be while these run here.
    pub fn without(&self) -> String {
        let off = self.of_endpoints().into_iter().map(|it| format!(",-{}", it.as_str()));
        format!("*{}", off.collect::<String>())
    }
}

impl FromStr for Controllers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<String> = text.split(',').map(|word| word.trim().to_owned()).collect();
        let known = Controller::ALL.map(Controller::as_str);
        let there_are = || format!("there are: {}", known.join(", "));
        for word in &words {
            let name = word.strip_prefix('-').unwrap_or(word);
            if word != "*" && !known.contains(&name) {
                return Err(format!("{word:?} is no controller of this version; {}", there_are()));
            }
        }
        let controllers = Self(words);
        if controllers.running().is_empty() {
            return Err(format!("leaves none to run; {}", there_are()));
        }
        Ok(controllers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mention_decides_and_the_star_decides_the_rest() {
        let table = [
            ("*", true),
            ("endpoints-controller", true),
            ("endpointslice-controller", false),
            ("*,-endpoints-controller", false),
            ("endpoints-controller,-endpoints-controller", true),
        ];
        for (text, want) in table {
            let controllers: Controllers = text.parse().unwrap();
            assert_eq!(controllers.runs(Controller::Endpoints), want, "{text}");
        }
    }

    #[test]
    fn what_names_no_controller_is_refused_with_the_names_there_are() {
        let table = [
            ("", "\"\" is no controller"),
            ("*,-nodes", "\"-nodes\" is no controller"),
            ("-endpoints-controller", "leaves none to run"),
            (
                "*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller,-repair-controller,-loadbalancer-controller",
                "leaves none to run",
            ),
        ];
        for (text, why) in table {
            let error = text.parse::<Controllers>().unwrap_err();
            let names = "endpoints-controller, endpointslice-controller, endpointslice-mirroring-controller, repair-controller, loadbalancer-controller";
            assert!(error.starts_with(why) && error.ends_with(names), "{text}: {error}");
        }
    }

    #[test]
    fn kube_controller_manager_is_to_leave_out_what_runs_here() {
        let table = [
            (
                "*",
                "*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller",
            ),
            ("endpointslice-controller", "*,-endpointslice-controller"),
            ("loadbalancer-controller", "*"),
            ("repair-controller", "*"),
            (
                "*,-endpointslice-controller",
                "*,-endpoints-controller,-endpointslice-mirroring-controller",
            ),
        ];
        for (here, there) in table {
            assert_eq!(here.parse::<Controllers>().unwrap().without(), there);
        }
    }
}
