use pillion_providers::Provider;
use serde_json::{Map, Value};

use pillion_gateway::models::Model;
use pillion_management::error::{INVALID_INPUT, RequestError, Result, route_error};

/// Maximum length of a field's name in an error, in characters.
const MAX_NAME_CHARS: usize = 100;

route_error! {
    /// The request has a field that is not forwarded to the model's provider.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "The parameter '{0}' is not forwarded to the model's provider, because it might make the \
         provider run tools: omit the parameter, or list it in extra_parameters of the provider's \
         [[providers]] entry"
    )]
    struct UnknownParameter(String) => INVALID_INPUT
}

/// The fields that clients are known to send and that are rejected, each with the reason.
const REJECTED_FIELDS: [(&str, &str); 13] = [
    (
        "models",
        "omitted: Pillion reads the model only from `model`",
    ),
    (
        "route",
        "omitted: Pillion reads the model only from `model`",
    ),
    (
        "fallbacks",
        "omitted: Pillion reads the model only from `model`",
    ),
    ("plugins", "omitted: plugins would run at the provider"),
    ("web_search_options", SEARCH_REASON),
    ("search_parameters", SEARCH_REASON),
    ("enable_search", SEARCH_REASON),
    ("mcp_servers", TOOLS_REASON),
    ("betas", TOOLS_REASON),
    ("container", TOOLS_REASON),
    ("functions", "omitted: use `tools`"),
    ("function_call", "omitted: use `tool_choice`"),
    (
        "extra_body",
        "omitted: send its members as fields of the request",
    ),
];

const SEARCH_REASON: &str = "omitted: the search would run at the provider";
const TOOLS_REASON: &str = "omitted: tools would run at the provider";

/// Returns the fields of a request that are forwarded to the model's provider, whose API is `api`:
///
/// - the known parameters that neither make the provider run tools nor select another model,
/// - the parameters that the configuration allows.
///
/// Other fields are dropped if they have no value.
///
/// # Errors
/// [`RequestError`] names the first field that has a value and is not forwarded.
pub(in crate::routes) fn forwarded_parameters(
    fields: &Map<String, Value>,
    model: &Model,
    api: Provider,
) -> Result<Map<String, Value>> {
    let is_forwarded = |name: &str| {
        let mut extra_parameters = model.extra_parameters.iter();
        let known_parameters = api.api().forwarded_parameters();
        known_parameters.contains(&name) || extra_parameters.any(|extra| extra == name)
    };
    let mut parameters = Map::new();
    for (name, value) in fields {
        if is_forwarded(name) {
            parameters.insert(name.clone(), value.clone());
        } else if !is_empty(value) {
            return Err(rejection(name));
        }
    }
    Ok(parameters)
}

/// Returns an error if the request has a field that no model supports. Called for models whose
/// providers do not get the request's fields; for these models, all other fields are ignored.
///
/// # Errors
/// [`RequestError`] names the first unsupported field.
pub(in crate::routes) fn check_unforwarded(fields: &Map<String, Value>) -> Result<()> {
    let rejected_field = REJECTED_FIELDS
        .iter()
        .find(|(name, _)| fields.get(*name).is_some_and(|value| !is_empty(value)));
    rejected_field.map_or(Ok(()), |(name, _)| Err(rejection(name)))
}

fn rejection(name: &str) -> RequestError {
    let rejected_field = REJECTED_FIELDS.iter().find(|(field, _)| *field == name);
    match rejected_field {
        Some((name, expected)) => RequestError::invalid_parameter(name, *expected),
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
