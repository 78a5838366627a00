//! `get --watch`: the table, and its changes until the command is interrupted: redrawn on a
//! terminal, a line for each change elsewhere.

use super::rows::Columns;
use crate::error::Error;
use crate::follow::Follow;
use crate::term;
use console::Term;
use driftless_kernel::ports::Change;
use driftless_manifest::Object;
use futures::future::try_join_all;

/// Prints the objects of `follows` that pass, and their changes.
///
/// # Errors
/// The hub's.
pub async fn run(
    mut follows: Vec<Follow<'_>>,
    columns: Columns,
    passes: impl Fn(&Object) -> bool,
) -> Result<(), Error> {
    let mut screen = term::draws_on_stdout().then(|| Screen {
        term: Term::stdout(),
        lines: 0,
    });
    let all = |follows: &[Follow<'_>]| {
        let objects = follows.iter().flat_map(Follow::objects);
        objects
            .filter(|object| passes(object))
            .cloned()
            .collect::<Vec<Object>>()
    };
    let mut widths = Vec::new();
    let first = all(&follows);
    match &mut screen {
        Some(screen) => screen.draw(columns, &first)?,
        None => {
            let table = columns.table(&first);
            widths = cells(&table);
            term::result(&term::plain(&table))?;
        }
    }
    loop {
        let changes = try_join_all(follows.iter_mut().map(Follow::next)).await?;
        let changes: Vec<Change> = changes.into_iter().flatten().collect();
        match &mut screen {
            Some(screen) if !changes.is_empty() => screen.draw(columns, &all(&follows))?,
            Some(_) => {}
            None => {
                for change in changes {
                    if let Change::Written(object) = change
                        && passes(&object)
                    {
                        term::result(&term::plain(&line(&columns.row(&object), &widths)))?;
                    }
                }
            }
        }
    }
}

/// Returns the widths of the cells of the first line of a table.
fn cells(table: &str) -> Vec<usize> {
    let first = table.lines().next().unwrap_or_default();
    // The header ends with a space that belongs to no cell.
    let first = first.strip_suffix(' ').unwrap_or(first);
    first.split('\t').map(|cell| cell.chars().count()).collect()
}

/// Returns a row below a printed table.
fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().enumerate().map(|(at, cell)| {
        let width = widths.get(at).copied().unwrap_or_default();
        format!("{cell:<width$}")
    });
    cells.collect::<Vec<_>>().join("\t") + "\t\n"
}

/// A table on a terminal, which the next one replaces.
struct Screen {
    term: Term,
    /// The number of lines that are drawn now.
    lines: usize,
}

impl Screen {
    /// Replaces the table. Lines are cut at the width of the terminal, and rows at its height.
    fn draw(&mut self, columns: Columns, objects: &[Object]) -> Result<(), Error> {
        let (height, width) = self.term.size();
        let (height, width) = (usize::from(height), usize::from(width));
        // A terminal counts a tab to the next multiple of 8: the columns are already aligned.
        let table = term::plain(&columns.table(objects)).into_owned();
        let table = match term::colours_on_stdout() {
            true => columns.paint(&table),
            false => table,
        };
        let mut lines: Vec<String> = table
            .lines()
            .map(|line| console::truncate_str(&line.replace('\t', "  "), width, "…").into_owned())
            .collect();
        let most = height.saturating_sub(2).max(2);
        if lines.len() > most {
            let more = lines.len() - most;
            lines.truncate(most);
            lines.push(format!("… and {more} more: make the terminal higher, or select with -n or --status-selector"));
        }
        let failed =
            |error: std::io::Error| Error::caused_by(error).context("draw on the terminal");
        self.term.clear_last_lines(self.lines).map_err(failed)?;
        self.lines = lines.len();
        self.term
            .write_str(&(lines.join("\n") + "\n"))
            .map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_rows_are_aligned_with_the_table() {
        let widths = cells("NAME\tREVISION  \tREADY \n");
        let row = ["apps", "main@sha1", "True"].map(str::to_owned);
        assert_eq!(line(&row, &widths), "apps\tmain@sha1 \tTrue \t\n");
    }
}
