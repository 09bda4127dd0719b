//! The paths of the API. A trailing slash may be added or omitted in each path.

/// `GET`: all tools with their parameters, as a [`ToolList`](crate::ToolList). With a
/// percent-encoded tool name appended: one tool, as a [`ToolResponse`](crate::ToolResponse).
pub const TOOLS: &str = "/api/v1/tools/";

/// `GET`: the schemas of all tools in OpenAI's format, as a [`SchemaList`](crate::SchemaList).
pub const SCHEMAS: &str = "/api/v1/tools/schemas";

/// `POST` with a percent-encoded tool name appended: runs one tool and returns an
/// [`ExecuteResponse`](crate::ExecuteResponse). The body is the arguments object.
pub const EXECUTE: &str = "/api/v1/tools/execute/";

/// `POST`: runs the calls of a [`BatchRequest`](crate::BatchRequest) and returns a
/// [`BatchResponse`](crate::BatchResponse).
pub const BATCH_EXECUTE: &str = "/api/v1/tools/batch-execute";

/// `GET`: the recorded calls, as a [`ToolCallList`](crate::ToolCallList). With an id appended: one
/// call, as a [`ToolCallResponse`](crate::ToolCallResponse).
pub const TOOL_CALLS: &str = "/api/v1/tool-calls/";

/// `GET`: the call statistics of each tool, as [`ToolCallStatistics`](crate::ToolCallStatistics).
pub const TOOL_CALL_STATISTICS: &str = "/api/v1/tool-calls/statistics";

/// `GET` with an id appended: a stored result that was too large for the response to its call.
pub const RESULTS: &str = "/api/v1/results/";

/// The MCP endpoint: `POST`, and also `GET` and `DELETE` for protocol revisions with sessions. The
/// bodies are MCP messages.
pub const MCP: &str = "/mcp";

/// `POST` on the Unix socket: turns the connection into the connection of one MCP client. After the
/// response, the connection carries newline-delimited MCP messages, as in MCP's stdio transport.
pub const MCP_STDIO: &str = "/mcp/stdio";

/// `GET`: the liveness of the sidecar, as a [`Health`](crate::Health).
pub const HEALTH: &str = "/healthz";

/// `GET`: the OpenAPI document of the REST API.
pub const OPENAPI: &str = "/openapi.json";

/// `GET`: whether the sidecar is ready for requests, as a [`Readiness`](crate::Readiness).
pub const READY: &str = "/readyz";

/// `GET`: metrics in Prometheus' text format.
pub const METRICS: &str = "/metrics";

/// `POST`: turns the connection into the connection of a worker, a process that offers its own
/// tools. `GET`: the connected workers, as a [`WorkerList`](crate::WorkerList).
pub const WORKERS: &str = "/api/v1/workers/";

/// `POST`: checks the JSON Schemas of tools that are not registered in the sidecar.
pub const SCHEMA_CHECK: &str = "/api/v1/schemas/check";

/// With `tools`, `tool-calls`, `text`, `messages` or `results` appended, `POST`: converts to or from
/// the format of the provider in the query.
pub const FORMATS: &str = "/api/v1/formats/";

/// `POST`: turns the connection into the connection of an executor, which runs the calls of a PHP
/// process.
pub const EXECUTORS: &str = "/api/v1/executors/";

/// `GET`: the sidecar's status, as a [`Status`](crate::Status).
pub const STATUS: &str = "/api/v1/status";

/// `GET`: the pending and past approvals, as an [`ApprovalList`](crate::ApprovalList). With an id
/// appended: one approval, as an [`ApprovalResponse`](crate::ApprovalResponse). `POST` with an id and
/// `/approve` or `/deny` appended: decides; the optional body is a
/// [`DecisionRequest`](crate::DecisionRequest).
pub const APPROVALS: &str = "/api/v1/approvals/";

/// `GET`: the sidecar's events, as server-sent events.
pub const EVENTS: &str = "/api/v1/events";

/// `GET`: the event streams of packs, as a [`StreamList`](crate::StreamList). With a name appended:
/// one stream, as server-sent events.
pub const STREAMS: &str = "/api/v1/streams/";

/// `GET`: the packs and the number of entries that each pack stores, as a
/// [`PackList`](crate::PackList). With a pack's name and a kind appended: the entries of that kind,
/// as a [`StoredItemList`](crate::StoredItemList). `DELETE` with a pack's name, a kind and a percent-encoded
/// entry name appended: removes the entry.
pub const PACKS: &str = "/api/v1/packs/";

/// `GET`: the accepted definitions of MCP servers' tools, as a [`PinList`](crate::PinList). With a
/// server's label and the tool's name on that server appended: one pin and its differences, as a
/// [`PinResponse`](crate::PinResponse). `POST` with `/accept` appended after the tool: accepts the
/// changed definition.
pub const PINS: &str = "/api/v1/pins/";

/// `GET`: the MCP servers, as a [`ServerList`](crate::ServerList). `POST`: adds the server that
/// the body defines. With an id or a name appended: `GET`, `PUT`, `PATCH` and
/// `DELETE` of one server, and below it `/enable`, `/disable`, `/connect`, `/disconnect`,
/// `/reconnect`, `/credentials`, `/tools`, `/resources`, `/resources/read`, `/test`.
pub const SERVERS: &str = "/api/v1/servers/";

/// `POST`: lists the tools of the server that the body defines without adding the server, and
/// returns a [`ServerTrial`](crate::ServerTrial).
pub const SERVER_TEST: &str = "/api/v1/servers/test";

/// `POST`: reads the servers from the store again, after another process has changed the store.
pub const SERVER_REFRESH: &str = "/api/v1/servers/refresh";

/// `POST`: re-encrypts every credential under the new key, in the file beside the vault's key file.
pub const VAULT_ROTATE: &str = "/api/v1/vault/rotate";

/// `POST`: starts a chat with a [`ChatRequest`](crate::ChatRequest), and returns a
/// [`ChatAnswer`](crate::ChatAnswer) or a stream of events. `GET`: the caller's chats. With an id
/// appended: `GET` returns a [`ChatTranscript`](crate::ChatTranscript), `POST` continues the chat,
/// `DELETE` removes the chat.
pub const CHAT: &str = "/api/v1/chat/";

/// `GET`: the language models, as a [`ModelList`](crate::ModelList). With a percent-encoded id
/// appended: one model and the tools that it sees, as a [`ModelResponse`](crate::ModelResponse).
pub const MODELS: &str = "/api/v1/models/";

/// `GET`: the providers of language models, as a [`ProviderList`](crate::ProviderList). With a name
/// and `/key` appended: `PUT` sets the API key of a [`ProviderKeyInput`](crate::ProviderKeyInput),
/// `DELETE` removes it.
pub const PROVIDERS: &str = "/api/v1/providers/";

/// `GET`: the built-in tools that use a service with an API key, as a
/// [`ToolKeyList`](crate::ToolKeyList). With a tool's name appended: `PUT` sets the API key of a
/// [`ProviderKeyInput`](crate::ProviderKeyInput), `DELETE` removes it.
pub const TOOL_KEYS: &str = "/api/v1/tool-keys/";

/// `POST`: a chat in the format of OpenAI's Chat Completions; the sidecar runs the tools.
pub const CHAT_COMPLETIONS: &str = "/v1/chat/completions";

/// `POST`: a chat in the format of Anthropic's Messages; the sidecar runs the tools.
pub const MESSAGES: &str = "/v1/messages";

/// `GET`: the language models in OpenAI's format. With a percent-encoded id appended: one model.
pub const OPENAI_MODELS: &str = "/v1/models";
