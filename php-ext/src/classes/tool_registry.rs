//! `ToolRegistry` (requirements B1 to B5, H2).

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::PropertyFlags;
use ext_php_rs::types::{ZendObject, Zval};
use ext_php_rs::zend::ce;
use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::{RegistryError, ToolRegistry};
use pillion_core::tool::{CallContext, ToolCall, ToolDefinition, ToolOrigin};
use serde_json::{Value, json};

use super::interfaces::{MCP_TOOL, MODEL, TOOL};
use super::{callable_tool, engine_tool, tool_definition, tool_result};
use crate::exception;
use crate::execution::{self, Mode};
use crate::json::{EmptyObject, decode_value, to_value};
use crate::model::model_argument;
use crate::php_tool::{PhpTool, Switchboard};
use crate::zend::{
    Call, Class, Failure, Method, Outcome, Parameter, Property, State, StateClass, Type, array_of,
    bool_of, call_method, construct, empty_array, entries, list_of, new_object, read_property,
    set_property, state_of, string_of, with_entry, without_entry,
};

pub const NAME: &str = "Pillion\\ToolRegistry";
static CLASS: StateClass<Registry> = StateClass::new();

/// What the engine knows of a registry. The tools as PHP objects, by name, are in the
/// object's property `$tools`, where the garbage collector sees them.
pub struct Registry {
    tools: Arc<ToolRegistry>,
    /// Runs what is called through the registry or a tool itself.
    executor: Executor,
    switchboard: Arc<Switchboard>,
    /// The names of the tools that are PHP code.
    in_php: RefCell<HashSet<String>>,
}

impl State for Registry {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
}

impl Registry {
    fn new() -> Self {
        let tools = Arc::new(ToolRegistry::new());
        Self {
            executor: Executor::new(Arc::clone(&tools), ExecutorConfig::default()),
            tools,
            switchboard: Arc::default(),
            in_php: RefCell::default(),
        }
    }

    pub fn tools(&self) -> &Arc<ToolRegistry> {
        &self.tools
    }

    pub fn switchboard(&self) -> &Arc<Switchboard> {
        &self.switchboard
    }

    /// Whether the tool of that name or alias is PHP code.
    pub fn is_php(&self, name: &str) -> bool {
        self.tools
            .get(name)
            .is_some_and(|tool| self.in_php.borrow().contains(tool.name().as_str()))
    }
}

pub(super) fn register() -> ZendResult<()> {
    let tool = Type::class("Pillion\\ToolInterface");
    let definition = Type::class("Pillion\\ToolInterface|Pillion\\ToolDefinition");
    let name = Parameter::required("name", Type::STRING);
    let model = Parameter::required("model", MODEL);
    let class = Class::new(NAME)
        .implements(ce::countable())
        .property(Property::new(
            PropertyFlags::Private,
            "tools",
            Type::ARRAY,
            empty_array(),
        ))
        .method(Method::new("__construct", construct_empty))
        .method(
            Method::new("withBuiltins", with_builtins)
                .make_static()
                .returns(Type::class(NAME)),
        )
        .method(
            Method::new("register", register_tool)
                .parameters(&[
                    Parameter::required("tool", definition),
                    Parameter::optional("handler", Type::CALLABLE.nullable(), "null"),
                    Parameter::optional("replace", Type::BOOL, "false"),
                ])
                .returns(Type::VOID),
        )
        .method(
            Method::new("alias", alias)
                .parameters(&[
                    Parameter::required("alias", Type::STRING),
                    Parameter::required("tool", Type::STRING),
                ])
                .returns(Type::VOID),
        )
        .method(
            Method::new("unregister", unregister)
                .parameters(&[name])
                .returns(Type::BOOL),
        )
        .method(
            Method::new("has", has)
                .parameters(&[name])
                .returns(Type::BOOL),
        )
        .method(
            Method::new("get", get)
                .parameters(&[name])
                .returns(tool.nullable()),
        )
        .method(Method::new("getAll", get_all).returns(Type::ARRAY))
        .method(Method::new("getMCPTools", get_mcp_tools).returns(Type::ARRAY))
        .method(Method::new("count", count).returns(Type::INT))
        .method(Method::new("categories", categories).returns(Type::ARRAY))
        .method(
            Method::new("getSchemas", get_schemas)
                .parameters(&[Parameter::optional(
                    "category",
                    Type::STRING.nullable(),
                    "null",
                )])
                .returns(Type::ARRAY),
        );
    let class = class
        .method(
            Method::new("getAvailableForModel", available_for_model)
                .parameters(&[model])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("getDroppedForModel", dropped_for_model)
                .parameters(&[model])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("getDefinitionsForModel", definitions_for_model)
                .parameters(&[model])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("getAvailableForProvider", available_for_provider)
                .parameters(&[Parameter::required("providerClass", Type::STRING)])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("execute", execute)
                .parameters(&[
                    Parameter::required("toolName", Type::STRING),
                    Parameter::required("arguments", Type::ARRAY),
                    Parameter::required("toolCallId", Type::STRING),
                ])
                .returns(Type::class(tool_result::NAME)),
        );
    CLASS.register(class)
}

