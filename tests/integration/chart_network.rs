//! The chart with three replicas behind the ClusterIP of their webhook, on a cluster whose network works: whatever is done to it, every admission
//! is answered.

#[path = "chart_network/takeover.rs"]
mod takeover;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use svcplane_tests::admission::send;
use svcplane_tests::chart::NAMESPACE;
use svcplane_tests::eventually::{eventually_gone, eventually_one};
use svcplane_tests::governed::{cluster_ip, delete, post};
use svcplane_tests::installed::{ADVERTISED, Installed, WITHOUT_CANARY};
use svcplane_tests::load::{Load, create_nodes};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::private_network;

const SOON: Duration = Duration::from_secs(60);

/// The chart of the version before, packaged.
const BEFORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/svcplane-0.0.1.tgz");

#[test]
fn a_rolling_restart_of_three_replicas_loses_no_admission() {
    private_network::run("a_rolling_restart_of_three_replicas_loses_no_admission", async || {
        let rig = Installed::shared().await;
        rig.release(&[]).await.unwrap();
        let before = rig.ready().await.unwrap();
        let begun = Instant::now();
        let asked = rig
            .under_load(async || {
                let deployment = ["--namespace", NAMESPACE, "deployment/svcplane"];
                rig.kubectl(&[&["rollout", "restart"][..], &deployment].concat(), "")
                    .await?;
                rig.kubectl(&[&["rollout", "status"][..], &deployment].concat(), "")
                    .await?;
                // Until the last of the old ones is gone.
                for pod in &before {
                    eventually_gone("an old Pod", SOON, &rig.own.pods(), pod).await?;
                }
                Ok(())
            })
            .await
            .unwrap();
        println!("{asked} admissions in {:?}, all answered", begun.elapsed());
        let after = rig.ready().await.unwrap();
        assert!(
            after.len() == 3 && after.iter().all(|pod| !before.contains(pod)),
            "{after:?}"
        );
        assert_eq!(rig.proxy.forbidden().len(), 0, "{:?}", rig.proxy.forbidden());
    });
}

#[test]
#[ignore = "a minute: make chart-drills"]
fn every_node_is_drained_in_turn_within_the_budget_and_no_admission_is_lost() {
    private_network::run(
        "every_node_is_drained_in_turn_within_the_budget_and_no_admission_is_lost",
        async || {
            let rig = Installed::shared().await;
            rig.release(&[]).await.unwrap();
            rig.wait_ready(3).await.unwrap();
            let selector = "--pod-selector=app.kubernetes.io/name=svcplane";
            let mut fewest = usize::MAX;
            let asked = rig
                .under_load(async || {
                    for node in ["node-1", "node-2", "node-3"] {
                        let drain = ["drain", node, selector, "--timeout=120s"];
                        let (drain, mut looks) = (
                            rig.kubectl(&drain, ""),
                            tokio::time::interval(Duration::from_millis(100)),
                        );
                        tokio::pin!(drain);
                        loop {
                            tokio::select! {
                                drained = &mut drain => break drained.map(drop)?,
                                _ = looks.tick() => fewest = fewest.min(rig.ready().await?.len()),
                            }
                        }
                        let left = rig.pods().await?;
                        let there = left
                            .iter()
                            .filter(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some(node));
                        assert_eq!(there.count(), 0, "{node} is drained");
                        rig.wait_ready(3).await?;
                        rig.kubectl(&["uncordon", node], "").await?;
                    }
                    Ok(())
                })
                .await
                .unwrap();
            println!("{asked} admissions, all answered; never fewer than {fewest} replicas ready");
            assert!(fewest >= 2, "{fewest} were ready");

            // Of two at once the second is refused, until the first is replaced.
            let evict = async |pod: &str| {
                let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction");
                let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
                send(&rig.cluster.client(), "POST", &path, Some(&eviction))
                    .await
                    .unwrap()
            };
            let ready = rig.ready().await.unwrap();
            evict(&ready[0]).await.accepted().unwrap();
            let refused = evict(&ready[1]).await;
            assert_eq!(refused.code, 429, "{}", refused.message());
            assert!(refused.message().contains("disruption budget"), "{}", refused.message());
            rig.wait_ready(3).await.unwrap();
        },
    );
}

