//! `svcplane handback`: leaves the cluster to the built-in controllers without a gap. The order is a note on the Lease, so it outlives every
//! process; this command writes it, waits until it is obeyed, and looks whether the others are at work.

mod obeyed;
mod own_slices;

use std::time::Duration;

use kube::Client;
use svcplane_runtime::api::Failure;
use svcplane_runtime::leader::{LeaseName, MODE_ANNOTATION, SeenLease, annotate, look};
use tokio::time::{Instant, sleep};

use self::obeyed::{Obedience, WRITES_END};
use crate::args::HandbackArgs;
use crate::canary::{Found, Probe, RESULT_ANNOTATION};
use crate::orders::{REASON_ANNOTATION, Reason, kinds};
use crate::start;

/// What one call may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Does it, and answers with the last words; `say` is told of each step as it comes. The error is one line.
pub async fn handback(args: &HandbackArgs, say: impl Fn(&str)) -> Result<String, String> {
    let client = start::connect(&args.cluster, "svcplane-handback").await?;
    let lease = args.lease.lease();
    if args.cancel {
        return cancel(&client, &lease).await;
    }
    if args.check {
        return check(&client, &lease).await;
    }
    let running = args.controllers.of_endpoints();
    let probe = args
        .canary
        .clone()
        .map(|canary| Probe::new(client.clone(), canary, &running))
        // Mirrors do not show by it.
        .filter(|probe| !probe.whose().is_empty());
    if let Some(probe) = &probe {
        // Before anything is changed.
        probe.check().await?;
    }
    let ordered = [
        (MODE_ANNOTATION, Some("observe".to_owned())),
        (REASON_ANNOTATION, Some(Reason::Handback.to_string())),
        // What it said before says nothing any more.
        (RESULT_ANNOTATION, None),
    ];
    let noted = note(&client, &lease, &ordered).await?;
    say(&format!("Lease {lease} tells svcplane to observe."));
    wait_obeyed(&client, &lease, &noted, args.timeout).await?;
    say("No replica writes Endpoints or EndpointSlices any more.");
    let remove = format!(
        "Then remove svcplane; only its Lease stays: kubectl -n {} delete lease {}\n",
        lease.namespace, lease.name
    );
    if args.delete_own_slices {
        let gone = own_slices::delete(&client, args.timeout).await?;
        return Ok(format!("{gone} EndpointSlices of svcplane.io are deleted.\n{remove}"));
    }
    let Some(probe) = probe else {
        return Ok(format!(
            "NOBODY KEEPS ENDPOINTS NOW. Start kube-controller-manager with its endpoint controllers, and see with `svcplane explain --check \
             NAMESPACE/NAME` that it follows: without --canary this command cannot.\n{remove}"
        ));
    };
    probe.clear().await?;
    let bait = probe.lay().await;
    let bait = bait.map_err(|failure| format!("cannot use canary {}: {failure}", probe.canary()))?;
    let names: Vec<&str> = probe.whose().iter().map(|it| it.as_str()).collect();
    say(&format!(
        "Now start kube-controller-manager with its endpoint controllers; waiting for {}.",
        names.join(" and ")
    ));
    wait_alive(&probe, bait.as_ref(), args.timeout).await?;
    let again = kinds(probe.whose());
    Ok(format!("kube-controller-manager keeps {again} again.\n{remove}"))
}

async fn cancel(client: &Client, lease: &LeaseName) -> Result<String, String> {
    let found = seen(client, lease).await?;
    let taken_back = [
        (MODE_ANNOTATION, None),
        (REASON_ANNOTATION, None),
        (RESULT_ANNOTATION, None),
    ];
    note(client, lease, &taken_back).await?;
    let before = match Reason::noted(&found.notes) {
        _ if !found.notes.contains_key(MODE_ANNOTATION) => {
            return Ok(format!("Lease {lease} did not tell svcplane to observe.\n"));
        }
        Some(Reason::ForeignWriter(whose)) => format!(
            " It had stopped because kube-controller-manager wrote {}.",
            kinds(&whose)
        ),
        Some(Reason::Handback) | None => String::new(),
    };
    Ok(format!(
        "svcplane in active mode writes again once its canary, asked anew, has passed; without a canary at the leader's next renewal.{before}\n"
    ))
}

