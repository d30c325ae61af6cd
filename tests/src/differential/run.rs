//! A whole run: generate, apply, compare, keep the state; on a difference, tell, shrink and keep the stream.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::checkpoint::{self, Checkpoint};
use super::effects::Effects;
use super::generate::Generator;
use super::model::World;
use super::ops::{Key, Kind, Op, Window};
use super::pair::{Figures, Pair, Setup};
use super::report::{Difference, op_line};
use super::shrink::shrink;
use crate::binaries;

/// The pause between two lines about how far it is.
const PROGRESS: Duration = Duration::from_secs(20);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// At least so many operations: the last window is finished.
    pub ops: u64,
    /// Of the stream.
    pub seed: u64,
    /// Where the state is kept from window to window, and a stream that differs.
    pub state: Option<PathBuf>,
    /// What runs on the sides.
    pub setup: Setup,
    /// How long to look for a shorter stream.
    pub shrink: Duration,
}

/// A stream as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    /// What it is a part of.
    pub seed: Option<u64>,
    /// Its windows.
    pub windows: Vec<Window>,
}

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// All windows were equal. The text says what was compared.
    Same(String),
    /// One was not.
    Differs {
        /// The first difference.
        first: Box<Difference>,
        /// Everything about it.
        report: String,
        /// A short stream that still differs, if one was found.
        shrunken: Option<Vec<Window>>,
    },
}

/// Runs a stream, or goes on with it.
///
/// # Errors
/// The clusters fail the test.
pub async fn run(options: &Options) -> Result<Ended> {
    let place = options.state.as_deref();
    let _held = checkpoint::lock(place)?;
    let program = options.setup.ours.program.clone().map_or_else(binaries::svcplane, Ok)?;
    let how = format!("{:?}", options.setup);
    let mut state = Checkpoint::load(place, options.seed, &program, &how)?;
    if state.ops >= options.ops {
        return Ok(Ended::Same(summary(&state)));
    }
    let mut generator = Generator::new(options.seed);
    let mut history = state.history(&mut generator)?;
    let began = Instant::now();
    let seconds_before = state.seconds;
    let mut pair = Pair::start(&options.setup).await?;
    if state.windows > 0 {
        println!("going on after {} operations, {} windows", state.ops, state.windows);
        pair.tally = state.tally.clone();
        let refill = Window {
            number: state.windows - 1,
            kind: Kind::Burst,
            ops: generator.world().creation(),
        };
        let differences = pair.window(&refill).await?;
        if !differences.is_empty() {
            return explain(options, &mut pair, &[refill], &differences).await;
        }
    }
    state.sittings += 1;
    let figures_before = state.figures;
    let mut told = Instant::now();
    while state.ops < options.ops {
        let window = generator.window();
        let differences = pair.window(&window).await;
        let differences = differences.with_context(|| format!("seed {}, window {}", options.seed, window.number))?;
        history.push(window);
        if !differences.is_empty() {
            return explain(options, &mut pair, &history, &differences).await;
        }
        state.advance(history.last().context("the window just done")?)?;
        state.figures = sum(figures_before, pair.figures().await?);
        state.seconds = seconds_before + began.elapsed().as_secs();
        state.tally = pair.tally.clone();
        state.save(place)?;
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            println!(
                "{} of {} operations, {} windows, {} s",
                state.ops, options.ops, state.windows, state.seconds
            );
        }
    }
    Ok(Ended::Same(summary(&state)))
}

/// Applies a kept stream again.
///
/// # Errors
/// The file cannot be read, or the clusters fail the test.
pub async fn replay(file: &Path, options: &Options) -> Result<Ended> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let stream: Stream = serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
    let mut pair = Pair::start(&options.setup).await?;
    pair.restart_world().await?;
    for (at, window) in stream.windows.iter().enumerate() {
        let differences = pair.window(window).await?;
        if let Some(first) = differences.first() {
            return Ok(Ended::Differs {
                first: Box::new(first.clone()),
                report: report(stream.seed, &stream.windows[..=at], &differences),
                shrunken: None,
            });
        }
    }
    Ok(Ended::Same(format!(
        "{} windows, no difference\n{}",
        stream.windows.len(),
        pair.tally.table()
    )))
}

