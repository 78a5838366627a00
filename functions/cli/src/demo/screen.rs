//! The state of the fleet, as a tree that is redrawn in place on a terminal, else as lines.

use super::line::Line;
use super::region::{Region, Size};
use super::tree::{mark, screen, summary};
use crate::term;
use console::Term;
use driftless_fleet::embedded::{Row, State};
use driftless_flux::ObjectRef;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time that an object must be not ready before a line reports it: most such states are short.
const REPORT_DELAY: Duration = Duration::from_millis(400);
/// The size of a terminal that does not report one.
const DEFAULT_SIZE: Size = (24, 80);
/// The smallest size of the drawing.
const MIN_SIZE: Size = (4, 10);

/// The output for the state of the fleet.
pub enum Screen {
    /// A tree, on a terminal.
    Live(LiveTree),
    /// Lines for what changed.
    Lines(Lines),
}

/// A tree, and the lines below it.
pub struct LiveTree {
    term: Term,
    region: Region<Term>,
    drawn: Option<(Size, Vec<Row>, Vec<Line>)>,
}

/// The printed lines of each object, and the time of the last change.
#[derive(Default)]
pub struct Lines {
    objects: BTreeMap<(String, ObjectRef), ObjectLines>,
    is_footer_printed: bool,
}

struct ObjectLines {
    text: Vec<String>,
    since: Instant,
    is_printed: bool,
}

impl Screen {
    /// Creates the output on stderr. It is a list of lines if others write there, because they
    /// would break a tree that is redrawn in place.
    pub fn new(is_shared: bool) -> Self {
        if is_shared || !term::draws() {
            return Self::Lines(Lines::default());
        }
        Self::Live(LiveTree {
            term: Term::stderr(),
            region: Region::new(Term::stderr()),
            drawn: None,
        })
    }

    /// Shows the current state and the lines below it. Must be called repeatedly, also without
    /// changes, because the size of the terminal may change.
    pub fn draw(&mut self, rows: &[Row], footer: &[Line]) {
        match self {
            Self::Live(live) => live.draw(rows, footer),
            Self::Lines(lines) => lines.draw(rows, footer),
        }
    }
}

impl LiveTree {
    fn draw(&mut self, rows: &[Row], footer: &[Line]) {
        let reported = self.term.size_checked();
        let (height, columns) = reported
            .filter(|size| *size != (0, 0))
            .unwrap_or(DEFAULT_SIZE);
        let size = (height.max(MIN_SIZE.0), columns.max(MIN_SIZE.1));
        let is_drawn = self.drawn.as_ref().is_some_and(|(of, tree, below)| {
            *of == size && tree.as_slice() == rows && below.as_slice() == footer
        });
        if is_drawn {
            return;
        }
        // The cursor has the row below.
        let (width, most) = (usize::from(size.1), usize::from(size.0) - 1);
        let shown = screen(rows, footer, width, most, term::colours());
        // If stderr is closed, the output has no reader.
        if self.region.draw(&shown, size).is_ok() {
            self.drawn = Some((size, rows.to_vec(), footer.to_vec()));
        }
    }
}

impl Lines {
    fn draw(&mut self, rows: &[Row], footer: &[Line]) {
        rows.iter().for_each(|row| self.object(row));
        if !footer.is_empty() && !std::mem::replace(&mut self.is_footer_printed, true) {
            let mut lines = footer.iter();
            if let Some(first) = lines.next() {
                term::success(&first.text);
            }
            // The next steps are printed without a mark, for copying.
            lines.for_each(|line| term::line(&line.text));
        }
    }

    fn object(&mut self, row: &Row) {
        let cluster = match row.cluster == row.hub {
            true => row.hub.clone(),
            false => format!("{} → {}", row.hub, row.cluster),
        };
        let mut text = vec![format!("{cluster}: {}{}", row.id, summary(row))];
        text.extend(row.findings.iter().map(ToString::to_string));
        let key = (row.hub.clone(), row.id.clone());
        let known = self.objects.entry(key);
        let known = known.or_insert_with(|| ObjectLines::new(text.clone()));
        if known.text != text {
            *known = ObjectLines::new(text);
        }
        let passing = row.state != State::Ready && known.since.elapsed() < REPORT_DELAY;
        if known.is_printed || passing || row.state == State::Progressing {
            return;
        }
        known.is_printed = true;
        let mark = mark(row.state);
        known.text.iter().for_each(|text| term::marked(mark, text));
    }
}

impl ObjectLines {
    fn new(text: Vec<String>) -> Self {
        Self {
            text,
            since: Instant::now(),
            is_printed: false,
        }
    }
}
