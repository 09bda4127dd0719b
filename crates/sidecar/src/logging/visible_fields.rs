use std::fmt;

use pillion_core::escape_line;
use pillion_mcp_client::shortened;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};

use super::MAX_VALUE_BYTES;

/// Formats the message and the fields of events and spans for the text format, with control
/// characters escaped: these texts come from clients and servers, which could otherwise imitate log
/// lines or control the terminal. Everything else in a line (time, level, names of spans) is
/// Pillion's own.
#[derive(Debug, Default)]
pub(super) struct VisibleFields {
    inner: DefaultFields,
}

impl<'writer> FormatFields<'writer> for VisibleFields {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut text = String::new();
        self.inner.format_fields(Writer::new(&mut text), fields)?;
        writer.write_str(&escape_line(&shortened(&text, MAX_VALUE_BYTES)))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("outer {0}")]
    struct Outer(String, #[source] io::Error);

    #[test]
    fn no_message_field_span_or_error_breaks_its_line() {
        for hostile in [
            "x\n2026-01-01T00:00:00Z  INFO forged",
            "x\r\nforged",
            "x\u{1b}[2Jforged",
            "x\u{9b}2Jforged",
            "x\u{2028}forged",
            "x\u{202e}forged",
            "x\u{0}\u{7}\u{85}forged",
        ] {
            let written = Written::default();
            let writer = written.clone();
            let layer = fmt::layer()
                .with_ansi(false)
                .with_target(false)
                .fmt_fields(VisibleFields::default())
                .with_writer(move || writer.clone());
            let subscriber = tracing_subscriber::registry().with(layer);
            tracing::subscriber::with_default(subscriber, || {
                let span =
                    tracing::info_span!("call", id = %hostile, later = tracing::field::Empty);
                span.record("later", hostile);
                let _span = span.enter();
                let error = Outer(hostile.to_owned(), io::Error::other(hostile));
                tracing::warn!(
                    display = %hostile, debug = ?hostile, text = hostile,
                    error = &error as &(dyn Error + 'static),
                    "Message {hostile}"
                );
            });
            let written = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
            let line = written.strip_suffix('\n').unwrap();
            assert!(line.matches("forged").count() >= 7, "{line}");
            let is_hidden = |c: char| c == '\n' || pillion_core::is_hidden(c);
            assert!(!line.contains(is_hidden), "{line:?}");
        }
    }
}
