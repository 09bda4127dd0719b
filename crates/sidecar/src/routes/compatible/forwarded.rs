use pillion_providers::Provider;
use serde_json::{Map, Value};

use crate::routes::error::{INVALID_INPUT, RequestError, route_error};
use pillion_gateway::models::Model;

/// Maximum length of a field's name in an error, in characters.
const MAX_NAME_CHARS: usize = 100;

route_error! {
    /// The request has a field that is not forwarded to the model's provider.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "The parameter '{0}' is not forwarded to the model's provider, which might run tools because \
         of it: omit it, or list it in extra_parameters of the provider's [[providers]] entry"
    )]
    struct UnknownParameter(String) => INVALID_INPUT
}

/// The fields that clients are known to send and that are rejected, each with the reason.
const REJECTED: [(&str, &str); 13] = [
    ("models", "omitted: `model` selects the model"),
    ("route", "omitted: `model` selects the model"),
    ("fallbacks", "omitted: `model` selects the model"),
    ("plugins", "omitted: plugins would run at the provider"),
    ("web_search_options", RUNS_A_SEARCH),
    ("search_parameters", RUNS_A_SEARCH),
    ("enable_search", RUNS_A_SEARCH),
    ("mcp_servers", RUNS_TOOLS),
    ("betas", RUNS_TOOLS),
    ("container", RUNS_TOOLS),
    ("functions", "omitted: use `tools`"),
    ("function_call", "omitted: use `tool_choice`"),
    (
        "extra_body",
        "omitted: send its members as fields of the request",
    ),
];

const RUNS_A_SEARCH: &str = "omitted: the search would run at the provider";
const RUNS_TOOLS: &str = "omitted: tools would run at the provider";

/// Returns the fields of a request that are forwarded to the model's provider, whose API is `api`:
/// the parameters that are known not to make the provider run tools or use another model, and those
/// that the configuration allows. Fields without a value are dropped.
///
/// # Errors
/// [`RequestError`] names the first field that is not forwarded.
pub(in crate::routes) fn forwarded(
    rest: &Map<String, Value>,
    model: &Model,
    api: Provider,
) -> Result<Map<String, Value>, RequestError> {
    let is_forwarded = |name: &str| {
        let mut configured = model.extra_parameters.iter();
        let known = api.api().forwarded_parameters();
        known.contains(&name) || configured.any(|extra| extra == name)
    };
    let mut forwarded = Map::new();
    for (name, value) in rest {
        if is_forwarded(name) {
            forwarded.insert(name.clone(), value.clone());
        } else if !is_empty(value) {
            return Err(rejection(name));
        }
    }
    Ok(forwarded)
}

/// Fails if the request has a field that no model supports. Only models whose providers do not get
/// such fields ignore unknown fields.
///
/// # Errors
/// [`RequestError`] names the first such field.
pub(in crate::routes) fn check_unforwarded(rest: &Map<String, Value>) -> Result<(), RequestError> {
    let rejected = REJECTED
        .iter()
        .find(|(name, _)| rest.get(*name).is_some_and(|it| !is_empty(it)));
    rejected.map_or(Ok(()), |(name, _)| Err(rejection(name)))
}

fn rejection(name: &str) -> RequestError {
    let known = REJECTED.iter().find(|(known, _)| *known == name);
    match known {
        Some((name, expected)) => RequestError::parameter(name, *expected),
        None => UnknownParameter(name.chars().take(MAX_NAME_CHARS).collect()).into(),
    }
}

/// Returns whether a field with this value counts as absent.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Number(_) | Value::Bool(true) | Value::Object(_) => false,
    }
}
