//! From the Secret into the server, on every replica: the watch tells of a change at once, where a mounted volume takes a minute or more.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use svcplane_webhook::authority::{CHAIN, KEY};
use svcplane_webhook::certificate::Certificate;
use tokio::sync::watch;

use super::Display;
use super::one::{Known, Watching};
use crate::model::ObjectKey;
use crate::run::until;

/// The Secret whose certificate is served.
pub struct SecretCertificate {
    key: ObjectKey,
    display: Display,
}

impl SecretCertificate {
    /// The Secret of this name.
    pub fn new(key: ObjectKey, display: Display) -> Self {
        Self { key, display }
    }

    /// Starts its watch, and the task that shows what is in it.
    pub fn start(self, client: &Client, watching: &mut Watching<'_>) -> watch::Receiver<Known<Secret>> {
        let api: Api<Secret> = Api::namespaced(client.clone(), &self.key.namespace);
        let known = watching.start("webhook-secret", api, &self.key.name);
        let follow = follow(self, known.clone());
        let follow = until(watching.stop, follow);
        watching.tasks.spawn("webhook certificate", watching.stop, follow);
        known
    }
}

async fn follow(mut certificate: SecretCertificate, mut known: watch::Receiver<Known<Secret>>) {
    let mut shown: Option<(Vec<u8>, Vec<u8>)> = None;
    while known.changed().await.is_ok() {
        let pair = match &*known.borrow_and_update() {
            Known::There(secret) => pair(secret),
            // What was shown is shown on.
            Known::Missing | Known::Nothing => None,
        };
        let Some(pair) = pair.filter(|pair| shown.as_ref() != Some(pair)) else {
            continue;
        };
        match Certificate::from_pem(&pair.0, &pair.1) {
            Ok(new) => certificate.display.show(new),
            Err(error) => {
                let ObjectKey { namespace, name } = &certificate.key;
                certificate
                    .display
                    .refuse(&format!("Secret {namespace}/{name}: {error}"));
            }
        }
        shown = Some(pair);
    }
    // Its watch has ended, which ends the process.
    std::future::pending::<()>().await;
}

/// Chain and key, where they are given: a Secret that its keeper has yet to fill is none.
fn pair(secret: &Secret) -> Option<(Vec<u8>, Vec<u8>)> {
    let data = secret.data.as_ref()?;
    let bytes = |name: &str| data.get(name).map(|it| it.0.clone()).unwrap_or_default();
    let (chain, key) = (bytes(CHAIN), bytes(KEY));
    (!chain.is_empty() || !key.is_empty()).then_some((chain, key))
}
