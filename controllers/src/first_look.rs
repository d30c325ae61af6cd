//! The first look of a term at every Service. When it is over, an observer is told how much would be written.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::model::ObjectKey;

/// The first look that is under way, if one is.
#[derive(Debug, Default)]
pub struct FirstLook(Mutex<Option<Pass>>);

#[derive(Debug)]
struct Pass {
    services: usize,
    /// Not looked at yet.
    left: HashSet<ObjectKey, ahash::RandomState>,
    planned: usize,
}

impl FirstLook {
    /// A look at these keys begins; so many of them are Services. The summary, if there is no key.
    pub fn begin(&self, keys: &[ObjectKey], services: usize) -> Option<String> {
        let mut current = self.0.lock();
        *current = Some(Pass {
            services,
            left: keys.iter().cloned().collect(),
            planned: 0,
        });
        summary(&mut current)
    }

    /// This key was looked at, and so many writes were found necessary. The summary, if it was the last one.
    pub fn note(&self, key: &ObjectKey, planned: usize) -> Option<String> {
        let mut current = self.0.lock();
        let pass = current.as_mut()?;
        // A second look at the same key would count the same writes again.
        if pass.left.remove(key) {
            pass.planned += planned;
        }
        summary(&mut current)
    }

    /// The term is over, or the mode is another one.
    pub fn abandon(&self) {
        *self.0.lock() = None;
    }
}

/// Ends a look that is complete.
fn summary(current: &mut Option<Pass>) -> Option<String> {
    let Pass { services, planned, .. } = current.take_if(|pass| pass.left.is_empty())?;
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let (services, planned) = (count(services, "Service"), count(planned, "write"));
    Some(format!("looked at {services}: {planned} planned"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<ObjectKey> {
        names.iter().map(|name| ObjectKey::new("marsh", *name)).collect()
    }

    #[test]
    fn the_summary_comes_once_with_the_last_key() {
        let (look, keys) = (FirstLook::default(), keys(&["a", "b", "leftover"]));
        let [a, b, leftover] = &keys[..] else { panic!() };
        assert_eq!(look.note(a, 9), None, "nothing is under way");
        assert_eq!(look.begin(&keys, 2), None);
        assert_eq!(look.note(a, 2), None);
        assert_eq!(look.note(a, 2), None, "again, because a Pod has changed");
        assert_eq!(look.note(&ObjectKey::new("marsh", "new"), 1), None);
        assert_eq!(look.note(leftover, 1), None);
        assert_eq!(
            look.note(b, 0).as_deref(),
            Some("looked at 2 Services: 3 writes planned")
        );
        assert_eq!(look.note(b, 0), None);

        look.begin(&keys, 2);
        look.abandon();
        for key in &keys {
            assert_eq!(look.note(key, 0), None);
        }
    }

    #[test]
    fn one_is_one_and_none_is_over_at_once() {
        let (look, keys) = (FirstLook::default(), keys(&["a"]));
        assert_eq!(look.begin(&keys, 1), None);
        assert_eq!(
            look.note(&keys[0], 1).as_deref(),
            Some("looked at 1 Service: 1 write planned")
        );
        assert_eq!(
            look.begin(&[], 0).as_deref(),
            Some("looked at 0 Services: 0 writes planned")
        );
        assert_eq!(look.note(&keys[0], 1), None);
    }
}
