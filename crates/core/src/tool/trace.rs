use serde_json::{Map, Value};

/// A trace context (W3C Trace Context): the values of `traceparent` and `tracestate`. Pillion
/// receives the trace context with a call, and forwards it to the MCP server that the call reaches.
///
/// ```
/// use pillion_core::tool::TraceContext;
/// let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let trace = TraceContext::parse(traceparent, None).unwrap();
/// assert_eq!(trace.trace_id(), "0af7651916cd43dd8448eb211c80319c");
/// assert_eq!(TraceContext::parse("nonsense", None), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

/// Maximum length of a forwarded `tracestate`, in bytes.
const MAX_TRACESTATE_BYTES: usize = 512;

impl TraceContext {
    /// Parses the values of `traceparent` and `tracestate`. Returns `None` if `traceparent` is not
    /// valid, as the specification requires. Drops a `tracestate` that cannot be forwarded.
    #[must_use]
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let parts: Vec<_> = traceparent.split('-').collect();
        let [version, trace, parent, flags, rest @ ..] = &parts[..] else {
            return None;
        };
        let is_hex = |text: &str, length| {
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.len() == length && text.bytes().all(is_digit)
        };
        let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
        let is_known = *version == "00";
        // A later version of the specification may append further fields.
        let is_well_formed = is_hex(version, 2)
            && *version != "ff"
            && is_hex(trace, 32)
            && !is_zero(trace)
            && is_hex(parent, 16)
            && !is_zero(parent)
            && is_hex(flags, 2)
            && (rest.is_empty() || !is_known);
        let can_be_forwarded = |state: &&str| {
            (1..=MAX_TRACESTATE_BYTES).contains(&state.len())
                && state.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        };
        is_well_formed.then(|| Self {
            traceparent: format!("00-{trace}-{parent}-{flags}"),
            tracestate: tracestate.filter(can_be_forwarded).map(str::to_owned),
        })
    }

    /// Returns the trace ID, 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        self.traceparent.split('-').nth(1).unwrap_or_default()
    }

    /// Returns the value of `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// Returns the value of `tracestate`, if there is one.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// Returns this trace context without `tracestate`, which any participant of a trace may drop.
    #[must_use]
    pub fn without_state(self) -> Self {
        Self {
            tracestate: None,
            ..self
        }
    }

    /// Returns the values as entries of the `_meta` of an MCP request.
    #[must_use]
    pub fn to_meta(&self) -> Map<String, Value> {
        let parent = Value::from(self.traceparent.as_str());
        let mut meta = Map::from_iter([("traceparent".to_owned(), parent)]);
        if let Some(state) = &self.tracestate {
            meta.insert("tracestate".to_owned(), state.as_str().into());
        }
        meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn m2_an_invalid_traceparent_is_ignored() {
        for bad in [
            String::new(),
            format!("00-{TRACE}-b7ad6b7169203331"),
            format!("00-{TRACE}-b7ad6b7169203331-01-more"),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
        ] {
            assert_eq!(TraceContext::parse(&bad, None), None, "{bad}");
        }
        let later = format!("01-{TRACE}-b7ad6b7169203331-01-more");
        assert!(TraceContext::parse(&later, None).is_some());
    }

    #[test]
    fn m2_a_valid_tracestate_is_forwarded() {
        let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
        let meta = |state| TraceContext::parse(&parent, Some(state)).unwrap().to_meta();
        let with_state = json!({"traceparent": parent, "tracestate": "a=1"});
        assert_eq!(Value::Object(meta("a=1")), with_state);
        assert_eq!(meta("a\nb").len(), 1);
        assert_eq!(meta(&"x".repeat(513)).len(), 1);
    }
}