/// Writes add up over the sittings; slices are counted as they are now.
fn sum(before: Figures, now: Figures) -> Figures {
    let [ours, theirs] = before.map(|[endpoints, slices, _]| [endpoints, slices]);
    let add = |[a, b]: [u64; 2], [c, d, count]: [u64; 3]| [a + c, b + d, count];
    let [ours_now, theirs_now] = now;
    [add(ours, ours_now), add(theirs, theirs_now)]
}

fn summary(state: &Checkpoint) -> String {
    let [ours, theirs] = state.figures;
    let mut text = format!(
        "seed {}: {} operations in {} windows, {} s, {} sittings: 0 differences\n",
        state.seed, state.ops, state.windows, state.seconds, state.sittings,
    );
    let what = [
        "writes of Endpoints",
        "writes of EndpointSlices",
        "EndpointSlices at the end",
    ];
    for ((what, ours), theirs) in what.iter().zip(ours).zip(theirs) {
        text += &format!("{what}: svcplane {ours}, kube-controller-manager {theirs}\n");
    }
    text + &state.tally.table()
}

async fn explain(options: &Options, pair: &mut Pair, history: &[Window], differences: &[Difference]) -> Result<Ended> {
    let first = differences.first().context("a difference")?.clone();
    let mut report = report(Some(options.seed), history, differences);
    report += &pair.aftermath(&first).await?;
    println!("{report}");
    println!("looking for a shorter stream, {} s at most", options.shrink.as_secs());
    // What was found stands, whatever becomes of the search.
    let shrunken = shrink(pair, history, &first, options.shrink)
        .await
        .unwrap_or_else(|error| {
            println!("the search failed: {error:#}");
            None
        });
    let directory = options
        .state
        .clone()
        .map_or_else(|| crate::cluster::run_directory("differential"), Ok)?;
    fs::create_dir_all(&directory)?;
    let (windows, what) = match &shrunken {
        Some(windows) => (windows.as_slice(), "a shorter stream that still differs"),
        None => (history, "the whole stream; it did not differ again in the time given"),
    };
    let file = directory.join(format!("differs-seed-{}-window-{}.json", options.seed, first.window));
    let stream = Stream {
        seed: Some(options.seed),
        windows: windows.to_vec(),
    };
    fs::write(&file, serde_json::to_vec(&stream)?)?;
    report += &format!("{what}, to be applied again with --replay {}\n", file.display());
    for window in shrunken.iter().flatten() {
        report += &format!("  {:?}\n", window.kind);
        for op in &window.ops {
            report += &format!("    {}\n", op_line(op));
        }
    }
    Ok(Ended::Differs {
        first: Box::new(first),
        report,
        shrunken,
    })
}

/// The differences of one window, with the last operations on each Service.
fn report(seed: Option<u64>, history: &[Window], differences: &[Difference]) -> String {
    const SHOWN: usize = 5;
    let seed = seed.map_or_else(|| "unknown".into(), |seed| seed.to_string());
    let mut text = format!("seed {seed}: {} differences\n", differences.len());
    for difference in differences.iter().take(SHOWN) {
        let ops = difference
            .key
            .as_ref()
            .map_or_else(Vec::new, |key| ops_on(history, key));
        text += &difference.text(&ops);
    }
    text
}

fn ops_on(history: &[Window], key: &Key) -> Vec<(u64, Op)> {
    let mut world = World::default();
    let mut found = Vec::new();
    for window in history {
        let effects = Effects::of(&mut world, window);
        let positions = effects.ops_on.get(key).cloned().unwrap_or_default();
        found.extend(
            positions
                .into_iter()
                .filter_map(|at| Some((window.number, window.ops.get(at)?.clone()))),
        );
    }
    found
}
