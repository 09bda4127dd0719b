//! The routes of the API: method, path and response body, for the server and the client.
//!
//! ```
//! use pillion_wire::route;
//! let route = route::SHOW_TOOL;
//! assert_eq!((route.method, route.path), ("GET", "/api/v1/tools/{tool_name}"));
//! assert_eq!(route.path_with(["a/b"]), "/api/v1/tools/a%2Fb");
//! ```

use std::marker::PhantomData;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    ApprovalList, ApprovalResponse, BatchResponse, ChatList, ChatRemoved, ChatResponse,
    ChatTranscript, ConsoleLink, ExecuteResponse, Health, ModelList, ModelResponse, PackList,
    PinList, PinResponse, ProviderList, Readiness, ResourceList, ResourceResponse, SchemaList,
    ServerList, ServerRemoved, ServerResponse, ServerTrial, Status, StoredItemList,
    StoredItemRemoved, StreamList, ToolCallList, ToolCallResponse, ToolCallStatistics, ToolKeyList,
    ToolList, ToolResponse, UserCredentialList, UserCredentialResponse, WorkerList,
};

/// The characters that are percent-encoded in a path segment; more than RFC 3986 requires.
const SEGMENT_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// Returns `text` as one segment of a URL's path, percent-encoded.
#[must_use]
pub fn encode_segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT_ESCAPES).to_string()
}

/// A route of the API, whose response body is a `Response` and whose path has `N` parameters.
///
/// `Response` is `()` if the body is not JSON, or if no client of Pillion reads it.
#[derive(Debug)]
pub struct Route<Response, const N: usize> {
    /// The HTTP method, such as `GET`.
    pub method: &'static str,
    /// The path, with its parameters in braces. The server also accepts the path with a trailing
    /// slash added or removed.
    pub path: &'static str,
    response: PhantomData<fn() -> Response>,
}

impl<Response, const N: usize> Route<Response, N> {
    const fn new(method: &'static str, path: &'static str) -> Self {
        Self {
            method,
            path,
            response: PhantomData,
        }
    }

    /// Returns the path with `values` in place of its parameters, percent-encoded.
    #[must_use]
    pub fn path_with(&self, values: [&str; N]) -> String {
        let mut path = String::with_capacity(self.path.len());
        let mut rest = self.path;
        for value in values {
            if let Some((before, after)) = rest.split_once('{') {
                path.push_str(before);
                path.extend(utf8_percent_encode(value, SEGMENT_ESCAPES));
                rest = after.split_once('}').map_or("", |(_, after)| after);
            }
        }
        path + rest
    }
}

// Implemented by hand, because derived implementations would also require the traits of `Response`.
impl<Response, const N: usize> Clone for Route<Response, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Response, const N: usize> Copy for Route<Response, N> {}

/// Returns the number of parameters of a path.
const fn count_parameters(path: &str) -> usize {
    let bytes = path.as_bytes();
    let (mut index, mut count) = (0, 0);
    while index < bytes.len() {
        if bytes[index] == b'{' {
            count += 1;
        }
        index += 1;
    }
    count
}

