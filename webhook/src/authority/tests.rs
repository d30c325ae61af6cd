use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::*;
use crate::rotation::{Step, next};

const NOW: Seconds = 1_800_000_000;
const POLICY: Policy = Policy {
    leaf_lifetime: 90 * 86_400,
    authority_lifetime: 365 * 86_400,
    grace: 5,
    early: 0,
};

fn names() -> Vec<String> {
    [
        "svcplane-webhook",
        "svcplane-webhook.svcplane.svc",
        "10.0.0.1",
        "fd00::1",
    ]
    .map(String::from)
    .into()
}

/// Does a client that trusts `bundle` take what is served, for this name at this time?
fn trusts(bundle: &str, holdings: &Holdings, name: &str, at: Seconds) -> bool {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .unwrap();
    let leaf = CertificateDer::from_pem_slice(holdings.served.as_ref().unwrap().chain.as_bytes()).unwrap();
    let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at.unsigned_abs()));
    let name = ServerName::try_from(name.to_owned()).unwrap();
    verifier.verify_server_cert(&leaf, &[], &name, &[], time).is_ok()
}

fn first() -> Holdings {
    let authority = Holdings::default().with_new_authority("", &POLICY, NOW).unwrap();
    authority.with_new_leaf(&names(), &POLICY, NOW).unwrap()
}

#[test]
fn a_client_that_trusts_the_bundle_takes_the_leaf_for_its_names_while_it_lives() {
    let made = first();
    for name in ["svcplane-webhook.svcplane.svc", "10.0.0.1", "fd00::1"] {
        for at in [NOW - BACKDATED + 1, NOW, NOW + POLICY.leaf_lifetime - 1] {
            assert!(trusts(&made.bundle(), &made, name, at), "{name} at {at}");
        }
    }
    assert!(!trusts(
        &made.bundle(),
        &made,
        "svcplane-webhook.svcplane.svc",
        NOW + POLICY.leaf_lifetime + 1
    ));
    assert!(!trusts(&made.bundle(), &made, "other.svcplane.svc", NOW));
    assert!(
        !trusts(&first().bundle(), &made, "svcplane-webhook", NOW),
        "another authority"
    );
}

#[test]
fn what_is_stored_is_read_again_as_it_was() {
    let made = first();
    let read = Holdings::read(&made.data());
    assert_eq!(read, made);
    let state = read.state(&names(), Some(NOW - 5));
    let life = |length| Life {
        made: NOW,
        until: NOW + length,
    };
    let leaf = Leaf {
        life: life(POLICY.leaf_lifetime),
        of_newest: true,
        fits: true,
    };
    assert_eq!(
        (state.authorities.clone(), state.leaf),
        (vec![life(POLICY.authority_lifetime)], Some(leaf))
    );
    assert!(state.can_sign);
    assert!(matches!(next(&state, &POLICY, NOW), Step::Wait(_)));
    let more = [names(), vec!["further".into()]].concat();
    assert!(!read.state(&more, None).leaf.unwrap().fits);
}

#[test]
fn rotation_keeps_the_old_authority_until_it_is_of_no_use() {
    let old = first();
    let both = old.with_new_authority("", &POLICY, NOW + 100).unwrap();
    assert_eq!(both.served, old.served);
    assert!(trusts(&both.bundle(), &both, "svcplane-webhook", NOW + 100));
    assert!(!both.state(&names(), None).leaf.unwrap().of_newest);
    let renewed = both.with_new_leaf(&names(), &POLICY, NOW + 200).unwrap();
    assert!(trusts(&renewed.bundle(), &renewed, "svcplane-webhook", NOW + 200));
    assert!(!trusts(&old.bundle(), &renewed, "svcplane-webhook", NOW + 200));
    assert_eq!(renewed.without_old(&POLICY, NOW + 200), renewed);
    let alone = renewed.without_old(&POLICY, NOW + 100 + POLICY.leaf_lifetime);
    assert_eq!(alone.authorities.len(), 1);
    assert!(trusts(&alone.bundle(), &alone, "svcplane-webhook", NOW + 200));
}

#[test]
fn what_cannot_be_read_is_not_there_and_what_others_trust_is_kept() {
    let made = first();
    let broken = |name: &str, text: &[u8]| {
        let mut data = made.data();
        data.insert(name.into(), text.into());
        Holdings::read(&data)
    };
    assert!(
        broken(KEY, first().served.unwrap().key.as_bytes()).served.is_none(),
        "another's key"
    );
    assert!(broken(CHAIN, b"").served.is_none());
    assert!(broken(AUTHORITY_KEY, first().key.unwrap().as_bytes()).key.is_none());
    assert_eq!(broken(AUTHORITIES, &[0xff]).authorities, []);
    assert_eq!(Holdings::read(&BTreeMap::new()), Holdings::default());
    // The Secret is lost: who still shows the old leaf is trusted on.
    let after = Holdings::default()
        .with_new_authority(&made.bundle(), &POLICY, NOW)
        .unwrap();
    assert!(trusts(&after.bundle(), &made, "svcplane-webhook", NOW));
    let late = Holdings::default().with_new_authority(&made.bundle(), &POLICY, NOW + POLICY.authority_lifetime);
    assert_eq!(late.unwrap().authorities.len(), 1, "it has run out");
    let mut many = made;
    for round in 0..6 {
        many = many.with_new_authority("", &POLICY, NOW + round).unwrap();
    }
    assert_eq!(many.authorities.len(), MOST_AUTHORITIES);
    assert!(matches!(
        Holdings::default().with_new_leaf(&names(), &POLICY, NOW),
        Err(MakeError::NoAuthority)
    ));
}
