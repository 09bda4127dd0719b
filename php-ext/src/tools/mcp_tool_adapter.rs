//! `MCPToolAdapter`: the abstract base class of MCP tools written in PHP.
//!
//! The state of an adapter is in protected PHP properties, so that subclasses in PHP can read
//! `$this->client`.

mod debug_info;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use pillion_core::tool::ToolOrigin;
use serde_json::Value;

use crate::clients::mcp_sse_client;
use crate::json::to_value;
use crate::mcp::RequireApproval;
use crate::model::model_argument;
use crate::values::interfaces::{MCP_TOOL, add_offer_methods};
use crate::zend::{Class, ClassSlot, MethodCall, Object, Outcome, Result, methods, new_bool};

/// The class `Pillion\MCPToolAdapter`.
pub static CLASS: ClassSlot = ClassSlot::new();

pub fn register() -> ZendResult<()> {
    let class = methods!(
        Class::new("Pillion\\MCPToolAdapter")
            .flags(ClassFlags::Abstract)
            .implements(MCP_TOOL.get())
            .property("protected array $serverConfig = []")
            .property("protected bool $serverAvailable = false")
            .property("protected ?Pillion\\MCPSSEClient $client = null"),
        "__construct(#[SensitiveParameter] array $serverConfig = [])" => construct,
        "getMCPServerConfig(): array" => get_mcp_server_config,
        "isServerAvailable(): bool" => is_server_available,
        "__debugInfo(): array" => debug_info::debug_info,
    );
    add_offer_methods(class, is_enabled_for_model).register(&CLASS)
}

/// Creates the adapter's client without any I/O; an entry without `server_url` has no client.
fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let Some(config) = call.optional_array(0)? else {
        return Ok(Zval::new());
    };
    let this = call.this();
    this.set(CLASS.get(), "serverConfig", config.shallow_clone());
    let entry = to_value(config)?;
    // `require_approval` is read only to report an invalid value early; the registry uses the value
    // later.
    RequireApproval::from_entry(&entry)?;
    if let Some(client) = mcp_sse_client::new_client(&entry)? {
        this.set(CLASS.get(), "serverAvailable", new_bool(true));
        this.set(CLASS.get(), "client", client);
    }
    Ok(Zval::new())
}

fn get_mcp_server_config(call: &mut MethodCall<'_>) -> Outcome {
    call.this().get(CLASS.get(), "serverConfig")
}

/// Returns whether the adapter has a server, without any I/O. `MCPSSEClient::isAvailable()`
/// contacts the server.
fn is_server_available(call: &mut MethodCall<'_>) -> Outcome {
    call.this().get(CLASS.get(), "serverAvailable")
}

/// Returns whether a model may use the tool, according to the model's capabilities and the tool's
/// name.
fn is_enabled_for_model(call: &mut MethodCall<'_>) -> Outcome {
    let capabilities = model_argument(call, 0)?;
    let this = call.this();
    let name = this.call("getName", [])?;
    let origin = read_entry_origin(&server_config(this)?);
    let admission = capabilities.admit(name.str().unwrap_or_default(), &origin);
    Ok(new_bool(admission.is_ok()))
}

/// Returns the origin of a tool whose server has this entry.
pub fn read_entry_origin(entry: &Value) -> ToolOrigin {
    let text = |key: &str| {
        let text = entry.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    ToolOrigin::Mcp {
        server_label: text("server_label"),
        server_url: text("server_url"),
    }
}

/// Returns the server configuration that was passed to the constructor.
pub fn server_config(this: Object<'_>) -> Result<Value> {
    to_value(&this.get(CLASS.get(), "serverConfig")?)
}

/// Returns the adapter's client, if it has one.
pub fn client(this: Object<'_>) -> Result<Option<Zval>> {
    let client = this.get(CLASS.get(), "client")?;
    Ok(client.is_object().then_some(client))
}
