//! The lines to print, and their output.

use super::entry::Entry;
use super::level::Level;
use crate::error::Error;
use crate::term;
use std::time::Duration;

/// The lines to print. A field without a value selects all.
pub struct Filter {
    /// The kind of the objects.
    pub kind: Option<String>,
    /// The name of the objects.
    pub name: Option<String>,
    /// The namespace of the objects.
    pub namespace: Option<String>,
    /// The hub of the objects.
    pub hub: Option<String>,
    /// The lowest level.
    pub level: Option<Level>,
    /// The earliest time, since 1970.
    pub since: Option<Duration>,
}

impl Filter {
    /// Returns whether an entry is printed.
    pub fn has(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        is(&self.kind, &entry.kind)
            && is(&self.name, &entry.name)
            && is(&self.namespace, &entry.namespace)
            && is(&self.hub, &entry.hub)
            && self
                .level
                .is_none_or(|level| entry.level.is_some_and(|found| found >= level))
            && self
                .since
                .is_none_or(|since| entry.time().is_none_or(|time| time >= since))
    }
}

/// The output of the lines.
pub struct Printer {
    /// The number of lines of the first part, if only the last ones are printed.
    pub tail: Option<usize>,
    /// True if new lines are printed until the command is interrupted.
    pub follows: bool,
}

impl Printer {
    /// Prints what the log had at the start.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub fn first(&self, entries: &[Entry]) -> Result<(), Error> {
        let skipped = self
            .tail
            .map_or(0, |tail| entries.len().saturating_sub(tail));
        print(entries.get(skipped..).unwrap_or_default())
    }

    /// Prints new entries.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub fn more(&self, entries: &[Entry]) -> Result<(), Error> {
        print(entries)
    }
}

fn print(entries: &[Entry]) -> Result<(), Error> {
    let colours = term::colours_on_stdout();
    let text: String = entries.iter().map(|entry| entry.line(colours)).collect();
    match text.is_empty() {
        true => Ok(()),
        false => term::result(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_flux::parse_rfc3339;

    #[test]
    fn lines_are_filtered() {
        let entry = Entry::parse(
            r#"{"timestamp":"2026-01-01T00:00:00Z","level":"WARN","message":"m","hub":"eu","object":"Kustomization/team-a/apps"}"#,
        )
        .unwrap();
        let all = Filter {
            kind: None,
            name: None,
            namespace: None,
            hub: None,
            level: None,
            since: None,
        };
        assert!(all.has(&entry));
        let name = |text: &str| Some(text.to_owned());
        let filters = [
            (
                true,
                Filter {
                    kind: name("kustomization"),
                    ..all_of(&all)
                },
            ),
            (
                false,
                Filter {
                    kind: name("HelmRelease"),
                    ..all_of(&all)
                },
            ),
            (
                true,
                Filter {
                    name: name("apps"),
                    namespace: name("team-a"),
                    ..all_of(&all)
                },
            ),
            (
                false,
                Filter {
                    namespace: name("flux-system"),
                    ..all_of(&all)
                },
            ),
            (
                false,
                Filter {
                    hub: name("us"),
                    ..all_of(&all)
                },
            ),
            (
                true,
                Filter {
                    level: Some(Level::Info),
                    ..all_of(&all)
                },
            ),
            (
                false,
                Filter {
                    level: Some(Level::Error),
                    ..all_of(&all)
                },
            ),
            (
                true,
                Filter {
                    since: parse_rfc3339("2025-12-31T00:00:00Z"),
                    ..all_of(&all)
                },
            ),
            (
                false,
                Filter {
                    since: parse_rfc3339("2026-01-01T00:00:01Z"),
                    ..all_of(&all)
                },
            ),
        ];
        for (at, (want, filter)) in filters.iter().enumerate() {
            assert_eq!(filter.has(&entry), *want, "{at}");
        }
    }

    fn all_of(filter: &Filter) -> Filter {
        Filter {
            kind: filter.kind.clone(),
            name: filter.name.clone(),
            namespace: filter.namespace.clone(),
            hub: filter.hub.clone(),
            level: filter.level,
            since: filter.since,
        }
    }
}
