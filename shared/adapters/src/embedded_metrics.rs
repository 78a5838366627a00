//! Metrics in the log of a function, in CloudWatch's embedded metric format: one JSON line, of
//! which CloudWatch makes metrics without a request of the function.
//!
//! Each combination of values of dimensions is a metric that costs money, so the dimensions are the
//! function, the hub, the kind of object and the class of a failure, and nothing that tenants name.
//! What else a line has, such as the object and its cluster, is for queries of the log.

use driftless_kernel::failure::{Class, Failure};
use serde_json::{Map, Value, json};
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

/// The environment variable with the namespace of the metrics; without it, nothing is written.
const VARIABLE: &str = "DRIFTLESS_METRICS_NAMESPACE";
/// The most bytes of a property.
const MAX_TEXT: usize = 400;
/// The most characters of a dimension's value.
const MAX_DIMENSION: usize = 250;

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// A time in milliseconds.
    Milliseconds,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Milliseconds => "Milliseconds",
        }
    }
}

/// A line with metrics.
#[derive(Clone, Debug)]
pub struct MetricsLine {
    root: Map<String, Value>,
    directives: Vec<Value>,
}

impl MetricsLine {
    /// Returns a line of a function, which is a dimension.
    pub fn new(function: &str) -> Self {
        Self {
            root: Map::new(),
            directives: Vec::new(),
        }
        .with("function", function)
    }

    /// Adds a property, which queries of the log find, and which may be a dimension. An empty one
    /// is left out.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let value = driftless_flux::shorten(value, MAX_TEXT);
        if !value.is_empty() {
            self.root.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Adds metrics with these dimensions, each of which is a property of the line.
    #[must_use]
    pub fn metrics(mut self, dimensions: &[&str], metrics: &[(&str, Unit, f64)]) -> Self {
        for name in dimensions {
            // CloudWatch drops a line whose dimensions have no value.
            let value = self.root.get(*name).and_then(Value::as_str);
            let value = driftless_flux::shorten(value.unwrap_or("none"), MAX_DIMENSION);
            self.root.insert((*name).to_owned(), value.into());
        }
        let named = metrics.iter().map(|(name, unit, value)| {
            self.root.insert((*name).to_owned(), json!(value));
            json!({"Name": name, "Unit": unit.name()})
        });
        let named: Vec<Value> = named.collect();
        self.directives
            .push(json!({"Dimensions": [dimensions], "Metrics": named}));
        self
    }

    /// Writes the line to stdout, if the function has metrics. `now` is the time since 1970. A line
    /// that cannot be written is lost.
    pub fn write(self, now: Duration) {
        if let Some(namespace) = namespace() {
            let line = self.document(namespace, now);
            writeln!(io::stdout().lock(), "{line}").unwrap_or_default();
        }
    }

    fn document(mut self, namespace: &str, now: Duration) -> Value {
        for directive in &mut self.directives {
            directive["Namespace"] = namespace.into();
        }
        let timestamp = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let metadata = json!({"Timestamp": timestamp, "CloudWatchMetrics": self.directives});
        self.root.insert("_aws".to_owned(), metadata);
        self.root.into()
    }
}

/// Returns the namespace of the metrics; `None` if the function has none.
fn namespace() -> Option<&'static str> {
    static NAMESPACE: OnceLock<Option<String>> = OnceLock::new();
    let read = || std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
    NAMESPACE.get_or_init(read).as_deref()
}

/// Returns a number of things as the value of a metric.
pub fn count(things: u64) -> f64 {
    u32::try_from(things).map_or(f64::from(u32::MAX), f64::from)
}

/// Returns a duration in milliseconds.
pub fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Returns the class of a failure: `unavailable` if a service did not answer, `terminal` if only a
/// change helps, `waiting` for another object, else `retry`.
pub fn class(failure: &Failure) -> &'static str {
    match failure.class {
        Class::Terminal => "terminal",
        Class::Waiting => "waiting",
        Class::Retry(_) if failure.is_unavailable => "unavailable",
        Class::Retry(_) => "retry",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a document against the specification of the embedded metric format.
    fn check(document: &Value) {
        let metadata = &document["_aws"];
        let timestamp = metadata["Timestamp"].as_u64().unwrap();
        assert!(timestamp > 1_500_000_000_000, "not in milliseconds");
        for directive in metadata["CloudWatchMetrics"].as_array().unwrap() {
            let namespace = directive["Namespace"].as_str().unwrap();
            assert!((1..=1024).contains(&namespace.len()) && !namespace.starts_with("AWS/"));
            let members: Vec<&String> = directive.as_object().unwrap().keys().collect();
            assert_eq!(members.len(), 3, "{members:?}");
            for set in directive["Dimensions"].as_array().unwrap() {
                let set = set.as_array().unwrap();
                assert!(set.len() <= 30);
                for name in set {
                    let name = name.as_str().unwrap();
                    let value = document[name].as_str().unwrap();
                    assert!((1..=250).contains(&name.len()), "{name}");
                    assert!((1..=1024).contains(&value.len()), "{name}: {value}");
                }
            }
            let metrics = directive["Metrics"].as_array().unwrap();
            assert!((1..=100).contains(&metrics.len()));
            for metric in metrics {
                let name = metric["Name"].as_str().unwrap();
                assert!((1..=1024).contains(&name.len()), "{name}");
                assert!(
                    document[name].is_number(),
                    "{name} is not a number of the root"
                );
                let unit = metric["Unit"].as_str().unwrap();
                assert!(["Count", "Milliseconds"].contains(&unit));
            }
        }
    }

    #[test]
    fn a_line_is_a_document_of_the_embedded_metric_format() {
        let now = Duration::from_millis(1_790_000_000_123);
        let long = "a".repeat(2000);
        let line = MetricsLine::new("reconcile")
            .with("hub", &long)
            .with("kind", "Kustomization")
            .with("object", "Kustomization/apps/web")
            .with("cluster", "")
            .metrics(
                &["function", "hub", "kind"],
                &[
                    ("Steps", Unit::Count, 1.0),
                    ("StepDuration", Unit::Milliseconds, 12.5),
                ],
            )
            .metrics(&["function", "class"], &[("Failures", Unit::Count, 1.0)]);
        let document = line.document("driftless/stack", now);
        check(&document);
        assert_eq!(document["_aws"]["Timestamp"], 1_790_000_000_123_u64);
        assert_eq!(document["StepDuration"], 12.5);
        assert_eq!(document["class"], "none");
        assert_eq!(document["object"], "Kustomization/apps/web");
        assert!(document.get("cluster").is_none());
        let first = &document["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(first["Dimensions"], json!([["function", "hub", "kind"]]));
        assert_eq!(
            first["Metrics"][0],
            json!({"Name": "Steps", "Unit": "Count"})
        );
    }

    #[test]
    fn failures_have_a_class() {
        let mut failure = Failure::retry("Failed", "no answer");
        assert_eq!(class(&failure), "retry");
        failure.is_unavailable = true;
        assert_eq!(class(&failure), "unavailable");
        assert_eq!(class(&Failure::terminal("Failed", "no")), "terminal");
        assert_eq!(class(&Failure::waiting("Failed", "not yet")), "waiting");
        assert_eq!(millis(Duration::from_micros(1_234_567)), 1234.567);
    }
}
