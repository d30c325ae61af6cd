//! `--controllers`.

use std::str::FromStr;

use crate::controller::Controller;

/// Which controllers run, by kube-controller-manager's rule: what is named is on, what is named with `-` is off, and `*` decides the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(Vec<String>);

impl Controllers {
    /// Those that are to run.
    pub fn running(&self) -> Vec<Controller> {
        Controller::ALL.into_iter().filter(|known| self.runs(*known)).collect()
    }

    /// Is this one to run?
    pub fn runs(&self, controller: Controller) -> bool {
        let name = controller.as_str();
        let mut all = false;
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
}

impl FromStr for Controllers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<String> = text.split(',').map(|word| word.trim().to_owned()).collect();
        let known = Controller::ALL.map(Controller::as_str);
        for word in &words {
            let name = word.strip_prefix('-').unwrap_or(word);
            if word != "*" && !known.contains(&name) {
                return Err(format!(
                    "{word:?} is no controller of this version; there is: {}",
                    known.join(", ")
                ));
            }
        }
        Ok(Self(words))
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
            ("-endpoints-controller", false),
            ("*,-endpoints-controller", false),
            ("endpoints-controller,-endpoints-controller", true),
        ];
        for (text, want) in table {
            let controllers: Controllers = text.parse().unwrap();
            assert_eq!(controllers.runs(Controller::Endpoints), want, "{text}");
        }
        assert!("".parse::<Controllers>().is_err());
        assert!(
            "*,-nodes"
                .parse::<Controllers>()
                .unwrap_err()
                .contains("endpoints-controller")
        );
    }
}
