mod batch;
mod packs;
mod servers;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use pillion_wire::{Failure, route};

use crate::{Caller, Client, ClientError, Stream};
pub use batch::BatchPart;

/// The calls of a [`Client`] with undecoded bodies: requests and responses are JSON as bytes.
/// Created by [`Client::raw`].
///
/// A returned body belongs to a response with a 2xx status, and is not checked. Any other status is
/// a [`ClientError::Status`], or a [`ClientError::Decode`] if the body is not a [`Failure`].
/// Otherwise, each method returns the errors of the client's method of the same name.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'a> {
    client: &'a Client,
}

/// The characters that are percent-encoded in a query value.
const QUERY: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'&')
    .add(b'+')
    .add(b'=')
    .add(b'%');

/// The characters that are percent-encoded in a path segment; more than RFC 3986 requires.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

impl<'a> Raw<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// `GET /healthz`.
    ///
    /// # Errors
    /// [`ClientError`], see [`Client::health`].
    pub fn health(&self) -> Result<Vec<u8>, ClientError> {
        self.get(route::HEALTH)
    }

    /// `GET /api/v1/status`.
    ///
    /// # Errors
    /// [`ClientError`], see [`Client::status`].
    pub fn status(&self) -> Result<Vec<u8>, ClientError> {
        self.get(route::STATUS)
    }

    /// `GET /api/v1/workers/`, as a [`WorkerList`](pillion_wire::WorkerList).
    ///
    /// # Errors
    /// [`ClientError`], see [`Client::status`].
    pub fn workers(&self) -> Result<Vec<u8>, ClientError> {
        self.get(route::WORKERS)
    }

    /// `GET /api/v1/tools/`, optionally limited to one category.
    ///
    /// # Errors
    /// [`ClientError`], see [`Client::list_tools`].
    pub fn list_tools(&self, category: Option<&str>) -> Result<Vec<u8>, ClientError> {
        self.list_tools_for(category, &Caller::default())
    }

    /// [`list_tools`](Self::list_tools), including the tools that only the caller's user has.
    ///
    /// # Errors
    /// [`ClientError`], see [`Client::list_tools`].
    pub fn list_tools_for(
        &self,
        category: Option<&str>,
        caller: &Caller,
    ) -> Result<Vec<u8>, ClientError> {
        let path = with_category(route::TOOLS, category);
        let (status, body) = self.client.send(&path, None, caller)?;
        body_of(status, body)
    }

    /// `GET /api/v1/tools/{tool}`, as a [`ToolResponse`](pillion_wire::ToolResponse): one tool from the
    /// caller's tool list.
    ///
    /// # Errors
    /// [`ClientError`]: `not_found` if the tool is not in the list.
    pub fn tool(&self, tool: &str, caller: &Caller) -> Result<Vec<u8>, ClientError> {
        let tool = utf8_percent_encode(tool, SEGMENT);
        let path = format!("{}{tool}", route::TOOLS);
        let (status, body) = self.client.send(&path, None, caller)?;
        body_of(status, body)
    }

    /// `GET /api/v1/tools/schemas`, optionally limited to one category.
    ///
    /// # Errors
    /// [`ClientError`], see [`Client::schemas`].
    pub fn schemas(&self, category: Option<&str>) -> Result<Vec<u8>, ClientError> {
        self.schemas_for(category, &Caller::default())
    }

    /// [`schemas`](Self::schemas), including the tools that only the caller's user has.
    ///
    /// # Errors
    /// [`ClientError`], see [`Client::schemas`].
    pub fn schemas_for(
        &self,
        category: Option<&str>,
        caller: &Caller,
    ) -> Result<Vec<u8>, ClientError> {
        let path = with_category(route::SCHEMAS, category);
        let (status, body) = self.client.send(&path, None, caller)?;
        body_of(status, body)
    }

    /// `POST /api/v1/tools/execute/{tool}` with `arguments`, a JSON object, as the body.
    ///
    /// # Errors
    /// [`ClientError`], see [`Client::execute`].
    pub fn execute(
        &self,
        tool: &str,
        arguments: &[u8],
        caller: &Caller,
    ) -> Result<Vec<u8>, ClientError> {
        let segment = utf8_percent_encode(tool, SEGMENT);
        let path = format!("{}{segment}", route::EXECUTE);
        self.post(&path, arguments, caller)
            .map_err(|error| error.into_running_timeout([tool]))
    }

    /// `POST /api/v1/tools/batch-execute`; the body is a
    /// [`BatchRequest`](pillion_wire::BatchRequest) as JSON.
    ///
    /// # Errors
    /// [`ClientError`], see [`Client::batch`].
    pub fn batch(&self, request: &[u8], caller: &Caller) -> Result<Vec<u8>, ClientError> {
        self.post(route::BATCH_EXECUTE, request, caller)
    }

    /// `GET /api/v1/tool-calls/` with `query`, as a [`ToolCallList`](pillion_wire::ToolCallList).
    ///
    /// # Errors
    /// [`ClientError`]: `invalid_input` for an invalid query, `unavailable` if
    /// the sidecar's store is unavailable.
    pub fn tool_calls(&self, query: &[(&str, String)]) -> Result<Vec<u8>, ClientError> {
        self.get(&with_query(route::TOOL_CALLS, query))
    }

    /// `GET /api/v1/tool-calls/{id}`, as a [`ToolCallResponse`](pillion_wire::ToolCallResponse).
    ///
    /// # Errors
    /// [`ClientError`]: `not_found` if the call does not exist.
    pub fn tool_call(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        let id = utf8_percent_encode(id, SEGMENT);
        self.get(&format!("{}{id}", route::TOOL_CALLS))
    }

    /// `GET /api/v1/tool-calls/statistics` with `query`, as
    /// [`ToolCallStatistics`](pillion_wire::ToolCallStatistics).
    ///
    /// # Errors
    /// As [`tool_calls`](Self::tool_calls).
    pub fn tool_call_statistics(&self, query: &[(&str, String)]) -> Result<Vec<u8>, ClientError> {
        self.get(&with_query(route::TOOL_CALL_STATISTICS, query))
    }

    /// `GET /api/v1/approvals/` with `query`, as an [`ApprovalList`](pillion_wire::ApprovalList).
    ///
    /// # Errors
    /// As [`tool_calls`](Self::tool_calls).
    pub fn approvals(&self, query: &[(&str, String)]) -> Result<Vec<u8>, ClientError> {
        self.get(&with_query(route::APPROVALS, query))
    }

    /// `GET /api/v1/approvals/{id}`, as an [`ApprovalResponse`](pillion_wire::ApprovalResponse).
    ///
    /// # Errors
    /// [`ClientError`]: `not_found` if the approval does not exist.
    pub fn approval(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        let id = utf8_percent_encode(id, SEGMENT);
        self.get(&format!("{}{id}", route::APPROVALS))
    }

    /// `POST /api/v1/approvals/{id}/approve`, or `/deny`; the body is a
    /// [`DecisionRequest`](pillion_wire::DecisionRequest) as JSON. The response is an
    /// [`ApprovalResponse`](pillion_wire::ApprovalResponse).
    ///
    /// # Errors
    /// [`ClientError`]: `not_found`; status 409 if the approval was already decided or has
    /// expired.
    pub fn decide(
        &self,
        id: &str,
        approve: bool,
        body: &[u8],
        caller: &Caller,
    ) -> Result<Vec<u8>, ClientError> {
        let id = utf8_percent_encode(id, SEGMENT);
        let verdict = if approve { "approve" } else { "deny" };
        self.post(&format!("{}{id}/{verdict}", route::APPROVALS), body, caller)
    }

    /// `GET /api/v1/models/`, as a [`ModelList`](pillion_wire::ModelList).
    ///
    /// # Errors
    /// As [`Client::health`].
    pub fn models(&self) -> Result<Vec<u8>, ClientError> {
        self.get(route::MODELS)
    }

    /// `GET /api/v1/models/{id}`, as a [`ModelResponse`](pillion_wire::ModelResponse) with the tools
    /// that the caller may use.
    ///
    /// # Errors
    /// [`ClientError`]: `not_found` if the model does not exist.
    pub fn model(&self, id: &str, caller: &Caller) -> Result<Vec<u8>, ClientError> {
        let id = utf8_percent_encode(id, SEGMENT);
        let (status, body) = self
            .client
            .send(&format!("{}{id}", route::MODELS), None, caller)?;
        body_of(status, body)
    }

    /// `GET /api/v1/providers/`, as a [`ProviderList`](pillion_wire::ProviderList).
    ///
    /// # Errors
    /// As [`Client::health`].
    pub fn providers(&self) -> Result<Vec<u8>, ClientError> {
        self.get(route::PROVIDERS)
    }

    /// `PUT /api/v1/providers/{name}/key`; the body is a
    /// [`ProviderKeyInput`](pillion_wire::ProviderKeyInput) as JSON.
    ///
    /// # Errors
    /// [`ClientError`]: `not_found` if the provider does not exist; `denied` if the sidecar has
    /// no vault.
    pub fn set_provider_key(&self, name: &str, body: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.change_key("PUT", &provider_key(name), Some(body))
    }

    /// `DELETE /api/v1/providers/{name}/key`.
    ///
    /// # Errors
    /// As [`set_provider_key`](Self::set_provider_key).
    pub fn remove_provider_key(&self, name: &str) -> Result<Vec<u8>, ClientError> {
        self.change_key("DELETE", &provider_key(name), None)
    }

    /// `GET /api/v1/tool-keys/`, as a [`ToolKeyList`](pillion_wire::ToolKeyList).
    ///
    /// # Errors
    /// As [`Client::health`].
    pub fn tool_keys(&self) -> Result<Vec<u8>, ClientError> {
        self.get(route::TOOL_KEYS)
    }

    /// `PUT /api/v1/tool-keys/{tool}`; the body is a
    /// [`ProviderKeyInput`](pillion_wire::ProviderKeyInput) as JSON.
    ///
    /// # Errors
    /// [`ClientError`]: `not_found` if the tool uses no service with an API key; `denied` if the
    /// sidecar has no vault.
    pub fn set_tool_key(&self, tool: &str, body: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.change_key("PUT", &tool_key(tool), Some(body))
    }

    /// `DELETE /api/v1/tool-keys/{tool}`.
    ///
    /// # Errors
    /// As [`set_tool_key`](Self::set_tool_key).
    pub fn remove_tool_key(&self, tool: &str) -> Result<Vec<u8>, ClientError> {
        self.change_key("DELETE", &tool_key(tool), None)
    }

    fn change_key(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Vec<u8>, ClientError> {
        let caller = Caller::default();
        let (status, body) = self.client.send_as(method, path, body, &caller)?;
        body_of(status, body)
    }

    /// `POST /api/v1/chat/`, or to the chat with `id`; the body is a
    /// [`ChatRequest`](pillion_wire::ChatRequest) as JSON, the response a
    /// [`ChatAnswer`](pillion_wire::ChatAnswer).
    ///
    /// # Errors
    /// [`ClientError`]: `not_found` if the model or the chat does not exist.
    pub fn chat(
        &self,
        id: Option<&str>,
        body: &[u8],
        caller: &Caller,
    ) -> Result<Vec<u8>, ClientError> {
        let id = utf8_percent_encode(id.unwrap_or_default(), SEGMENT);
        self.post(&format!("{}{id}", route::CHAT), body, caller)
    }

    /// As [`chat`](Self::chat), with a body that requests a stream. Returns the events as they
    /// arrive.
    ///
    /// # Errors
    /// As [`chat`](Self::chat).
    pub fn chat_events(
        &self,
        id: Option<&str>,
        body: &[u8],
        caller: &Caller,
    ) -> Result<Stream, ClientError> {
        let id = utf8_percent_encode(id.unwrap_or_default(), SEGMENT);
        let path = format!("{}{id}", route::CHAT);
        let (status, mut stream) = self.client.send_for_stream(&path, body, caller)?;
        if (200..300).contains(&status) {
            return Ok(stream);
        }
        let mut refusal = Vec::new();
        let mut piece = [0; 4096];
        loop {
            match stream.read(&mut piece)? {
                0 => break,
                read => refusal.extend_from_slice(&piece[..read]),
            }
        }
        Err(refused(status, &refusal))
    }

    /// `GET /api/v1/pins/` with `query`, as a [`PinList`](pillion_wire::PinList).
    ///
    /// # Errors
    /// As [`tool_calls`](Self::tool_calls).
    pub fn pins(&self, query: &[(&str, String)]) -> Result<Vec<u8>, ClientError> {
        self.get(&with_query(route::PINS, query))
    }

    /// `GET /api/v1/pins/{server}/{tool}`, as a [`PinResponse`](pillion_wire::PinResponse); `user` is
    /// the user whose tool list has the tool, if the server lists its tools per user.
    ///
    /// # Errors
    /// [`ClientError`]: `not_found` if the pin does not exist.
    pub fn pin(
        &self,
        server: &str,
        tool: &str,
        user: Option<&str>,
    ) -> Result<Vec<u8>, ClientError> {
        self.get(&with_query(&pin_path(server, tool), &of_user(user)))
    }

    /// `POST /api/v1/pins/{server}/{tool}/accept`, with `user` as for [`pin`](Self::pin); the body
    /// is an [`AcceptPin`](pillion_wire::AcceptPin) as JSON, the response a
    /// [`PinResponse`](pillion_wire::PinResponse).
    ///
    /// # Errors
    /// [`ClientError`]: `not_found`; status 409 if no definition, or a definition with another
    /// hash, waits to be accepted.
    pub fn accept_pin(
        &self,
        server: &str,
        tool: &str,
        user: Option<&str>,
        body: &[u8],
    ) -> Result<Vec<u8>, ClientError> {
        let path = format!("{}/accept", pin_path(server, tool));
        self.post(&with_query(&path, &of_user(user)), body, &Caller::default())
    }

    fn get(&self, path: &str) -> Result<Vec<u8>, ClientError> {
        let (status, body) = self.client.send(path, None, &Caller::default())?;
        body_of(status, body)
    }

    fn post(&self, path: &str, body: &[u8], caller: &Caller) -> Result<Vec<u8>, ClientError> {
        let (status, body) = self.client.send(path, Some(body), caller)?;
        body_of(status, body)
    }
}

