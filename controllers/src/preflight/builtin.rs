//! What the arguments of the control plane's Pods say: which endpoint controllers a kube-controller-manager runs, first of all.

use crate::controller::Controller;

/// What a flag of these arguments says, the last time it is given.
pub fn flag<'a>(arguments: impl IntoIterator<Item = &'a str>, name: &str) -> Option<String> {
    let mut words = arguments.into_iter().flat_map(str::split_whitespace);
    let mut last = None;
    while let Some(word) = words.next() {
        match word.strip_prefix(name) {
            Some("") => last = words.next(),
            Some(rest) => last = rest.strip_prefix('=').or(last),
            None => {}
        }
    }
    last.map(str::to_owned)
}

/// Upstream's older name, which it still takes.
fn alias(controller: Controller) -> Option<&'static str> {
    match controller {
        Controller::Endpoints => Some("endpoint"),
        Controller::Slices => Some("endpointslice"),
        Controller::Mirroring => Some("endpointslicemirroring"),
        Controller::Repair | Controller::LoadBalancers => None,
    }
}

fn is_name(name: &str, controller: Controller) -> bool {
    name == controller.as_str() || Some(name) == alias(controller)
}

/// Those of ours that run there. As upstream: the first mention decides, and `*` the rest.
pub fn running(flag: &str) -> Vec<Controller> {
    let words: Vec<&str> = flag.split(',').map(str::trim).collect();
    let runs = |controller: &Controller| {
        let mention = words.iter().find_map(|word| match word.strip_prefix('-') {
            Some(name) if is_name(name, *controller) => Some(false),
            None if is_name(word, *controller) => Some(true),
            _ => None,
        });
        mention.unwrap_or_else(|| words.contains(&"*"))
    };
    Controller::OF_ENDPOINTS.into_iter().filter(runs).collect()
}

/// The same flag without ours. What else it names stays: the flag replaces a distribution's own list (kubeadm's `bootstrapsigner` and
/// `tokencleaner`, without which Nodes cannot join).
pub fn without(flag: &str) -> String {
    let ours = |word: &&str| {
        let name = word.strip_prefix('-').unwrap_or(word);
        Controller::OF_ENDPOINTS
            .iter()
            .any(|controller| is_name(name, *controller))
    };
    let others = flag
        .split(',')
        .map(str::trim)
        .filter(|word| !ours(word) && !word.is_empty());
    let off = Controller::OF_ENDPOINTS.map(|controller| format!("-{}", controller.as_str()));
    others.map(str::to_owned).chain(off).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_found_however_it_is_written() {
        let table: [(&[&str], Option<&str>); 7] = [
            (&["kube-controller-manager", "--v=2"], None),
            (
                &["kube-controller-manager", "--controllers=*,-endpoint"],
                Some("*,-endpoint"),
            ),
            (&["--controllers", "*,tokencleaner"], Some("*,tokencleaner")),
            (&["--controllers=*", "--controllers=a,b"], Some("a,b")),
            (&["--controllers=a", "--controllers-extra=b"], Some("a")),
            (&["--controllers"], None),
            (
                &["sh", "-c", "exec kube-controller-manager --controllers=*,-x 2>&1"],
                Some("*,-x"),
            ),
        ];
        for (arguments, want) in table {
            assert_eq!(
                flag(arguments.iter().copied(), "--controllers").as_deref(),
                want,
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn what_runs_there_and_how_to_switch_it_off() {
        let all = &Controller::OF_ENDPOINTS[..];
        let off = "-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller";
        let table = [
            ("*", all, format!("*,{off}")),
            (
                "*,bootstrapsigner,tokencleaner",
                all,
                format!("*,bootstrapsigner,tokencleaner,{off}"),
            ),
            ("*,-endpoint", &all[1..], format!("*,{off}")),
            (
                "*,-endpoints-controller,endpoints-controller",
                &all[1..],
                format!("*,{off}"),
            ),
            (
                "endpointslice-controller,deployment",
                &all[1..2],
                format!("deployment,{off}"),
            ),
            ("deployment", &[], format!("deployment,{off}")),
            (&format!("*,{off}"), &[], format!("*,{off}")),
        ];
        for (flag, want, there) in table {
            assert_eq!(running(flag), want, "{flag}");
            assert_eq!(without(flag), there, "{flag}");
            assert_eq!(running(&there), [], "{flag}");
        }
    }
}
