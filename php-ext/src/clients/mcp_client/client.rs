//! The state of an `McpClient`.

use ext_php_rs::types::Zval;

use crate::mcp::ServerLink;
use crate::mcp::hooks::Hooks;
use crate::zend::{MethodCall, Object, Result, State, StateClass, read_state};

pub const NAME: &str = "Pillion\\McpClient";
pub(super) static CLASS: StateClass<Client> = StateClass::new();

/// The state of an `McpClient` object.
pub struct Client {
    pub(super) link: ServerLink,
}

impl State for Client {
    const CLASS: &'static StateClass<Self> = &CLASS;
}

/// Returns a client's link and hooks; `None` if the value is not an `McpClient`.
pub fn find_client(value: &Zval) -> Result<Option<(&ServerLink, Hooks<'_>)>> {
    Object::from_instance(value, CLASS.get())
        .map(read_link_and_hooks)
        .transpose()
}

/// Returns the link and the hooks of a client.
pub fn read_link_and_hooks<'a>(client: Object<'a>) -> Result<(&'a ServerLink, Hooks<'a>)> {
    let state = read_state::<Client>(client)?;
    Ok((&state.link, Hooks::for_object::<Client>(client)?))
}

/// Returns the link and the hooks of `$this`.
pub(super) fn link_and_hooks<'a>(call: &MethodCall<'a>) -> Result<(&'a ServerLink, Hooks<'a>)> {
    read_link_and_hooks(call.this())
}
