//! The report for people.

use std::fmt::Write as _;

use super::replicas::Answer;
use super::report::{Filled, FilledPool, Report};
use super::who::Who;
use crate::explain::Style;

/// Length of a bar.
const BAR: u64 = 20;

/// Ranges and pools.
pub fn report(report: &Report, style: Style) -> String {
    let width = report
        .ranges
        .iter()
        .chain(report.pools.iter().map(|pool| &pool.filled))
        .map(|filled| filled.name.chars().count())
        .max()
        .unwrap_or_default();
    let mut out = String::from("Ranges\n");
    for range in &report.ranges {
        let note = if range.ready {
            ""
        } else {
            "  not ready: nothing new from it"
        };
        line(&mut out, range, width, style, note);
    }
    for kind in ["ClusterIPPool", "NodePortPool", "LoadBalancerPool"] {
        let _ = writeln!(out, "\n{kind}s");
        let pools = report.pools.iter().filter(|pool| pool.kind == kind);
        let mut none = true;
        for pool in pools {
            none = false;
            line(&mut out, &pool.filled, width, style, &notes(pool));
        }
        if none {
            out.push_str("  none\n");
        }
    }
    if let Some(replicas) = &report.replicas {
        out.push_str("\nIn memory, of each replica\n");
        for replica in replicas {
            let _ = writeln!(out, "  {}  {}", replica.address, in_memory(&replica.answer));
        }
        if replicas.is_empty() {
            out.push_str("  no replica serves the webhook\n");
        }
    }
    out
}

/// What is in the memory of one replica.
fn in_memory(answer: &Answer) -> String {
    let memory = match answer {
        Answer::Memory(memory) => memory,
        Answer::Error(error) => return format!("did not answer: {error}"),
    };
    let parts = memory.iter().filter(|kept| kept.pending + kept.quarantined > 0);
    let parts: Vec<String> = parts
        .map(|kept| {
            let what = match &kept.values {
                Some(values) => format!("pool {} ({values})", kept.name),
                None => kept.name.clone(),
            };
            format!("{what}: {} pending, {} quarantined", kept.pending, kept.quarantined)
        })
        .collect();
    if parts.is_empty() {
        "nothing pending or quarantined".to_owned()
    } else {
        parts.join("; ")
    }
}

fn line(out: &mut String, filled: &Filled, width: usize, style: Style, note: &str) {
    let Filled {
        name,
        values,
        total,
        used,
        reserved,
        free,
        ..
    } = filled;
    let reserved = if *reserved == 0 {
        String::new()
    } else {
        format!(", {reserved} reserved")
    };
    let bar = bar(*total, *used, filled.reserved, style);
    let _ = writeln!(
        out,
        "  {name:width$}  {values:8}  {bar}  {used} of {total} used{reserved}, {free} free{note}"
    );
}

/// Used, reserved, free. Any use at all is a mark, and it is full only if nothing is free.
fn bar(total: u64, used: u64, reserved: u64, style: Style) -> String {
    let marks = |count: u64| {
        let exact = u128::from(count) * u128::from(BAR) / u128::from(total.max(1));
        let marks = u64::try_from(exact).unwrap_or(BAR).max(u64::from(count > 0));
        marks.min(BAR)
    };
    let mut taken = marks(used.saturating_add(reserved));
    if used.saturating_add(reserved) < total {
        taken = taken.min(BAR - 1);
    }
    let used = marks(used).min(taken);
    let (full, kept, empty) = match style {
        Style::Plain => ("#", "+", "."),
        Style::Terminal => ("█", "▒", "░"),
    };
    let repeat = |mark: &str, count: u64| mark.repeat(usize::try_from(count).unwrap_or_default());
    format!(
        "[{}{}{}]",
        repeat(full, used),
        repeat(kept, taken - used),
        repeat(empty, BAR - taken)
    )
}

fn notes(pool: &FilledPool) -> String {
    let mut notes = Vec::new();
    if pool.mode != "Active" {
        notes.push(pool.mode.to_owned());
    }
    if pool.enforce {
        notes.push("enforced".to_owned());
    }
    if let Some(outside) = &pool.outside {
        notes.push(format!("{outside} lies in no range that is ready"));
    }
    if !pool.overlaps.is_empty() {
        notes.push(format!("overlaps {}", pool.overlaps.join(", ")));
    }
    if notes.is_empty() {
        String::new()
    } else {
        format!("  ({})", notes.join("; "))
    }
}

/// One value.
pub fn who(who: &Who) -> String {
    let mut out = match (who.state, who.services.as_slice()) {
        ("withheld", _) => {
            let what = who.withheld.as_deref().unwrap_or_default();
            format!("{} is {what}: no Service is given it", who.value)
        }
        ("outside", _) => format!("{} lies in no range of this cluster", who.value),
        (_, [only]) => format!("{} is used by Service {only}", who.value),
        ("used", []) => format!("{} is used: it has an IPAddress", who.value),
        (state, []) => format!("{} is {state}", who.value),
        (_, all) => format!(
            "{} is used by {} Services: {}; the first is the oldest",
            who.value,
            all.len(),
            all.join(", ")
        ),
    };
    let named = who.services.first();
    let other = who.ip_address_of.as_ref().filter(|it| Some(*it) != named);
    for (words, value) in [
        ("its IPAddress names Service", other),
        ("reserved for Service", who.reserved_for.as_ref()),
        ("of pool", who.pool.as_ref()),
    ] {
        if let Some(value) = value {
            let _ = write!(out, "; {words} {value}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_any_use_and_any_room() {
        let bar = |total, used, reserved| bar(total, used, reserved, Style::Plain);
        assert_eq!(bar(65_534, 0, 0), "[....................]");
        assert_eq!(bar(65_534, 1, 0), "[#...................]");
        assert_eq!(bar(65_534, 65_533, 0), "[###################.]");
        assert_eq!(bar(4, 4, 0), "[####################]");
        assert_eq!(bar(4, 1, 1), "[#####+++++..........]");
        assert_eq!(bar(0, 0, 0), "[....................]");
        assert_eq!(bar(u64::MAX, u64::MAX, 0), "[####################]");
    }

    #[test]
    fn an_owner_is_named_with_what_else_is_known() {
        let known = |state, services: &[&str]| Who {
            value: "10.96.0.7".into(),
            state,
            withheld: None,
            services: services.iter().map(ToString::to_string).collect(),
            ip_address_of: services.first().map(ToString::to_string),
            reserved_for: None,
            pool: Some("front".into()),
        };
        assert_eq!(
            who(&known("used", &["shop/web"])),
            "10.96.0.7 is used by Service shop/web; of pool front"
        );
        assert_eq!(who(&known("free", &[])), "10.96.0.7 is free; of pool front");
        assert!(who(&known("used", &["a/a", "b/b"])).contains("2 Services: a/a, b/b"));
    }
}
