//! The picture of the demo in the README. `cargo test -p driftless --test cli picture -- --ignored`
//! rewrites it.

use driftless_harness::terminal::Terminal;
use std::fmt::Write as _;
use std::num::NonZeroU16;
use std::path::Path;
use vt100::{Cell, Color, Parser, Screen};

const ROWS: u16 = 20;
const COLUMNS: u16 = 84;
/// The sizes of a column, a row and the border in pixels.
const WIDTH: u16 = 8;
const HEIGHT: u16 = 18;
const MARGIN: u16 = 16;
const FOREGROUND: &str = "#e6edf3";

/// Adjacent cells of a row with the same colour.
struct Run {
    column: u16,
    colour: &'static str,
    text: String,
}

fn colour(cell: &Cell) -> &'static str {
    match cell.fgcolor() {
        Color::Idx(1) => "#ff7b72",
        Color::Idx(2) => "#3fb950",
        Color::Idx(3) => "#d29922",
        Color::Idx(6) => "#39c5cf",
        _ => FOREGROUND,
    }
}

fn runs(screen: &Screen, row: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..COLUMNS {
        let Some(cell) = screen.cell(row, column) else {
            break;
        };
        // An empty cell is a blank without a colour.
        let (colour, text) = match cell.contents() {
            "" | " " => (runs.last().map_or(FOREGROUND, |run| run.colour), " "),
            text => (colour(cell), text),
        };
        match runs.last_mut() {
            Some(run) if run.colour == colour => run.text.push_str(text),
            _ => runs.push(Run {
                column,
                colour,
                text: text.to_owned(),
            }),
        }
    }
    runs
}

/// Returns a line of text with its position and width, so that no font moves the next one.
fn text(row: u16, run: &Run) -> String {
    let shown = run.text.trim();
    let indent = run.text.chars().take_while(|one| *one == ' ').count();
    let column = run.column + u16::try_from(indent).expect("a row");
    let escaped = shown.replace('&', "&amp;").replace('<', "&lt;");
    let count = u16::try_from(shown.chars().count()).expect("a row");
    let (x, y) = (MARGIN + column * WIDTH, MARGIN + (row + 1) * HEIGHT - 5);
    let (width, colour) = (count * WIDTH, run.colour);
    format!(r#"<text x="{x}" y="{y}" textLength="{width}" fill="{colour}">{escaped}</text>"#)
}

fn svg(command: &str, screen: &Screen) -> String {
    let (width, height) = (
        2 * MARGIN + COLUMNS * WIDTH,
        2 * MARGIN + (ROWS + 1) * HEIGHT,
    );
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{command}">
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13" style="white-space: pre">
"##
    );
    let prompt = Run {
        column: 0,
        colour: FOREGROUND,
        text: format!("$ {command}"),
    };
    writeln!(svg, "{}", text(0, &prompt)).expect("write to a string");
    for row in 0..ROWS {
        let runs = runs(screen, row);
        for run in runs.iter().filter(|run| !run.text.trim().is_empty()) {
            writeln!(svg, "{}", text(row + 1, run)).expect("write to a string");
        }
    }
    svg + "</g>\n</svg>\n"
}

#[test]
#[ignore = "writes demo.svg"]
fn picture_of_the_demo() {
    let home = tempfile::tempdir().expect("a home");
    let terminal = Terminal::start(home.path(), (ROWS, COLUMNS), &["demo"], &[]);
    terminal.until("the last line", |rows| {
        rows.last().is_some_and(|row| row.ends_with("second"))
    });
    let cells = |number| NonZeroU16::new(number).expect("a terminal has rows and columns");
    let mut parser = Parser::new(cells(ROWS), cells(COLUMNS), 0);
    // Replace the directory, which is different for the reader.
    let directory = home.path().to_str().expect("UTF-8");
    let bytes = terminal.bytes().replace(directory, "/home/me");
    parser.process(bytes.as_bytes());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo.svg");
    std::fs::write(file, svg("driftless demo", parser.screen())).expect("write the picture");
}
