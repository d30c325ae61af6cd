//! Texts of a cluster as a terminal may show them: whoever may write a Pod's status must not forge lines or set the reader's terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

/// JSON in whose strings what moves the cursor, changes colours or turns the direction of writing stands as an escape that can be read.
pub fn visible(json: &str) -> Cow<'_, str> {
    if !json.contains('\\') && !json.contains(is_hidden) {
        return json.into();
    }
    let mut shown = String::with_capacity(json.len());
    let mut rest = json.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '\\' => escape(&mut shown, &mut rest),
            // Between tokens there may be line breaks, in strings there are none.
            '\n' | '\r' | '\t' => shown.push(char),
            char if is_hidden(char) => {
                // Writing to a String cannot fail.
                let _ = write!(shown, "\\\\u{:04x}", u32::from(char));
            }
            char => shown.push(char),
        }
    }
    shown.into()
}

/// What follows a backslash.
fn escape(shown: &mut String, rest: &mut Peekable<Chars<'_>>) {
    let Some(kind) = rest.next() else { return };
    if kind != 'u' {
        shown.push_str(if matches!(kind, 'n' | 'r' | 't' | 'b' | 'f') {
            "\\\\"
        } else {
            "\\"
        });
        shown.push(kind);
        return;
    }
    let digits: String = rest.by_ref().take(4).collect();
    let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
    shown.push_str(if code.is_some_and(is_hidden) { "\\\\u" } else { "\\u" });
    shown.push_str(&digits);
}

/// Control characters, and those that change the direction of writing or have no width.
fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_can_be_read() {
        let rows = [
            (r#"{"a":"plain"}"#, "plain"),
            (
                r#"{"a":"\u001b[31mRED\u001b[0m\r\nFAKE\u0007"}"#,
                r"\u001b[31mRED\u001b[0m\r\nFAKE\u0007",
            ),
            ("{\"a\":\"x\u{202e}y\u{9b}z\u{7f}\"}", r"x\u202ey\u009bz\u007f"),
            (
                r#"{"a":"\\u001b \"q\" \/ \u00e9 \ud83d\ude00"}"#,
                r#"\u001b "q" / é 😀"#,
            ),
        ];
        for (json, want) in rows {
            let value: Value = serde_json::from_str(&visible(json)).unwrap();
            assert_eq!(value["a"], want, "{json}");
        }
    }

    proptest! {
        #[test]
        fn it_stays_json_with_nothing_hidden(text in any::<String>()) {
            let json = serde_json::to_string_pretty(&serde_json::json!({ "a": text })).unwrap();
            let value: Value = serde_json::from_str(&visible(&json)).unwrap();
            let shown = value["a"].as_str().unwrap();
            prop_assert!(!shown.contains(is_hidden));
            if !text.contains(is_hidden) {
                prop_assert_eq!(shown, text);
            }
        }
    }
}
