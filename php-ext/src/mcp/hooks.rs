//! The values that PHP code sets on a client: callbacks, a logger, an event dispatcher, a cache.

use ext_php_rs::types::Zval;
use serde_json::Value;

use crate::exception;
use crate::json::{EmptyObject, decode_value};
use crate::log::{self, LogLevel};
use crate::zend::{
    HiddenValue, MethodCall, Object, Outcome, Result, State, call_callable, is_callable, member,
    new_string, with_entry, without_entry,
};

/// The hooks of a client or executor object. They are stored in the object's `HiddenValue` and not
/// in PHP properties, so that `var_dump()` does not show the credentials that a token store or a
/// logger may hold.
#[derive(Clone, Copy)]
pub struct Hooks<'a>(HiddenValue<'a>);

impl<'a> Hooks<'a> {
    /// Returns the hooks of an object whose class has the state `T`.
    ///
    /// # Errors
    /// An `Error` if the object has another class.
    pub fn for_object<T: State>(object: Object<'a>) -> Result<Self> {
        HiddenValue::for_object::<T>(object).map(Self)
    }

    /// Returns the hook with this name, if it is set.
    pub fn get(self, name: &str) -> Option<Zval> {
        member(&self.0.get(), name)
    }

    /// Sets or removes a hook.
    pub fn set(self, name: &str, hook: Option<&Zval>) {
        let hooks = self.0.get();
        self.0.set(match hook {
            Some(hook) => with_entry(&hooks, name, hook.shallow_clone()),
            None => without_entry(&hooks, name),
        });
    }

    /// Sets a hook to the object in an argument. The object must have the given methods. This
    /// function checks methods instead of an interface, because the PSR interfaces do not belong to
    /// the extension and may not be loaded.
    ///
    /// # Errors
    /// A `TypeError`, or an `InvalidInputException` that names the argument, the class and the
    /// missing method.
    pub fn set_object(
        self,
        call: &MethodCall<'_>,
        index: usize,
        name: &str,
        parameter: &str,
        methods: &[&str],
    ) -> Result<()> {
        let Some(value) = call.non_null_value(index) else {
            self.set(name, None);
            return Ok(());
        };
        let object = Object::from_value(value).ok_or_else(|| call.type_error(index, "?object"))?;
        if let Some(missing_method) = methods.iter().find(|method| !object.has_method(method)) {
            return Err(exception::invalid_input(format!(
                "${parameter} must have the method {missing_method}(), which {} does not have",
                object.class_name()
            )));
        }
        self.set(name, Some(value));
        Ok(())
    }

    /// Sets a hook to the callable in an argument, and returns whether the argument contains one.
    ///
    /// # Errors
    /// A `TypeError` if the argument is neither a callable nor null.
    pub fn set_callable(self, call: &MethodCall<'_>, index: usize, name: &str) -> Result<bool> {
        let callable = call.non_null_value(index);
        if let Some(callable) = callable
            && !is_callable(callable)?
        {
            return Err(call.type_error(index, "?callable"));
        }
        self.set(name, callable);
        Ok(callable.is_some())
    }

    /// Calls a hook that is a callable. Returns `None` if the hook is not set.
    ///
    /// # Errors
    /// An exception of the callable.
    pub fn call<const N: usize>(self, name: &str, arguments: [Zval; N]) -> Result<Option<Zval>> {
        let Some(callable) = self.get(name) else {
            return Ok(None);
        };
        call_callable(&callable, arguments).map(Some)
    }

    /// Writes a log line to the PSR-3 logger, which filters by level itself. Without a logger,
    /// writes the line to PHP's error log.
    ///
    /// # Errors
    /// An exception of the logger.
    pub fn log(
        self,
        level: LogLevel,
        message: &str,
        context: impl FnOnce() -> Value,
    ) -> Result<()> {
        let Some(logger_value) = self.get(LOGGER) else {
            log::log(level, message, context);
            return Ok(());
        };
        let Some(logger) = Object::from_value(&logger_value) else {
            return Ok(());
        };
        let fields = decode_value(&context(), EmptyObject::Array)?;
        let arguments = [new_string(level.name()), new_string(message), fields];
        logger.call("log", arguments).map(drop)
    }

    /// Dispatches an event to the PSR-14 dispatcher. Creates the event only if a dispatcher is set.
    ///
    /// # Errors
    /// An exception of a listener.
    pub fn dispatch(self, event: impl FnOnce() -> Outcome) -> Result<()> {
        let Some(dispatcher_value) = self.get(EVENT_DISPATCHER) else {
            return Ok(());
        };
        let Some(dispatcher) = Object::from_value(&dispatcher_value) else {
            return Ok(());
        };
        dispatcher.call("dispatch", [event()?]).map(drop)
    }
}

/// The hook for the option `approve` of an executor.
pub const APPROVE_CALLABLE: &str = "approve";
/// The hook for the option `before` of an executor.
pub const BEFORE_CALLABLE: &str = "before";
/// The hook for the PSR-3 logger.
pub const LOGGER: &str = "logger";
/// The hook for the PSR-14 event dispatcher.
pub const EVENT_DISPATCHER: &str = "events";
/// The hook for the PSR-16 cache.
pub const CACHE: &str = "cache";
/// The hook for the `Pillion\TokenStore`.
pub const TOKEN_STORE: &str = "tokens";
/// The hook for the callback of `onSampling()`.
pub const SAMPLING_CALLBACK: &str = "sampling";
/// The hook for the callback of `onElicitation()`.
pub const ELICITATION_CALLBACK: &str = "elicitation";
/// The hook for the callback of `onNotification()`.
pub const NOTIFICATION_CALLBACK: &str = "notification";
/// The hook for the callback of `onAuthorization()`.
pub const AUTHORIZATION_CALLBACK: &str = "authorization";