/// The registry behind an object, and the object.
pub fn registry_of(value: &Zval) -> Result<(&ZendObject, &Registry), Failure> {
    let object = value
        .object()
        .ok_or_else(|| Failure::error("The registry is no object"))?;
    Ok((object, state_of(object)?))
}

/// Whether a value is a `ToolRegistry`.
pub fn is_registry(value: &Zval) -> bool {
    value
        .object()
        .is_some_and(|object| object.instance_of(CLASS.get()))
}

/// The PHP object of the tool with that name; aliases are resolved before.
pub fn find_tool(this: &ZendObject, name: &str) -> Result<Option<Zval>, Failure> {
    let tools = objects(this)?;
    Ok(tools
        .array()
        .and_then(|tools| tools.get(name))
        .map(Zval::shallow_clone))
}

fn objects(this: &ZendObject) -> Result<Zval, Failure> {
    read_property(CLASS.get(), this, "tools")
}

fn construct_empty(call: &mut Call<'_>) -> Outcome {
    construct(call.this(), Registry::new())?;
    Ok(Zval::new())
}

/// A new registry with the built-in tools (B3).
fn with_builtins(_call: &mut Call<'_>) -> Outcome {
    let value = new_object(CLASS.get())?;
    let Some(this) = value.object() else {
        return Ok(value);
    };
    construct(this, Registry::new())?;
    let registry = state_of::<Registry>(this)?;
    let mut tools = empty_array();
    for tool in pillion_builtins::all() {
        registry
            .tools
            .register(tool)
            .map_err(|error| refused(&error))?;
    }
    for tool in registry.tools.tools(None) {
        let object = engine_tool::new_tool(&tool, &registry.executor)?;
        tools = with_entry(&tools, tool.name().as_str(), object);
    }
    set_property(CLASS.get(), this, "tools", tools);
    Ok(value)
}

fn refused(error: &RegistryError) -> Failure {
    exception::invalid_input(error.to_string())
}

/// Registers an object with `ToolInterface`, or a definition and the callable that does
/// the work.
fn register_tool(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    let replace = call.bool_or(2, false)?;
    let given = call.value(0);
    let object = match given.filter(|value| tool_definition::is_definition(value)) {
        Some(definition) => {
            let handler = call
                .some(1)
                .filter(|handler| handler.is_callable())
                .ok_or_else(|| call.type_error(1, "callable, with a ToolDefinition"))?;
            callable_tool::new_tool(definition, handler)?
        }
        None => given
            .filter(|value| {
                value
                    .object()
                    .is_some_and(|object| object.instance_of(TOOL.get()))
            })
            .map(Zval::shallow_clone)
            .ok_or_else(|| call.type_error(0, "Pillion\\ToolInterface|Pillion\\ToolDefinition"))?,
    };
    let Some(tool) = object.object() else {
        return Ok(Zval::new());
    };
    let definition = definition_of(tool)?;
    let name = definition.name().as_str().to_owned();
    let native = engine_tool::engine_tool(tool)?;
    match native {
        // A tool of another registry stays native in this one.
        Some(native) => add(registry, native, replace)?,
        None => {
            let origin = origin_of(tool)?;
            let switchboard = Arc::clone(&registry.switchboard);
            add(
                registry,
                Arc::new(PhpTool::new(definition, origin, switchboard)),
                replace,
            )?;
            registry.in_php.borrow_mut().insert(name.clone());
        }
    }
    let tools = with_entry(&objects(this)?, &name, object);
    set_property(CLASS.get(), this, "tools", tools);
    Ok(Zval::new())
}

