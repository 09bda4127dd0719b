//! Log lines in JSON.
//!
//! The fields of a span are serialized once. The JSON format of `tracing-subscriber` stores the
//! fields as text and parses the text for each line; with two lines per call, storing and parsing
//! the fields took as long as all other work.

use std::cell::RefCell;
use std::error::Error;
use std::fmt::Debug;
use std::io::Write;

use pillion_gateway::pins::visible_json;
use pillion_mcp_client::shortened;
use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_log::NormalizeEvent;
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::MAX_VALUE_BYTES;

/// Maximum capacity that the line buffer keeps after a line was written, in bytes.
const MAX_BUFFER_BYTES: usize = 16 * 1024;

thread_local! {
    static LINE_BUFFER: RefCell<Fields> = const { RefCell::new(Fields(Vec::new())) };
}

/// Writes each event as one line: `timestamp`, `level`, the event's fields, `target`, and `spans`,
/// an array with the `name` and fields of each enclosing span, outermost first.
pub(super) struct JsonLines<W> {
    pub(super) writer: W,
}

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        LINE_BUFFER.with(|line| match line.try_borrow_mut() {
            Ok(mut line) => {
                // Clears the buffer first, because it contains an incomplete line if formatting a
                // value panicked earlier.
                line.0.clear();
                self.write(&mut line, event, &context);
                line.0.clear();
                line.0.shrink_to(MAX_BUFFER_BYTES);
            }
            // Uses a new buffer if the shared buffer is in use, which is the case if formatting a
            // value logs an event itself.
            Err(_) => self.write(&mut Fields::default(), event, &context),
        });
    }
}

impl<W> JsonLines<W> {
    fn write<S>(&self, line: &mut Fields, event: &Event<'_>, context: &Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        W: for<'a> MakeWriter<'a>,
    {
        // For records of the `log` crate, uses the normalized metadata, because the plain metadata
        // is the same for all of these records.
        let normalized_metadata = event.normalized_metadata();
        let metadata = normalized_metadata
            .as_ref()
            .unwrap_or_else(|| event.metadata());
        let mut timestamp = String::with_capacity(32);
        // If the time cannot be formatted, `timestamp` is empty.
        let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
        line.push("{\"timestamp\":");
        line.push_value(timestamp);
        line.add_member("level", metadata.level().as_str());
        event.record(line);
        line.add_member("target", metadata.target());
        line.push(",\"spans\":[");
        let spans = context.event_scope(event).map(Scope::from_root);
        for (index, span) in spans.into_iter().flatten().enumerate() {
            if index > 0 {
                line.push(",");
            }
            line.push("{\"name\":");
            line.push_value(span.name());
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.0.extend_from_slice(&fields.0);
            }
            line.push("}");
        }
        line.push("]}\n");
        // Escapes further control characters, because JSON itself requires escapes for only some of
        // them.
        let visible_text = match std::str::from_utf8(&line.0) {
            Ok(text) if !line.0.is_ascii() || text.contains('\u{7f}') => Some(visible_json(text)),
            _ => None,
        };
        let output = visible_text
            .as_ref()
            .map_or(&line.0[..], |text| text.as_bytes());
        // A write error is ignored, because there is nowhere to report an error of the log itself.
        let _ = self.writer.make_writer().write_all(output);
    }
}

/// Serialized members of a JSON object, each after a comma.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn add_member(&mut self, name: &str, value: impl Serialize) {
        if name.starts_with("log.") {
            // The fields of a record of the `log` crate are already in its metadata.
            return;
        }
        self.push(",");
        self.push_value(name);
        self.push(":");
        self.push_value(value);
    }

    fn push(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn push_value(&mut self, value: impl Serialize) {
        // Writing numbers, booleans and strings to a vector never fails.
        let _ = serde_json::to_writer(&mut self.0, &value);
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add_member(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add_member(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add_member(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add_member(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_member(field.name(), shortened(value, MAX_VALUE_BYTES));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.record_str(field, &value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use tracing::field;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// The written bytes, with one entry per write.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that `work` logs, each of which is one write.
    fn lines(work: impl FnOnce()) -> Vec<Value> {
        let written = Written::default();
        let writer = written.clone();
        let layer = JsonLines {
            writer: move || writer.clone(),
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        let written = written.0.lock().unwrap();
        let lines = written.iter().map(|line| {
            let text = std::str::from_utf8(line).unwrap();
            let line = text.strip_suffix('\n').unwrap();
            let is_hidden = |c: char| c == '\n' || pillion_core::is_hidden(c);
            assert!(!line.contains(is_hidden), "{line}");
            serde_json::from_str(line).unwrap()
        });
        lines.collect()
    }

    #[test]
    fn a_long_value_is_shortened_in_each_kind_of_field() {
        let long = "\u{1b}ü".repeat(1_000_000);
        let lines = lines(|| {
            let _span = tracing::info_span!("request", id = %long, text = long).entered();
            let error = std::io::Error::other(long.clone());
            tracing::warn!(
                text = long, debug = ?long, display = %long,
                error = &error as &(dyn Error + 'static),
                "It says {long}"
            );
        });
        let [line] = &lines[..] else {
            panic!("{} lines", lines.len());
        };
        for value in ["text", "debug", "display", "error", "message"] {
            let value = line[value].as_str().unwrap();
            assert!(value.ends_with("... (shortened)"), "{value}");
            assert!(value.len() <= MAX_VALUE_BYTES, "{}", value.len());
        }
        assert!(line.to_string().len() < 8 * 6 * MAX_VALUE_BYTES);
    }

    #[test]
    fn a_log_line_has_its_fields_and_those_of_its_spans_from_outermost_to_innermost() {
        let lines = lines(|| {
            let outer = tracing::info_span!("request", id = "a\"b\n", client = field::Empty);
            outer.record("client", "uid:7");
            let _outer = outer.enter();
            let _inner =
                tracing::info_span!("call", tool.name = %"roll", user = None::<&str>).entered();
            let error = std::io::Error::other("no\u{1}way\u{9b}\u{7f}\u{202e}\u{2028}ü");
            tracing::warn!(
                count = 3, delta = -1, half = 0.5, sure = true, what = ?["x"],
                error = &error as &(dyn Error + 'static),
                "It says \"{}\"", "hello"
            );
        });
        let [line] = &lines[..] else {
            panic!("{lines:?}");
        };
        let mut line = line.clone();
        let timestamp = line["timestamp"].take();
        let time: Result<jiff::Timestamp, _> = timestamp.as_str().unwrap().parse();
        assert!(time.is_ok());
        let expected = json!({
            "timestamp": null, "level": "WARN", "message": "It says \"hello\"",
            "count": 3, "delta": -1, "half": 0.5, "sure": true, "what": "[\"x\"]",
            "error": "no\u{1}way\u{9b}\u{7f}\u{202e}\u{2028}ü", "target": module_path!(),
            "spans": [
                {"name": "request", "id": "a\"b\n", "client": "uid:7"},
                {"name": "call", "tool.name": "roll"},
            ],
        });
        assert_eq!(line, expected);
    }
}
