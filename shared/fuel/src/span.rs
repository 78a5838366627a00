//! A place in a file, and the excerpt of the file that shows it.

use std::fmt;

/// The place of an error in a file or template.
///
/// Displayed as `file:line:column`, without the parts that are not known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Span {
    /// The name of the file or template, as the caller gave it; empty if it is not known.
    pub file: String,
    /// The line, counted from 1; 0 if it is not known.
    pub line: usize,
    /// The column in characters, counted from 1; 0 if it is not known.
    pub column: usize,
}

impl Span {
    /// Returns the place at a line and a column, both counted from 1; 0 stands for unknown.
    pub fn new(file: impl Into<String>, line: usize, column: usize) -> Self {
        Self {
            file: file.into(),
            line,
            column,
        }
    }

    /// Returns the place at an offset in bytes. An offset beyond the end is that of the end.
    pub fn at_byte(file: impl Into<String>, text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.chars().rev().take_while(|c| *c != '\n').count();
        Self::new(file, line, column)
    }

    /// Returns the same line and column in a file of this name.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = file.into();
        self
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line == 0 {
            return Ok(());
        }
        if !self.file.is_empty() {
            f.write_str(":")?;
        }
        write!(f, "{}", self.line)?;
        if self.column > 0 {
            write!(f, ":{}", self.column)?;
        }
        Ok(())
    }
}

/// The columns of a line that an excerpt shows at most.
const COLUMNS: usize = 120;

/// The columns before the caret that the excerpt of a longer line shows.
const BEFORE: usize = 60;

/// Returns the line of `text` at `span` with its number and a caret below the column, or an empty
/// string if `text` does not have the line. The caret needs a column.
///
/// Shows at most 120 columns of the line; control characters and tabs are shown as spaces. The
/// excerpt repeats content: a caller must not show it for text that may hold secret values, such as
/// a decrypted file.
///
/// ```
/// use driftless_fuel::{Span, excerpt};
///
/// let text = "kind: ConfigMap\ndata: {a: b\n";
/// assert_eq!(
///     excerpt(text, &Span::new("app.yaml", 2, 7)),
///     " --> app.yaml:2:7\n  |\n2 | data: {a: b\n  |       ^\n",
/// );
/// assert_eq!(excerpt(text, &Span::new("app.yaml", 9, 1)), "");
/// ```
pub fn excerpt(text: &str, span: &Span) -> String {
    let Some(line) = span
        .line
        .checked_sub(1)
        .and_then(|index| text.lines().nth(index))
    else {
        return String::new();
    };
    let (shown, caret) = window(line, span.column);
    let number = span.line.to_string();
    let gutter = " ".repeat(number.len());
    let mut result = format!("{gutter}--> {span}\n{gutter} |\n{number} | {shown}\n");
    if let Some(caret) = caret {
        result.push_str(&format!("{gutter} | {}^\n", " ".repeat(caret)));
    }
    result
}

/// Returns the part of a line around a column, and the characters before the caret in it.
fn window(line: &str, column: usize) -> (String, Option<usize>) {
    let length = line.chars().count();
    // A place after the end of the line is shown directly after it.
    let caret = column.checked_sub(1).map(|before| before.min(length));
    let start = match caret {
        Some(before) if length > COLUMNS => before.saturating_sub(BEFORE).min(length - COLUMNS),
        _ => 0,
    };
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let shown = line.chars().skip(start).take(COLUMNS).map(visible);
    let shown: String = shown.collect();
    (
        shown.trim_end().to_owned(),
        caret.map(|before| before - start),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parts_are_left_out() {
        let shown = |file: &str, line, column| Span::new(file, line, column).to_string();
        assert_eq!(shown("a.yaml", 3, 4), "a.yaml:3:4");
        assert_eq!(shown("a.yaml", 3, 0), "a.yaml:3");
        assert_eq!(shown("a.yaml", 0, 0), "a.yaml");
        assert_eq!(shown("", 3, 4), "3:4");
        assert_eq!(Span::default().to_string(), "");
    }

    #[test]
    fn an_offset_has_a_line_and_a_column_in_characters() {
        let text = "é\nüx";
        let at = |offset| {
            let span = Span::at_byte("", text, offset);
            (span.line, span.column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (1, 2));
        assert_eq!(at(3), (2, 1));
        assert_eq!(at(4), (2, 1), "inside a character");
        assert_eq!(at(5), (2, 2));
        assert_eq!(at(99), (2, 3));
    }

    #[test]
    fn the_caret_stands_below_the_column() {
        let text = "one\n\ttwo: [é, x\r\n";
        assert_eq!(
            excerpt(text, &Span::new("f", 2, 11)),
            " --> f:2:11\n  |\n2 |  two: [é, x\n  |           ^\n"
        );
        assert_eq!(
            excerpt(text, &Span::new("f", 1, 0)),
            " --> f:1\n  |\n1 | one\n"
        );
        assert_eq!(
            excerpt(text, &Span::new("f", 1, 50)),
            " --> f:1:50\n  |\n1 | one\n  |    ^\n"
        );
        assert_eq!(excerpt(text, &Span::new("f", 0, 0)), "");
        assert_eq!(excerpt(text, &Span::new("f", 3, 1)), "");
    }

    #[test]
    fn a_long_line_is_shown_around_the_column() {
        let long = "x".repeat(1_000) + "!" + &"y".repeat(1_000);
        let shown = excerpt(&long, &Span::new("f", 1, 1_001));
        let lines: Vec<_> = shown.lines().collect();
        let (text, caret) = (&lines[2][4..], &lines[3][4..]);
        assert_eq!(text.len(), COLUMNS);
        assert_eq!(text.find('!'), caret.find('^'));
        let end = excerpt(&long, &Span::new("f", 1, 2_001));
        assert!(end.lines().all(|line| line.len() <= COLUMNS + 4), "{end}");
        assert!(excerpt(&long, &Span::new("f", 1, 1)).contains("\n  | ^\n"));
    }
}
