//! Flags of the admission webhook.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use svcplane_webhook::admission::{EarlyValidation, Settings};
use svcplane_webhook::filling::Allocate;
use svcplane_webhook::policy::ExternalIps;

use super::RangeArgs;
use super::certificate::{CertificateArgs, Source};
use super::explain::webhook_service;
use crate::model::ObjectKey;

/// See the module.
#[derive(Debug, Args)]
#[command(next_help_heading = "Admission webhook")]
pub struct WebhookArgs {
    /// Where the webhook listens, such as 0.0.0.0:9443; without it there is no webhook, and the other flags of this section have no effect
    #[arg(long, value_name = "IP:PORT")]
    pub webhook_address: Option<SocketAddr>,

    /// Its certificate.
    #[command(flatten)]
    pub certificate: CertificateArgs,

    /// Where ClusterIPs and nodePorts are chosen at admission: for Services that a pool governs, for all, or not at all
    #[arg(long, value_enum, default_value_t = Where::Pooled)]
    pub allocate: Where,

    /// What becomes of Services that the apiserver would refuse: refused with an explanation, warned of, or left to the apiserver
    #[arg(long, value_enum, default_value_t = Early::True)]
    pub early_validation: Early,

    /// Which spec.externalIPs Services may have: allow, deny, or those inside these CIDRs (CVE-2020-8554)
    #[arg(long, value_name = "allow|deny|CIDR,…", default_value = "allow")]
    pub external_ips: ExternalIps,

    /// Refuse what cannot be checked against an enforced pool, instead of leaving it to the apiserver with a warning
    #[arg(long)]
    pub webhook_strict: bool,

    /// The Service of the webhook, whose EndpointSlices name the replicas that serve it; without it this one is alone
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = webhook_service, conflicts_with = "webhook_peers")]
    pub webhook_service: Option<ObjectKey>,

    /// The replicas that serve the webhook, where no Service names them
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub webhook_peers: Vec<String>,

    /// Name of this replica in --webhook-peers; with --webhook-service the uid of its Pod
    #[arg(long, value_name = "NAME", env = "POD_UID")]
    pub webhook_self: Option<String>,

    /// The values that there are.
    #[command(flatten)]
    pub ranges: RangeArgs,
}

impl WebhookArgs {
    /// Checks what clap cannot check alone. The error names the flag and what would be right.
    pub fn check(&self) -> Result<(), String> {
        self.ranges.check()?;
        let source = self.source()?;
        if self.webhook_address.is_some() && source.is_none() {
            return Err(
                "--webhook-address needs a certificate: --webhook-tls-secret, or --webhook-tls-cert-file and --webhook-tls-private-key-file"
                    .to_owned(),
            );
        }
        let needed = |by: &str| {
            Err(format!(
                "{by} needs --webhook-self: which of the replicas this is; in a Pod, its uid as $POD_UID"
            ))
        };
        match &self.webhook_self {
            None if self.webhook_service.is_some() => needed("--webhook-service"),
            None if !self.webhook_peers.is_empty() => needed("--webhook-peers"),
            Some(me) if !self.webhook_peers.is_empty() && !self.webhook_peers.contains(me) => Err(format!(
                "--webhook-self={me} is not among --webhook-peers={}",
                self.webhook_peers.join(",")
            )),
            _ => Ok(()),
        }
    }

    /// Where the certificate comes from, if one is given. The error names the flag.
    pub fn source(&self) -> Result<Option<Source>, String> {
        self.certificate.source(self.webhook_service.as_ref())
    }

    /// What the cluster's owner has decided.
    pub fn settings(&self) -> Settings {
        Settings {
            early_validation: self.early_validation.into(),
            strict: self.webhook_strict,
            external_ips: self.external_ips.clone(),
            allocate: self.allocate.into(),
        }
    }

    /// This replica, and all that serve the webhook, as far as flags say it.
    pub fn members(&self) -> (&str, Vec<Arc<str>>) {
        let me = self.webhook_self.as_deref().unwrap_or("self");
        let peers: Vec<Arc<str>> = self.webhook_peers.iter().map(|name| name.as_str().into()).collect();
        let all = if peers.is_empty() { vec![me.into()] } else { peers };
        // Until its Service says who there is, no block of a range is ours.
        (
            me,
            if self.webhook_service.is_some() {
                Vec::new()
            } else {
                all
            },
        )
    }
}

/// `--allocate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Where {
    /// Nowhere: the apiserver allocates everything
    Off,
    /// Where a pool governs the Service
    Pooled,
    /// Everywhere
    All,
}

impl From<Where> for Allocate {
    fn from(flag: Where) -> Self {
        match flag {
            Where::Off => Self::Off,
            Where::Pooled => Self::Pooled,
            Where::All => Self::All,
        }
    }
}

/// `--early-validation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// Refuse.
    True,
    /// Warn.
    Warn,
    /// Do not judge.
    False,
}

impl ValueEnum for Early {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::True, Self::Warn, Self::False]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::True => ("true", "Refuse them"),
            Self::Warn => (
                "warn",
                "Warn: for an apiserver that is newer than the rules of this version",
            ),
            Self::False => ("false", "Leave them to the apiserver"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl From<Early> for EarlyValidation {
    fn from(flag: Early) -> Self {
        match flag {
            Early::True => Self::Refuse,
            Early::Warn => Self::Warn,
            Early::False => Self::Off,
        }
    }
}
