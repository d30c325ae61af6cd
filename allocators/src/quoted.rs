//! Users' texts in messages.

/// A user's value: quoted, and cut when it is long. An annotation may have a quarter of a megabyte.
pub fn quoted(value: &str) -> String {
    const MOST: usize = 80;
    match value
        .char_indices()
        .nth(MOST)
        .and_then(|(end, _)| value.split_at_checked(end))
    {
        Some((start, _)) => format!("{start:?}..."),
        None => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(quoted("a\"b"), r#""a\"b""#);
        let (fits, long) = ("é".repeat(80), "é".repeat(81));
        assert_eq!(
            (quoted(&fits), quoted(&long)),
            (format!("{fits:?}"), format!("{fits:?}..."))
        );
    }
}
