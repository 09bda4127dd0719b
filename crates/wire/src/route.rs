//! The paths of the API. Each also works with its trailing slash added or left out.

/// `GET`: every tool with its parameters, as a [`ToolList`](crate::ToolList). With a tool's name
/// (percent-encoded) appended: that tool, as a [`ToolAnswer`](crate::ToolAnswer).
pub const TOOLS: &str = "/api/v1/tools/";

/// `GET`: every tool's schema in OpenAI's form, as a [`SchemaList`](crate::SchemaList).
pub const SCHEMAS: &str = "/api/v1/tools/schemas";

/// `POST`, with the tool's name (percent-encoded) appended: runs one tool and answers
/// with an [`Answer`](crate::Answer). The body is the arguments object.
pub const EXECUTE: &str = "/api/v1/tools/execute/";

/// `POST`: runs the calls of a [`BatchRequest`](crate::BatchRequest) and answers with a
/// [`BatchAnswer`](crate::BatchAnswer).
pub const BATCH_EXECUTE: &str = "/api/v1/tools/batch-execute";

/// `GET`: the recorded calls, as a [`ToolCallList`](crate::ToolCallList). With an id
/// appended: that call, as a [`ToolCallAnswer`](crate::ToolCallAnswer).
pub const TOOL_CALLS: &str = "/api/v1/tool-calls/";

/// `GET`: what is known of each tool's calls, as
/// [`ToolCallStatistics`](crate::ToolCallStatistics).
pub const TOOL_CALL_STATISTICS: &str = "/api/v1/tool-calls/statistics";

/// `GET`, with an id appended: a result that was too large to be handed over at once.
pub const RESULTS: &str = "/api/v1/results/";

/// The MCP server: `POST`, and `GET` and `DELETE` for revisions with sessions. The bodies are
/// those of the Model Context Protocol.
pub const MCP: &str = "/mcp";

/// `POST`, on the Unix socket: makes the connection that of one MCP client. From the answer on it
/// carries that protocol's messages, a line each, as they are over standard streams.
pub const MCP_STDIO: &str = "/mcp/stdio";

/// `GET`: whether the sidecar is up, as a [`Health`](crate::Health).
pub const HEALTH: &str = "/healthz";

/// `GET`: the OpenAPI document of all this.
pub const OPENAPI: &str = "/openapi.json";

/// `GET`: whether requests should come here, as a [`Readiness`](crate::Readiness).
pub const READY: &str = "/readyz";

/// `GET`: what was counted, for Prometheus.
pub const METRICS: &str = "/metrics";

/// `POST`: makes the connection that of a process that offers tools of its own. `GET`: those
/// who do, as a [`WorkerList`](crate::WorkerList).
pub const WORKERS: &str = "/api/v1/workers/";

/// `GET`: how the sidecar is doing, as a [`Status`](crate::Status).
pub const STATUS: &str = "/api/v1/status";

/// `GET`: the calls that wait, or waited, for approval, as an
/// [`ApprovalList`](crate::ApprovalList). With an id appended: that one, as an
/// [`ApprovalAnswer`](crate::ApprovalAnswer); with `/approve` or `/deny` after it, `POST`: the
/// decision. Its body may be a [`DecisionRequest`](crate::DecisionRequest).
pub const APPROVALS: &str = "/api/v1/approvals/";

/// `GET`: what happens, as server-sent events.
pub const EVENTS: &str = "/api/v1/events";

/// `GET`: the event streams of packs, as a [`StreamList`](crate::StreamList). With a name appended:
/// that one, as server-sent events.
pub const STREAMS: &str = "/api/v1/streams/";

/// `GET`: the packs and how much each keeps, as a [`PackList`](crate::PackList). With a pack's name
/// and a kind appended: what it keeps of that, as a [`KeptList`](crate::KeptList); with a name
/// (percent-encoded) after them, `DELETE`: that is removed.
pub const PACKS: &str = "/api/v1/packs/";

/// `GET`: what the tools of MCP servers are accepted to be, as a [`PinList`](crate::PinList).
/// With a server's label and a tool's name there appended: that one and what is otherwise, as a
/// [`PinAnswer`](crate::PinAnswer); with `/accept` after it, `POST`: what is otherwise is accepted.
pub const PINS: &str = "/api/v1/pins/";

/// `GET`: the MCP servers, as a [`ServerList`](crate::ServerList). `POST`: adds the one of a
/// [`ServerInput`](crate::ServerInput). With an id or a name appended: `GET`, `PUT`, `PATCH`
/// and `DELETE` of that server; and after it `/enable`, `/disable`, `/connect`, `/disconnect`,
/// `/reconnect`, `/tools`, `/resources`, `/resources/read`, `/test`.
pub const SERVERS: &str = "/api/v1/servers/";

/// `POST`: asks the server of a [`ServerInput`](crate::ServerInput) for its tools without
/// keeping it, and answers with a [`ServerTrial`](crate::ServerTrial).
pub const SERVER_TEST: &str = "/api/v1/servers/test";

/// `POST`: looks at the store again, which somebody else may have changed.
pub const SERVER_REFRESH: &str = "/api/v1/servers/refresh";

/// `POST`: encrypts every credential anew, under the key in the file beside the vault's.
pub const VAULT_ROTATE: &str = "/api/v1/vault/rotate";

/// `POST`: begins a chat with a [`ChatRequest`](crate::ChatRequest), and answers with a
/// [`ChatAnswer`](crate::ChatAnswer) or a stream of events. `GET`: the caller's chats. With an id
/// appended: `GET` is a [`ChatTranscript`](crate::ChatTranscript), `POST` goes on with it, `DELETE`
/// forgets it.
pub const CHAT: &str = "/api/v1/chat/";

/// `GET`: the language models, as a [`ModelList`](crate::ModelList). With an id (percent-encoded)
/// appended: which tools it sees, as a [`ModelAnswer`](crate::ModelAnswer).
pub const MODELS: &str = "/api/v1/models/";

/// `GET`: where language models answer, as a [`ProviderList`](crate::ProviderList). With a name and
/// `/key` appended: `PUT` a [`ProviderKeyInput`](crate::ProviderKeyInput), and `DELETE`.
pub const PROVIDERS: &str = "/api/v1/providers/";

/// `GET`: the built-in tools whose service wants a key, as a [`ToolKeyList`](crate::ToolKeyList). With a
/// tool's name appended: `PUT` a [`ProviderKeyInput`](crate::ProviderKeyInput), and `DELETE`.
pub const TOOL_KEYS: &str = "/api/v1/tool-keys/";

/// `POST`: a chat as OpenAI's chat completions have it; its tools run here.
pub const CHAT_COMPLETIONS: &str = "/v1/chat/completions";

/// `POST`: a chat as Anthropic's messages have it; its tools run here.
pub const MESSAGES: &str = "/v1/messages";

/// `GET`: the language models as OpenAI lists them. With an id (percent-encoded) appended: that one.
pub const OPENAI_MODELS: &str = "/v1/models";
