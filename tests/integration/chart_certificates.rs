//! Self-managed certificates on a real apiserver: with short lives, leaders that are killed at each step, and hands that meddle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use svcplane_tests::admission::{address, install_crds};
use svcplane_tests::asked::{Asker, failed_open};
use svcplane_tests::balancer::Balancer;
use svcplane_tests::chart::{Helm, Rendered, install};
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::proxy::{Action, FaultProxy, Match, Times};
use svcplane_tests::svcplane::{Builder, Svcplane};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const SOON: Duration = Duration::from_secs(30);
const SECRET: &str = "svcplane-webhook-tls";
const CONFIGURATION: &str = "zz-svcplane";

/// A cluster, and the namespace of the Secret and of the Lease.
struct Rig {
    cluster: Cluster,
    namespace: TestNamespace,
}

impl Rig {
    async fn start() -> Self {
        let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
        install_crds(&cluster.client()).await.unwrap();
        let namespace = TestNamespace::create(&cluster).await.unwrap();
        Self { cluster, namespace }
    }

    /// A replica that serves what the Secret holds and never leads those that keep it.
    fn server(&self, number: usize) -> Builder {
        Svcplane::builder()
            .cluster(&self.cluster)
            .observe()
            .short_lease()
            .arg(&format!("--leader-elect-resource-namespace={}", self.namespace.name()))
            .arg(&format!("--leader-elect-resource-name=server-{number}"))
            .arg("--webhook-address=127.0.0.1:0")
            .arg("--external-ips=deny")
            .arg(&format!("--webhook-tls-secret={}/{SECRET}", self.namespace.name()))
            .replica(number)
    }

    /// A replica that keeps the Secret where it leads.
    fn keeper(&self, number: usize) -> Builder {
        self.server(number)
            .arg("--leader-elect-resource-name=svcplane")
            .arg("--webhook-tls-self-managed")
            .arg("--webhook-tls-names=127.0.0.1,0.0.0.0")
    }

    /// Both webhook configurations, as the chart renders them for this address.
    async fn register(&self, address: &str) {
        let url = format!("webhook.url=https://{address}");
        let helm = Helm::of("helm4").unwrap().set(&[&url]);
        let rendered: Rendered = helm.template().unwrap();
        let kinds = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
        install(&self.cluster.client(), &rendered, &kinds).await.unwrap();
    }

    fn secrets(&self) -> Api<Secret> {
        self.namespace.api()
    }

    async fn secret(&self) -> Secret {
        self.secrets().get(SECRET).await.unwrap()
    }

    fn mutating(&self) -> Api<MutatingWebhookConfiguration> {
        Api::all(self.cluster.client())
    }

    /// Whom the apiserver trusts now.
    async fn published(&self) -> Vec<u8> {
        bundle(&self.mutating().get(CONFIGURATION).await.unwrap()).unwrap_or_default()
    }

    /// Waits until both configurations trust what the Secret says.
    async fn trusted(&self) {
        eventually_one(
            "a whole Secret",
            SOON,
            &self.secrets(),
            SECRET,
            |secret: Option<&Secret>| {
                let whole = secret.is_some_and(|it| !data(it, "tls.crt").is_empty());
                whole.then_some(()).ok_or_else(|| "no certificate".to_owned())
            },
        )
        .await
        .unwrap();
        let wanted = data(&self.secret().await, "ca.crt");
        let check = |found: Option<Vec<u8>>| {
            let equal = found.is_some_and(|it| it == wanted);
            equal.then_some(()).ok_or_else(|| "another authority".to_owned())
        };
        eventually_one(
            "trust",
            SOON,
            &self.mutating(),
            CONFIGURATION,
            |it: Option<&MutatingWebhookConfiguration>| check(it.and_then(bundle)),
        )
        .await
        .unwrap();
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.cluster.client());
        eventually_one(
            "trust",
            SOON,
            &validating,
            CONFIGURATION,
            |it: Option<&ValidatingWebhookConfiguration>| {
                let entries = it.into_iter().flat_map(|it| it.webhooks.iter().flatten());
                let mut bundles = entries.map(|it| it.client_config.ca_bundle.clone().unwrap_or_default().0);
                let all = bundles.all(|it| it == wanted);
                all.then_some(()).ok_or_else(|| "another authority".to_owned())
            },
        )
        .await
        .unwrap();
    }

    /// All anew because somebody asks for it (docs/operations.md): the old authority is trusted beside the new one.
    async fn ask_for_renewal(&self) {
        let asks = Patch::Merge(json!({"metadata": {"annotations": {"svcplane.io/renew": "now"}}}));
        self.secrets()
            .patch(SECRET, &PatchParams::default(), &asks)
            .await
            .unwrap();
    }

    fn asker(&self) -> Asker {
        Asker::new(self.cluster.client(), self.namespace.name())
    }
}

