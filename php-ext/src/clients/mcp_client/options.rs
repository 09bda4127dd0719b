//! The options of an `McpClient`'s calls.

use std::time::Duration;

use ext_php_rs::types::Zval;
use pillion_mcp_client::RequestOptions;
use serde_json::{Map, Value};

use crate::clients::cancellation_token::Cancellation;
use crate::duration::parse_seconds;
use crate::exception;
use crate::json::to_value;
use crate::mcp::{ProgressReceiver, describe_type};
use crate::zend::{MethodCall, Result, entries, is_callable, to_float};

/// Default of `max_concurrent`, the number of calls that `callTools` runs at a time.
const DEFAULT_MAX_CONCURRENT: usize = 16;

/// The options of one or several calls.
#[derive(Default)]
pub struct CallOptions {
    /// The timeout and the `_meta` of the request.
    pub request: RequestOptions,
    /// The callable that receives the progress reports of the calls.
    pub on_progress: Option<Zval>,
    /// The cancellation signal of the calls.
    pub cancellation: Cancellation,
    /// The ID of the call, if PHP code sets one.
    pub id: Option<String>,
    /// Maximum number of concurrent calls.
    pub max_concurrent: usize,
}

impl CallOptions {
    /// Reads the options from an optional argument. Rejects every option that is not in
    /// `supported`.
    ///
    /// # Errors
    /// A `TypeError`, or an `InvalidInputException` that names the invalid option.
    pub fn from_argument(call: &MethodCall<'_>, index: usize, supported: &[&str]) -> Result<Self> {
        let mut options = Self {
            max_concurrent: DEFAULT_MAX_CONCURRENT,
            ..Self::default()
        };
        if let Some(array) = call.optional_array(index)? {
            options.read_all(array, supported)?;
        }
        Ok(options)
    }

    /// Returns a receiver for the progress of the calls with the given IDs; `None` if the option
    /// `on_progress` is not set.
    pub fn progress_receiver<'a>(&'a self, ids: &'a [String]) -> Option<ProgressReceiver<'a>> {
        let callable = self.on_progress.as_ref()?;
        Some(ProgressReceiver { callable, ids })
    }

    fn read_all(&mut self, options: &Zval, supported: &[&str]) -> Result<()> {
        for (key, value) in entries(options) {
            let name = key
                .string()
                .unwrap_or_else(|| key.long().unwrap_or_default().to_string());
            if !supported.contains(&name.as_str()) {
                let expected = supported.join(", ");
                return Err(exception::invalid_input(format!(
                    "Unknown option '{name}', expected one of {expected}"
                )));
            }
            if !value.is_null() {
                self.set_option(&name, &value)?;
            }
        }
        Ok(())
    }

    fn set_option(&mut self, name: &str, value: &Zval) -> Result<()> {
        let invalid_option = |expected: &str| {
            exception::invalid_input(format!(
                "The option '{name}' must be {expected}, {} given",
                describe_type(value)
            ))
        };
        match name {
            "timeout" => {
                let number =
                    to_float(value).ok_or_else(|| invalid_option("a number of seconds"))?;
                // A timeout of zero becomes 1 ms, because zero would mean no timeout.
                let timeout = parse_seconds("timeout", number)?.max(Duration::from_millis(1));
                self.request.timeout = Some(timeout);
            }
            "on_progress" if is_callable(value)? => self.on_progress = Some(value.shallow_clone()),
            "on_progress" => return Err(invalid_option("callable")),
            "cancellation" => {
                let token = Cancellation::from_value(value)?;
                self.cancellation =
                    token.ok_or_else(|| invalid_option("a Pillion\\CancellationToken"))?;
            }
            "meta" => {
                self.request.meta = parse_meta(value)?
                    .ok_or_else(|| invalid_option("an array with string keys"))?;
            }
            "id" => self.id = Some(value.string().ok_or_else(|| invalid_option("a string"))?),
            _ => {
                let number = value.long().and_then(|number| usize::try_from(number).ok());
                self.max_concurrent = number
                    .filter(|number| *number > 0)
                    .ok_or_else(|| invalid_option("an integer greater than 0"))?;
            }
        }
        Ok(())
    }
}

fn parse_meta(value: &Zval) -> Result<Option<Map<String, Value>>> {
    Ok(match to_value(value)? {
        Value::Object(meta) => Some(meta),
        Value::Array(items) if items.is_empty() => Some(Map::new()),
        _ => None,
    })
}
