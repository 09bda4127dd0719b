//! Assertions that print the whole text or value when they fail.

/// Asserts that a text contains each of the parts.
macro_rules! assert_contains {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let text = &$text;
        $(assert!(text.contains($part), "{text}");)+
    }};
}

/// Asserts that a text contains none of the parts.
macro_rules! assert_lacks {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let text = &$text;
        $(assert!(!text.contains($part), "{text}");)+
    }};
}

/// Asserts that a text starts with the part.
macro_rules! assert_starts_with {
    ($text:expr, $part:expr $(,)?) => {{
        let text = &$text;
        assert!(text.starts_with($part), "{text}");
    }};
}

/// Asserts that a text ends with the part.
macro_rules! assert_ends_with {
    ($text:expr, $part:expr $(,)?) => {{
        let text = &$text;
        assert!(text.ends_with($part), "{text}");
    }};
}

/// Asserts that an error of the MCP client is of a kind.
macro_rules! assert_kind {
    ($error:ident, $($kind:tt)+) => {
        assert!(matches!($error.kind(), $($kind)+), "{:?}", $error)
    };
}

/// Asserts that a member of a JSON value, such as `response["result"]["success"]`, is equal to the
/// expected value.
macro_rules! assert_json {
    ($value:ident $([$key:expr])+, $expected:expr $(,)?) => {
        assert_eq!($value $([$key])+, $expected, "{}", $value)
    };
}
