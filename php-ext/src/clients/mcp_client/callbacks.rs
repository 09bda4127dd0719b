//! The callbacks for the server's requests and notifications.

use ext_php_rs::types::Zval;
use serde_json::Value;

use super::link_and_hooks;
use crate::exception;
use crate::json::to_value;
use crate::mcp::ClientCapabilities;
use crate::mcp::hooks::{
    AUTHORIZATION_CALLBACK, ELICITATION_CALLBACK, NOTIFICATION_CALLBACK, SAMPLING_CALLBACK,
    TOKEN_STORE,
};
use crate::zend::{Class, MethodCall, Outcome, Result, methods, new_array, new_string};

pub(super) fn add_methods(class: Class) -> Class {
    methods!(
        class,
        "onSampling(?callable $callback): static" => on_sampling,
        "onElicitation(?callable $callback): static" => on_elicitation,
        "onNotification(?callable $callback): static" => on_notification,
        "onAuthorization(?callable $callback): static" => on_authorization,
        "setRoots(array $roots): static" => set_roots,
        "setTokenStore(?object $store): static" => set_token_store,
        "startAuthorization(): array" => start_authorization,
        "finishAuthorization(#[SensitiveParameter] string $callbackUrl): void"
            => finish_authorization,
    )
}

fn on_sampling(call: &mut MethodCall<'_>) -> Outcome {
    set_callback(call, SAMPLING_CALLBACK, |capabilities| {
        &mut capabilities.has_sampling
    })
}

fn on_elicitation(call: &mut MethodCall<'_>) -> Outcome {
    set_callback(call, ELICITATION_CALLBACK, |capabilities| {
        &mut capabilities.has_elicitation
    })
}

fn on_notification(call: &mut MethodCall<'_>) -> Outcome {
    set_callback(call, NOTIFICATION_CALLBACK, |capabilities| {
        &mut capabilities.has_notifications
    })
}

fn on_authorization(call: &mut MethodCall<'_>) -> Outcome {
    set_callback(call, AUTHORIZATION_CALLBACK, |capabilities| {
        &mut capabilities.has_authorization
    })
}

/// Sets or removes a callback. While a callback is set, the client announces the corresponding
/// capability to the server.
fn set_callback(
    call: &MethodCall<'_>,
    hook: &str,
    select_flag: impl FnOnce(&mut ClientCapabilities) -> &mut bool,
) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    let is_set = hooks.set_callable(call, 0, hook)?;
    link.change_capabilities(|capabilities| *select_flag(capabilities) = is_set);
    Ok(call.this().to_value())
}

fn set_roots(call: &mut MethodCall<'_>) -> Outcome {
    let (link, _) = link_and_hooks(call)?;
    let roots = parse_roots(&to_value(call.array(0)?)?)?;
    link.change_capabilities(|capabilities| capabilities.roots = roots);
    Ok(call.this().to_value())
}

fn set_token_store(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    hooks.set_object(call, 0, TOKEN_STORE, "store", &["load", "save"])?;
    let is_set = call.non_null_value(0).is_some();
    link.change_capabilities(|capabilities| capabilities.can_defer_authorization = is_set);
    // The object drops its connection, which may have tokens of the previous token store. The next
    // call uses another connection.
    link.forget_connection();
    Ok(call.this().to_value())
}

fn start_authorization(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    let (url, state) = link.start_authorization(hooks)?;
    Ok(new_array([
        ("url", new_string(url)),
        ("state", new_string(state)),
    ]))
}

fn finish_authorization(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    link.finish_authorization(hooks, call.string(0)?)?;
    Ok(Zval::new())
}

/// Reads a list of roots, each a URI or an array with `uri` and `name`. Returns the URI and the
/// name of each root.
///
/// # Errors
/// An `InvalidInputException` that names the invalid entry.
pub(super) fn parse_roots(value: &Value) -> Result<Vec<(String, String)>> {
    let invalid_roots = |problem: &str| {
        exception::invalid_input(format!(
            "$roots must be a list of URIs, or of arrays with 'uri' and 'name'; {problem}"
        ))
    };
    let entries = value
        .as_array()
        .ok_or_else(|| invalid_roots("$roots is not a list"))?;
    let roots = entries.iter().enumerate().map(|(index, entry)| {
        let (uri, name) = match entry {
            Value::String(uri) => (Some(uri.as_str()), None),
            entry => (
                entry.get("uri").and_then(Value::as_str),
                entry.get("name").and_then(Value::as_str),
            ),
        };
        let uri = uri.ok_or_else(|| invalid_roots(&format!("entry {index} is neither")))?;
        let last_segment = uri.trim_end_matches('/').rsplit('/').next();
        let name = name.or(last_segment).unwrap_or(uri);
        Ok((uri.to_owned(), name.to_owned()))
    });
    roots.collect()
}
