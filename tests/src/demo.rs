//! `make run`: svcplane at work on a real control plane, for a person who has just cloned the repository.

mod admission;
mod explain;
mod load_balancer;
pub mod screen;
pub mod slices;
mod stage;
mod story;
pub mod view;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use screen::{Screen, line};
use stage::Stage;

use crate::eventually::Object;

/// Plays the demo; then, unless `once`, shows changes of Endpoints and slices until `interrupt` completes.
///
/// # Errors
/// One line that names the state that did not come or the program that did not start; or the interrupt came before the
/// end of the demo.
pub async fn run(once: bool, interrupt: impl Future<Output = ()>) -> anyhow::Result<()> {
    tokio::pin!(interrupt);
    let screen = Screen::new();
    let played = async {
        let mut stage = Stage::build(&screen).await?;
        if let Err(error) = story::tell(&screen, &mut stage).await {
            anyhow::bail!("{error:#}{}", stage.obituary());
        }
        Ok(stage)
    };
    let stage = tokio::select! {
        stage = played => stage?,
        () = &mut interrupt => anyhow::bail!("interrupted before the end"),
    };
    screen.part("every expected state came");
    if !once {
        tokio::select! {
            () = stay(&screen, &stage) => {}
            () = interrupt => line("stopping"),
        }
    }
    Ok(())
}

/// Says how to use the cluster, and shows what changes in it.
async fn stay(screen: &Screen, stage: &Stage) {
    let cluster = &stage.cluster;
    let kubectl = format!(
        "{} --kubeconfig {}",
        cluster.tools().kubectl.display(),
        cluster.kubeconfig().display()
    );
    line("");
    line("The cluster stays up until Ctrl-C. In another terminal:");
    line(format_args!("  alias k='{kubectl}'"));
    line("  k get endpoints,endpointslices -A");
    line("  k get clusterippools,nodeportpools,loadbalancerpools");
    for (name, log) in stage.logs() {
        line(format_args!(
            "  tail -f {}    # {name}: its first lines name the addresses of /metrics and /debug/state",
            log.display()
        ));
    }
    line(format_args!(
        "  KUBECONFIG={} {} explain ccenamespace/cceservice",
        cluster.kubeconfig().display(),
        stage.program.display()
    ));
    line("  k -n ccenamespace scale deployment ccepod --replicas=4");
    line("Changes of Endpoints and EndpointSlices are shown here.");
    tokio::join!(
        show_changes(screen, Api::<Endpoints>::all(cluster.client()), |it| {
            format!("Endpoints {}: {}", view::key(it), view::line(it))
        }),
        show_changes(screen, Api::<EndpointSlice>::all(cluster.client()), |it| {
            let key = format!("{}/{}", it.namespace().unwrap_or_default(), it.name_any());
            format!("EndpointSlice {key}: {}", slices::line(it))
        }),
    );
}

/// A line for each object that is there or changes, as `told`, and for each that goes.
async fn show_changes<K: Object<DynamicType = ()>>(screen: &Screen, all: Api<K>, told: impl Fn(&K) -> String) {
    let mut changes = watcher(all, watcher::Config::default()).default_backoff().boxed();
    let mut listed = false;
    while let Some(change) = changes.next().await {
        match change {
            Ok(watcher::Event::InitDone) => listed = true,
            Ok(watcher::Event::Apply(object)) => screen.say(told(&object)),
            Ok(watcher::Event::Delete(object)) if listed => {
                let kind = K::kind(&());
                let namespace = object.namespace().unwrap_or_default();
                screen.say(format_args!("{kind} {namespace}/{}: gone", object.name_any()));
            }
            Err(error) => screen.say(format_args!("watching {}: {error}", K::plural(&()))),
            Ok(_) => {}
        }
    }
}
