//! `Pillion\Event\*`: the events for a PSR-14 dispatcher. Events contain no arguments, results or
//! credentials.

use ext_php_rs::error::Result;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;

use crate::zend::{
    Class, ClassSlot, MethodCall, Outcome, bool_of, create, float_of, int_of, string_of,
};

/// An event class, whose properties are the parameters of its constructor.
struct Event {
    name: &'static str,
    slot: &'static ClassSlot,
    constructor: &'static str,
}

static CONNECTED: ClassSlot = ClassSlot::new();
static STARTED: ClassSlot = ClassSlot::new();
static FINISHED: ClassSlot = ClassSlot::new();
static LISTED: ClassSlot = ClassSlot::new();
static CHANGED: ClassSlot = ClassSlot::new();

const EVENTS: [Event; 5] = [
    Event {
        name: "Pillion\\Event\\ServerConnected",
        slot: &CONNECTED,
        constructor: "__construct(string $server, ?string $protocolVersion)",
    },
    Event {
        name: "Pillion\\Event\\ToolCallStarted",
        slot: &STARTED,
        constructor: "__construct(string $toolName, string $toolCallId, ?string $server)",
    },
    Event {
        name: "Pillion\\Event\\ToolCallFinished",
        slot: &FINISHED,
        constructor: "__construct(string $toolName, string $toolCallId, ?string $server, \
            bool $success, ?string $errorCode, float $seconds)",
    },
    Event {
        name: "Pillion\\Event\\ToolsListed",
        slot: &LISTED,
        constructor: "__construct(string $server, int $tools, bool $fromCache)",
    },
    Event {
        name: "Pillion\\Event\\ToolsChanged",
        slot: &CHANGED,
        constructor: "__construct(string $server)",
    },
];

pub fn register() -> Result<()> {
    for event in &EVENTS {
        Class::new(event.name)
            .flags(ClassFlags::Final)
            .promoted_constructor(event.constructor, construct)
            .register(event.slot)?;
    }
    Ok(())
}

fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let class = call.this().class();
    let event = EVENTS
        .iter()
        .find(|event| std::ptr::eq(event.slot.get(), class));
    event.map_or_else(
        || Ok(Zval::new()),
        |event| call.promote(class, event.constructor),
    )
}

fn new_event<const N: usize>(slot: &ClassSlot, values: [(&str, Zval); N]) -> Outcome {
    let class = slot.get();
    create(class, |this| {
        for (name, value) in values {
            this.set(class, name, value);
        }
    })
}

/// Creates the event that a session with a server was opened.
pub fn server_connected(server: &str, protocol_version: Option<&str>) -> Outcome {
    let version = protocol_version.map_or_else(Zval::new, string_of);
    let values = [("server", string_of(server)), ("protocolVersion", version)];
    new_event(&CONNECTED, values)
}

/// Creates the event that a tool call is about to start. `server` is `None` for a PHP tool.
pub fn tool_call_started(tool: &str, id: &str, server: Option<&str>) -> Outcome {
    let values = [
        ("toolName", string_of(tool)),
        ("toolCallId", string_of(id)),
        ("server", server.map_or_else(Zval::new, string_of)),
    ];
    new_event(&STARTED, values)
}

/// The end of a tool call, for an event.
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

/// Creates the event that a tool call has finished.
pub fn tool_call_finished(ended: &CallEnd<'_>) -> Outcome {
    let values = [
        ("toolName", string_of(ended.tool)),
        ("toolCallId", string_of(ended.id)),
        ("server", ended.server.map_or_else(Zval::new, string_of)),
        ("success", bool_of(ended.error_code.is_none())),
        (
            "errorCode",
            ended.error_code.map_or_else(Zval::new, string_of),
        ),
        ("seconds", float_of(ended.seconds)),
    ];
    new_event(&FINISHED, values)
}

/// Creates the event that a server's list of tools was loaded.
pub fn tools_listed(server: &str, tools: usize, from_cache: bool) -> Outcome {
    let values = [
        ("server", string_of(server)),
        ("tools", int_of(i64::try_from(tools).unwrap_or(i64::MAX))),
        ("fromCache", bool_of(from_cache)),
    ];
    new_event(&LISTED, values)
}

/// Creates the event that a server's list of tools has changed.
pub fn tools_changed(server: &str) -> Outcome {
    new_event(&CHANGED, [("server", string_of(server))])
}
