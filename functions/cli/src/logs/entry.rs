//! One line of the log: JSON, or the format that `serve` writes to a terminal.

use super::level::Level;
use crate::term;
use driftless_flux::parse_rfc3339;
use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;
use std::time::Duration;

/// A line with its object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The time, RFC 3339; empty if the line has none.
    pub timestamp: String,
    /// The level; `None` for an unknown one.
    pub level: Option<Level>,
    /// The hub; empty if the line is about none.
    pub hub: String,
    /// The kind of the object; empty if the line is about none.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The message without the fields after it.
    pub message: String,
    /// The error, if it is not in the message.
    pub error: String,
}

impl Entry {
    /// Parses a line; `None` for the output of another program.
    pub fn parse(line: &str) -> Option<Self> {
        match line.trim_start().starts_with('{') {
            true => Self::json(line),
            false => Self::text(line),
        }
    }

    fn json(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line.trim()).ok()?;
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let message = text("message");
        if message.is_empty() && text("level").is_empty() {
            return None;
        }
        let mut entry = Self {
            timestamp: text("timestamp").to_owned(),
            level: level(text("level")),
            hub: text("hub").to_owned(),
            message: message.to_owned(),
            error: text("error").to_owned(),
            ..Self::default()
        };
        entry.set_object(text("object"));
        Some(entry)
    }

    fn text(line: &str) -> Option<Self> {
        static LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r"^(\d{4}-\d\d-\d\dT\S+)\s+(TRACE|DEBUG|INFO|WARN|ERROR)\s+(.*)$").ok()
        });
        static COLOURS: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new("\u{1b}\\[[0-9;]*m").ok());
        let plain = COLOURS.as_ref()?.replace_all(line.trim_end(), "");
        let found = LINE.as_ref()?.captures(&plain)?;
        let (message, fields) = split_fields(&found[3]);
        let field = |name: &str| {
            let field = fields.iter().find(|(known, _)| known == name);
            field.map_or("", |(_, value)| value.as_str())
        };
        let mut entry = Self {
            timestamp: found[1].to_owned(),
            level: level(&found[2]),
            hub: field("hub").to_owned(),
            message,
            error: field("error").to_owned(),
            ..Self::default()
        };
        entry.set_object(field("object"));
        Some(entry)
    }

    /// Sets the object from `Kind/namespace/name`.
    fn set_object(&mut self, text: &str) {
        let mut parts = text.splitn(3, '/');
        if let (Some(kind), Some(namespace), Some(name)) =
            (parts.next(), parts.next(), parts.next())
        {
            self.kind = kind.to_owned();
            self.namespace = namespace.to_owned();
            self.name = name.to_owned();
        }
    }

    /// Returns the time since 1970.
    pub fn time(&self) -> Option<Duration> {
        parse_rfc3339(&self.timestamp)
    }

    /// Returns the line in the form of `flux logs`.
    pub fn line(&self, colours: bool) -> String {
        let (name, colour) = match self.level {
            Some(Level::Error) => ("error", Some("31")),
            Some(Level::Warn) => ("warn", Some("33")),
            Some(Level::Info) => ("info", None),
            Some(Level::Debug) => ("debug", None),
            Some(Level::Trace) => ("trace", None),
            None => ("-", None),
        };
        let level = term::painted(colour.filter(|_| colours), name);
        let object = match self.kind.is_empty() {
            true => String::new(),
            false => format!(" {}/{}.{}", self.kind, self.name, self.namespace),
        };
        let error = match self.error.is_empty() {
            true => String::new(),
            false => format!(" {}", self.error),
        };
        // A message quotes foreign input, which must not draw on the terminal.
        let rest = format!("{object} - {}{error}", self.message);
        let rest = term::plain(&rest).replace('\n', " ");
        format!("{} {level}{rest}\n", term::plain(&self.timestamp))
    }
}

fn level(text: &str) -> Option<Level> {
    match text.to_ascii_lowercase().as_str() {
        "trace" => Some(Level::Trace),
        "debug" => Some(Level::Debug),
        "info" => Some(Level::Info),
        "warn" | "warning" => Some(Level::Warn),
        "error" => Some(Level::Error),
        _ => None,
    }
}

/// Splits the fields (`hub="eu" object=Kustomization/a/b`) from the end of a message.
fn split_fields(text: &str) -> (String, Vec<(String, String)>) {
    static FIELD: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"\s+([a-z_]+)=("(?:[^"\\]|\\.)*"|[^\s"]+(?: [^\s="]+)*)\s*$"#).ok()
    });
    let mut rest = text.to_owned();
    let mut fields = Vec::new();
    while let Some(found) = FIELD.as_ref().and_then(|field| field.captures(&rest)) {
        let (start, name) = (
            found.get(0).map_or(0, |all| all.start()),
            found[1].to_owned(),
        );
        let value = found[2].trim_matches('"').to_owned();
        fields.push((name, value));
        rest.truncate(start);
    }
    (rest, fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_read() {
        let json = r#"{"timestamp":"2026-01-01T00:00:00.5Z","level":"INFO","hub":"hub","object":"Kustomization/team-a/apps","cause":"Push","enqueued":0,"message":"applied 3 objects","target":"driftless_core::step"}"#;
        let text = "2026-01-01T00:00:00.5Z  INFO applied 3 objects hub=\"hub\" object=Kustomization/team-a/apps cause=Push enqueued=0";
        let want = "2026-01-01T00:00:00.5Z info Kustomization/apps.team-a - applied 3 objects\n";
        for line in [json, text] {
            let entry = Entry::parse(line).unwrap();
            assert_eq!(entry.line(false), want, "{line}");
            assert_eq!(entry.hub, "hub", "{line}");
        }
        let coloured = "\u{1b}[2m2026-01-01T00:00:00Z\u{1b}[0m \u{1b}[33m WARN\u{1b}[0m slow";
        assert_eq!(
            Entry::parse(coloured).unwrap().line(false),
            "2026-01-01T00:00:00Z warn - slow\n"
        );
    }

    #[test]
    fn other_lines_are_not_entries() {
        for line in [
            "",
            "serving on 127.0.0.1",
            "{\"a\": 1}",
            "{ broken",
            "START RequestId: 1",
        ] {
            assert_eq!(Entry::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_message_cannot_draw_on_the_terminal() {
        let entry = Entry {
            message: "a\u{1b}[2J\nb".to_owned(),
            ..Entry::default()
        };
        assert_eq!(entry.line(true), " - - a\u{fffd}[2J b\n");
    }
}
