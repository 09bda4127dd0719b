//! The callbacks for the server's requests and notifications.

use ext_php_rs::types::Zval;
use serde_json::Value;

use super::parts;
use crate::exception;
use crate::json::to_value;
use crate::mcp::ClientCapabilities;
use crate::mcp::hooks::{AUTHORIZATION, ELICITATION, NOTIFICATION, SAMPLING, TOKENS};
use crate::zend::{Class, Failure, MethodCall, Outcome, array_of, methods, string_of};

pub(super) fn methods(class: Class) -> Class {
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
    set_callback(call, SAMPLING, |capabilities| &mut capabilities.sampling)
}

fn on_elicitation(call: &mut MethodCall<'_>) -> Outcome {
    set_callback(call, ELICITATION, |capabilities| {
        &mut capabilities.elicitation
    })
}

fn on_notification(call: &mut MethodCall<'_>) -> Outcome {
    set_callback(call, NOTIFICATION, |capabilities| {
        &mut capabilities.notifications
    })
}

fn on_authorization(call: &mut MethodCall<'_>) -> Outcome {
    set_callback(call, AUTHORIZATION, |capabilities| {
        &mut capabilities.authorization
    })
}

/// Sets a callback, and advertises its capability if it is not null.
fn set_callback(
    call: &MethodCall<'_>,
    hook: &str,
    capability: impl FnOnce(&mut ClientCapabilities) -> &mut bool,
) -> Outcome {
    let (link, hooks) = parts(call)?;
    let is_set = hooks.set_callable(call, 0, hook)?;
    link.change_capabilities(|capabilities| *capability(capabilities) = is_set);
    Ok(call.this().to_value())
}

fn set_roots(call: &mut MethodCall<'_>) -> Outcome {
    let (link, _) = parts(call)?;
    let roots = roots(&to_value(call.array(0)?)?)?;
    link.change_capabilities(|capabilities| capabilities.roots = roots);
    Ok(call.this().to_value())
}

fn set_token_store(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    hooks.set_object(call, 0, TOKENS, "store", &["load", "save"])?;
    let is_set = call.non_null(0).is_some();
    link.change_capabilities(|capabilities| capabilities.deferral = is_set);
    // The connection may have the tokens of the previous store.
    link.forget_connection();
    Ok(call.this().to_value())
}

fn start_authorization(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let (url, state) = link.start_authorization(hooks)?;
    Ok(array_of([
        ("url", string_of(url)),
        ("state", string_of(state)),
    ]))
}

fn finish_authorization(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    link.finish_authorization(hooks, call.string(0)?)?;
    Ok(Zval::new())
}

/// Reads a list of roots, each a URI or an array with `uri` and `name`. Returns URIs and names.
///
/// # Errors
/// An `InvalidInputException` that names the invalid entry.
pub(super) fn roots(value: &Value) -> Result<Vec<(String, String)>, Failure> {
    let wrong = |which: &str| {
        exception::invalid_input(format!(
            "$roots must be a list of URIs, or of arrays with 'uri' and 'name'; {which} is not"
        ))
    };
    let entries = value.as_array().ok_or_else(|| wrong("it"))?;
    let roots = entries.iter().enumerate().map(|(index, entry)| {
        let (uri, name) = match entry {
            Value::String(uri) => (Some(uri.as_str()), None),
            entry => (
                entry.get("uri").and_then(Value::as_str),
                entry.get("name").and_then(Value::as_str),
            ),
        };
        let uri = uri.ok_or_else(|| wrong(&format!("entry {index}")))?;
        let last = uri.trim_end_matches('/').rsplit('/').next();
        let name = name.or(last).unwrap_or(uri);
        Ok((uri.to_owned(), name.to_owned()))
    });
    roots.collect()
}
