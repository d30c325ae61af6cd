//! `make run`: svcplane at work on a real control plane, for a person who has just cloned the repository.

pub mod screen;
mod stage;
mod story;
pub mod view;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Endpoints;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};

use screen::{Screen, line};
use stage::Stage;

/// Plays the demo; then, unless `once`, shows changes of Endpoints until `interrupt` completes.
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
    line("  k get endpoints -A");
    for (name, log) in stage.logs() {
        line(format_args!(
            "  tail -f {}    # {name}: its first lines name the addresses of /metrics and /debug/state",
            log.display()
        ));
    }
    line("  k -n ccenamespace scale deployment ccepod --replicas=4");
    line("Changes of Endpoints are shown here.");
    let all: Api<Endpoints> = Api::all(cluster.client());
    let mut changes = watcher(all, watcher::Config::default()).default_backoff().boxed();
    let mut listed = false;
    while let Some(change) = changes.next().await {
        match change {
            Ok(watcher::Event::InitDone) => listed = true,
            Ok(watcher::Event::Apply(endpoints)) => {
                screen.say(format_args!("{}: {}", view::key(&endpoints), view::line(&endpoints)));
            }
            Ok(watcher::Event::Delete(endpoints)) if listed => {
                screen.say(format_args!("{}: gone", view::key(&endpoints)));
            }
            Err(error) => screen.say(format_args!("watching Endpoints: {error}")),
            Ok(_) => {}
        }
    }
}
