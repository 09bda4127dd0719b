use serde_json::json;

use crate::digest::sha256_hex;
use crate::registry::RegisteredTool;
use crate::tool::{CallContext, ForwardedParameters, JsonObject};

/// Computes the ID of an approval: SHA-256, in hexadecimal digits, of the JSON
/// `{"arguments":{...},"definition":[...],"digest":...,"server":...,"tool":...,"user":...}` with
/// the keys of every object in byte order and without white space. `server` is the label of the
/// tool's MCP server or null, `digest` is [`Tool::digest`](crate::tool::Tool::digest), and
/// `definition` is the description and the schema. An approval therefore becomes invalid if the
/// tool or its server changes, and is not valid for a tool of the same name on another server.
/// `user` may be null.
///
/// The JSON of some calls has further keys:
///
/// - `acting_identity`, if the tool's acting identity depends on the caller: an approval is valid
///   only for one identity.
/// - `principal`, if a principal calls for an unverified user or for no user: an approval is valid
///   only for this principal.
/// - `channel`, if the call belongs to a channel.
/// - `forwarded`, if the tool gets more from the caller than the arguments: the digest of that data
///   ([`Tool::forwarded`](crate::tool::Tool::forwarded)).
pub(super) fn compute(
    tool: &RegisteredTool,
    arguments: &JsonObject,
    context: &CallContext,
    forwarded: Option<&ForwardedParameters>,
) -> String {
    let mut call = json!({
        "arguments": arguments,
        "definition": [tool.definition().description(), tool.definition().input_schema()],
        "digest": tool.tool().digest(),
        "server": tool.origin().server_label(),
        "tool": tool.name().as_str(),
        "user": context.user,
    });
    if let Some(acting_identity) = &context.acting_identity {
        call["acting_identity"] = json!(acting_identity.identity);
    }
    if let Some(principal) = &context.principal
        && context.verified_user().is_none()
    {
        call["principal"] = json!(principal);
    }
    if let Some(channel) = &context.channel {
        call["channel"] = json!(channel);
    }
    if let Some(forwarded) = forwarded {
        call["forwarded"] = json!(forwarded.digest);
    }
    call.sort_all_objects();
    sha256_hex(&call.to_string())
}
