//! What happens, as a tree that is drawn again in place on a terminal, and as lines elsewhere.

use crate::embedded::{Row, State};
use crate::ready::shorten;
use crate::term;
use driftless_core::flux::ObjectRef;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

/// How long an object must be not ready until a line says so: most of that is over at once.
const PASSING: Duration = Duration::from_millis(400);

/// Where it is shown.
pub enum Screen {
    /// A tree, on a terminal.
    Live(Live),
    /// Lines for what changed.
    Lines(Lines),
}

/// A bar for each line of the tree.
#[derive(Default)]
pub struct Live {
    screen: MultiProgress,
    lines: Vec<ProgressBar>,
    tree: Vec<String>,
    footer: Vec<String>,
}

/// What was told of each object, and since when it is as it is.
#[derive(Default)]
pub struct Lines(BTreeMap<(String, ObjectRef), Line>);

struct Line {
    text: Vec<String>,
    since: Instant,
    told: bool,
}

impl Screen {
    /// On stderr.
    pub fn new() -> Self {
        if io::stderr().is_terminal() {
            Self::Live(Live::default())
        } else {
            Self::Lines(Lines::default())
        }
    }

    /// Shows what is there now. To be called again and again, also when nothing is new.
    pub fn draw(&mut self, rows: &[Row]) {
        match self {
            Self::Live(live) => {
                live.tree = tree(rows);
                live.redraw();
            }
            Self::Lines(lines) => rows.iter().for_each(|row| lines.draw(row)),
        }
    }

    /// Says something below what is shown.
    pub fn say(&mut self, lines: &[String]) {
        match self {
            Self::Live(live) => {
                live.footer = lines.to_vec();
                live.redraw();
            }
            Self::Lines(_) => lines.iter().for_each(|line| term::success(line)),
        }
    }
}

impl Drop for Live {
    /// What was drawn stays.
    fn drop(&mut self) {
        self.lines.iter().for_each(ProgressBar::abandon);
    }
}

impl Live {
    fn redraw(&mut self) {
        let text: Vec<&String> = self.tree.iter().chain(&self.footer).collect();
        while self.lines.len() < text.len() {
            let bar = self.screen.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            self.lines.push(bar);
        }
        for bar in self.lines.drain(text.len()..) {
            bar.finish_and_clear();
        }
        for (bar, text) in self.lines.iter().zip(text) {
            if bar.message() != *text {
                bar.set_message(text.clone());
                bar.tick();
            }
        }
    }
}

impl Lines {
    fn draw(&mut self, row: &Row) {
        let cluster = if row.cluster == row.hub {
            row.hub.clone()
        } else {
            format!("{} → {}", row.hub, row.cluster)
        };
        let mut text = vec![format!("{cluster}: {}{}", row.id, summary(row))];
        text.extend(row.told.iter().map(ToString::to_string));
        let key = (row.hub.clone(), row.id.clone());
        let line = self.0.entry(key).or_insert_with(|| Line::new(text.clone()));
        if line.text != text {
            *line = Line::new(text);
        }
        let passing = row.state != State::Ready && line.since.elapsed() < PASSING;
        if line.told || passing || row.state == State::Progressing {
            return;
        }
        line.told = true;
        for text in &line.text {
            match row.state {
                State::Ready => term::success(text),
                State::Failed => term::failure(text),
                _ => term::waiting(text),
            }
        }
    }
}

impl Line {
    fn new(text: Vec<String>) -> Self {
        Self {
            text,
            since: Instant::now(),
            told: false,
        }
    }
}

/// What is to be told of an object behind its name. What is wrong with it has lines of its own.
fn summary(row: &Row) -> String {
    let message = || shorten(row.message.lines().next().unwrap_or_default());
    match row.state {
        State::Failed => format!("  {}", row.reason),
        State::Ready if row.inventory.is_empty() => format!("  {}", shorten(&row.revision)),
        State::Ready => format!(
            "  {}  {} objects",
            shorten(&row.revision),
            row.inventory.len()
        ),
        State::Suspended => "  suspended".to_owned(),
        State::Waiting | State::Progressing => format!("  {}", message()),
    }
}

