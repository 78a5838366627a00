//! Lines at the end of a terminal that are redrawn in place.

use std::io::Write;

/// The rows and columns of a terminal.
pub type Size = (u16, u16);

/// The lines, and the last known size of the terminal.
pub struct Region<W> {
    out: W,
    drawn: usize,
    size: Option<Size>,
}

impl<W: Write> Region<W> {
    /// Creates an empty region. The cursor must be at the start of a row.
    pub fn new(out: W) -> Self {
        Self {
            out,
            drawn: 0,
            size: None,
        }
    }

    /// Replaces the rows in one write. No row may be wider than the terminal, and their number must
    /// be below its height: the cursor is on the row below them, and rows that have left the screen
    /// cannot be redrawn.
    ///
    /// A terminal of another size has wrapped the old rows in an unknown way. Therefore the whole
    /// screen is redrawn from its top.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn draw(&mut self, rows: &[String], size: Size) -> std::io::Result<()> {
        let mut frame = match self.size {
            Some(known) if known != size => "\u{1b}[H\u{1b}[2J".to_owned(),
            _ if self.drawn > 0 => format!("\r\u{1b}[{}A", self.drawn),
            _ => String::new(),
        };
        for row in rows {
            // Erase before the row and not after it: after a full row, the cursor is still on the
            // last character.
            frame.push_str("\u{1b}[2K");
            frame.push_str(row);
            frame.push_str("\r\n");
        }
        frame.push_str("\u{1b}[J");
        (self.drawn, self.size) = (rows.len(), Some(size));
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vt100::Parser;

    struct Terminal(Parser);

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.process(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn cells(number: u16) -> std::num::NonZeroU16 {
        number.try_into().unwrap()
    }

    #[test]
    fn rows_are_drawn_in_place() {
        let mut terminal = Terminal(Parser::new(cells(6), cells(10), 0));
        terminal.write_all(b"before\r\n").unwrap();
        let mut region = Region::new(terminal);
        let mut shows = |rows: &[&str], size: Size, want: &str| {
            let known = region.out.0.screen().size();
            if known != (cells(size.0), cells(size.1)) {
                region.out.0.set_size(cells(size.0), cells(size.1));
            }
            let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
            region.draw(&rows, size).unwrap();
            assert_eq!(region.out.0.screen().contents(), want);
        };
        shows(&["one", "two"], (6, 10), "before\none\ntwo");
        shows(&["1"], (6, 10), "before\n1");
        shows(&["a", "b", "c", "d"], (6, 10), "before\na\nb\nc\nd");
        // Five rows and the cursor's: the earlier row leaves the screen.
        shows(&["a", "b", "c", "d", "e"], (6, 10), "a\nb\nc\nd\ne");
        shows(&["x", "y"], (6, 10), "x\ny");
        shows(&["0123456789", "y"], (6, 10), "0123456789\ny");
        shows(
            &["0123456789", "9876543210"],
            (6, 10),
            "0123456789\n9876543210",
        );
        shows(&["narrow"], (4, 8), "narrow");
        shows(&["wide again"], (6, 12), "wide again");
    }
}
