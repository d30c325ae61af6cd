//! Names of new slices.

use std::hash::Hasher;

use crate::model::{IpFamily, SliceContent};

/// The longest name of an object.
const LONGEST_NAME: usize = 253;
/// As the apiserver cuts `generateName`.
const LONGEST_BASE: usize = 58;
/// No vowels, and nothing that looks like another: as the apiserver's.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// What the names of new slices begin with. Upstream leaves the dash out where it would make the name too long.
pub(crate) fn name_prefix(service: &str) -> Box<str> {
    if service.len() < LONGEST_NAME {
        format!("{service}-").into()
    } else {
        service.into()
    }
}

/// The name of a new slice, like those that the apiserver makes of `generateName`, but always the same for the same owner, family and
/// `number`: should the reply to a create be lost, the next one meets the slice that is there
/// instead of making a second one.
pub fn name(content: &SliceContent, number: u32) -> String {
    let prefix = content.generate_name.as_deref().unwrap_or(&content.service);
    let mut hasher = Fnv::default();
    for owner in &content.owner_references {
        hasher.write(owner.uid.as_bytes());
    }
    hasher.write(&[match content.family {
        Some(IpFamily::V4) | None => 4,
        Some(IpFamily::V6) => 6,
    }]);
    hasher.write(&number.to_be_bytes());
    let mut rest = hasher.finish();
    let mut text: String = prefix.chars().take(LONGEST_BASE).collect();
    let letters = ALPHABET.len() as u64;
    for _ in 0..5 {
        let place = usize::try_from(rest % letters).unwrap_or(0);
        text.extend(ALPHABET.get(place).map(|letter| char::from(*letter)));
        rest /= letters;
    }
    text
}

/// FNV-1a and a last stir: the same in every build, which the standard library's does not promise.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::endpointslice::fixtures::{World, numbered, service_with};
    use crate::model::Uid;

    fn content(service: &str, uid: &str, family: IpFamily) -> SliceContent {
        let mut service = service_with(service, &[numbered("http", 80)]);
        service.uid = Uid::parse(uid);
        SliceContent {
            family: Some(family),
            ..World::new(service, 100).content_of_new_slice()
        }
    }

    #[test]
    fn names_look_like_generated_ones_and_stay_the_same() {
        let one = content("web", "0b8f3c1e-5a51-4c3c-9f0e-1f2e3d4c5b6a", IpFamily::V4);
        let other = content("web", "u", IpFamily::V4);
        let six = content("web", "u", IpFamily::V6);
        // Not to change from one version to the next.
        assert_eq!(name(&one, 0), "web-2246w");
        let names: HashSet<String> = (0..1000)
            .flat_map(|number| [&one, &other, &six].map(|content| name(content, number)))
            .collect();
        assert!(names.len() > 2_995, "{}", names.len());
        let allowed = |letter: char| u8::try_from(letter).is_ok_and(|letter| ALPHABET.contains(&letter));
        assert!(
            names
                .iter()
                .all(|name| name.len() == 9 && name.chars().skip(4).all(allowed))
        );
        let long = content(&"l".repeat(63), "u", IpFamily::V4);
        assert_eq!(name(&long, 0).len(), 63);
    }
}