#[test]
#[ignore = "a minute: make chart-drills"]
fn an_upgrade_from_the_version_before_and_back_loses_no_admission() {
    private_network::run(
        "an_upgrade_from_the_version_before_and_back_loses_no_admission",
        async || {
            let rig = Installed::shared().await;
            // Whatever another test has left.
            let _ = rig.helm(&["uninstall", "svcplane", "--wait", "--no-hooks"]).await;
            rig.release_of(BEFORE, &[WITHOUT_CANARY]).await.unwrap();
            let (before, secret) = (trusted(rig).await, certificate(rig).await);
            rig.guests.workload("web", &["10.201.0.1"]).await.unwrap();
            rig.guests
                .endpoints_become("web", &["10.201.0.1 -> :8080/TCP"])
                .await
                .unwrap();
            let stored = versions(rig).await;
            let asked = rig
                .under_load(async || {
                    rig.release(&[]).await?;
                    assert_eq!(trusted(rig).await, before, "the authority stays");
                    rig.helm(&["rollback", "svcplane", "1", "--wait"]).await?;
                    rig.release(&[]).await
                })
                .await
                .unwrap();
            println!("{asked} admissions over an upgrade, a rollback and an upgrade, all answered");
            assert_eq!(certificate(rig).await, secret, "the certificate stays");
            assert_eq!(versions(rig).await, stored, "Endpoints and slices stay as they are");
        },
    );
}

/// Whom the apiserver trusts.
async fn trusted(rig: &Installed) -> String {
    let path = "jsonpath={.webhooks[*].clientConfig.caBundle}";
    let get = ["get", "mutatingwebhookconfiguration", "zz-svcplane", "-o", path];
    rig.kubectl(&get, "").await.unwrap()
}

async fn certificate(rig: &Installed) -> String {
    let get = [
        "get",
        "secret",
        "svcplane-webhook-tls",
        "-n",
        NAMESPACE,
        "-o",
        "jsonpath={.data}",
    ];
    rig.kubectl(&get, "").await.unwrap()
}

/// Of what svcplane keeps for the guests.
async fn versions(rig: &Installed) -> String {
    let path = "jsonpath={range .items[*]}{.kind}/{.metadata.name}={.metadata.resourceVersion} {end}";
    let get = ["get", "endpoints,endpointslices", "-n", rig.guests.name(), "-o", path];
    rig.kubectl(&get, "").await.unwrap()
}

#[test]
fn what_git_says_is_applied_again_and_again_and_changes_nothing() {
    private_network::run(
        "what_git_says_is_applied_again_and_again_and_changes_nothing",
        async || {
            let rig = Installed::shared().await;
            rig.release(&[]).await.unwrap();
            let rendered = rig.rendered(&[]).await.unwrap();
            assert_eq!(rendered, rig.rendered(&[]).await.unwrap());
            let generations = async || {
                let path = "jsonpath={range .items[*]}{.kind}/{.metadata.name}={.metadata.generation} {end}";
                let get = ["get", "--ignore-not-found", "-f", "-", "-o", path];
                rig.kubectl(&get, &rendered).await.unwrap()
            };
            // By a manager of its own, as Argo CD and Flux do, and by the client's own comparison.
            let server = [
                "apply",
                "--server-side",
                "--field-manager=argocd-controller",
                "--force-conflicts",
                "-f",
                "-",
            ];
            rig.kubectl(&server, &rendered).await.unwrap();
            let (before, trust) = (generations().await, trusted(rig).await);
            assert!(before.contains("zz-svcplane") && !trust.is_empty(), "{before}");
            for _ in 0..5 {
                rig.kubectl(&server, &rendered).await.unwrap();
                assert_eq!(generations().await, before);
                assert_eq!(trusted(rig).await, trust, "nobody empties the authority");
            }
            let diff = [
                "diff",
                "--server-side",
                "--field-manager=argocd-controller",
                "--force-conflicts",
                "-f",
                "-",
            ];
            assert_eq!(rig.kubectl(&diff, &rendered).await.unwrap(), "");
            // The same by the client's own comparison, once its notes are on the objects.
            let client = ["apply", "-f", "-"];
            rig.kubectl(&client, &rendered).await.unwrap();
            let before = generations().await;
            for _ in 0..3 {
                rig.kubectl(&client, &rendered).await.unwrap();
                assert_eq!(generations().await, before);
                assert_eq!(trusted(rig).await, trust, "nobody empties the authority");
            }
            assert_eq!(rig.kubectl(&["diff", "-f", "-"], &rendered).await.unwrap(), "");
            // Helm would have to force its way from here on.
            rig.helm(&["uninstall", "svcplane", "--wait", "--no-hooks"])
                .await
                .unwrap();
        },
    );
}