fn of_user(user: Option<&str>) -> Vec<(&'static str, String)> {
    user.map(|user| ("user", user.to_owned()))
        .into_iter()
        .collect()
}

fn pin_path(server: &str, tool: &str) -> String {
    let encode = |name| utf8_percent_encode(name, SEGMENT);
    format!("{}{}/{}", route::PINS, encode(server), encode(tool))
}

fn with_category(path: &str, category: Option<&str>) -> String {
    let category = category.map(|category| ("category", category.to_owned()));
    with_query(path, category.as_slice())
}

fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let mut path = path.to_owned();
    for (place, (name, value)) in query.iter().enumerate() {
        path.push(if place == 0 { '?' } else { '&' });
        path.push_str(name);
        path.push('=');
        path.extend(utf8_percent_encode(value, QUERY));
    }
    path
}

fn body_of(status: u16, body: Vec<u8>) -> Result<Vec<u8>, ClientError> {
    if (200..300).contains(&status) {
        return Ok(body);
    }
    Err(refused(status, &body))
}

/// Builds the error for a response without a 2xx status.
fn refused(status: u16, body: &[u8]) -> ClientError {
    match serde_json::from_slice::<Failure>(body) {
        Ok(failure) => ClientError::Status {
            status,
            failure: Box::new(failure),
        },
        Err(source) => ClientError::Decode { status, source },
    }
}

/// Returns the path of a provider's API key.
fn provider_key(name: &str) -> String {
    let name = utf8_percent_encode(name, SEGMENT);
    format!("{}{name}/key", route::PROVIDERS)
}

/// Returns the path of the API key of a tool's service.
fn tool_key(tool: &str) -> String {
    let tool = utf8_percent_encode(tool, SEGMENT);
    format!("{}{tool}", route::TOOL_KEYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_stay_one_segment() {
        let encode = |name| utf8_percent_encode(name, SEGMENT).to_string();
        assert_eq!(encode("get-x_2"), "get-x_2");
        assert_eq!(encode("a/b?c#d e"), "a%2Fb%3Fc%23d%20e");
        assert_eq!(encode("ü.."), "%C3%BC%2E%2E");
        assert_eq!(with_category("/t", Some("a&b")), "/t?category=a%26b");
    }
}
