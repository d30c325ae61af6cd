//! Certificates, keys, tokens and kubeconfigs of one cluster.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rand::distr::{Alphanumeric, SampleString as _};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// File names inside the cluster's directory.
pub(super) const CA: &str = "ca.pem";
pub(super) const SERVER_CERTIFICATE: &str = "server.pem";
pub(super) const SERVER_KEY: &str = "server-key.pem";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "service-account-key.pem";
pub(super) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-account.pem";
pub(super) const TOKENS: &str = "tokens.csv";

/// What a cluster's clients need to know.
#[derive(Debug)]
pub(super) struct Credentials {
    ca_pem: String,
    ca_der: Vec<u8>,
    tokens: BTreeMap<String, String>,
}

impl Credentials {
    /// Makes everything anew and writes it into the directory.
    pub(super) fn create(directory: &Path, users: &[(String, Vec<String>)]) -> Result<Self> {
        let write = |name: &str, content: &str| {
            fs::write(directory.join(name), content)
                .with_context(|| format!("writing {name} into {}", directory.display()))
        };
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        ca.distinguished_name.push(DnType::CommonName, "svcplane tests");
        let certificate = ca.self_signed(&ca_key)?;
        let ca_pem = certificate.pem();

        let server_key = KeyPair::generate()?;
        let names = ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"].map(String::from);
        let server = CertificateParams::new(names)?.signed_by(&server_key, &Issuer::new(ca, ca_key))?;
        write(CA, &ca_pem)?;
        write(SERVER_CERTIFICATE, &server.pem())?;
        write(SERVER_KEY, &server_key.serialize_pem())?;
        let service_account_key = KeyPair::generate()?;
        write(SERVICE_ACCOUNT_KEY, &service_account_key.serialize_pem())?;
        write(SERVICE_ACCOUNT_PUBLIC_KEY, &service_account_key.public_key_pem())?;

        let mut lines = String::new();
        let mut tokens = BTreeMap::new();
        for (user, groups) in users {
            let token = Alphanumeric.sample_string(&mut rand::rng(), 32);
            lines += &format!("{token},{user},{user},\"{}\"\n", groups.join(","));
            tokens.insert(user.clone(), token);
        }
        write(TOKENS, &lines)?;
        Ok(Self {
            ca_pem,
            ca_der: certificate.der().to_vec(),
            tokens,
        })
    }

    pub(super) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    pub(super) fn ca_der(&self) -> &[u8] {
        &self.ca_der
    }

    pub(super) fn token(&self, user: &str) -> Option<&str> {
        self.tokens.get(user).map(String::as_str)
    }

    /// One kubeconfig per user.
    pub(super) fn write_kubeconfigs(&self, directory: &Path, server: &str) -> Result<()> {
        for (user, token) in &self.tokens {
            let path = kubeconfig_path(directory, user);
            fs::write(&path, kubeconfig(server, Some(&directory.join(CA)), user, token)?)
                .with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

pub(super) fn kubeconfig_path(directory: &Path, user: &str) -> PathBuf {
    // A user may be system:serviceaccount:a:b.
    directory.join(format!("{}.kubeconfig", user.replace(['/', ':'], "-")))
}

/// A kubeconfig with one context. JSON is YAML.
pub(crate) fn kubeconfig(server: &str, ca: Option<&Path>, user: &str, token: &str) -> Result<String> {
    let mut cluster = serde_json::json!({ "server": server });
    if let Some(ca) = ca {
        cluster["certificate-authority"] = ca.to_string_lossy().into();
    }
    Ok(serde_json::to_string_pretty(&serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "svcplane-tests", "cluster": cluster }],
        "users": [{ "name": user, "user": { "token": token } }],
        "contexts": [{ "name": "svcplane-tests", "context": { "cluster": "svcplane-tests", "user": user } }],
        "current-context": "svcplane-tests",
    }))?)
}
