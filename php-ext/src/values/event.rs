//! `Pillion\Event\*`: the events for a PSR-14 dispatcher. Events contain no arguments, results or
//! credentials.

use ext_php_rs::error::Result;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;

use crate::zend::{
    Class, ClassSlot, MethodCall, Outcome, create, new_bool, new_float, new_int, new_string,
};

/// An event class, whose properties are the parameters of its constructor.
struct EventClass {
    name: &'static str,
    slot: &'static ClassSlot,
    constructor: &'static str,
}

static SERVER_CONNECTED: ClassSlot = ClassSlot::new();
static CALL_STARTED: ClassSlot = ClassSlot::new();
static CALL_FINISHED: ClassSlot = ClassSlot::new();
static TOOLS_LISTED: ClassSlot = ClassSlot::new();
static TOOLS_CHANGED: ClassSlot = ClassSlot::new();

const EVENT_CLASSES: [EventClass; 5] = [
    EventClass {
        name: "Pillion\\Event\\ServerConnected",
        slot: &SERVER_CONNECTED,
        constructor: "__construct(string $server, ?string $protocolVersion)",
    },
    EventClass {
        name: "Pillion\\Event\\ToolCallStarted",
        slot: &CALL_STARTED,
        constructor: "__construct(string $toolName, string $toolCallId, ?string $server)",
    },
    EventClass {
        name: "Pillion\\Event\\ToolCallFinished",
        slot: &CALL_FINISHED,
        constructor: "__construct(string $toolName, string $toolCallId, ?string $server, \
            bool $success, ?string $errorCode, float $seconds)",
    },
    EventClass {
        name: "Pillion\\Event\\ToolsListed",
        slot: &TOOLS_LISTED,
        constructor: "__construct(string $server, int $tools, bool $fromCache)",
    },
    EventClass {
        name: "Pillion\\Event\\ToolsChanged",
        slot: &TOOLS_CHANGED,
        constructor: "__construct(string $server)",
    },
];

pub fn register() -> Result<()> {
    for event in &EVENT_CLASSES {
        Class::new(event.name)
            .flags(ClassFlags::Final)
            .promoted_constructor(event.constructor, construct)
            .register(event.slot)?;
    }
    Ok(())
}

fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let class = call.this().class();
    let event = EVENT_CLASSES
        .iter()
        .find(|event| std::ptr::eq(event.slot.get(), class));
    event.map_or_else(
        || Ok(Zval::new()),
        |event| call.promote(class, event.constructor),
    )
}

fn new_event<const N: usize>(slot: &ClassSlot, values: [(&str, Zval); N]) -> Outcome {
    let class = slot.get();
    create(class, |this| this.set_all(class, values))
}

/// Creates the event that reports a newly opened session with a server.
pub fn new_server_connected(server: &str, protocol_version: Option<&str>) -> Outcome {
    let version_value = protocol_version.map_or_else(Zval::new, new_string);
    let values = [
        ("server", new_string(server)),
        ("protocolVersion", version_value),
    ];
    new_event(&SERVER_CONNECTED, values)
}

/// Creates the event that reports that a tool call is about to start. `server` is `None` for a PHP
/// tool.
pub fn new_tool_call_started(tool: &str, id: &str, server: Option<&str>) -> Outcome {
    let values = [
        ("toolName", new_string(tool)),
        ("toolCallId", new_string(id)),
        ("server", server.map_or_else(Zval::new, new_string)),
    ];
    new_event(&CALL_STARTED, values)
}

/// The data of the event that reports the end of a tool call.
pub struct CallEnd<'a> {
    /// The name of the called tool.
    pub tool: &'a str,
    /// The ID of the call.
    pub id: &'a str,
    /// The server of the tool; `None` for a PHP tool.
    pub server: Option<&'a str>,
    /// The error code of a failed call; `None` if the call succeeded.
    pub error_code: Option<&'a str>,
    /// The duration of the call, in seconds.
    pub seconds: f64,
}

/// Creates the event that reports the end of a tool call.
pub fn new_tool_call_finished(call_end: &CallEnd<'_>) -> Outcome {
    let error_code = call_end.error_code.map_or_else(Zval::new, new_string);
    let values = [
        ("toolName", new_string(call_end.tool)),
        ("toolCallId", new_string(call_end.id)),
        ("server", call_end.server.map_or_else(Zval::new, new_string)),
        ("success", new_bool(call_end.error_code.is_none())),
        ("errorCode", error_code),
        ("seconds", new_float(call_end.seconds)),
    ];
    new_event(&CALL_FINISHED, values)
}

/// Creates the event that reports that a server's list of tools was loaded.
pub fn new_tools_listed(server: &str, tools: usize, is_from_cache: bool) -> Outcome {
    let values = [
        ("server", new_string(server)),
        ("tools", new_int(i64::try_from(tools).unwrap_or(i64::MAX))),
        ("fromCache", new_bool(is_from_cache)),
    ];
    new_event(&TOOLS_LISTED, values)
}

/// Creates the event that reports a change of a server's list of tools.
pub fn new_tools_changed(server: &str) -> Outcome {
    new_event(&TOOLS_CHANGED, [("server", new_string(server))])
}