/// The objects below the Kustomizations that applied them.
fn tree(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut hubs: Vec<&str> = rows.iter().map(|row| row.hub.as_str()).collect();
    hubs.dedup();
    for hub in hubs {
        lines.push(hub.to_owned());
        let of_hub: Vec<&Row> = rows.iter().filter(|row| row.hub == hub).collect();
        let is_known = |owner: &ObjectRef| of_hub.iter().any(|row| row.id == *owner);
        let is_root = |row: &&&Row| !row.owner.as_ref().is_some_and(is_known);
        let roots = of_hub.iter().filter(is_root).copied().collect();
        branch(&mut lines, &of_hub, roots, "");
    }
    lines
}

fn branch(lines: &mut Vec<String>, all: &[&Row], rows: Vec<&Row>, indent: &str) {
    let last = rows.len().saturating_sub(1);
    for (at, row) in rows.into_iter().enumerate() {
        let (corner, more) = if at == last {
            ("└─", "   ")
        } else {
            ("├─", "│  ")
        };
        let mark = match row.state {
            State::Ready => "✔",
            State::Failed => "✗",
            State::Waiting | State::Progressing => "◎",
            State::Suspended => "‖",
        };
        let arrow = if row.cluster == row.hub {
            String::new()
        } else {
            format!(" → {}", row.cluster)
        };
        lines.push(format!(
            "{indent}{corner} {mark} {}{arrow}{}",
            row.id,
            summary(row)
        ));
        let indent = format!("{indent}{more}");
        lines.extend(row.told.iter().map(|told| format!("{indent}  {told}")));
        let below = all
            .iter()
            .filter(|one| one.owner.as_ref() == Some(&row.id))
            .copied()
            .collect();
        branch(lines, all, below, &indent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_core::flux::FluxKind;

    fn row(kind: FluxKind, name: &str, owner: Option<&str>, state: State) -> Row {
        Row {
            hub: "hub".into(),
            id: ObjectRef::new(kind, "ns", name),
            owner: owner.map(|name| ObjectRef::new(FluxKind::Kustomization, "ns", name)),
            source: None,
            cluster: if name == "far" { "edge" } else { "hub" }.into(),
            state,
            reason: "BuildFailed".into(),
            message: "dependency 'ns/root' is not ready".into(),
            revision: "main@sha1:6f2c1a9e0b3d4c5f6a7b8c9d0e1f2a3b4c5d6e7f".into(),
            inventory: Vec::new(),
            told: Vec::new(),
        }
    }

    #[test]
    fn a_tree_of_owners() {
        let mut failed = row(FluxKind::Kustomization, "far", Some("root"), State::Failed);
        failed.told = vec![crate::embedded::Told {
            place: None,
            message: "no".into(),
        }];
        let rows = [
            row(FluxKind::GitRepository, "root", None, State::Ready),
            row(FluxKind::Kustomization, "root", None, State::Ready),
            failed,
            row(
                FluxKind::Kustomization,
                "late",
                Some("root"),
                State::Waiting,
            ),
            row(
                FluxKind::Kustomization,
                "orphan",
                Some("gone"),
                State::Suspended,
            ),
        ];
        let want = [
            "hub",
            "├─ ✔ GitRepository/ns/root  main@sha1:6f2c1a9e",
            "├─ ✔ Kustomization/ns/root  main@sha1:6f2c1a9e",
            "│  ├─ ✗ Kustomization/ns/far → edge  BuildFailed",
            "│  │    no",
            "│  └─ ◎ Kustomization/ns/late  dependency 'ns/root' is not ready",
            "└─ ‖ Kustomization/ns/orphan  suspended",
        ];
        assert_eq!(tree(&rows), want);
    }
}
