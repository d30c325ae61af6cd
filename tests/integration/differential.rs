//! A short stream of the differential test, and the proof that it can fail. Long ones: `make differential`, `make soak`.

use std::time::Duration;

use svcplane_tests::differential::{Ended, Options, OurController, Setup, run};
use tokio::sync::Mutex;

/// Each takes two control planes: one after the other.
static ALONE: Mutex<()> = Mutex::const_new(());

fn options(ops: u64, observes: bool) -> Options {
    Options {
        ops,
        seed: 1,
        state: None,
        setup: Setup {
            ours: OurController {
                observes,
                ..OurController::default()
            },
            ..Setup::default()
        },
        shrink: Duration::from_secs(60),
    }
}

#[tokio::test]
async fn svcplane_and_the_real_controllers_write_the_same() {
    let _alone = ALONE.lock().await;
    match run(&options(500, false)).await.unwrap() {
        Ended::Same(summary) => println!("{summary}"),
        Ended::Differs { report, .. } => panic!("{report}"),
    }
}

#[tokio::test]
async fn a_controller_that_is_switched_off_is_noticed() {
    let _alone = ALONE.lock().await;
    let ended = run(&options(100, true)).await.unwrap();
    let Ended::Differs { first, shrunken, .. } = ended else {
        panic!("nothing was written and nothing was found: {ended:?}");
    };
    assert_eq!((first.window, first.what.as_str()), (0, "svcplane has none (burst)"));
    let ops: usize = shrunken.iter().flatten().map(|window| window.ops.len()).sum();
    assert!((1..=3).contains(&ops), "one Service is enough: {shrunken:?}");
}
