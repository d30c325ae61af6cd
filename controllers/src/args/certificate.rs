//! Flags of the webhook's certificate.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use svcplane_runtime::args::duration;
use svcplane_webhook::rotation::Policy;

use super::explain::webhook_secret;
use crate::certificate::{CertificateFiles, Keeping};
use crate::model::ObjectKey;

/// How long apiservers may take to trust what was published.
const GRACE: i64 = 5;

/// See the module.
#[derive(Debug, Args)]
pub struct CertificateArgs {
    /// Certificate chain of the webhook, PEM; read again when it changes
    #[arg(long, value_name = "PATH", requires = "webhook_tls_private_key_file")]
    pub webhook_tls_cert_file: Option<PathBuf>,

    /// Private key of the webhook, PEM; read again when it changes
    #[arg(long, value_name = "PATH", requires = "webhook_tls_cert_file")]
    pub webhook_tls_private_key_file: Option<PathBuf>,

    /// The Secret of type kubernetes.io/tls with the webhook's certificate, instead of files; watched through the apiserver
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = webhook_secret, conflicts_with = "webhook_tls_cert_file")]
    pub webhook_tls_secret: Option<ObjectKey>,

    /// The leader makes the certificate in that Secret, renews it, and publishes its authority in the webhook configurations
    #[arg(long, requires = "webhook_tls_secret")]
    pub webhook_tls_self_managed: bool,

    /// Names and addresses that a self-managed certificate is for, beside those of --webhook-service
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub webhook_tls_names: Vec<String>,

    /// How long a self-managed certificate lives; it is renewed after two thirds of that, or up to a thirtieth earlier
    #[arg(long, value_name = "DURATION", default_value = "2160h", value_parser = duration, allow_hyphen_values = true)]
    pub webhook_tls_lifetime: Duration,

    /// How long the authority of a self-managed certificate lives; at least twice as long
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = duration, allow_hyphen_values = true)]
    pub webhook_tls_authority_lifetime: Duration,

    /// The Deployment that owns the Secret of a self-managed certificate: they go together
    #[arg(long, value_name = "NAME")]
    pub webhook_tls_owner: Option<String>,

    /// The name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration in which its authority is published
    #[arg(long, value_name = "NAME", default_value = "zz-svcplane")]
    pub webhook_configuration: String,
}

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// From files.
    Files(CertificateFiles),
    /// From a Secret that somebody else keeps.
    Secret(ObjectKey),
    /// From a Secret that the leader keeps.
    SelfManaged(Keeping),
}

impl CertificateArgs {
    /// Where it comes from, if one is given. `service`: the webhook's. The error names the flag and what would be right.
    pub fn source(&self, service: Option<&ObjectKey>) -> Result<Option<Source>, String> {
        if let (Some(chain), Some(key)) = (&self.webhook_tls_cert_file, &self.webhook_tls_private_key_file) {
            let (chain, key) = (chain.clone(), key.clone());
            return Ok(Some(Source::Files(CertificateFiles { chain, key })));
        }
        let Some(secret) = &self.webhook_tls_secret else {
            return Ok(None);
        };
        if !self.webhook_tls_self_managed {
            return Ok(Some(Source::Secret(secret.clone())));
        }
        let names = self.names(service);
        if names.is_empty() {
            return Err("--webhook-tls-self-managed needs --webhook-service or --webhook-tls-names: what the certificate is for".to_owned());
        }
        Ok(Some(Source::SelfManaged(Keeping {
            secret: secret.clone(),
            names,
            policy: self.policy()?,
            configuration: self.webhook_configuration.clone(),
            owner: self.webhook_tls_owner.clone(),
        })))
    }

    /// As the apiserver calls a Service, and what else is wanted.
    fn names(&self, service: Option<&ObjectKey>) -> Vec<String> {
        let of = |ObjectKey { namespace, name }: &ObjectKey| {
            [
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}"),
                name.to_string(),
            ]
        };
        let service = service.map(of).into_iter().flatten();
        service.chain(self.webhook_tls_names.iter().cloned()).collect()
    }

    fn policy(&self) -> Result<Policy, String> {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let (leaf, authority) = (
            seconds(self.webhook_tls_lifetime),
            seconds(self.webhook_tls_authority_lifetime),
        );
        // Enough for a leader to fail and for another one to go through all steps within the last third.
        if leaf < 6 * GRACE {
            return Err(format!(
                "--webhook-tls-lifetime must be {}s or longer; the default is 2160h",
                6 * GRACE
            ));
        }
        if authority < leaf.saturating_mul(2) {
            return Err(
                "--webhook-tls-authority-lifetime must be at least twice --webhook-tls-lifetime; the default is 8760h"
                    .to_owned(),
            );
        }
        Ok(Policy {
            leaf_lifetime: leaf,
            authority_lifetime: authority,
            grace: GRACE,
            early: 0,
        })
    }
}