#[test]
fn strict_without_the_webhook_refuses_but_not_what_heals_the_cluster() {
    private_network::run(
        "strict_without_the_webhook_refuses_but_not_what_heals_the_cluster",
        async || {
            let rig = Installed::shared().await;
            rig.release(&["--set=webhook.strict=true"]).await.unwrap();
            let client = rig.cluster.client();
            let system = TestNamespace::existing(client.clone(), "kube-system");
            post(&rig.guests, &cluster_ip("there"), "").await.accepted().unwrap();
            rig.kubelet.halt();
            let refused = async || {
                let end = Instant::now() + SOON;
                loop {
                    let said = post(&rig.guests, &cluster_ip("not-asked"), "?dryRun=All").await;
                    if said.message().contains("failed calling webhook") {
                        return;
                    }
                    assert!(Instant::now() < end, "not refused: {}", said.message());
                }
            };
            refused().await;
            for namespace in [&system, &rig.own] {
                post(namespace, &cluster_ip("heals"), "").await.accepted().unwrap();
                delete(namespace, "heals").await;
            }
            // Neither deleting nor an update that leaves the spec as it is asks anybody.
            let label = json!({"metadata": {"labels": {"a": "b"}}});
            svcplane_tests::governed::patch(&rig.guests, "there", &label)
                .await
                .accepted()
                .unwrap();
            delete(&rig.guests, "there").await;

            // The apiserver comes up alone, and makes its own Service anew.
            let own: Api<Service> = Api::namespaced(client.clone(), "default");
            own.delete("kubernetes", &DeleteParams::default()).await.unwrap();
            rig.cluster.restart_apiserver().await.unwrap();
            let there = |service: Option<&Service>| service.map(drop).ok_or_else(|| "no Service".to_owned());
            eventually_one("default/kubernetes", SOON, &own, "kubernetes", there)
                .await
                .unwrap();
            let right = |endpoints: Option<&Endpoints>| {
                let addresses = endpoints.iter().flat_map(|it| it.subsets.iter().flatten());
                let found: Vec<_> = addresses
                    .flat_map(|it| it.addresses.iter().flatten())
                    .map(|it| it.ip.clone())
                    .collect();
                (found == [ADVERTISED.to_string()])
                    .then_some(())
                    .ok_or_else(|| format!("{found:?}"))
            };
            let endpoints: Api<Endpoints> = Api::namespaced(client, "default");
            eventually_one("its Endpoints", SOON, &endpoints, "kubernetes", right)
                .await
                .unwrap();
            refused().await;
            rig.kubelet.resume();
            rig.asker().wait_answered().await.unwrap();
            rig.wait_ready(3).await.unwrap();
            post(&rig.guests, &cluster_ip("asked"), "").await.accepted().unwrap();
            eventually_one("its Endpoints still", SOON, &endpoints, "kubernetes", right)
                .await
                .unwrap();
        },
    );
}

