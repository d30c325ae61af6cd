//! The apiserver is the oracle for validation: does our judge say what it says? `ORACLE_CASES` Services, `ORACLE_SEED`.

mod oracle;

use svcplane_tests::cluster::{Cluster, Flavour};
use tokio::sync::Mutex;

use self::oracle::{Options, Tally, run};

/// Each takes a control plane: one after the other.
static ALONE: Mutex<()> = Mutex::const_new(());

const CASES: usize = 1_200;

fn number<T: std::str::FromStr>(variable: &str, default: T) -> T {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {text}")),
        Err(_) => default,
    }
}

fn options(share: usize, gated: bool) -> Options {
    Options {
        cases: number("ORACLE_CASES", CASES) / share,
        seed: number("ORACLE_SEED", 1),
        gated,
    }
}

fn check(tally: &Tally) {
    println!("{tally}");
    assert_eq!(tally.false_refusals(), 0, "{tally}");
    assert!(tally.agreement() >= 0.99, "{tally}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_judge_says_what_the_apiserver_says() {
    let _alone = ALONE.lock().await;
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    let tally = run(&cluster, options(1, true)).await.unwrap();
    check(&tally);
    assert_eq!(tally.seldom(5), [""; 0]);
}

/// One family, and no `StrictIPCIDRValidation`: what we doubt is accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apiserver_that_takes_more_is_not_overruled() {
    let _alone = ALONE.lock().await;
    let lenient = Cluster::builder(Flavour::Ipv4Only).apiserver_arg("--feature-gates=StrictIPCIDRValidation=false");
    let cluster = lenient.start().await.unwrap();
    check(&run(&cluster, options(4, false)).await.unwrap());
}
