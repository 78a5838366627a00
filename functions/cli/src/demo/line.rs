//! A line of the screen, wrapped to the terminal's width.

use crate::term::{self, Mark};
use console::measure_text_width as width_of;

/// The part of a narrow terminal that the prefix gets at most: one half.
const PREFIX_PART: usize = 2;

/// A line that takes several rows if necessary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The prefix of the first row, before the mark.
    pub prefix: String,
    /// The prefix of the further rows.
    pub next: String,
    /// The mark of an object's state.
    pub mark: Option<Mark>,
    /// The content, without mark and prefix.
    pub text: String,
}

impl Line {
    /// Creates a line without a prefix.
    pub fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Renders the rows of the line, each at most `width` columns wide, with the complete content.
    pub fn rows(&self, width: usize, colours: bool) -> Vec<String> {
        let most = width / PREFIX_PART;
        let mark = self.mark.map_or(0, |_| 2);
        let prefix = cut(&self.prefix, most.saturating_sub(mark));
        let next = cut(&self.next, most);
        let first = width.saturating_sub(width_of(prefix) + mark);
        let text = term::plain(&self.text).replace(['\n', '\t'], " ");
        let texts = wrap(&text, first, width - width_of(next));
        let row = |(at, text): (usize, String)| match (at, self.mark) {
            (0, Some(mark)) => format!("{prefix}{} {text}", mark.coloured(colours)),
            (0, None) => format!("{prefix}{text}"),
            _ => format!("{next}{text}"),
        };
        texts.into_iter().enumerate().map(row).collect()
    }
}

/// Returns the longest start of a string that fits.
fn cut(text: &str, width: usize) -> &str {
    let ends = text.char_indices().map(|(at, one)| at + one.len_utf8());
    let fits = |end: &usize| width_of(&text[..*end]) <= width;
    &text[..ends.take_while(fits).last().unwrap_or(0)]
}

/// Wraps a string: the first row has `first` columns, the others `next`. Parts separated by two
/// spaces are kept together if a row has room for them, and words unless they are wider than a row.
fn wrap(text: &str, first: usize, next: usize) -> Vec<String> {
    let mut rows = Rows {
        rows: vec![String::new()],
        left: first,
        next,
    };
    for (at, part) in text.split("  ").enumerate() {
        let gap = if at == 0 { "" } else { "  " };
        if rows.fits(gap, part) {
            rows.push(gap, part);
        } else if width_of(part) <= next {
            rows.end();
            rows.push("", part);
        } else {
            part.split(' ')
                .enumerate()
                .for_each(|(at, word)| rows.word(if at == 0 { gap } else { " " }, word));
        }
    }
    rows.rows
}

/// The rows so far, and the free columns of the last one.
struct Rows {
    rows: Vec<String>,
    left: usize,
    next: usize,
}

impl Rows {
    fn fits(&self, gap: &str, text: &str) -> bool {
        width_of(gap) + width_of(text) <= self.left
    }

    fn push(&mut self, gap: &str, text: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.push_str(gap);
            row.push_str(text);
            self.left = self.left.saturating_sub(width_of(gap) + width_of(text));
        }
    }

    /// Begins a new row, unless the last one is empty.
    fn end(&mut self) {
        if self.rows.last().is_some_and(|row| !row.is_empty()) {
            self.rows.push(String::new());
            self.left = self.next;
        }
    }

    fn word(&mut self, gap: &str, mut word: &str) {
        if self.fits(gap, word) {
            return self.push(gap, word);
        }
        self.end();
        while width_of(word) > self.left {
            // A row that is too narrow for one character gets it anyway.
            let head = match cut(word, self.left) {
                "" => &word[..word.chars().next().map_or(0, char::len_utf8)],
                head => head,
            };
            self.push("", head);
            self.end();
            word = &word[head.len()..];
        }
        self.push("", word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line {
            prefix: "│  ├─ ".into(),
            next: "│  │    ".into(),
            mark: Some(Mark::Success),
            text: text.into(),
        }
    }

    #[test]
    fn a_line_that_fits_is_one_row() {
        assert_eq!(line("a  b").rows(80, false), ["│  ├─ ✔ a  b"]);
        let painted = line("a").rows(80, true);
        assert_eq!(painted, ["│  ├─ \u{1b}[32m✔\u{1b}[0m a"]);
        assert_eq!(Line::plain("").rows(80, true), [""]);
    }

    #[test]
    fn a_long_line_is_broken_between_words_and_in_what_is_wider_than_a_row() {
        let rows = line("one two  three abcdefghijklmnopqrstuvwxyz").rows(20, false);
        assert_eq!(
            rows,
            [
                "│  ├─ ✔ one two",
                "│  │    three",
                "│  │    abcdefghijkl",
                "│  │    mnopqrstuvwx",
                "│  │    yz",
            ]
        );
    }

    #[test]
    fn wrapping_keeps_each_word_and_the_width() {
        let text =
            "Kustomization/ns/näme 世界世界世界 \u{1b}[31m https://example.com/a/b?c=d\nlast";
        let want: String = term::plain(text).split_whitespace().collect();
        for width in 4..60 {
            for line in [line(text), Line::plain(text)] {
                let rows = line.rows(width, false);
                let found: String = rows
                    .iter()
                    .flat_map(|row| row.chars())
                    .filter(|one| !one.is_whitespace() && !"│├─✔".contains(*one))
                    .collect();
                assert_eq!(found, want, "{width}");
                let wide = rows.iter().find(|row| width_of(row) > width);
                assert_eq!(wide, None, "{width}");
            }
        }
    }
}
