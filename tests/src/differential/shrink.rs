//! From a stream that differs to a short one that still does.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use super::effects::Effects;
use super::model::World;
use super::ops::{Kind, Op, Window};
use super::pair::Pair;
use super::report::Difference;

/// Which operation, and of which window.
type Item = (usize, Op);

/// Tries shorter streams in fresh namespaces until nothing more can be left out or the time is over. `None`: the
/// difference did not come again.
///
/// # Errors
/// The clusters fail the test.
pub async fn shrink(
    pair: &mut Pair,
    history: &[Window],
    found: &Difference,
    time: Duration,
) -> Result<Option<Vec<Window>>> {
    let end = Instant::now() + time;
    let kinds: Vec<Kind> = history.iter().map(|window| window.kind).collect();
    let mut smallest = None;
    for items in beginnings(history, found) {
        if Instant::now() >= end {
            break;
        }
        if differs(pair, &windows(&items, &kinds), found).await? {
            smallest = Some(items);
            break;
        }
    }
    let Some(items) = smallest else { return Ok(None) };
    let test = async |items: &[Item]| {
        if Instant::now() >= end {
            return Ok(false);
        }
        differs(pair, &windows(items, &kinds), found).await
    };
    let items = minimise(items, test).await?;
    Ok(Some(windows(&items, &kinds)))
}

/// Where to begin, the most promising first: what was done to that Service alone; all in its namespace; all.
fn beginnings(history: &[Window], found: &Difference) -> Vec<Vec<Item>> {
    let numbered = || {
        history
            .iter()
            .enumerate()
            .flat_map(|(window, of)| of.ops.iter().map(move |op| (window, op.clone())))
    };
    let mut beginnings = Vec::new();
    if let Some(key) = &found.key {
        let last = history.len().saturating_sub(1);
        let mut world = World::default();
        let mut on_service = Vec::new();
        for (number, window) in history.iter().enumerate() {
            let effects = Effects::of(&mut world, window);
            let positions = effects.ops_on.get(key).cloned().unwrap_or_default();
            on_service.extend(
                positions
                    .into_iter()
                    .filter_map(|at| Some((number, window.ops.get(at)?.clone()))),
            );
        }
        beginnings.push(on_service);
        let near = |item: &Item| item.1.space() == Some(key.space);
        beginnings.push(numbered().filter(near).collect());
        beginnings.push(
            numbered()
                .filter(|item| near(item) || (item.0 == last && item.1.is_disturbance()))
                .collect(),
        );
    }
    beginnings.push(numbered().collect());
    beginnings
}

fn windows(items: &[Item], kinds: &[Kind]) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    for (number, op) in items {
        let number = *number as u64;
        match windows.last_mut().filter(|window| window.number == number) {
            Some(window) => window.ops.push(op.clone()),
            None => windows.push(Window {
                number,
                kind: usize::try_from(number)
                    .ok()
                    .and_then(|number| kinds.get(number))
                    .copied()
                    .unwrap_or(Kind::Burst),
                ops: vec![op.clone()],
            }),
        }
    }
    windows
}

async fn differs(pair: &mut Pair, windows: &[Window], like: &Difference) -> Result<bool> {
    pair.restart_world().await?;
    for window in windows {
        if let Some(found) = pair.window(window).await?.first() {
            return Ok(found.is_like(like));
        }
    }
    Ok(false)
}

/// Delta debugging: leaves out ever smaller parts as long as the test still holds for the rest.
async fn minimise<T: Clone>(mut items: Vec<T>, mut test: impl AsyncFnMut(&[T]) -> Result<bool>) -> Result<Vec<T>> {
    let mut size = items.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let before = items.len();
        while at < items.len() {
            let end = (at + size).min(items.len());
            let rest: Vec<T> = items[..at].iter().chain(&items[end..]).cloned().collect();
            if !rest.is_empty() && test(&rest).await? {
                items = rest;
            } else {
                at = end;
            }
        }
        size = match size {
            1 if items.len() == before => 0,
            1 => 1,
            _ => size.div_ceil(2),
        };
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_needed_is_left_out() {
        let mut trials = 0;
        let needs_three = async |items: &[u32]| {
            trials += 1;
            Ok([17, 40, 41].iter().all(|needed| items.contains(needed)))
        };
        let smallest = minimise((0..100).collect(), needs_three).await.unwrap();
        assert_eq!(smallest, [17, 40, 41]);
        assert!(trials < 100, "{trials} trials for three of a hundred");

        let always = minimise(vec![1, 2, 3], async |_: &[u32]| Ok(true)).await.unwrap();
        assert_eq!(always.len(), 1);
        let never = minimise(vec![1, 2, 3], async |_: &[u32]| Ok(false)).await.unwrap();
        assert_eq!(never, [1, 2, 3]);
    }

    #[test]
    fn operations_keep_their_windows() {
        let op = |name: &str| Op::DeleteNode { name: name.into() };
        let items = [(0, op("a")), (2, op("b")), (2, op("c"))];
        let made = windows(&items, &[Kind::Burst, Kind::Burst, Kind::Isolated]);
        let shape: Vec<_> = made
            .iter()
            .map(|window| (window.number, window.kind, window.ops.len()))
            .collect();
        assert_eq!(shape, [(0, Kind::Burst, 1), (2, Kind::Isolated, 2)]);
    }
}
