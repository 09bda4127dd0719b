//! The callbacks for the server's requests and notifications.

use ext_php_rs::types::Zval;
use serde_json::Value;

use super::parts;
use crate::exception;
use crate::json::to_value;
use crate::mcp::hooks::{AUTHORIZATION, ELICITATION, NOTIFICATION, SAMPLING, TOKENS};
use crate::zend::{
    Class, Failure, Method, MethodCall, Outcome, Parameter, Type, array_of, string_of,
};

/// Adds the methods.
pub(super) fn methods(class: Class) -> Class {
    let callback = Parameter::required("callback", Type::CALLABLE.nullable());
    let roots = Parameter::required("roots", Type::ARRAY);
    let store = Parameter::required("store", Type::OBJECT.nullable());
    let setter = |method: Method, parameter: Parameter| {
        method.parameters(&[parameter]).returns(Type::STATIC)
    };
    class
        .method(setter(Method::new("onSampling", on_sampling), callback))
        .method(setter(
            Method::new("onElicitation", on_elicitation),
            callback,
        ))
        .method(setter(
            Method::new("onNotification", on_notification),
            callback,
        ))
        .method(setter(
            Method::new("onAuthorization", on_authorization),
            callback,
        ))
        .method(setter(Method::new("setRoots", set_roots), roots))
        .method(setter(Method::new("setTokenStore", set_token_store), store))
        .method(Method::new("startAuthorization", start_authorization).returns(Type::ARRAY))
        .method(
            Method::new("finishAuthorization", finish_authorization)
                .parameters(&[Parameter::required("callbackUrl", Type::STRING).sensitive()])
                .returns(Type::VOID),
        )
}

fn on_sampling(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let is_set = hooks.set_callable(call, 0, SAMPLING)?;
    link.change_capabilities(|capabilities| capabilities.sampling = is_set);
    Ok(call.this().to_value())
}

fn on_elicitation(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let is_set = hooks.set_callable(call, 0, ELICITATION)?;
    link.change_capabilities(|capabilities| capabilities.elicitation = is_set);
    Ok(call.this().to_value())
}

fn on_notification(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let is_set = hooks.set_callable(call, 0, NOTIFICATION)?;
    link.change_capabilities(|capabilities| capabilities.notifications = is_set);
    Ok(call.this().to_value())
}

fn on_authorization(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let is_set = hooks.set_callable(call, 0, AUTHORIZATION)?;
    link.change_capabilities(|capabilities| capabilities.authorization = is_set);
    Ok(call.this().to_value())
}

fn set_roots(call: &mut MethodCall<'_>) -> Outcome {
    let (link, _) = parts(call)?;
    call.array(0)?;
    let value = call.value(0).map(to_value).transpose()?;
    let roots = roots(&value.unwrap_or_default())?;
    link.change_capabilities(|capabilities| capabilities.roots = roots);
    Ok(call.this().to_value())
}

fn set_token_store(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    hooks.set_object(call, 0, TOKENS, "store", &["load", "save"])?;
    let is_set = call.non_null(0).is_some();
    link.change_capabilities(|capabilities| capabilities.deferral = is_set);
    // Another store may contain other tokens.
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
/// An `InvalidInputException` naming the entry.
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
