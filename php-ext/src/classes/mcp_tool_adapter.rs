//! `MCPToolAdapter`: the abstract class behind MCP tools in PHP (requirements J2, J3).
//!
//! Its state is in real protected properties, so that PHP subclasses read `$this->client`,
//! and `DmcpTool` inherits from it like any class.

mod shown;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::{ClassFlags, PropertyFlags};
use ext_php_rs::types::Zval;
use pillion_core::tool::ToolOrigin;
use serde_json::Value;

use super::interfaces::{MCP_TOOL, with_offer};
use super::mcp_sse_client;
use crate::json::to_value;
use crate::mcp::RequireApproval;
use crate::model::model_argument;
use crate::zend::{
    Call, Class, ClassSlot, Failure, Method, Object, Outcome, Parameter, Property, Type, bool_of,
    empty_array,
};

/// `Pillion\MCPToolAdapter`.
pub static CLASS: ClassSlot = ClassSlot::new();

pub(super) fn register() -> ZendResult<()> {
    let client = Type::class(mcp_sse_client::NAME).nullable();
    let protected = PropertyFlags::Protected;
    let class = Class::new("Pillion\\MCPToolAdapter")
        .flags(ClassFlags::Abstract)
        .implements(MCP_TOOL.get())
        .property(Property::new(
            protected,
            "serverConfig",
            Type::ARRAY,
            empty_array(),
        ))
        .property(Property::new(
            protected,
            "serverAvailable",
            Type::BOOL,
            bool_of(false),
        ))
        .property(Property::new(protected, "client", client, Zval::new()))
        .method(
            Method::new("__construct", construct).parameters(&[Parameter::optional(
                "serverConfig",
                Type::ARRAY,
                "[]",
            )
            .sensitive()]),
        )
        .method(Method::new("getMCPServerConfig", get_mcp_server_config).returns(Type::ARRAY))
        .method(Method::new("isServerAvailable", is_server_available).returns(Type::BOOL))
        .method(Method::new("__debugInfo", shown::debug_info).returns(Type::ARRAY));
    with_offer(class, is_enabled_for_model).register(&CLASS)
}

/// Makes the client, which does no I/O yet; without a `server_url` there is none.
fn construct(call: &mut Call<'_>) -> Outcome {
    let Some(config) = call.value(0) else {
        return Ok(Zval::new());
    };
    call.array(0)?;
    let this = call.this();
    this.set(CLASS.get(), "serverConfig", config.shallow_clone());
    let entry = to_value(config)?;
    // A registry reads it; what is wrong with it is said here already.
    RequireApproval::of_entry(&entry)?;
    if let Some(client) = mcp_sse_client::of_server_config(&entry)? {
        this.set(CLASS.get(), "serverAvailable", bool_of(true));
        this.set(CLASS.get(), "client", client);
    }
    Ok(Zval::new())
}

fn get_mcp_server_config(call: &mut Call<'_>) -> Outcome {
    call.this().get(CLASS.get(), "serverConfig")
}

/// Whether a server is set. There is no I/O here: `MCPSSEClient::isAvailable()` asks it.
fn is_server_available(call: &mut Call<'_>) -> Outcome {
    call.this().get(CLASS.get(), "serverAvailable")
}

/// The rule of H2 for the tool's own name.
fn is_enabled_for_model(call: &mut Call<'_>) -> Outcome {
    let capabilities = model_argument(call, 0)?;
    let this = call.this();
    let name = this.call("getName", [])?;
    let admitted = capabilities.admit(name.str().unwrap_or_default(), &origin_of(this)?);
    Ok(bool_of(admitted.is_ok()))
}

fn origin_of(this: Object<'_>) -> Result<ToolOrigin, Failure> {
    let config = server_config(this)?;
    let text = |key: &str| {
        let text = config.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    Ok(ToolOrigin::Mcp {
        server_label: text("server_label"),
        server_url: text("server_url"),
    })
}

/// The configuration that the adapter was made with.
pub fn server_config(this: Object<'_>) -> Result<Value, Failure> {
    to_value(&this.get(CLASS.get(), "serverConfig")?)
}

/// The adapter's client, if it has one.
pub fn client(this: Object<'_>) -> Result<Option<Zval>, Failure> {
    let client = this.get(CLASS.get(), "client")?;
    Ok(client.is_object().then_some(client))
}
