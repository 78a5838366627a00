//! A tree of objects below the Kustomizations that applied them, as lines.

use super::line::Line;
use crate::ready::shorten;
use crate::term::Mark;
use driftless_fleet::embedded::{Row, State};
use driftless_flux::ObjectRef;

/// Renders the rows of a screen of `width` columns: the tree, then the footer. If they exceed
/// `most`, ready objects are left out and counted, those at the ends of branches first.
pub fn screen(
    rows: &[Row],
    footer: &[Line],
    width: usize,
    most: usize,
    colours: bool,
) -> Vec<String> {
    let fit = |lines: &[Line]| -> Vec<String> {
        let rows = lines.iter().flat_map(|line| line.rows(width, colours));
        rows.collect()
    };
    let footer = fit(footer);
    let mut shown: Vec<&Row> = rows.iter().collect();
    loop {
        let mut all = fit(&tree(&shown));
        let hidden = rows.len() - shown.len();
        if hidden > 0 {
            let text = format!("… and {hidden} more that are ready");
            all.extend(fit(&[Line::plain(text)]));
        }
        let over = (all.len() + footer.len()).saturating_sub(most);
        if over > 0 && leave_out(&mut shown, over) {
            continue;
        }
        if over > 0 {
            // Objects that are not ready are never left out; a terminal that is too low shows the
            // beginning.
            all.truncate(most.saturating_sub(footer.len() + 1));
            all.push("…".to_owned());
        }
        all.extend(footer);
        all.truncate(most);
        return all;
    }
}

/// Leaves out up to `count` objects that are ready and have no objects below them. Returns whether
/// it left out any.
fn leave_out(shown: &mut Vec<&Row>, count: usize) -> bool {
    let is_end = |at: &usize| {
        let row = shown[*at];
        row.state == State::Ready && !shown.iter().any(|one| is_below(one, row))
    };
    let ends: Vec<usize> = (0..shown.len()).rev().filter(is_end).take(count).collect();
    for at in &ends {
        shown.remove(*at);
    }
    !ends.is_empty()
}

fn is_below(one: &Row, row: &Row) -> bool {
    one.hub == row.hub && one.owner.as_ref() == Some(&row.id)
}

/// Renders the lines of rows.
fn tree(rows: &[&Row]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut hubs: Vec<&str> = rows.iter().map(|row| row.hub.as_str()).collect();
    hubs.dedup();
    for hub in hubs {
        lines.push(Line::plain(hub));
        let of_hub: Vec<&Row> = rows.iter().filter(|row| row.hub == hub).copied().collect();
        let is_known = |owner: &ObjectRef| of_hub.iter().any(|row| row.id == *owner);
        let is_root = |row: &&&Row| !row.owner.as_ref().is_some_and(is_known);
        let roots = of_hub.iter().filter(is_root).copied().collect();
        branch(&mut lines, &of_hub, roots, "");
    }
    lines
}