macro_rules! routes {
    ($($(#[$doc:meta])* $name:ident: $method:ident $path:literal => $response:ty,)*) => {
        $(
            #[doc = concat!("`", stringify!($method), " ", $path, "`\n")]
            $(#[$doc])*
            pub const $name: Route<$response, { count_parameters($path) }> =
                Route::new(stringify!($method), $path);
        )*

        /// The method and the path of each route.
        pub const ALL_ROUTES: &[(&str, &str)] = &[$((stringify!($method), $path)),*];
    };
}

routes! {
    LIST_TOOLS: GET "/api/v1/tools/" => ToolList,
    LIST_SCHEMAS: GET "/api/v1/tools/schemas" => SchemaList,
    SHOW_TOOL: GET "/api/v1/tools/{tool_name}" => ToolResponse,
    EXECUTE_TOOL: POST "/api/v1/tools/execute/{tool_name}" => ExecuteResponse,
    EXECUTE_BATCH: POST "/api/v1/tools/batch-execute" => BatchResponse,

    LIST_TOOL_CALLS: GET "/api/v1/tool-calls/" => ToolCallList,
    TOOL_CALL_STATISTICS: GET "/api/v1/tool-calls/statistics" => ToolCallStatistics,
    SHOW_TOOL_CALL: GET "/api/v1/tool-calls/{id}" => ToolCallResponse,
    /// Returns the content of an offloaded result: a tool result that was too large for the
    /// response to the call.
    FETCH_RESULT: GET "/api/v1/results/{id}" => (),

    LIST_TOOL_KEYS: GET "/api/v1/tool-keys/" => ToolKeyList,
    SET_TOOL_KEY: PUT "/api/v1/tool-keys/{tool}" => ToolKeyList,
    REMOVE_TOOL_KEY: DELETE "/api/v1/tool-keys/{tool}" => ToolKeyList,

    CHECK_SCHEMAS: POST "/api/v1/schemas/check" => (),
    FORMAT_TOOLS: POST "/api/v1/formats/tools" => (),
    PARSE_TOOL_CALLS: POST "/api/v1/formats/tool-calls" => (),
    PARSE_TEXT: POST "/api/v1/formats/text" => (),
    PARSE_MESSAGES: POST "/api/v1/formats/messages" => (),
    FORMAT_RESULTS: POST "/api/v1/formats/results" => (),

    /// Upgrades the connection to the protocol of PHP executors. An executor runs the tool calls of
    /// a PHP process.
    OPEN_EXECUTOR: POST "/api/v1/executors/" => (),
    /// Upgrades the connection to the worker protocol. A worker is a process that offers its own
    /// tools.
    CONNECT_WORKER: POST "/api/v1/workers/" => (),
    LIST_WORKERS: GET "/api/v1/workers/" => WorkerList,

    LIST_APPROVALS: GET "/api/v1/approvals/" => ApprovalList,
    SHOW_APPROVAL: GET "/api/v1/approvals/{id}" => ApprovalResponse,
    APPROVE: POST "/api/v1/approvals/{id}/approve" => ApprovalResponse,
    DENY: POST "/api/v1/approvals/{id}/deny" => ApprovalResponse,

    BEGIN_CHAT: POST "/api/v1/chat/" => ChatResponse,
    LIST_CHATS: GET "/api/v1/chat/" => ChatList,
    CONTINUE_CHAT: POST "/api/v1/chat/{id}" => ChatResponse,
    SHOW_CHAT: GET "/api/v1/chat/{id}" => ChatTranscript,
    REMOVE_CHAT: DELETE "/api/v1/chat/{id}" => ChatRemoved,

    LIST_MODELS: GET "/api/v1/models/" => ModelList,
    SHOW_MODEL: GET "/api/v1/models/{id}" => ModelResponse,
    LIST_PROVIDERS: GET "/api/v1/providers/" => ProviderList,
    SET_PROVIDER_KEY: PUT "/api/v1/providers/{name}/key" => ProviderList,
    REMOVE_PROVIDER_KEY: DELETE "/api/v1/providers/{name}/key" => ProviderList,

    /// Streams the sidecar's events as server-sent events.
    WATCH_EVENTS: GET "/api/v1/events" => (),
    LIST_STREAMS: GET "/api/v1/streams/" => StreamList,
    /// Sends the events of a pack's event stream as server-sent events.
    WATCH_STREAM: GET "/api/v1/streams/{name}" => (),
    LIST_PACKS: GET "/api/v1/packs/" => PackList,
    LIST_PACK_ITEMS: GET "/api/v1/packs/{pack}/{kind}" => StoredItemList,
    REMOVE_PACK_ITEM: DELETE "/api/v1/packs/{pack}/{kind}/{name}" => StoredItemRemoved,

    LIST_PINS: GET "/api/v1/pins/" => PinList,
    SHOW_PIN: GET "/api/v1/pins/{server}/{tool}" => PinResponse,
    ACCEPT_PIN: POST "/api/v1/pins/{server}/{tool}/accept" => PinResponse,
    REJECT_PIN: POST "/api/v1/pins/{server}/{tool}/reject" => PinResponse,

    LIST_SERVERS: GET "/api/v1/servers/" => ServerList,
    ADD_SERVER: POST "/api/v1/servers/" => ServerResponse,
    /// Tests a server by listing its tools, without adding the server.
    TEST_NEW_SERVER: POST "/api/v1/servers/test" => ServerTrial,
    /// Reads the servers from the store again, after another process has changed them.
    REFRESH_SERVERS: POST "/api/v1/servers/refresh" => ServerList,
    SHOW_SERVER: GET "/api/v1/servers/{id}" => ServerResponse,
    REPLACE_SERVER: PUT "/api/v1/servers/{id}" => ServerResponse,
    /// Changes a server. The request body is a JSON merge patch (RFC 7396), so absent fields stay
    /// unchanged.
    CHANGE_SERVER: PATCH "/api/v1/servers/{id}" => ServerResponse,
    REMOVE_SERVER: DELETE "/api/v1/servers/{id}" => ServerRemoved,
    ENABLE_SERVER: POST "/api/v1/servers/{id}/enable" => ServerResponse,
    DISABLE_SERVER: POST "/api/v1/servers/{id}/disable" => ServerResponse,
    RECONNECT_SERVER: POST "/api/v1/servers/{id}/reconnect" => ServerResponse,
    CONNECT_SERVER: POST "/api/v1/servers/{id}/connect" => ServerResponse,
    DISCONNECT_SERVER: POST "/api/v1/servers/{id}/disconnect" => ServerResponse,
    LIST_SERVER_CREDENTIALS: GET "/api/v1/servers/{id}/credentials" => UserCredentialList,
    SET_SERVER_CREDENTIAL: PUT "/api/v1/servers/{id}/credentials/{user}" => UserCredentialResponse,
    REMOVE_SERVER_CREDENTIAL: DELETE "/api/v1/servers/{id}/credentials/{user}" => ServerRemoved,
    LIST_SERVER_TOOLS: GET "/api/v1/servers/{id}/tools" => ToolList,
    LIST_SERVER_RESOURCES: GET "/api/v1/servers/{id}/resources" => ResourceList,
    READ_SERVER_RESOURCE: GET "/api/v1/servers/{id}/resources/read" => ResourceResponse,
    TEST_SERVER: POST "/api/v1/servers/{id}/test" => ServerTrial,
    /// Encrypts each stored secret with the new key, which is in the file that has the name of the
    /// vault's key file plus `.new`.
    ROTATE_VAULT: POST "/api/v1/vault/rotate" => (),

    CREATE_CONSOLE_LINK: POST "/api/v1/console/links" => ConsoleLink,

    HEALTH: GET "/healthz" => Health,
    READY: GET "/readyz" => Readiness,
    METRICS: GET "/metrics" => (),
    STATUS: GET "/api/v1/status" => Status,
    OPENAPI: GET "/openapi.json" => (),

    CHAT_COMPLETIONS: POST "/v1/chat/completions" => (),
    OPENAI_MODELS: GET "/v1/models" => (),
    OPENAI_MODEL: GET "/v1/models/{id}" => (),
    ANTHROPIC_MESSAGES: POST "/v1/messages" => (),

    MCP_POST: POST "/mcp" => (),
    MCP_GET: GET "/mcp" => (),
    MCP_DELETE: DELETE "/mcp" => (),
    /// Upgrades a connection on the Unix socket for one MCP client. After the response, the
    /// connection carries newline-delimited MCP messages, as in MCP's stdio transport.
    MCP_STDIO: POST "/mcp/stdio" => (),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_stay_one_segment() {
        let path = |name| SHOW_SERVER.path_with([name]);
        assert_eq!(path("get-x_2"), "/api/v1/servers/get-x_2");
        assert_eq!(path("a/b?c#d e"), "/api/v1/servers/a%2Fb%3Fc%23d%20e");
        assert_eq!(path("ü.."), "/api/v1/servers/%C3%BC%2E%2E");
        let values = ["a", "{b}"];
        assert_eq!(
            ACCEPT_PIN.path_with(values),
            "/api/v1/pins/a/%7Bb%7D/accept"
        );
        assert_eq!(LIST_TOOLS.path_with([]), "/api/v1/tools/");
    }
}
