//! Rows of figures, kept as CSV: one file per workload, one row per phase of a run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// One phase of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Which workload.
    pub workload: String,
    /// Which phase of it.
    pub phase: String,
    /// Whose run.
    pub side: String,
    /// Its place in the order of runs.
    pub turn: usize,
    /// Figures by the name of their column; one that was not measured is missing.
    pub figures: BTreeMap<String, f64>,
}

/// Columns before the figures.
const NAMES: [&str; 4] = ["workload", "phase", "side", "turn"];

impl Row {
    /// Adds a figure.
    pub fn set(&mut self, name: &str, value: f64) {
        self.figures.insert(name.into(), value);
    }

    /// A figure.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }
}

/// Writes rows to a file of their own.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, rows: &[Row]) -> Result<()> {
    let mut columns: Vec<&String> = rows.iter().flat_map(|row| row.figures.keys()).collect();
    columns.sort();
    columns.dedup();
    let mut text = NAMES.join(",");
    for column in &columns {
        text += &format!(",{column}");
    }
    text.push('\n');
    for row in rows {
        text += &format!("{},{},{},{}", row.workload, row.phase, row.side, row.turn);
        for column in &columns {
            text.push(',');
            if let Some(value) = row.get(column) {
                text += &number(value);
            }
        }
        text.push('\n');
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Four decimals at the most.
fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads the rows of all CSV files of a directory, by name of file.
///
/// # Errors
/// One is not what [`write()`] makes.
pub fn read_all(directory: &Path) -> Result<Vec<Row>> {
    let mut paths: Vec<_> = fs::read_dir(directory)
        .with_context(|| format!("reading {}", directory.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
        .collect();
    paths.sort();
    let mut rows = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        rows.extend(parse(&text).with_context(|| format!("reading {}", path.display()))?);
    }
    Ok(rows)
}

fn parse(text: &str) -> Result<Vec<Row>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    ensure!(header.starts_with(&NAMES), "the columns are {header:?}");
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            ensure!(cells.len() == header.len(), "a row of {} cells: {line}", cells.len());
            let mut row = Row {
                workload: cells[0].into(),
                phase: cells[1].into(),
                side: cells[2].into(),
                turn: cells[3].parse()?,
                figures: BTreeMap::new(),
            };
            for (name, cell) in header.iter().zip(&cells).skip(NAMES.len()) {
                if !cell.is_empty() {
                    row.set(name, cell.parse()?);
                }
            }
            Ok(row)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let row = |side: &str, figures: &[(&str, f64)]| Row {
            workload: "w1".into(),
            phase: "cold".into(),
            side: side.into(),
            turn: 2,
            figures: figures.iter().map(|(name, value)| ((*name).into(), *value)).collect(),
        };
        let rows = [row("a", &[("wall", 1.5), ("cpu", 0.0625)]), row("b", &[("wall", 20.0)])];
        write(&directory.path().join("w1.csv"), &rows).unwrap();
        assert_eq!(read_all(directory.path()).unwrap(), rows);
        fs::write(directory.path().join("w2.csv"), "workload,phase,side,turn,x\nw,p,s\n").unwrap();
        let error = read_all(directory.path()).unwrap_err();
        assert!(format!("{error:#}").contains("w2.csv"), "{error:#}");
    }
}
