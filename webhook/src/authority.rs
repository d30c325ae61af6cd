//! The webhook's own authorities and leaves: made, read from the Secret that holds them, and put into it. No I/O; the time is an argument.
//!
//! ECDSA on P-256. An authority signs leaves only, a leaf is for servers only. Both are valid from an hour before they are made, for
//! apiservers whose clock is slow.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pem::Pem;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use thiserror::Error;
use time::OffsetDateTime;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::certificate::Certificate;
use crate::rotation::{BACKDATED, Leaf, Life, Policy, Seconds, State, is_unused};

/// How many authorities are kept at most: a rotation needs two.
const MOST_AUTHORITIES: usize = 4;

/// The chain that is served, in the Secret.
pub const CHAIN: &str = "tls.crt";
/// Its key.
pub const KEY: &str = "tls.key";
/// The authorities that are trusted, the newest first.
pub const AUTHORITIES: &str = "ca.crt";
/// The key of the newest authority.
pub const AUTHORITY_KEY: &str = "ca.key";

/// Why a certificate was not made.
#[derive(Debug, Error)]
pub enum MakeError {
    /// A name that no certificate can have, a time that no certificate can show, or no randomness.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// A lifetime beyond the calendar.
    #[error("cannot make a certificate: {0}")]
    Time(#[from] time::error::ComponentRange),
    /// There is no authority to sign it.
    #[error("cannot make a certificate: there is no authority with a key to sign it")]
    NoAuthority,
}

/// An authority, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority {
    pem: String,
    life: Life,
}

/// What is served, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Served {
    chain: String,
    key: String,
}

/// What the Secret holds, as far as it can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    authorities: Vec<Authority>,
    /// Fits the first authority.
    key: Option<String>,
    served: Option<Served>,
}

impl Holdings {
    /// Reads the data of the Secret. What cannot be read is as if it were not there; other certificates than ours are adopted.
    pub fn read(data: &BTreeMap<String, Vec<u8>>) -> Self {
        let text = |name: &str| String::from_utf8(data.get(name)?.clone()).ok();
        let authorities = text(AUTHORITIES).map(|text| authorities(&text)).unwrap_or_default();
        let key = text(AUTHORITY_KEY).filter(|key| authorities.first().is_some_and(|first| fits(first, key)));
        let served = text(CHAIN).zip(text(KEY)).map(|(chain, key)| Served { chain, key });
        Self {
            authorities,
            key,
            served: served.filter(|it| Certificate::from_pem(it.chain.as_bytes(), it.key.as_bytes()).is_ok()),
        }
    }

    /// The data of the Secret. Its type asks for chain and key even where there are none yet.
    pub fn data(&self) -> BTreeMap<String, Vec<u8>> {
        let served = self.served.as_ref();
        let entries = [
            (AUTHORITIES, self.bundle()),
            (AUTHORITY_KEY, self.key.clone().unwrap_or_default()),
            (CHAIN, served.map(|it| it.chain.clone()).unwrap_or_default()),
            (KEY, served.map(|it| it.key.clone()).unwrap_or_default()),
        ];
        entries.map(|(name, text)| (name.to_owned(), text.into_bytes())).into()
    }

    /// The authorities to trust, the newest first: what belongs into `caBundle`.
    pub fn bundle(&self) -> String {
        self.authorities
            .iter()
            .map(|authority| authority.pem.as_str())
            .collect()
    }

    /// Is there a certificate to serve, and an authority with its key?
    pub fn is_whole(&self) -> bool {
        self.key.is_some() && self.served.is_some()
    }

    /// The certificate to serve, in DER.
    pub fn served(&self) -> Option<Vec<u8>> {
        Some(pem::parse(&self.served.as_ref()?.chain).ok()?.into_contents())
    }

    /// What the next step depends on. `published_since`: see [`State`].
    pub fn state(&self, names: &[String], published_since: Option<Seconds>) -> State {
        State {
            authorities: self.authorities.iter().map(|it| it.life).collect(),
            can_sign: self.key.is_some(),
            leaf: self.leaf(names),
            published_since,
        }
    }

    fn leaf(&self, names: &[String]) -> Option<Leaf> {
        let pem = pem::parse(&self.served.as_ref()?.chain).ok()?;
        let (_, leaf) = X509Certificate::from_der(pem.contents()).ok()?;
        let newest = pem::parse(&self.authorities.first()?.pem).ok()?;
        let (_, newest) = X509Certificate::from_der(newest.contents()).ok()?;
        let named = names_of(&leaf);
        Some(Leaf {
            life: life(&leaf),
            of_newest: leaf.verify_signature(Some(newest.public_key())).is_ok(),
            fits: names.iter().all(|name| named.contains(name)),
        })
    }