#[test]
#[ignore = "a minute: make chart-drills"]
fn without_the_webhook_services_are_made_and_adopted() {
    private_network::run("without_the_webhook_services_are_made_and_adopted", async || {
        let rig = Installed::shared().await;
        rig.release(&["--set=allocator.allocate=all"]).await.unwrap();
        rig.kubelet.halt();
        let begun = Instant::now();
        let away = post(&rig.guests, &cluster_ip("away"), "").await.accepted().unwrap();
        println!("without an answer it took {:?}", begun.elapsed());
        let address = away["spec"]["clusterIP"].as_str().unwrap().to_owned();
        rig.kubelet.resume();
        rig.asker().wait_answered().await.unwrap();
        rig.wait_ready(3).await.unwrap();
        // It is known whose that address is, and nobody else gets it.
        let mut same = cluster_ip("same");
        same["spec"]["clusterIP"] = address.clone().into();
        let refused = post(&rig.guests, &same, "").await;
        assert_eq!(refused.code, 422, "{}", refused.message());
        let owner = format!("{}/away", rig.guests.name());
        assert!(
            refused.warnings.iter().any(|it| it.contains(&owner)),
            "{:?}",
            refused.warnings
        );
        let mut given = std::collections::BTreeSet::from([address]);
        for number in 0..30 {
            let made = post(&rig.guests, &cluster_ip(&format!("later-{number}")), "")
                .await
                .accepted()
                .unwrap();
            assert!(given.insert(made["spec"]["clusterIP"].as_str().unwrap().to_owned()));
        }
    });
}

#[test]
#[ignore = "a minute: make chart-drills"]
fn a_leader_that_is_killed_is_succeeded_and_others_answer_meanwhile() {
    private_network::run(
        "a_leader_that_is_killed_is_succeeded_and_others_answer_meanwhile",
        async || {
            let rig = Installed::shared().await;
            rig.release(&[]).await.unwrap();
            rig.wait_ready(3).await.unwrap();
            let holder = async || {
                let lease = rig.own.leases().get("svcplane").await.unwrap();
                lease.spec.and_then(|it| it.holder_identity).unwrap_or_default()
            };
            let before = holder().await;
            let ready = rig.ready().await.unwrap();
            let leader = ready
                .iter()
                .find(|pod| before.starts_with(*pod))
                .unwrap_or_else(|| panic!("{before}: {ready:?}"));
            let (asker, begun) = (rig.asker(), Instant::now());
            rig.kubelet.kill(leader);
            let (mut asked, mut lost) = (0, 0);
            while holder().await == before {
                asked += 1;
                lost += usize::from(!asker.is_answered().await.unwrap());
                assert!(begun.elapsed() < SOON, "{before} still leads");
            }
            println!(
                "succeeded after {:?}; {lost} of {asked} admissions were let past",
                begun.elapsed()
            );
            // What it was answering, and what was sent to it until the cluster knew.
            assert!(lost < asked / 2, "{lost} of {asked}");
            rig.wait_ready(3).await.unwrap();
            rig.under_load(async || {
                tokio::time::sleep(Duration::from_secs(2)).await;
                Ok(())
            })
            .await
            .unwrap();
        },
    );
}

#[test]
#[ignore = "20,000 Pods, some minutes: make chart-drills"]
fn time_to_ready_with_2000_services_of_10_pods() {
    private_network::run("time_to_ready_with_2000_services_of_10_pods", async || {
        let rig = Installed::shared().await;
        let _ = rig.helm(&["uninstall", "svcplane", "--wait", "--no-hooks"]).await;
        let load = Load {
            prefix: "ready",
            namespaces: 20,
            services: 2000,
            pods: 10,
        };
        let client = rig.cluster.client();
        create_nodes(&client).await.unwrap();
        load.create(&client).await.unwrap();
        let begun = Instant::now();
        rig.release(&[]).await.unwrap();
        println!("installed, three replicas ready and asked after {:?}", begun.elapsed());
        let mut complete = 0;
        while complete < load.services {
            complete = load.complete(&client).await.unwrap();
            assert!(begun.elapsed() < 10 * SOON, "{complete} Endpoints are complete");
        }
        println!("{complete} Endpoints complete after {:?}", begun.elapsed());
        // One that comes back finds all of it stored.
        let pod = rig.pods().await.unwrap().swap_remove(0);
        let (name, address) = (pod.name_any(), pod.status.unwrap().pod_ip.unwrap());
        rig.kubelet.kill(&name);
        let ready = async || {
            let answer = svcplane_tests::fetch::get(&format!("http://{address}:9808/readyz")).await;
            answer.is_ok_and(|(code, _)| code == 200)
        };
        for (wanted, what) in [(false, "gone"), (true, "ready again")] {
            let begun = Instant::now();
            while ready().await != wanted {
                assert!(begun.elapsed() < 2 * SOON, "not {what}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            println!("{what} after {:?}", begun.elapsed());
        }
    });
}
