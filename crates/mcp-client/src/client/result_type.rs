use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Returns the type of a result (MCP 2026-07-28, "Result types"); default `complete`.
pub(super) fn result_type(result: &RawValue) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct TypedResult<'a> {
        #[serde(rename = "resultType", borrow)]
        result_type: Cow<'a, str>,
    }
    let text = result.get();
    if is_certainly_complete(text) {
        return Cow::Borrowed("complete");
    }
    let typed = serde_json::from_str::<TypedResult<'_>>(text);
    typed.map_or(Cow::Borrowed("complete"), |typed| typed.result_type)
}

/// Returns whether a result is certainly `complete`, without parsing large JSON. This is certain if
/// `resultType` does not occur at any depth, or occurs only once and has the value `complete`.
fn is_certainly_complete(text: &str) -> bool {
    static MEMBER_FINDER: LazyLock<Finder<'static>> =
        LazyLock::new(|| Finder::new("\"resultType\""));
    static ESCAPE_FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u"));
    let mut positions = MEMBER_FINDER.find_iter(text.as_bytes());
    let is_complete = match (positions.next(), positions.next()) {
        (None, _) => true,
        (Some(position), None) => {
            let rest = text[position + MEMBER_FINDER.needle().len()..].trim_start();
            let value = rest.strip_prefix(':').map(str::trim_start);
            value.is_some_and(|value| value.starts_with("\"complete\""))
        }
        (Some(_), Some(_)) => false,
    };
    // JSON with escapes does not count as complete, because the member's name may be escaped.
    is_complete && ESCAPE_FINDER.find(text.as_bytes()).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_type_is_read_from_the_top_level() {
        for (text, expected) in [
            ("{}", "complete"),
            ("[]", "complete"),
            (r#"{"resultType":"complete"}"#, "complete"),
            (r#"{"content":[],"resultType" : "complete"}"#, "complete"),
            (r#"{"resultType":"task"}"#, "task"),
            (r#"{"resultType":"complete!"}"#, "complete!"),
            (r#"{"resultType":3}"#, "complete"),
            (r#"{"a":{"resultType":"task"}}"#, "complete"),
            (
                r#"{"a":{"resultType":"complete"},"resultType":"task"}"#,
                "task",
            ),
            (
                r#"{"a":"\"resultType\":\"complete\"","resultType":"task"}"#,
                "task",
            ),
            (r#"{"result\u0054ype":"task"}"#, "task"),
            (
                r#"{"result\u0054ype":"task","a":{"resultType":"complete"}}"#,
                "task",
            ),
            (r#"{"a":"\u00e4","resultType":"complete"}"#, "complete"),
        ] {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            assert_eq!(result_type(&raw), expected, "{text}");
        }
    }
}
