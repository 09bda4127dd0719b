//! Parses the data of an event of a streamed response.

use pillion_schema::{json_values, lone_surrogates};
use pillion_sse::SseEvent;
use serde_json::Value;

use crate::{ModelError, ProviderApi};

/// Returns the JSON of an event. `None` for blank data, which servers send to keep the connection
/// open, and for `[DONE]`, which gateways to several providers send at the end of every stream.
///
/// # Errors
/// [`Malformed`](crate::ModelErrorKind::Malformed): the data is not JSON.
pub(crate) fn parse_data(
    api: &impl ProviderApi,
    event: &SseEvent,
) -> Result<Option<Value>, ModelError> {
    if matches!(event.data.trim(), "" | "[DONE]") {
        return Ok(None);
    }
    json_values::from_str(&lone_surrogates::replace(&event.data))
        .map(Some)
        .map_err(|_| api.malformed("an event of the stream is not JSON"))
}

/// Returns the JSON of an event like [`parse_data`], with the name of the event as `type` if the
/// JSON has no type.
///
/// # Errors
/// [`Malformed`](crate::ModelErrorKind::Malformed): the data is not JSON.
pub(crate) fn parse_typed_data(
    api: &impl ProviderApi,
    event: &SseEvent,
) -> Result<Option<Value>, ModelError> {
    let mut event_data = parse_data(api, event)?;
    if let Some(Value::Object(members)) = &mut event_data
        && !members.get("type").is_some_and(Value::is_string)
        && event.event != "message"
    {
        let name = Value::from(event.event.to_string());
        members.insert("type".to_owned(), name);
    }
    Ok(event_data)
}
