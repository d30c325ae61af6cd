//! One copy of every text that recurs: namespaces, Node names, labels, port names, Pod names.

use std::sync::Arc;

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
    /// The shared copy of `text`.
    pub fn get(&mut self, text: &str) -> Arc<str> {
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
}
