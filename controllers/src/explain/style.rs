//! Words that carry a meaning, in colours and with glyphs on a terminal.

use super::kept::State;
use super::pods::Mark;

/// Plain, or as for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Words only.
    Plain,
    /// Colours and glyphs.
    Terminal,
}

/// What is not plain on a terminal.
#[derive(Clone, Copy, Debug)]
pub enum Colour {
    /// Headings.
    Bold,
    /// Well.
    Green,
    /// Not wholly well.
    Yellow,
    /// Not well.
    Red,
    /// Nobody's concern.
    Dim,
}

impl Style {
    /// In this colour.
    pub fn paint(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Bold => "1",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Red => "31",
            Colour::Dim => "2",
        };
        match self {
            Self::Plain => text.to_owned(),
            Self::Terminal => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    /// Whether a Pod is in.
    pub fn mark(self, mark: Mark) -> String {
        let (word, glyph, colour) = match mark {
            Mark::In => ("in    ", "✔ in    ", Colour::Green),
            Mark::Partly => ("partly", "◐ partly", Colour::Yellow),
            Mark::Out => ("out   ", "✘ out   ", Colour::Red),
            Mark::NotKnown => ("?     ", "? ?     ", Colour::Yellow),
        };
        self.paint(colour, if self == Self::Plain { word } else { glyph })
    }

    /// How what is stored compares.
    pub fn state(self, state: &State) -> String {
        let (word, colour) = match state {
            State::Same => ("same".to_owned(), Colour::Green),
            State::Differs(why) => (format!("differs: {}", why.join(", ")), Colour::Red),
            State::LeftAlone(why) => (format!("left alone: {why}"), Colour::Dim),
            State::NotKnown(why) => (format!("expected: not known ({why})"), Colour::Yellow),
        };
        self.paint(colour, &word)
    }
}
