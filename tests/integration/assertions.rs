//! Assertions that print the whole text or value when they fail.

use pillion_client::{Caller, Client};
use pillion_wire::{ExecuteResponse, Failure, ToolOutcome};
use serde_json::{Value, json};

/// Checks a JSON value's type, and returns the typed value.
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

/// Calls tools, and checks the kind of the response.
pub trait ExpectExecution {
    /// Calls a tool that exists.
    fn run_tool(&self, tool: &str, arguments: &Value, caller: &Caller) -> ToolOutcome;

    /// Calls a tool that does not exist, or whose server is unavailable.
    fn run_missing_tool(&self, tool: &str) -> Failure;
}

impl ExpectExecution for Client {
    fn run_tool(&self, tool: &str, arguments: &Value, caller: &Caller) -> ToolOutcome {
        match self.execute(tool, arguments, caller).unwrap() {
            ExecuteResponse::Executed(execution) => execution.result,
            ExecuteResponse::NotFound(failure) => panic!("{failure:?}"),
        }
    }

    fn run_missing_tool(&self, tool: &str) -> Failure {
        let response = self.execute(tool, &json!({}), &Caller::default());
        match response.unwrap() {
            ExecuteResponse::Executed(execution) => panic!("{execution:?}"),
            ExecuteResponse::NotFound(failure) => failure,
        }
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
