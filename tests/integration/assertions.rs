//! Assertions that print the whole text or value when they fail.

use serde_json::Value;

/// What a JSON value has to be.
pub trait ExpectJson {
    fn text(&self) -> &str;

    fn items(&self) -> &Vec<Value>;

    /// Returns this text member of each item.
    fn texts(&self, member: &str) -> Vec<&str> {
        let items = self.items().iter();
        items.map(|item| item[member].text()).collect()
    }
}

impl ExpectJson for Value {
    fn text(&self) -> &str {
        self.as_str().unwrap_or_else(|| panic!("no text: {self}"))
    }

    fn items(&self) -> &Vec<Value> {
        self.as_array()
            .unwrap_or_else(|| panic!("no array: {self}"))
    }
}

/// Asserts that a text contains each of the parts.
macro_rules! assert_contains {
    ($text:expr, $($part:expr),+ $(,)?) => {
        match &$text {
            text => {
                $(assert!(text.contains($part), "{text}");)+
            }
        }
    };
}

/// Asserts that a text contains none of the parts.
macro_rules! assert_lacks {
    ($text:expr, $($part:expr),+ $(,)?) => {
        match &$text {
            text => {
                $(assert!(!text.contains($part), "{text}");)+
            }
        }
    };
}

/// Asserts that a text starts with the part.
macro_rules! assert_starts_with {
    ($text:expr, $part:expr $(,)?) => {
        match &$text {
            text => {
                assert!(text.starts_with($part), "{text}");
            }
        }
    };
}

/// Asserts that a text ends with the part.
macro_rules! assert_ends_with {
    ($text:expr, $part:expr $(,)?) => {
        match &$text {
            text => {
                assert!(text.ends_with($part), "{text}");
            }
        }
    };
}

/// Asserts that a value matches a pattern. A third argument, such as `"{case}"`, is printed before
/// the value.
macro_rules! assert_matches {
    ($value:expr, $pattern:pat $(if $guard:expr)? $(,)?) => {
        assert_matches!($value, $pattern $(if $guard)?, "unexpected")
    };
    ($value:expr, $pattern:pat $(if $guard:expr)?, $context:literal $(,)?) => {
        match $value {
            $pattern $(if $guard)? => {}
            ref other => panic!("{}: {other:?}", format_args!($context)),
        }
    };
}

/// Asserts that a member of a JSON value, such as `response["result"]["success"]`, is equal to the
/// expected value.
macro_rules! assert_json {
    ($value:ident $([$key:expr])+, $expected:expr $(,)?) => {{
        let value = &$value;
        assert_eq!(value $([$key])+, $expected, "{value}");
    }};
}
