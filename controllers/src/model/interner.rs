//! One copy of every text that recurs: namespaces, Node names, labels, port names, Pod names.

use std::sync::Arc;

/// Longer texts (annotations) are not shared: they do not recur, and those that nobody needs any more would pile up between two sweeps.
/// Label keys, the longest texts that recur, have at most 317 bytes.
const LONGEST_SHARED: usize = 512;

/// Hands out the same `Arc<str>` for the same text for as long as somebody holds it.
#[derive(Debug)]
pub struct Interner {
    texts: std::collections::HashSet<Arc<str>, ahash::RandomState>,
    sweep_at: usize,
}

impl Default for Interner {
    fn default() -> Self {
        Self {
            texts: std::collections::HashSet::default(),
            sweep_at: 1024,
        }
    }
}

impl Interner {
    /// The shared copy of `text`; one of its own if it is long.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if text.len() > LONGEST_SHARED {
            return text.into();
        }
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        if self.texts.len() >= self.sweep_at {
            // Only texts that nobody else holds go; doubling the mark keeps the cost per text constant.
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = (self.texts.len() * 2).max(1024);
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&shared));
        shared
    }

    /// Texts held.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// True if no text is held.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_one_copy_and_unheld_texts_go() {
        let mut interner = Interner::default();
        let kept = interner.get("web");
        assert!(Arc::ptr_eq(&kept, &interner.get("web")));
        for number in 0..10_000 {
            interner.get(&format!("pod-{number}"));
        }
        assert!(interner.len() <= 1025, "{} texts held", interner.len());
        assert!(Arc::ptr_eq(&kept, &interner.get("web")));
    }

    /// An annotation may be 256 KB long and change a thousand times.
    #[test]
    fn long_texts_are_not_held() {
        let mut interner = Interner::default();
        for number in 0..100 {
            let text = format!("{number:01000}");
            assert_eq!(&*interner.get(&text), text);
        }
        assert!(interner.is_empty());
        // The longest label key: a prefix of 253, a slash, a name of 63.
        interner.get(&"k".repeat(317));
        assert_eq!(interner.len(), 1);
    }
}