fn data(secret: &Secret, name: &str) -> Vec<u8> {
    let data = secret.data.as_ref().and_then(|data| data.get(name));
    data.map(|it| it.0.clone()).unwrap_or_default()
}

fn bundle(configuration: &MutatingWebhookConfiguration) -> Option<Vec<u8>> {
    let entry = configuration.webhooks.as_ref()?.first()?;
    entry.client_config.ca_bundle.as_ref().map(|it| it.0.clone())
}

/// A fresh handshake with `address`, as a client that trusts `bundle`. Returns the certificate.
async fn handshake(address: &str, bundle: &[u8]) -> Result<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle) {
        roots.add(authority?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("127.0.0.1")?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let certificates = stream.get_ref().1.peer_certificates().context("no certificate")?;
    Ok(certificates.first().context("no certificate")?.clone().into_owned())
}

#[tokio::test]
async fn what_others_do_to_it_is_put_right_and_nobody_is_let_past_for_long() {
    let rig = Rig::start().await;
    let keeper = rig.keeper(0).start().await.unwrap();
    keeper.wait_ready().await.unwrap();
    let served = address(&keeper).await.unwrap();
    rig.register(&served).await;
    rig.trusted().await;
    rig.asker().wait_answered().await.unwrap();
    let made = rig.secret().await;
    assert_eq!(made.type_.as_deref(), Some("kubernetes.io/tls"));
    let expiry = "svcplane_webhook_certificate_expiry_timestamp_seconds";
    let ends = keeper.metrics().await.unwrap().get(expiry, &[]).unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    assert!((ends - now - 90.0 * 86_400.0).abs() < 600.0, "{ends}");

    // B106: somebody empties it, or puts something else there.
    for other in [json!(""), json!(ByteString(b"-----BEGIN CERTIFICATE-----".to_vec()))] {
        let patch = Patch::Strategic(
            json!({"webhooks": [{"name": "mutate.services.svcplane.io", "clientConfig": {"caBundle": other}}]}),
        );
        // What is no authority, the apiserver refuses itself.
        let _ = rig
            .mutating()
            .patch(CONFIGURATION, &PatchParams::default(), &patch)
            .await;
        rig.trusted().await;
    }
    // The Secret goes, or is broken: it comes back as it was, and the server goes on with what it has.
    rig.secrets().delete(SECRET, &DeleteParams::default()).await.unwrap();
    rig.trusted().await;
    assert_eq!(rig.secret().await.data, made.data);
    for name in ["tls.key", "ca.key", "ca.crt"] {
        let broken = Patch::Merge(json!({"data": {name: ByteString(b"no".to_vec())}}));
        rig.secrets()
            .patch(SECRET, &PatchParams::default(), &broken)
            .await
            .unwrap();
        let restored = |secret: Option<&Secret>| {
            let same = secret.is_some_and(|it| it.data == made.data);
            same.then_some(()).ok_or_else(|| format!("{name} is broken"))
        };
        eventually_one("the Secret as it was", SOON, &rig.secrets(), SECRET, restored)
            .await
            .unwrap();
    }
    let shown = handshake(&served, &rig.published().await).await.unwrap();
    assert_eq!(shown, CertificateDer::from_pem_slice(&data(&made, "tls.crt")).unwrap());
    keeper
        .wait_metric("svcplane_webhook_certificate_unusable_total", &[], SOON, |it| it > 0.5)
        .await
        .unwrap();
    assert!(keeper.readyz().await.unwrap());

    // Another leader, who has seen nothing, changes nothing; and what he finds lost he makes anew, trusting the old one on.
    drop(keeper);
    let next = rig.keeper(1).start().await.unwrap();
    next.wait_leader().await.unwrap();
    next.wait_ready().await.unwrap();
    assert_eq!(rig.secret().await.data, made.data);
    rig.ask_for_renewal().await;
    let renewed = |secret: Option<&Secret>| {
        let secret = secret.ok_or("it is gone")?;
        let anew = ["ca.key", "tls.crt"]
            .iter()
            .all(|name| data(secret, name) != data(&made, name));
        let heard = !secret.annotations().contains_key("svcplane.io/renew");
        (anew && heard)
            .then_some(())
            .ok_or_else(|| "it is as it was".to_owned())
    };
    eventually_one("a renewed Secret", SOON, &rig.secrets(), SECRET, renewed)
        .await
        .unwrap();
    rig.trusted().await;
    let made = rig.secret().await;
    drop(next);
    rig.secrets().delete(SECRET, &DeleteParams::default()).await.unwrap();
    let last = rig.keeper(2).start().await.unwrap();
    last.wait_ready().await.unwrap();
    rig.trusted().await;
    let anew = data(&rig.secret().await, "ca.crt");
    assert_ne!(anew, data(&made, "ca.crt"));
    assert!(
        String::from_utf8(anew)
            .unwrap()
            .ends_with(&String::from_utf8(data(&made, "ca.crt")).unwrap())
    );
}

/// Handshakes with every server by whom the apiserver trusts at that moment, until told to stop. Returns how many, and the certificates seen.
async fn keep_shaking(rig: &Rig, servers: &[String], stop: &AtomicBool) -> Result<(usize, usize)> {
    let (mut count, mut seen) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let published = rig.published().await;
        for server in servers {
            let certificate = handshake(server, &published)
                .await
                .with_context(|| format!("handshake {count} with {server}"))?;
            if !seen.contains(&certificate) {
                seen.push(certificate);
            }
            count += 1;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok((count, seen.len()))
}

/// After which steps leaders are killed, in this order. Where it says `true` the next thing is to publish what the step has changed: that is
/// held up, so that the leader dies before it.
const KILLED_AFTER: [(&str, bool); 6] = [
    ("verify", false),
    ("new-authority", true),
    ("publish", false),
    ("issue", false),
    ("drop-old", true),
    ("publish", false),
];

/// What a keeper says when it has done a step.
const STEP: &str = "webhook certificate";

/// The steps of these lines.
fn steps(entries: &[Value]) -> impl Iterator<Item = &str> {
    entries.iter().filter_map(|entry| entry["step"].as_str())
}

/// Waits until it has done `step` after the `first` ones, and returns how many it has done then.
async fn done(keeper: &Svcplane, first: usize, step: &str) -> Result<usize> {
    let find = |entries: &[Value]| {
        let at = steps(entries).skip(first).position(|it| it == step)?;
        Some(first + at + 1)
    };
    let what = format!("done with \"{step}\" after {first} steps");
    keeper.wait_logged(&what, STEP, Duration::from_secs(90), find).await
}

#[tokio::test]
async fn rotation_under_load_with_leaders_killed_at_each_step_loses_no_admission() {
    let rig = Rig::start().await;
    let lives = |builder: Builder| {
        builder
            .lease_times(
                Duration::from_secs(2),
                Duration::from_millis(1500),
                Duration::from_millis(300),
            )
            .arg("--webhook-tls-lifetime=50s")
            .arg("--webhook-tls-authority-lifetime=100s")
    };
    let proxy = FaultProxy::start(&rig.cluster).unwrap();
    let kubeconfig = proxy.kubeconfig(rig.cluster.admin_token()).unwrap();
    let start = async |number| {
        let keeper = lives(rig.keeper(number)).kubeconfig(&kubeconfig);
        keeper.start().await
    };
    let mut keeper = start(10).await.unwrap();
    let servers = [
        rig.server(0).start().await.unwrap(),
        rig.server(1).start().await.unwrap(),
    ];
    let mut addresses = Vec::new();
    for server in &servers {
        server.wait_ready().await.unwrap();
        addresses.push(address(server).await.unwrap());
    }
    let balancer = Balancer::start(addresses.clone()).await.unwrap();
    rig.register(&balancer.address()).await;
    rig.trusted().await;
    rig.asker().wait_answered().await.unwrap();
    let (asker, before) = (rig.asker(), failed_open(&rig.cluster).await.unwrap());
    let stop = AtomicBool::new(false);
    let kills = async {
        for (number, (step, unpublished)) in (11..).zip(KILLED_AFTER) {
            let held = unpublished.then(|| {
                let publication = Match::writes("mutatingwebhookconfigurations");
                proxy.rule(publication, Action::Hang, Times::Always)
            });
            if step == "new-authority" {
                rig.ask_for_renewal().await;
            }
            done(&keeper, 0, step).await?;
            keeper.kill9().await?;
            if let Some(held) = held {
                held.remove();
                let published = steps(&keeper.log_entries(STEP)).any(|it| it == "publish");
                anyhow::ensure!(!published, "published after {step}");
            }
            keeper = start(number).await?;
        }
        // And one rotation that nobody asks for and nobody disturbs.
        let made = done(&keeper, 0, "new-authority").await?;
        let published = done(&keeper, made, "publish").await?;
        done(&keeper, published, "issue").await
    };
    let drill = async {
        let drilled = kills.await;
        stop.store(true, Ordering::Relaxed);
        drilled
    };
    let (drilled, shaken, asked) = tokio::join!(drill, keep_shaking(&rig, &addresses, &stop), asker.keep_asking(&stop));
    drilled.unwrap();
    let ((handshakes, certificates), asked) = (shaken.unwrap(), asked.unwrap());
    println!("{asked} admissions, {handshakes} handshakes, {certificates} certificates");
    assert!(
        certificates >= 3 && handshakes > 300 && asked > 1000,
        "{certificates} {handshakes} {asked}"
    );
    assert!((failed_open(&rig.cluster).await.unwrap() - before).abs() < 0.5);
}