fn branch(lines: &mut Vec<Line>, all: &[&Row], rows: Vec<&Row>, indent: &str) {
    let last = rows.len().saturating_sub(1);
    for (at, row) in rows.into_iter().enumerate() {
        let (corner, more) = match at == last {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        let below: Vec<&Row> = all
            .iter()
            .filter(|one| is_below(one, row))
            .copied()
            .collect();
        let inner = format!("{indent}{more}");
        let next = match below.is_empty() {
            true => format!("{inner}  "),
            false => format!("{inner}│ "),
        };
        lines.push(Line {
            prefix: format!("{indent}{corner}"),
            next: next.clone(),
            mark: Some(mark(row.state)),
            text: format!("{}{}{}", row.id, arrow(row), summary(row)),
        });
        lines.extend(row.findings.iter().map(|finding| Line {
            prefix: next.clone(),
            next: next.clone(),
            mark: None,
            text: finding.to_string(),
        }));
        branch(lines, all, below, &inner);
    }
}

/// Returns the mark of a state.
pub fn mark(state: State) -> Mark {
    match state {
        State::Ready => Mark::Success,
        State::Failed => Mark::Failure,
        State::Waiting | State::Progressing => Mark::Waiting,
        State::Suspended => Mark::Suspended,
    }
}

fn arrow(row: &Row) -> String {
    match row.cluster == row.hub {
        true => String::new(),
        false => format!(" → {}", row.cluster),
    }
}

/// Renders the summary of an object behind its name. Its errors are separate lines.
pub fn summary(row: &Row) -> String {
    let message = || shorten(row.message.lines().next().unwrap_or_default());
    match row.state {
        State::Failed => format!("  {}", row.reason),
        State::Ready if row.inventory.is_empty() => format!("  {}", shorten(&row.revision)),
        State::Ready => {
            let count = match row.inventory.len() {
                1 => "1 object".to_owned(),
                count => format!("{count} objects"),
            };
            format!("  {}  {count}", shorten(&row.revision))
        }
        State::Suspended => "  suspended".to_owned(),
        State::Waiting | State::Progressing => format!("  {}", message()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use driftless_fleet::embedded::Finding;
    use driftless_flux::FluxKind;

    pub fn row(kind: FluxKind, name: &str, owner: Option<&str>, state: State) -> Row {
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
            findings: Vec::new(),
        }
    }

    fn rows() -> [Row; 5] {
        let applied = |name, owner, state| row(FluxKind::Kustomization, name, owner, state);
        let mut failed = applied("far", Some("root"), State::Failed);
        let message = "no field of that name in the object".into();
        failed.findings = vec![Finding {
            place: None,
            message,
        }];
        [
            row(FluxKind::GitRepository, "root", None, State::Ready),
            applied("root", None, State::Ready),
            failed,
            applied("late", Some("root"), State::Waiting),
            applied("orphan", Some("gone"), State::Suspended),
        ]
    }

    #[test]
    fn a_tree_of_owners() {
        let want = [
            "hub",
            "├─ ✔ GitRepository/ns/root  main@sha1:6f2c1a9e",
            "├─ ✔ Kustomization/ns/root  main@sha1:6f2c1a9e",
            "│  ├─ ✗ Kustomization/ns/far → edge  BuildFailed",
            "│  │    no field of that name in the object",
            "│  └─ ◎ Kustomization/ns/late  dependency 'ns/root' is not ready",
            "└─ ‖ Kustomization/ns/orphan  suspended",
            "the end",
        ];
        let footer = [Line::plain("the end")];
        assert_eq!(screen(&rows(), &footer, 80, 8, false), want);
    }

    #[test]
    fn a_narrow_screen_breaks_lines_below_their_text() {
        let want = [
            "hub",
            "├─ ✔ GitRepository/ns/root",
            "│    main@sha1:6f2c1a9e",
            "├─ ✔ Kustomization/ns/root",
            "│  │ main@sha1:6f2c1a9e",
            "│  ├─ ✗ Kustomization/ns/far →",
            "│  │    edge  BuildFailed",
            "│  │    no field of that name",
            "│  │    in the object",
            "│  └─ ◎ Kustomization/ns/late",
            "│       dependency 'ns/root'",
            "│       is not ready",
            "└─ ‖ Kustomization/ns/orphan",
            "     suspended",
        ];
        assert_eq!(screen(&rows(), &[], 30, 20, false), want);
    }

    #[test]
    fn a_low_screen_omits_ready_objects() {
        let mut rows = rows().to_vec();
        for number in 0..40 {
            let name = format!("more-{number}");
            rows.push(row(
                FluxKind::Kustomization,
                &name,
                Some("root"),
                State::Ready,
            ));
        }
        let footer = [Line::plain("the end")];
        let shown = screen(&rows, &footer, 80, 10, false);
        let want = [
            "hub",
            "├─ ✔ GitRepository/ns/root  main@sha1:6f2c1a9e",
            "├─ ✔ Kustomization/ns/root  main@sha1:6f2c1a9e",
            "│  ├─ ✗ Kustomization/ns/far → edge  BuildFailed",
            "│  │    no field of that name in the object",
            "│  ├─ ◎ Kustomization/ns/late  dependency 'ns/root' is not ready",
            "│  └─ ✔ Kustomization/ns/more-0  main@sha1:6f2c1a9e",
            "└─ ‖ Kustomization/ns/orphan  suspended",
            "… and 39 more that are ready",
            "the end",
        ];
        assert_eq!(shown, want);
        // All ready objects are left out, and the tree is still too high.
        let shown = screen(&rows, &footer, 80, 4, false);
        assert_eq!(
            shown,
            [
                "hub",
                "├─ ✔ Kustomization/ns/root  main@sha1:6f2c1a9e",
                "…",
                "the end"
            ]
        );
    }
}
