//! The tables of `get`, in the columns of `flux get`.

use crate::age;
use crate::ready::{ready, revision, shorten, text};
use crate::{table, term};
use driftless_flux::{Conditions, FluxKind, is_suspended};
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
    /// True for the revision.
    pub revision: bool,
    /// True for whether the object is suspended.
    pub suspended: bool,
}

impl Columns {
    fn names(self) -> Vec<&'static str> {
        let mut names = vec!["Name"];
        names.extend(self.revision.then_some("Revision"));
        names.extend(self.suspended.then_some("Suspended"));
        names.extend(["Ready", "Message"]);
        if self.namespace {
            names.insert(0, "Namespace");
        }
        if self.wide {
            let message = names.len() - 1;
            names.splice(message..message, ["Source", "Age"]);
        }
        names
    }

    /// Returns the columns of a table with objects of one kind.
    #[must_use]
    pub fn of(self, kind: FluxKind) -> Self {
        use FluxKind::{Alert, ArtifactGenerator, Provider, Receiver};
        Self {
            revision: !matches!(kind, ArtifactGenerator | Receiver | Provider | Alert),
            suspended: kind != Provider,
            ..self
        }
    }

    /// Renders the table of objects.
    pub fn table(self, objects: &[Object]) -> String {
        let names = self.names();
        let rows: Vec<Vec<String>> = objects.iter().map(|object| self.row(object)).collect();
        table::render(if self.header { &names } else { &[] }, &rows)
    }

    /// Returns the row of an object.
    pub fn row(self, object: &Object) -> Vec<String> {
        let (status, message) = status(object);
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
        if self.suspended {
            row.push(suspended.to_owned());
        }
        row.push(status);
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

/// Returns the status of `Ready` and the message. As Flux prints it, an Alert or a Provider without
/// a status is ready: notification-controller writes none.
fn status(object: &Object) -> (String, String) {
    match is_ready_without_status(object) {
        true => ("True".to_owned(), format!("{} is Ready", object.kind())),
        false => ready(object),
    }
}

/// Returns whether an object counts as ready because its controller writes no status.
pub fn is_ready_without_status(object: &Object) -> bool {
    let kind = FluxKind::of(&object.gvk());
    kind.is_some_and(FluxKind::is_static) && Conditions::of(object).ready().is_none()
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
        suspended: true,
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
    fn kinds_of_notifications_have_fewer_columns() {
        let object = |kind: &str, status: serde_json::Value| {
            let object = serde_json::json!({"apiVersion": "notification.toolkit.fluxcd.io/v1beta3", "kind": kind,
                "metadata": {"name": "slack", "namespace": "apps"}, "spec": {}, "status": status});
            Object::new(object).unwrap()
        };
        let lines = |kind: FluxKind, object: &Object| {
            let table = PLAIN.of(kind).table(std::slice::from_ref(object));
            let cells = |line: &str| {
                let cells = line.split('\t').map(str::trim);
                cells.collect::<Vec<_>>().join("|")
            };
            table.lines().map(cells).collect::<Vec<_>>()
        };
        // Flux's controller writes no status.
        let bare = serde_json::json!({});
        assert_eq!(
            lines(FluxKind::Alert, &object("Alert", bare.clone())),
            [
                "NAME|SUSPENDED|READY|MESSAGE",
                "slack|False|True|Alert is Ready|"
            ]
        );
        assert_eq!(
            lines(FluxKind::Provider, &object("Provider", bare.clone())),
            ["NAME|READY|MESSAGE", "slack|True|Provider is Ready|"]
        );
        assert_eq!(
            lines(FluxKind::Receiver, &object("Receiver", bare)),
            [
                "NAME|SUSPENDED|READY|MESSAGE",
                "slack|False|False|waiting to be reconciled|"
            ]
        );
        let failed = serde_json::json!({"conditions": [{"type": "Ready", "status": "False", "message": "no answer"}]});
        assert_eq!(
            lines(FluxKind::Provider, &object("Provider", failed))[1],
            "slack|False|no answer|"
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