async fn check(client: &Client, lease: &LeaseName) -> Result<String, String> {
    let found = look(client, lease, CALL_LIMIT).await;
    let Some(found) = found.map_err(|failure| cannot(lease, &failure))? else {
        return Ok(format!(
            "There is no Lease {lease}: nobody has led under this name (of a release of another name it is --leader-elect-resource-name).\n"
        ));
    };
    let observes = found.notes.get(MODE_ANNOTATION).is_some_and(|mode| mode == "observe");
    match Reason::noted(&found.notes) {
        // In both cases there is somebody else.
        Some(_) if observes => Ok(format!("Lease {lease} tells svcplane to observe.\n")),
        None if observes => Err(format!(
            "Lease {lease} tells svcplane to observe, but not by svcplane handback: unless the built-in controllers run, Endpoints and \
             EndpointSlices freeze if svcplane is removed now. Run svcplane handback first"
        )),
        _ => Err(format!(
            "in active mode svcplane keeps Endpoints and EndpointSlices, which freeze if it is removed now: run svcplane handback first \
             (Lease {lease}). In observe mode there is nothing to hand back"
        )),
    }
}

async fn note(client: &Client, lease: &LeaseName, changes: &[(&str, Option<String>)]) -> Result<SeenLease, String> {
    let noted = annotate(client, lease, changes, CALL_LIMIT).await;
    noted.map_err(|failure| cannot(lease, &failure))
}

async fn seen(client: &Client, lease: &LeaseName) -> Result<SeenLease, String> {
    let found = look(client, lease, CALL_LIMIT)
        .await
        .map_err(|failure| cannot(lease, &failure))?;
    found.ok_or_else(|| cannot(lease, &Failure::NotFound))
}

fn cannot(lease: &LeaseName, failure: &Failure) -> String {
    match failure {
        Failure::NotFound => format!(
            "there is no Lease {lease}: name that of svcplane run with --leader-elect-resource-namespace and --leader-elect-resource-name"
        ),
        failure => format!("cannot read or write Lease {lease}: {failure}"),
    }
}

/// Waits until whoever leads has read the order, and until writes that were sent before are over.
async fn wait_obeyed(client: &Client, lease: &LeaseName, noted: &SeenLease, timeout: Duration) -> Result<(), String> {
    let started = Instant::now();
    let obedience = Obedience::new(noted.clone());
    loop {
        let now = seen(client, lease).await?;
        if obedience.shown_by(&now, started.elapsed())? {
            break;
        }
        if started.elapsed() >= timeout {
            return Err(format!(
                "{} holds Lease {lease} and has not read it within {timeout:?}; the order stays: --cancel takes it back",
                now.record.holder
            ));
        }
        sleep(PAUSE).await;
    }
    sleep(WRITES_END).await;
    Ok(())
}

async fn wait_alive(probe: &Probe, bait: Option<&Found>, timeout: Duration) -> Result<(), String> {
    let (started, mut missing) = (Instant::now(), probe.whose().to_vec());
    while !missing.is_empty() {
        if started.elapsed() >= timeout {
            return Err(format!(
                "kube-controller-manager has not made {} for canary {} within {timeout:?}; svcplane goes on observing: try again, or --cancel",
                kinds(&missing),
                probe.canary()
            ));
        }
        sleep(PAUSE).await;
        let alive = probe.alive(bait).await;
        let alive = alive.map_err(|failure| format!("cannot look at canary {}: {failure}", probe.canary()))?;
        missing.retain(|controller| !alive.contains(controller));
    }
    Ok(())
}
