//! What a cluster is started with.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::credentials::{CA, SERVER_CERTIFICATE, SERVER_KEY, SERVICE_ACCOUNT_KEY, SERVICE_ACCOUNT_PUBLIC_KEY, TOKENS};
use super::{Cluster, credentials};

/// Where Services have their IPv4 addresses.
pub const IPV4_RANGE: &str = "10.96.0.0/16";
const IPV6_RANGE: &str = "fd00:10:96::/112";

/// The kinds of control plane that tests need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavour {
    /// Both families, IPv4 first.
    #[default]
    DualStack,
    /// Both families, IPv6 first.
    Ipv6Primary,
    /// IPv4 alone.
    Ipv4Only,
    /// Dual stack, and the apiserver keeps `default/kubernetes` itself, with this address (from a documentation range).
    LeaseReconciler {
        /// `--advertise-address`.
        advertise: std::net::Ipv4Addr,
    },
}

impl Flavour {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::DualStack => "dual-stack",
            Self::Ipv6Primary => "ipv6-primary",
            Self::Ipv4Only => "ipv4-only",
            Self::LeaseReconciler { .. } => "lease-reconciler",
        }
    }

    fn service_ranges(self) -> String {
        match self {
            Self::DualStack | Self::LeaseReconciler { .. } => format!("{IPV4_RANGE},{IPV6_RANGE}"),
            Self::Ipv6Primary => format!("{IPV6_RANGE},{IPV4_RANGE}"),
            Self::Ipv4Only => IPV4_RANGE.into(),
        }
    }

    /// The family must be that of the first service range. Without a reconciler the address is written nowhere, but
    /// left to itself the apiserver takes one of the machine's, and fails if there is none.
    fn advertise_address(self) -> String {
        match self {
            Self::DualStack | Self::Ipv4Only => "192.0.2.1".into(),
            Self::Ipv6Primary => "2001:db8::1".into(),
            Self::LeaseReconciler { advertise } => advertise.to_string(),
        }
    }
}

/// Settings of a [`Cluster`] to be.
#[derive(Debug, Clone)]
pub struct Builder {
    flavour: Flavour,
    service_ranges: String,
    service_account_admission: bool,
    users: Vec<(String, Vec<String>)>,
    apiserver_args: Vec<String>,
    etcd_data: EtcdData,
}

/// Where etcd keeps its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EtcdData {
    /// In a directory of its own under this one, removed at the end.
    Temporary(PathBuf),
    /// Here, and it stays.
    Kept(PathBuf),
    /// Here, and it is removed at the end.
    Copy(PathBuf),
}

impl Builder {
    pub(super) fn new(flavour: Flavour) -> Self {
        Self {
            flavour,
            service_ranges: flavour.service_ranges(),
            service_account_admission: false,
            users: vec![
                ("admin".into(), vec!["system:masters".into()]),
                ("svcplane".into(), Vec::new()),
            ],
            apiserver_args: Vec::new(),
            etcd_data: EtcdData::Temporary(std::env::temp_dir()),
        }
    }

    /// `--service-cluster-ip-range`, instead of the flavour's.
    #[must_use]
    pub fn service_ranges(mut self, ranges: &str) -> Self {
        self.service_ranges = ranges.into();
        self
    }

    /// A further flag of kube-apiserver, such as `--service-node-port-range=30000-30010`. The last one of a name wins.
    #[must_use]
    pub fn apiserver_arg(mut self, arg: &str) -> Self {
        self.apiserver_args.push(arg.into());
        self
    }

    /// A user who can authenticate, besides `admin` (in `system:masters`) and `svcplane` (in no group).
    #[must_use]
    pub fn user(mut self, name: &str, groups: &[&str]) -> Self {
        self.users
            .push((name.into(), groups.iter().map(ToString::to_string).collect()));
        self
    }

    /// Keeps the ServiceAccount admission plug-in. Pods can then only be created in namespaces whose `default` service
    /// account exists, which takes kube-controller-manager.
    #[must_use]
    pub fn service_account_admission(mut self) -> Self {
        self.service_account_admission = true;
        self
    }

    /// Keeps etcd's data in a new directory below this one, such as one in memory, and removes it at the end.
    #[must_use]
    pub fn etcd_below(mut self, directory: impl Into<PathBuf>) -> Self {
        self.etcd_data = EtcdData::Temporary(directory.into());
        self
    }

    /// Keeps etcd's data in exactly this directory, which may hold those of an earlier cluster and stays at the end.
    #[must_use]
    pub fn etcd_data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.etcd_data = EtcdData::Kept(directory.into());
        self
    }

    /// The same, and it is removed at the end.
    #[must_use]
    pub fn etcd_copy(mut self, directory: impl Into<PathBuf>) -> Self {
        self.etcd_data = EtcdData::Copy(directory.into());
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start(self) -> Result<Cluster> {
        Cluster::start_with(self).await
    }

    pub(super) fn flavour(&self) -> Flavour {
        self.flavour
    }

    pub(super) fn data(&self) -> &EtcdData {
        &self.etcd_data
    }

    pub(super) fn users(&self) -> &[(String, Vec<String>)] {
        &self.users
    }

    pub(super) fn apiserver_args(&self, port: u16, etcd_url: &str, directory: &Path) -> Vec<String> {
        let file = |flag: &str, name: &str| format!("--{flag}={}", directory.join(name).display());
        let reconciler = match self.flavour {
            Flavour::LeaseReconciler { .. } => "lease",
            _ => "none",
        };
        let mut args = vec![
            format!("--etcd-servers={etcd_url}"),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={port}"),
            format!("--advertise-address={}", self.flavour.advertise_address()),
            format!("--endpoint-reconciler-type={reconciler}"),
            format!("--service-cluster-ip-range={}", self.service_ranges),
            file("tls-cert-file", SERVER_CERTIFICATE),
            file("tls-private-key-file", SERVER_KEY),
            file("token-auth-file", TOKENS),
            "--authorization-mode=RBAC".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            file("service-account-key-file", SERVICE_ACCOUNT_PUBLIC_KEY),
            file("service-account-signing-key-file", SERVICE_ACCOUNT_KEY),
            "--allow-privileged".into(),
        ];
        if !self.service_account_admission {
            args.push("--disable-admission-plugins=ServiceAccount".into());
        }
        args.extend(self.apiserver_args.iter().cloned());
        args
    }

    pub(super) fn controller_manager_args(
        &self,
        port: u16,
        user: &str,
        controllers: &[&str],
        directory: &Path,
    ) -> Vec<String> {
        let file = |flag: &str, name: &str| format!("--{flag}={}", directory.join(name).display());
        let kubeconfig = |user| credentials::kubeconfig_path(directory, user).display().to_string();
        vec![
            format!("--kubeconfig={}", kubeconfig(user)),
            format!("--authentication-kubeconfig={}", kubeconfig("admin")),
            format!("--authorization-kubeconfig={}", kubeconfig("admin")),
            format!("--controllers={}", controllers.join(",")),
            "--leader-elect=false".into(),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={port}"),
            file("tls-cert-file", SERVER_CERTIFICATE),
            file("tls-private-key-file", SERVER_KEY),
            file("root-ca-file", CA),
            file("service-account-private-key-file", SERVICE_ACCOUNT_KEY),
        ]
    }
}