    /// With an authority made `now`, beside those that are stored here or `published` (PEM) and have not run out.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn with_new_authority(&self, published: &str, policy: &Policy, now: Seconds) -> Result<Self, MakeError> {
        let key = KeyPair::generate()?;
        let mut params = lifetime(now, policy.authority_lifetime)?;
        // Every one has a name of its own, so that a verifier does not try one for another.
        params.distinguished_name = name(&format!("svcplane webhook authority {now}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let mut all = authorities(&params.self_signed(&key)?.pem());
        for other in self.authorities.iter().cloned().chain(authorities(published)) {
            if now < other.life.until && !all.iter().any(|it| it.pem == other.pem) {
                all.push(other);
            }
        }
        all.truncate(MOST_AUTHORITIES);
        Ok(Self {
            authorities: all,
            key: Some(key.serialize_pem()),
            served: self.served.clone(),
        })
    }

    /// With a leaf for these names, made `now`. It ends with its authority at the latest.
    ///
    /// # Errors
    /// There is no authority with a key, or a name is none.
    pub fn with_new_leaf(&self, names: &[String], policy: &Policy, now: Seconds) -> Result<Self, MakeError> {
        let (Some(authority), Some(signing)) = (self.authorities.first(), &self.key) else {
            return Err(MakeError::NoAuthority);
        };
        let issuer = Issuer::from_ca_cert_pem(&authority.pem, KeyPair::from_pem(signing)?)?;
        let key = KeyPair::generate()?;
        let length = policy.leaf_lifetime.min(authority.life.until - now);
        let mut params = lifetime(now, length)?;
        params.subject_alt_names = CertificateParams::new(names.to_vec())?.subject_alt_names;
        params.distinguished_name = name("svcplane webhook");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&key, &issuer)?;
        Ok(Self {
            served: Some(Served {
                chain: leaf.pem(),
                key: key.serialize_pem(),
            }),
            ..self.clone()
        })
    }

    /// Without the authorities that no leaf needs any more (see [`Step::DropOld`](crate::rotation::Step::DropOld)).
    #[must_use]
    pub fn without_old(&self, policy: &Policy, now: Seconds) -> Self {
        let Some((newest, old)) = self.authorities.split_first() else {
            return self.clone();
        };
        let needed = old.iter().filter(|it| !is_unused(it.life, newest.life, policy, now));
        Self {
            authorities: [newest].into_iter().chain(needed).cloned().collect(),
            ..self.clone()
        }
    }
}

/// When the served certificate of this chain ends.
pub(crate) fn ends(der: &[u8]) -> Option<Seconds> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

fn authorities(text: &str) -> Vec<Authority> {
    let blocks = pem::parse_many(text).unwrap_or_default();
    let read = |block: &Pem| {
        let (_, certificate) = X509Certificate::from_der(block.contents()).ok()?;
        Some(Authority {
            pem: pem::encode(block).replace("\r\n", "\n"),
            life: life(&certificate),
        })
    };
    blocks.iter().filter_map(read).collect()
}

fn fits(authority: &Authority, key: &str) -> bool {
    let (Ok(pem), Ok(key)) = (pem::parse(&authority.pem), KeyPair::from_pem(key)) else {
        return false;
    };
    X509Certificate::from_der(pem.contents())
        .is_ok_and(|(_, it)| *it.public_key().subject_public_key.data == *key.public_key_raw())
}

fn life(certificate: &X509Certificate) -> Life {
    let validity = certificate.validity();
    Life {
        made: validity.not_before.timestamp().saturating_add(BACKDATED),
        until: validity.not_after.timestamp(),
    }
}

/// The names that a certificate is for, addresses as text.
fn names_of(certificate: &X509Certificate) -> Vec<String> {
    let named = certificate.subject_alternative_name().ok().flatten();
    let named = named.map(|it| it.value.general_names.as_slice()).unwrap_or_default();
    let text = |name: &GeneralName| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|it| it.to_string()),
        _ => None,
    };
    named.iter().filter_map(text).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

fn lifetime(now: Seconds, length: Seconds) -> Result<CertificateParams, MakeError> {
    let mut params = CertificateParams::default();
    params.not_before = OffsetDateTime::from_unix_timestamp(now - BACKDATED)?;
    params.not_after = OffsetDateTime::from_unix_timestamp(now.saturating_add(length))?;
    Ok(params)
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

#[cfg(test)]
mod tests;
