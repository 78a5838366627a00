//! The format of the log as JSON lines.

use serde::Serializer as _;
use serde::ser::SerializeMap as _;
use serde_json::{Map, Value};
use std::fmt::{self, Debug, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// The fields of spans that each line in them has: what the line is about, and what began the work.
pub const IDS: [&str; 7] = [
    "hub",
    "object",
    "revision",
    "delivery",
    "step",
    "chain",
    "requestId",
];

/// A JSON object per line: the level, the fields of the event, those [`IDS`] of its spans that the
/// event does not have itself, and the module.
#[derive(Clone, Copy, Debug)]
pub struct JsonLines {
    has_time: bool,
}

impl JsonLines {
    /// Returns the format of lines with their time.
    pub fn with_time() -> Self {
        Self { has_time: true }
    }

    /// Returns the format of lines without a time.
    pub fn without_time() -> Self {
        Self { has_time: false }
    }
}

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Line::default();
        if self.has_time {
            let mut time = String::new();
            SystemTime.format_time(&mut Writer::new(&mut time))?;
            line.add("timestamp", time.into());
        }
        let metadata = event.metadata();
        line.add("level", metadata.level().as_str().into());
        event.record(&mut line);
        // The innermost span first.
        for span in context.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<JsonFields>>();
            let fields = fields.map(|fields| serde_json::from_str::<Map<String, Value>>(fields));
            let Some(Ok(mut fields)) = fields else {
                continue;
            };
            for id in IDS {
                if !line.has(id)
                    && let Some(value) = fields.remove(id)
                    && value != ""
                {
                    line.add(id, value);
                }
            }
        }
        line.add("target", metadata.target().into());
        writeln!(writer, "{}", line.json().map_err(|_| fmt::Error)?)
    }
}

/// The fields of a line, in their order.
#[derive(Default)]
struct Line(Vec<(&'static str, Value)>);

impl Line {
    fn add(&mut self, name: &'static str, value: Value) {
        self.0.push((name, value));
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    fn json(&self) -> serde_json::Result<String> {
        let mut text = Vec::new();
        let mut serializer = serde_json::Serializer::new(&mut text);
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Visit for Line {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        let written = write!(text, "{value:?}");
        if written.is_ok() {
            self.add(field.name(), text.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing::field::Empty;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_has_the_ids_of_its_spans() {
        let (log, second) = (Log::default(), tracing::Dispatch::none());
        let writer = log.clone();
        let lines = tracing_subscriber::fmt()
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines::without_time())
            .with_max_level(tracing::Level::INFO)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(lines.finish(), || {
            let delivery = tracing::error_span!("delivery", chain = Empty, delivery = "72d3162e");
            let _entered = delivery.enter();
            delivery.record("chain", "4b");
            let step = tracing::error_span!("step", hub = "staging", step = Empty, kind = "Alert");
            let _inner = step.enter();
            step.record("step", "a1");
            tracing::info!(hub = "production", count = 2, is = true, "\"done\"");
            tracing::info_span!("other", chain = "5c", step = "").in_scope(|| {
                tracing::warn!(error = ?Some(1), half = 0.5, "late");
            });
        });
        drop(second);
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let target = module_path!();
        let expected = [
            format!(
                "{{\"level\":\"INFO\",\"message\":\"\\\"done\\\"\",\"hub\":\"production\",\"count\":2,\"is\":true,\
                 \"step\":\"a1\",\"delivery\":\"72d3162e\",\"chain\":\"4b\",\"target\":\"{target}\"}}"
            ),
            format!(
                "{{\"level\":\"WARN\",\"message\":\"late\",\"error\":\"Some(1)\",\"half\":0.5,\"chain\":\"5c\",\
                 \"hub\":\"staging\",\"step\":\"a1\",\"delivery\":\"72d3162e\",\"target\":\"{target}\"}}"
            ),
        ];
        assert_eq!(log.lines().collect::<Vec<_>>(), expected);
    }
}
