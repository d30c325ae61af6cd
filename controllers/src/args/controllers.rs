//! `--controllers`.

use std::str::FromStr;

/// Every controller of this version, by the name that kube-controller-manager uses.
pub const KNOWN: &[&str] = &[crate::endpoints::CONTROLLER];

/// Which controllers run, by kube-controller-manager's rule: what is named is on, what is named with `-` is off, and `*` decides the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(Vec<String>);

impl Controllers {
    /// Is this one to run?
    pub fn runs(&self, name: &str) -> bool {
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
        for word in &words {
            let name = word.strip_prefix('-').unwrap_or(word);
            if word != "*" && !KNOWN.contains(&name) {
                return Err(format!(
                    "{word:?} is no controller of this version; there is: {}",
                    KNOWN.join(", ")
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
            assert_eq!(controllers.runs("endpoints-controller"), want, "{text}");
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
