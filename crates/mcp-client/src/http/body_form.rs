use std::sync::atomic::{AtomicBool, Ordering};

/// The form of a response body, according to its first bytes.
///
/// Some servers send JSON as `text/plain` or as `text/event-stream`, or an event stream as
/// `application/json` or without a content type: frameworks and proxies set a default. The first
/// bytes are unambiguous: no event stream starts with a bracket, and no JSON-RPC message starts
/// with the name of an event stream field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyForm {
    /// A JSON object or array.
    Json,
    /// Server-sent events.
    EventStream,
    /// Neither JSON nor server-sent events, such as text or HTML.
    Other,
}

/// Maximum size of white space before the first byte that determines the form of a body.
const MAX_LEADING_SPACE_BYTES: usize = 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The fields of server-sent events.
const SSE_FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

impl BodyForm {
    /// Returns the form of a body that starts with the given bytes; `None` if more bytes are
    /// necessary.
    pub(super) fn detect(first_bytes: &[u8]) -> Option<Self> {
        let mut rest = first_bytes;
        if rest.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(rest) {
            return None;
        }
        while let Some(text) = rest.strip_prefix(BYTE_ORDER_MARK) {
            rest = text;
        }
        rest = rest.trim_ascii_start();
        if rest.is_empty() && first_bytes.len() > MAX_LEADING_SPACE_BYTES {
            return Some(Self::Other);
        }
        match rest.first()? {
            b'{' | b'[' => return Some(Self::Json),
            // A line that starts with a colon is a comment of an event stream.
            b':' => return Some(Self::EventStream),
            _ => {}
        }
        for field in SSE_FIELDS {
            if rest.len() <= field.len() && field.starts_with(rest) {
                return None;
            }
            let next_byte = rest.strip_prefix(field).and_then(<[u8]>::first);
            if matches!(next_byte, Some(b':' | b'\n' | b'\r')) {
                return Some(Self::EventStream);
            }
        }
        Some(Self::Other)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::EventStream => "an event stream",
            Self::Other => "text",
        }
    }
}

/// Logs a warning about a wrong content type of one server, but only once.
#[derive(Debug)]
pub(super) struct ContentTypeWarning {
    server: String,
    has_warned: AtomicBool,
}

impl ContentTypeWarning {
    pub(super) fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Logs a warning that a body of this form has this content type, unless a warning was logged
    /// before.
    pub(super) fn log_once(&self, content_type: &str, form: BodyForm) {
        if self.has_warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let (server, form) = (&self.server, form.name());
        tracing::warn!(
            mcp.server = server,
            content_type,
            "MCP server `{server}` declares {form} as content type {content_type:?}; Pillion reads \
            it as {form}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_form() {
        use BodyForm::{EventStream, Json, Other};
        for (body, form) in [
            ("{}", Json),
            ("\u{feff} \r\n[{}]", Json),
            ("data: {}\n\n", EventStream),
            ("data:{}\r\r", EventStream),
            ("data\n\n", EventStream),
            ("\u{feff}event: message\n", EventStream),
            ("\n\nid: 7\n", EventStream),
            ("retry:1\n", EventStream),
            (": ping\n\n", EventStream),
            ("<html>", Other),
            ("database is down", Other),
            ("ide", Other),
            ("Accepted", Other),
            ("DATA: x", Other),
            ("7", Other),
        ] {
            assert_eq!(BodyForm::detect(body.as_bytes()), Some(form), "{body}");
            // A shorter beginning of the body determines the same form, or none.
            for end in 0..body.len() {
                let early = BodyForm::detect(&body.as_bytes()[..end]);
                assert!(early.is_none_or(|early| early == form), "{body} {end}");
            }
        }
        let spaces = [b' '; MAX_LEADING_SPACE_BYTES + 1];
        assert_eq!(BodyForm::detect(&spaces), Some(Other));
        for text in ["", "\u{feff}", " \n", "d", "data", "even", "i", "retry"] {
            assert_eq!(BodyForm::detect(text.as_bytes()), None, "{text}");
        }
    }
}
