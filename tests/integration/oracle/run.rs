//! Cases, by several workers with a namespace each: what is asked about a namespace belongs to its one request under way.

use std::sync::Arc;

use anyhow::Result;
use futures::future::try_join_all;
use kube::Client;
use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::answer::{Answer, send};
use super::base::legal;
use super::compare::compare;
use super::draw::Draw;
use super::moves::{MOVES, Move};
use super::tally::Tally;
use super::transitions::TRANSITIONS;
use super::witness::{self, Witness};
use svcplane_tests::cluster::Cluster;

/// How many cases are under way.
const WORKERS: usize = 8;

/// Changes of each stored Service.
const UPDATES: usize = 5;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many Services are made; each is changed a few times.
    pub cases: usize,
    /// Where the random stream begins.
    pub seed: u64,
    /// The apiserver has the gate `StrictIPCIDRValidation`.
    pub gated: bool,
}

/// Runs all cases against this cluster.
///
/// # Errors
/// The cluster does not answer as an apiserver should.
pub async fn run(cluster: &Cluster, options: Options) -> Result<Tally> {
    let client = cluster.client();
    let namespaces: Vec<_> = (0..WORKERS).map(|worker| format!("oracle-{worker}")).collect();
    for namespace in &namespaces {
        witness::namespace(&client, namespace).await?;
    }
    let witness = Arc::new(Witness::start(&client, &namespaces).await?);
    let tally = Arc::new(Mutex::new(Tally::default()));
    let workers = namespaces.into_iter().enumerate().map(|(first, namespace)| {
        let worker = Worker {
            client: cluster.client(),
            services: format!("/api/v1/namespaces/{namespace}/services"),
            namespace,
            witness: witness.clone(),
            tally: tally.clone(),
            options,
        };
        async move {
            for case in (first..options.cases).step_by(WORKERS) {
                worker.case(case).await?;
            }
            anyhow::Ok(())
        }
    });
    try_join_all(workers).await?;
    let witness = Arc::into_inner(witness).expect("all workers have ended");
    witness.stop().await?;
    Ok(Arc::into_inner(tally).expect("all workers have ended").into_inner())
}

struct Worker {
    client: Client,
    namespace: String,
    services: String,
    witness: Arc<Witness>,
    tally: Arc<Mutex<Tally>>,
    options: Options,
}

impl Worker {
    async fn case(&self, case: usize) -> Result<()> {
        let mut rng = StdRng::seed_from_u64(self.options.seed.wrapping_mul(1 << 32).wrapping_add(case as u64));
        let draw = &mut Draw(&mut rng);
        let (round, name) = (case / MOVES.len(), format!("c{case}"));
        let mut service = legal(draw, &name);
        MOVES[case % MOVES.len()](draw, &mut service, round % 2 == 1);
        // Every second round has faults that come alone.
        if round % 4 > 1 {
            some_more(draw, &mut service, MOVES);
        }
        let stored = match self.ask("POST", &self.services, &service).await? {
            Some(stored) => stored,
            None => {
                let service = legal(draw, &name);
                match self.ask("POST", &self.services, &service).await? {
                    Some(stored) => stored,
                    // The address was taken.
                    None => return Ok(()),
                }
            }
        };
        self.updates(draw, case, stored).await
    }

    async fn updates(&self, draw: &mut Draw<'_>, case: usize, mut stored: Value) -> Result<()> {
        let path = format!(
            "{}/{}",
            self.services,
            stored["metadata"]["name"].as_str().unwrap_or_default()
        );
        for step in 0..UPDATES {
            let which = case * UPDATES + step;
            let mut changed = stored.clone();
            let moves = if step % 2 == 0 { TRANSITIONS } else { MOVES };
            let round = which / moves.len();
            moves[which % moves.len()](draw, &mut changed, round % 2 == 1);
            if round % 4 > 1 {
                some_more(draw, &mut changed, TRANSITIONS);
            }
            // The path decides.
            changed["metadata"]["name"] = stored["metadata"]["name"].clone();
            if let Some(now) = self.ask("PUT", &path, &changed).await? {
                stored = now;
            }
        }
        send(&self.client, "DELETE", &path, None).await?.accepted()?;
        if stored["metadata"]["finalizers"].is_array() {
            let mut dying = stored.clone();
            dying["metadata"]["resourceVersion"] = Value::Null;
            dying["spec"]["type"] = json!("Foo");
            self.ask("PUT", &path, &dying).await?;
            let mut dead = stored;
            dead["metadata"]["resourceVersion"] = Value::Null;
            dead["metadata"]["finalizers"] = Value::Null;
            self.ask("PUT", &path, &dead).await?;
        }
        Ok(())
    }

    /// Sends one request and compares; the stored object, if it was accepted.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Option<Value>> {
        self.witness.take(&self.namespace);
        let answer = send(&self.client, method, path, Some(body)).await?;
        // After a conflict the apiserver asks again; the last one counts.
        match self.witness.take(&self.namespace).last() {
            Some(review) => {
                let compared = compare(review, &answer, self.options.gated)?;
                self.tally.lock().add(compared);
            }
            None => self.tally.lock().not_asked(),
        }
        Ok(match answer {
            Answer::Accepted(stored) => Some(stored),
            _ => None,
        })
    }
}

fn some_more(draw: &mut Draw<'_>, service: &mut Value, moves: &[Move]) {
    for _ in 0..draw.below(3) {
        let bad = draw.once_in(3);
        draw.one(moves)(draw, service, bad);
    }
}