fn add(
    registry: &Registry,
    tool: Arc<dyn pillion_core::tool::Tool>,
    replace: bool,
) -> Result<(), Failure> {
    let name = tool.definition().name().clone();
    let added = if replace {
        registry.tools.replace(tool).map(drop)
    } else {
        registry.tools.register(tool)
    };
    added.map_err(|error| refused(&error))?;
    registry.in_php.borrow_mut().remove(name.as_str());
    Ok(())
}

fn definition_of(tool: &ZendObject) -> Result<ToolDefinition, Failure> {
    let definition = call_method(tool, "getDefinition", &[])?;
    let definition = tool_definition::definition_of(&definition)?
        .ok_or_else(|| exception::invalid_input("getDefinition() returned no ToolDefinition"))?;
    let name = call_method(tool, "getName", &[])?;
    if name.str() != Some(definition.name().as_str()) {
        return Err(exception::invalid_input(format!(
            "Tool '{}' has a definition of the name '{}'",
            name.string().unwrap_or_default(),
            definition.name()
        )));
    }
    Ok(definition)
}

/// Tools with `MCPToolInterface` count as MCP tools, wherever their work is done.
fn origin_of(tool: &ZendObject) -> Result<ToolOrigin, Failure> {
    if !tool.instance_of(MCP_TOOL.get()) {
        return Ok(ToolOrigin::Native);
    }
    let config = to_value(&call_method(tool, "getMCPServerConfig", &[])?)?;
    let text = |key: &str| {
        config
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Ok(ToolOrigin::Mcp {
        server_label: text("server_label"),
        server_url: text("server_url"),
    })
}

fn alias(call: &mut Call<'_>) -> Outcome {
    let registry = state_of::<Registry>(call.this())?;
    registry
        .tools
        .alias(call.string(0)?, call.string(1)?)
        .map_err(|error| refused(&error))?;
    Ok(Zval::new())
}

fn unregister(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    let name = call.string(0)?;
    let was_there = registry.tools.unregister(name);
    if was_there {
        registry.in_php.borrow_mut().remove(name);
        set_property(
            CLASS.get(),
            this,
            "tools",
            without_entry(&objects(this)?, name),
        );
    }
    Ok(bool_of(was_there))
}

fn has(call: &mut Call<'_>) -> Outcome {
    let registry = state_of::<Registry>(call.this())?;
    Ok(bool_of(registry.tools.contains(call.string(0)?)))
}

fn get(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    match registry.tools.get(call.string(0)?) {
        Some(tool) => Ok(find_tool(this, tool.name().as_str())?.unwrap_or_default()),
        None => Ok(Zval::new()),
    }
}

fn get_all(call: &mut Call<'_>) -> Outcome {
    objects(call.this())
}

fn count(call: &mut Call<'_>) -> Outcome {
    let mut count = Zval::new();
    let tools = state_of::<Registry>(call.this())?.tools.len();
    count.set_long(i64::try_from(tools).unwrap_or(i64::MAX));
    Ok(count)
}

fn categories(call: &mut Call<'_>) -> Outcome {
    let registry = state_of::<Registry>(call.this())?;
    Ok(list_of(registry.tools.categories().iter().map(string_of)))
}

fn get_schemas(call: &mut Call<'_>) -> Outcome {
    let registry = state_of::<Registry>(call.this())?;
    let schemas = registry.tools.schemas(call.optional_string(0)?);
    decode_value(&Value::Array(schemas), EmptyObject::StdClass)
}

/// The tools for which `keep` says yes, by name.
fn select(
    this: &ZendObject,
    keep: impl Fn(&ZendObject) -> Result<bool, Failure>,
) -> Result<Vec<(String, Zval)>, Failure> {
    let tools = objects(this)?;
    let mut kept = Vec::new();
    for (name, tool) in tools.array().into_iter().flat_map(entries) {
        let Some(object) = tool.object() else {
            continue;
        };
        if keep(object)? {
            kept.push((name.string().unwrap_or_default(), tool.shallow_clone()));
        }
    }
    Ok(kept)
}

fn by_name(tools: Vec<(String, Zval)>) -> Zval {
    let mut array = Vec::with_capacity(tools.len());
    let (names, objects): (Vec<_>, Vec<_>) = tools.into_iter().unzip();
    for (name, object) in names.iter().zip(objects) {
        array.push((name.as_str(), object));
    }
    array_of(array)
}

fn get_mcp_tools(call: &mut Call<'_>) -> Outcome {
    select(call.this(), |tool| Ok(tool.instance_of(MCP_TOOL.get()))).map(by_name)
}

fn is_yes(value: &Zval) -> bool {
    value.bool() == Some(true)
}

/// Asks each tool, as S4 does: a tool in PHP may have rules of its own.
fn available(call: &Call<'_>) -> Result<Vec<(String, Zval)>, Failure> {
    model_argument(call, 0)?;
    let model = [call.value(0).map_or_else(Zval::new, Zval::shallow_clone)];
    select(call.this(), |tool| {
        Ok(is_yes(&call_method(tool, "isEnabledForModel", &model)?))
    })
}

fn available_for_model(call: &mut Call<'_>) -> Outcome {
    available(call).map(by_name)
}

/// Which tools the model does not see, and why not.
fn dropped_for_model(call: &mut Call<'_>) -> Outcome {
    let registry = state_of::<Registry>(call.this())?;
    let capabilities = model_argument(call, 0)?;
    let available = available(call)?;
    let mut dropped = Vec::new();
    for tool in registry.tools.tools(None) {
        let name = tool.name().as_str().to_owned();
        let admitted = capabilities.admit(&name, tool.origin());
        let offered = available.iter().any(|(kept, _)| *kept == name);
        match admitted {
            _ if offered => {}
            Ok(()) => dropped.push((name, "the tool itself says no".to_owned())),
            Err(reason) => dropped.push((name, reason.to_string())),
        }
    }
    Ok(array_of(
        dropped
            .iter()
            .map(|(name, reason)| (name.as_str(), string_of(reason))),
    ))
}

/// The definitions of the available tools, but for MCP tools without a server.
fn definitions_for_model(call: &mut Call<'_>) -> Outcome {
    let mut definitions = Vec::new();
    for (_, tool) in available(call)? {
        let Some(object) = tool.object() else {
            continue;
        };
        if object.instance_of(MCP_TOOL.get())
            && !is_yes(&call_method(object, "isServerAvailable", &[])?)
        {
            continue;
        }
        definitions.push(call_method(object, "getDefinition", &[])?);
    }
    Ok(list_of(definitions))
}

fn available_for_provider(call: &mut Call<'_>) -> Outcome {
    let provider = [string_of(call.string(0)?)];
    select(call.this(), |tool| {
        Ok(is_yes(&call_method(
            tool,
            "isAvailableForProvider",
            &provider,
        )?))
    })
    .map(by_name)
}

/// Runs one tool, with S4's words for a name that is not there (B5).
fn execute(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    let registry = state_of::<Registry>(this)?;
    let (name, id) = (call.string(0)?, call.string(2)?);
    call.array(1)?;
    let arguments = call.value(1).map_or(Ok(Value::Null), to_value)?;
    if !registry.tools.contains(name) {
        let mut result = pillion_core::tool::ToolResult::failure(
            id,
            name,
            pillion_core::tool::ErrorCode::NotFound,
            format!("Tool '{name}' is not registered"),
        );
        result.result = json!({"error": "Tool not found"});
        return tool_result::new_result(&result);
    }
    let calls = vec![ToolCall::new(id, name, arguments)];
    let context = CallContext::default();
    let results = execution::execute(
        this,
        registry,
        &registry.executor,
        calls,
        context,
        Mode::Sequential,
    )?;
    match results.first() {
        Some(result) => tool_result::new_result(result),
        None => Err(Failure::error("The call has no result")),
    }
}
