use std::fmt::{self, Write};

/// The most that is said of what went wrong, in bytes: a component chooses the names in it.
pub(crate) const LONGEST: usize = 1024;

/// The mark at the end of a text that goes on.
const MORE: &str = "...";

/// A text that is cut where it gets too long; what comes after is not even kept.
#[derive(Debug)]
pub(crate) struct Saying {
    text: String,
    most: usize,
    is_cut: bool,
}

impl Saying {
    /// An empty one. It takes so many bytes, and the mark where it is cut comes on top.
    pub(crate) fn of_at_most(most: usize) -> Self {
        Self {
            text: String::new(),
            most,
            is_cut: false,
        }
    }

    /// The text as it is, or its beginning.
    pub(crate) fn text(mut self) -> String {
        if self.is_cut {
            self.text.push_str(MORE);
        }
        self.text
    }

    /// The text in one line, without characters that a terminal would obey.
    pub(crate) fn in_one_line(self) -> String {
        let text = self.text().replace(char::is_control, " ");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Write for Saying {
    /// Fails where the text has been cut.
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = self.most - self.text.len();
        if !self.is_cut && more.len() <= room {
            self.text.push_str(more);
            return Ok(());
        }
        if !self.is_cut {
            self.is_cut = true;
            let end = (0..=room).rev().find(|end| more.is_char_boundary(*end));
            self.text.push_str(&more[..end.unwrap_or_default()]);
        }
        Err(fmt::Error)
    }
}

/// The beginning of a text, of at most so many bytes, and a mark if it goes on.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    let mut said = Saying::of_at_most(most);
    // What is past the end is left out.
    let _ = said.write_str(text);
    said.text()
}

/// The same in one line, for lists and terminals.
pub(crate) fn line(text: &str) -> String {
    let mut said = Saying::of_at_most(LONGEST);
    // What is past the end is left out.
    let _ = said.write_str(text);
    said.in_one_line()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_two_characters() {
        assert_eq!(beginning("four", 4), "four");
        assert_eq!(beginning("fives", 4), "five...");
        assert_eq!(beginning("aüb", 2), "a...");
        assert_eq!(beginning("aüb", 3), "aü...");
    }

    #[test]
    fn nothing_follows_what_has_been_cut() {
        let mut said = Saying::of_at_most(4);
        let more = "bcdef";
        assert!(write!(said, "a{more}").is_err());
        assert!(said.write_str("g").is_err());
        assert_eq!(said.text(), "abcd...");
    }

    #[test]
    fn a_line_has_nothing_that_a_terminal_obeys() {
        assert_eq!(line("a\u{1b}[2J\n\u{9b}b\u{7}"), "a [2J b");
        assert_eq!(line(&"ü".repeat(LONGEST)).len(), LONGEST + MORE.len());
    }
}
