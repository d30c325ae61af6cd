//! The rows of all runs as one table: ours, the peer's, their ratio, and whether the target is met.

use super::controllers::Controllers;
use super::record::Row;
use super::side::Side;
use super::targets::{self, Line, Target};

/// The median of a figure over the runs of one side, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    median: f64,
    least: f64,
    most: f64,
}

/// Markdown. Figures without runs are left out.
pub fn render(rows: &[Row], controllers: Controllers) -> String {
    let mut text = roof(rows);
    text += "| workload | figure | svcplane | kube-controller-manager | ratio | target | met | others |\n";
    text += "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for line in targets::lines(controllers) {
        text += &render_line(rows, line).unwrap_or_default();
    }
    text
}

fn roof(rows: &[Row]) -> String {
    let Some(row) = rows.iter().find(|row| row.workload == "calibration") else {
        return String::new();
    };
    let of = |name| row.get(name).unwrap_or_default();
    format!(
        "Roof without any controller, 32 writers: {:.0} PUTs/s of Endpoints with 10 addresses, {:.0} creates/s of Services.\n\n",
        of("endpoints_puts_per_s"),
        of("service_creates_per_s")
    )
}

fn render_line(rows: &[Row], line: &Line) -> Option<String> {
    let runs = rows
        .iter()
        .filter(|row| row.workload == line.workload && row.phase == line.phase);
    runs.clone().next()?;
    let crowd = runs.filter_map(|row| row.get("others")).fold(0.0, f64::max);
    let ours = figure(rows, line.workload, line, Side::Ours);
    let peer = figure(rows, line.workload, line, Side::Peer);
    let ratio = ours.zip(peer).map(|(ours, peer)| ours.median / peer.median);
    // Nothing on either side.
    let ratio = ratio.filter(|ratio| !ratio.is_nan());
    let (compared, bound, target) = match line.target {
        Target::OfPeer(most) => (ratio, most, format!("<= {most} of the peer")),
        Target::OfOwn(workload, most) => {
            let own = figure(rows, workload, line, Side::Ours);
            let compared = ours.zip(own).map(|(ours, own)| ours.median / own.median);
            let is = compared.map(|it| format!(", is {it:.2}")).unwrap_or_default();
            (compared, most, format!("<= {most} of {workload}{is}"))
        }
        Target::AtMost(most) => (ours.map(|ours| ours.median), most, format!("<= {most:.2}")),
        Target::None => (None, 0.0, String::new()),
    };
    let met = compared.map_or("", |it| if it <= bound { "yes" } else { "**no**" });
    Some(format!(
        "| {} {} | {} | {} | {} | {} | {target} | {met} | {:.0} % |\n",
        line.workload,
        line.phase,
        line.column,
        show(ours),
        show(peer),
        ratio.map(|it| format!("{it:.3}")).unwrap_or_default(),
        crowd * 100.0
    ))
}

fn figure(rows: &[Row], workload: &str, line: &Line, side: Side) -> Option<Figure> {
    let runs = rows
        .iter()
        .filter(|row| row.workload == workload && row.phase == line.phase && row.side == side.name());
    let mut values: Vec<f64> = runs.filter_map(|row| row.get(line.column)).collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    let middle = |shift| values[(values.len() - 1 + shift) / 2];
    Some(Figure {
        median: f64::midpoint(middle(0), middle(1)),
        least,
        most,
    })
}

fn show(figure: Option<Figure>) -> String {
    let Some(Figure { median, least, most }) = figure else {
        return String::new();
    };
    let number = |value: f64| {
        if value.abs() < 10.0 {
            format!("{value:.2}")
        } else {
            format!("{value:.0}")
        }
    };
    if most.total_cmp(&least).is_eq() {
        return number(median);
    }
    format!("{} ({} to {})", number(median), number(least), number(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workload: &str, side: Side, value: f64) -> Row {
        let mut row = Row {
            workload: workload.into(),
            phase: "flips".into(),
            side: side.name().into(),
            ..Row::default()
        };
        row.set("cpu_ms_per_flip", value);
        row.set("others", 0.25);
        row
    }

    #[test]
    fn a_target_is_met_or_not() {
        let runs = |own: f64| {
            [
                row("w4-250", Side::Ours, 1.0),
                row("w4-3000", Side::Ours, own - 0.25),
                row("w4-3000", Side::Peer, 80.0),
                row("w4-3000", Side::Peer, 120.0),
                row("w4-3000", Side::Ours, own + 0.25),
            ]
        };
        let lines = |own: f64| -> Vec<String> {
            let table = render(&runs(own), Controllers::Endpoints);
            let lines = table.lines().filter(|line| line.starts_with("| w4-3000 "));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(
            lines(1.25),
            [
                "| w4-3000 flips | cpu_ms_per_flip | 1.25 (1.00 to 1.50) | 100 (80 to 120) | 0.013 | <= 0.015 of the peer | yes | 25 % |",
                "| w4-3000 flips | cpu_ms_per_flip | 1.25 (1.00 to 1.50) | 100 (80 to 120) | 0.013 | <= 1.5 of w4-250, is 1.25 | yes | 25 % |",
                "| w4-3000 flips | apiserver_ms_per_flip |  |  |  |  |  | 25 % |",
                "| w4-3000 flips | puts_per_flip |  |  |  | <= 0.36 |  | 25 % |",
                "| w4-3000 flips | body_bytes |  |  |  |  |  | 25 % |",
                "| w4-3000 flips | p50_ms |  |  |  | <= 0.1 of the peer |  | 25 % |",
                "| w4-3000 flips | apiserver_put_ms |  |  |  |  |  | 25 % |",
                "| w4-3000 flips | later_than_900_ms |  |  |  | <= 0.00 |  | 25 % |",
            ]
        );
        let over = lines(2.0);
        assert!(
            over[0].contains("| 0.020 | <= 0.015 of the peer | **no** |"),
            "{over:?}"
        );
        assert!(over[1].contains("| <= 1.5 of w4-250, is 2.00 | **no** |"), "{over:?}");
    }
}
