//! Metrics in the Prometheus text format.

use std::collections::BTreeMap;

/// One page of metrics.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    samples: Vec<Sample>,
}

/// One line of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric's name, with `_bucket`, `_sum` or `_count` for the parts of a histogram.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

impl Metrics {
    /// Parses a page. Lines that are no samples (comments, or broken) are left out.
    pub fn parse(text: &str) -> Self {
        Self {
            samples: text.lines().filter_map(parse_sample).collect(),
        }
    }

    /// All samples, in the order of the page.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The samples of this name that carry all these labels (and perhaps more).
    pub fn matching(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| {
            sample.name == name
                && labels
                    .iter()
                    .all(|(key, value)| sample.labels.get(*key).is_some_and(|have| have == value))
        })
    }

    /// The value of the only such sample; none if there is none or more than one.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut found = self.matching(name, labels);
        let first = found.next()?;
        found.next().is_none().then_some(first.value)
    }

    /// The sum over such samples; 0 if there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).map(|sample| sample.value).sum()
    }

    /// The names on the page, each once, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.samples.iter().map(|sample| sample.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn parse_sample(line: &str) -> Option<Sample> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let name = line[..end].to_string();
    let mut labels = BTreeMap::new();
    let mut rest = &line[end..];
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            inside = inside.trim_start_matches([',', ' ']);
            if let Some(after) = inside.strip_prefix('}') {
                rest = after;
                break;
            }
            let (key, after) = inside.split_once("=\"")?;
            let (value, after) = unquote(after)?;
            labels.insert(key.to_string(), value);
            inside = after;
        }
    }
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// Up to the closing quote, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    #[test]
    fn a_page_is_read() {
        let page = Metrics::parse(
            "# HELP a x\n# TYPE a counter\na 1\nb{x=\"1\",y=\"q\\\"}, \\\\\"} 2.5\nb{x=\"2\"} +Inf 17\nb{x=\"1\"} 4\nbroken{x=\"\n",
        );
        assert_eq!(page.get("a", &[]), Some(1.0));
        assert_eq!(page.get("b", &[("y", "q\"}, \\")]), Some(2.5));
        assert_eq!(page.get("b", &[("x", "2")]), Some(f64::INFINITY));
        assert_eq!(page.get("b", &[("x", "1")]), None, "two samples match");
        assert!((page.sum("b", &[("x", "1")]) - 6.5).abs() < 1e-9);
        assert!(page.sum("c", &[]).abs() < 1e-9);
        assert_eq!(page.names(), ["a", "b"]);
    }
}
