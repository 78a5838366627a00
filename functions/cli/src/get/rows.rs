//! The tables of `get`, in the columns of `flux get`.

use crate::age;
use crate::ready::{ready, revision, shorten, text};
use crate::{table, term};
use driftless_core::flux::{FluxKind, is_suspended};
use driftless_manifest::Object;

/// The columns of a table.
#[derive(Clone, Copy)]
pub struct Columns {
    /// True for the namespace, with objects of all namespaces.
    pub namespace: bool,
    /// True for the kind before the name, with objects of several kinds.
    pub kind: bool,
    /// True for the header.
    pub header: bool,
    /// True for the source and the age, which Flux does not print.
    pub wide: bool,
    /// True for the revision; ArtifactGenerators have none.
    pub revision: bool,
}

impl Columns {
    fn names(self) -> Vec<&'static str> {
        let mut names = vec!["Name", "Revision", "Suspended", "Ready", "Message"];
        if !self.revision {
            names.remove(1);
        }
        if self.namespace {
            names.insert(0, "Namespace");
        }
        if self.wide {
            let message = names.len() - 1;
            names.splice(message..message, ["Source", "Age"]);
        }
        names
    }

    /// Renders one table for each kind, as Flux does.
    pub fn tables<'o>(self, lists: impl Iterator<Item = &'o [Object]>) -> String {
        let tables = lists.map(|objects| {
            let table = self.table(objects);
            if self.kind { table + "\n" } else { table }
        });
        tables.collect()
    }

    /// Renders the table of objects.
    pub fn table(self, objects: &[Object]) -> String {
        let names = self.names();
        let rows: Vec<Vec<String>> = objects.iter().map(|object| self.row(object)).collect();
        table::render(if self.header { &names } else { &[] }, &rows)
    }

    /// Returns the row of an object.
    pub fn row(self, object: &Object) -> Vec<String> {
        let (status, message) = ready(object);
        let kind = match self.kind {
            true => format!("{}/", object.kind().to_lowercase()),
            false => String::new(),
        };
        let suspended = if is_suspended(object) {
            "True"
        } else {
            "False"
        };
        let mut row = match self.namespace {
            true => vec![object.namespace().to_owned()],
            false => Vec::new(),
        };
        row.push(format!("{kind}{}", object.name()));
        if self.revision {
            row.push(shorten(&revision(object)));
        }
        row.extend([suspended.to_owned(), status]);
        if self.wide {
            let created = object.meta("creationTimestamp");
            row.extend([source(object), age::since(created, age::now())]);
        }
        // Line breaks in a message would break the table.
        let message = shorten(&message);
        let words: Vec<&str> = message.split_whitespace().collect();
        row.push(words.join(" "));
        row
    }

    /// Colours the status in a rendered table.
    pub fn paint(self, table: &str) -> String {
        let names = self.names();
        let column = names.iter().position(|name| *name == "Ready");
        let line = |line: &str| {
            let cells = line
                .split('\t')
                .enumerate()
                .map(|(at, cell)| match cell.trim_end() {
                    status if Some(at) == column => term::painted(status_colour(status), cell),
                    _ => cell.to_owned(),
                });
            cells.collect::<Vec<_>>().join("\t")
        };
        table.split('\n').map(line).collect::<Vec<_>>().join("\n")
    }
}

fn status_colour(status: &str) -> Option<&'static str> {
    match status {
        "True" => Some("32"),
        "False" => Some("31"),
        "Unknown" => Some("33"),
        _ => None,
    }
}

/// Returns what an object reads: its source, or the address of a source.
fn source(object: &Object) -> String {
    let reference = match FluxKind::of(&object.gvk()) {
        Some(FluxKind::Kustomization | FluxKind::HelmChart | FluxKind::ExternalArtifact) => {
            "/spec/sourceRef"
        }
        Some(FluxKind::HelmRelease) if object.pointer("/spec/chart").is_some() => {
            "/spec/chart/spec/sourceRef"
        }
        Some(FluxKind::HelmRelease) => "/spec/chartRef",
        Some(FluxKind::Bucket) => {
            let part = |name: &str| text(object, &format!("/spec/{name}")).unwrap_or_default();
            return format!("{}/{}", part("endpoint"), part("bucketName"));
        }
        _ => return text(object, "/spec/url").unwrap_or_default(),
    };
    let part = |name: &str| text(object, &format!("{reference}/{name}"));
    let kind = part("kind").unwrap_or_default();
    let name = part("name").unwrap_or_default();
    match part("namespace").filter(|namespace| namespace != object.namespace()) {
        Some(namespace) => format!("{kind}/{namespace}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::objects;
    use super::*;

    const PLAIN: Columns = Columns {
        namespace: false,
        kind: false,
        header: true,
        wide: false,
        revision: true,
    };

    #[test]
    fn tables_are_equal_to_those_of_flux() {
        let want = "NAME\tREVISION          \tSUSPENDED\tREADY\tMESSAGE                            \n\
                    apps\tmain@sha1:6f2c1a9e\tFalse    \tTrue \tApplied revision: main@sha1:6f2c1a9e\t\n";
        let want = want.replace(
            "MESSAGE                            ",
            &format!("{:<37}", "MESSAGE"),
        );
        assert_eq!(PLAIN.table(&objects()[..1]), want);
        let all = Columns {
            namespace: true,
            kind: true,
            ..PLAIN
        };
        let all = all.table(&objects());
        let lines: Vec<&str> = all.lines().collect();
        assert!(
            lines[0].starts_with("NAMESPACE\tNAME              \tREVISION"),
            "{all}"
        );
        assert!(
            lines[1].starts_with("team-a   \tkustomization/apps\tmain@sha1:6f2c1a9e"),
            "{all}"
        );
        assert!(lines[2].contains("\tTrue     \tFalse\ttwo lines "), "{all}");
        assert!(
            lines[3].contains("\tFalse\twaiting to be reconciled"),
            "{all}"
        );
        let bare = Columns {
            header: false,
            ..PLAIN
        };
        assert_eq!(
            bare.table(&objects()[2..]),
            "new\t\tFalse\tFalse\twaiting to be reconciled\t\n"
        );
    }

    #[test]
    fn a_wide_table_has_the_source_and_the_age() {
        let wide = Columns {
            wide: true,
            ..PLAIN
        };
        let table = wide.table(&objects()[..1]);
        assert!(table.contains("\tSOURCE             \tAGE"), "{table}");
        assert!(
            table.contains("\tGitRepository/fleet\t<unknown>\t"),
            "{table}"
        );
    }

    #[test]
    fn the_status_is_coloured() {
        let table = PLAIN.table(&objects());
        let painted = PLAIN.paint(&table);
        assert!(
            painted.contains("\t\u{1b}[32mTrue \u{1b}[0m\t"),
            "{painted}"
        );
        assert!(
            painted.contains("\t\u{1b}[31mFalse\u{1b}[0m\t"),
            "{painted}"
        );
        // The column of suspended objects has the same words.
        assert_eq!(painted.matches("\u{1b}[3").count(), 3, "{painted}");
    }
}
