use serde_json::json;

use crate::digest::sha256_hex;
use crate::registry::RegisteredTool;
use crate::tool::{CallContext, JsonObject, ToolOrigin};

/// The id of an approval: SHA-256, in hexadecimal digits, of the JSON
/// `{"arguments":{...},"definition":[...],"digest":...,"server":...,"tool":...,"user":...}` with
/// the keys of every object in the order of their bytes and no white space. `server` is the label
/// of the tool's MCP server or null, `digest` is [`Tool::digest`](crate::tool::Tool::digest),
/// `definition` the description and the schema: an approval passes neither to another server's
/// tool of the same name, nor to what has taken the tool's or the server's place. `user` may be
/// null. Where the tool does not act as the same for everybody, `acts_as` stands before them, in
/// whose name: what was approved of in the user's name does not pass to one in the server's.
pub(super) fn of(tool: &RegisteredTool, arguments: &JsonObject, context: &CallContext) -> String {
    let server = match tool.origin() {
        ToolOrigin::Mcp { server_label, .. } => Some(server_label.as_str()),
        ToolOrigin::Native => None,
    };
    let mut call = json!({
        "arguments": arguments,
        "definition": [tool.definition().description(), tool.definition().input_schema()],
        "digest": tool.tool().digest(),
        "server": server,
        "tool": tool.name().as_str(),
        "user": context.user,
    });
    if let Some(acts_as) = &context.acts_as {
        call["acts_as"] = json!(acts_as.identity);
    }
    call.sort_all_objects();
    sha256_hex(&call.to_string())
}
