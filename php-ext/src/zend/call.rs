use std::ffi::CString;
use std::panic::AssertUnwindSafe;

use ext_php_rs::ffi::{zend_string, zend_wrong_parameters_count_error};
use ext_php_rs::flags::DataType;
use ext_php_rs::types::{ZendStr, Zval};
use ext_php_rs::zend::{ClassEntry, ExecuteData, run_handler};

use super::exception_class::invalid_input;
use super::{
    Failure, Object, Outcome, Parameter, Result, ffi, hold_value, is_callable, should_stop,
    to_float,
};

/// The C function of a method, as PHP's engine calls it.
pub(super) type Handler = extern "C" fn(&mut ExecuteData, &mut Zval);

/// The Rust function of a method. The function must be a function item, because a closure with
/// captures is not zero-sized.
pub trait MethodBody: Fn(&mut MethodCall<'_>) -> Outcome + Copy + 'static {}

impl<F: Fn(&mut MethodCall<'_>) -> Outcome + Copy + 'static> MethodBody for F {}

/// Returns the C function that runs `body`. `F` is a zero-sized type, so the C function needs no
/// pointer to `body`.
pub(super) fn handler_for<F: MethodBody>(_body: F) -> Handler {
    extern "C" fn run<F: MethodBody>(frame: &mut ExecuteData, result: &mut Zval) {
        const {
            assert!(
                size_of::<F>() == 0,
                "a method body must not capture anything"
            );
        };
        // SAFETY: `F` is zero-sized, and a value of the type `F` was passed to `handler_for`.
        let body: F = unsafe { std::mem::zeroed() };
        run_body(frame, result, &body);
    }
    run::<F>
}

fn run_body(
    frame: &mut ExecuteData,
    result: &mut Zval,
    body: &dyn Fn(&mut MethodCall<'_>) -> Outcome,
) {
    run_handler(AssertUnwindSafe(|| {
        let mut call = MethodCall { frame };
        match call.check_argument_count().and_then(|()| body(&mut call)) {
            Ok(value) => *result = value,
            Err(failure) => failure.raise(),
        }
    }));
}

/// One call of a native method: `$this` and the arguments.
///
/// The arguments follow PHP's rules: in a file without `strict_types`, scalars are converted as for
/// any function; in a file with `strict_types`, they must have the declared type.
pub struct MethodCall<'a> {
    frame: &'a mut ExecuteData,
}

impl<'a> MethodCall<'a> {
    fn argument_count(&self) -> usize {
        // SAFETY: in a call frame `u2` holds the number of arguments.
        unsafe { self.frame.This.u2.num_args as usize }
    }

    fn check_argument_count(&self) -> Result<()> {
        // SAFETY: the engine sets `func` for every call, and each variant starts with
        // the common part.
        let (min, max) = unsafe {
            let common_part = (*self.frame.func).common;
            (common_part.required_num_args, common_part.num_args)
        };
        if (min as usize..=max as usize).contains(&self.argument_count()) {
            return Ok(());
        }
        // SAFETY: the function only throws an `ArgumentCountError`, for the method that is running.
        unsafe { zend_wrong_parameters_count_error(min, max) };
        Err(Failure::Pending)
    }

    /// Returns `$this`.
    ///
    /// # Panics
    /// If the method is static and has no `$this`.
    pub fn this(&self) -> Object<'a> {
        assert!(self.frame.This.is_object(), "a static method has no $this");
        // SAFETY: the frame holds a reference to the object for the duration of the call.
        unsafe { Object::from_raw(self.frame.This.value.obj) }.expect("objects are not null")
    }

    /// Returns the class that the method was called on: the class of `$this`, or the class before
    /// `::`.
    pub fn called_class(&self) -> &'static ClassEntry {
        let this = &self.frame.This;
        // SAFETY: the frame of a method holds the object, or in a static method the class.
        // Zend keeps both alive for longer than the call.
        unsafe {
            if this.is_object() {
                &*(*this.value.obj).ce
            } else {
                &*this.value.ce
            }
        }
    }

    /// Returns the address of an argument, which is never a PHP reference; `None` if the argument
    /// was omitted.
    fn slot(&self, index: usize) -> Option<*mut Zval> {
        if index >= self.argument_count() {
            return None;
        }
        // SAFETY: the index is in range, and arguments live as long as the call.
        let slot = unsafe { self.frame.zend_call_arg(index) }?;
        if slot.is_reference() {
            // A PHP reference is replaced by the value that it refers to, because PHP code could
            // otherwise release this value during the call.
            *slot = hold_value(slot);
        }
        (slot.get_type() != DataType::Undef).then_some(std::ptr::from_mut(slot))
    }

    /// Returns an argument as it was passed; `None` if the argument was omitted.
    pub fn value(&self, index: usize) -> Option<&'a Zval> {
        // SAFETY: the argument lives as long as the call. Only the conversions below write to the
        // argument, before a reference to it is made.
        self.slot(index).map(|slot| unsafe { &*slot })
    }

    /// Returns a copy of an argument, or null if the argument was omitted.
    pub fn value_or_null(&self, index: usize) -> Zval {
        self.value(index)
            .map_or_else(Zval::new, Zval::shallow_clone)
    }

    /// Returns an argument as it was passed; `None` if the argument was omitted or is null.
    pub fn non_null_value(&self, index: usize) -> Option<&'a Zval> {
        self.value(index).filter(|value| !value.is_null())
    }

    /// Returns a string argument as UTF-8.
    ///
    /// # Errors
    /// A `TypeError` if the argument is not a string; an `InvalidInputException` if the string is
    /// not UTF-8.
    pub fn string(&self, index: usize) -> Result<&'a str> {
        let slot = self.slot(index).ok_or_else(missing_argument)?;
        let mut string_pointer: *mut zend_string = std::ptr::null_mut();
        // SAFETY: a string is used unchanged; any other value is converted in place, so that the
        // string lives as long as the call, or is rejected.
        let is_string = unsafe {
            if (*slot).is_string() {
                string_pointer = (*slot).value.str_;
                true
            } else {
                ffi::zend_parse_arg_str_slow(slot, &raw mut string_pointer, argument_number(index))
            }
        };
        if !is_string {
            return Err(self.type_error(index, "string"));
        }
        // SAFETY: the argument holds the string for the duration of the call.
        let text: &'a ZendStr = unsafe { &*string_pointer };
        std::str::from_utf8(text.as_bytes())
            .map_err(|_| invalid_input(format!("Argument #{} is not valid UTF-8", index + 1)))
    }

    /// Returns a string argument that may be null or omitted.
    ///
    /// # Errors
    /// The same errors as [`string`](Self::string).
    pub fn optional_string(&self, index: usize) -> Result<Option<&'a str>> {
        self.non_null_value(index)
            .map(|_| self.string(index))
            .transpose()
    }

    /// Returns a string argument that may be omitted.
    ///
    /// # Errors
    /// The same errors as [`string`](Self::string).
    pub fn string_or<'b>(&self, index: usize, default: &'b str) -> Result<&'b str>
    where
        'a: 'b,
    {
        self.value(index)
            .map_or(Ok(default), |_| self.string(index))
    }

    /// Returns a boolean argument that may be omitted.
    ///
    /// # Errors
    /// A `TypeError` if the argument is not a boolean.
    pub fn bool_or(&self, index: usize, default: bool) -> Result<bool> {
        let Some(slot) = self.slot(index) else {
            return Ok(default);
        };
        // SAFETY: the argument lives as long as the call.
        if let Some(boolean) = unsafe { (*slot).bool() } {
            return Ok(boolean);
        }
        let mut parsed_bool = false;
        // SAFETY: the function reads the argument and writes to a local variable.
        if unsafe {
            ffi::zend_parse_arg_bool_slow(slot, &raw mut parsed_bool, argument_number(index))
        } {
            Ok(parsed_bool)
        } else {
            Err(self.type_error(index, "bool"))
        }
    }

    /// Returns an integer argument that may be null or omitted.
    ///
    /// # Errors
    /// A `TypeError` if the argument is not an integer.
    pub fn optional_int(&self, index: usize) -> Result<Option<i64>> {
        let Some(slot) = self.non_null_value(index).and_then(|_| self.slot(index)) else {
            return Ok(None);
        };
        // SAFETY: the argument lives as long as the call.
        if let Some(integer) = unsafe { (*slot).long() } {
            return Ok(Some(integer));
        }
        let mut parsed_integer = 0;
        // SAFETY: the function reads the argument and writes to a local variable.
        if unsafe {
            ffi::zend_parse_arg_long_slow(slot, &raw mut parsed_integer, argument_number(index))
        } {
            Ok(Some(parsed_integer))
        } else {
            Err(self.type_error(index, "?int"))
        }
    }

    /// Returns an `int|float` argument that may be omitted.
    ///
    /// # Errors
    /// A `TypeError` if the argument is not a number.
    pub fn number_or(&self, index: usize, default: f64) -> Result<f64> {
        let Some(slot) = self.slot(index) else {
            return Ok(default);
        };
        let mut number_pointer = slot;
        // SAFETY: the argument lives as long as the call.
        let is_number = unsafe { (*slot).is_long() || (*slot).is_double() };
        // SAFETY: the function converts the argument in place and returns its address, or rejects
        // it.
        let parse = |target| unsafe {
            ffi::zend_parse_arg_number_slow(slot, target, argument_number(index))
        };
        if !is_number && !parse(&raw mut number_pointer) {
            return Err(self.type_error(index, "int|float"));
        }
        // SAFETY: the pointer is the address of the argument, whether or not it was converted.
        let value = unsafe { &*number_pointer };
        Ok(to_float(value).unwrap_or(default))
    }

    /// Returns an `int|float` argument that may be null or omitted.
    ///
    /// # Errors
    /// A `TypeError` if the argument is not a number.
    pub fn optional_number(&self, index: usize) -> Result<Option<f64>> {
        self.non_null_value(index)
            .map(|_| self.number_or(index, 0.0))
            .transpose()
    }

    /// Returns an array argument.
    ///
    /// # Errors
    /// A `TypeError` if the argument is not an array.
    pub fn array(&self, index: usize) -> Result<&'a Zval> {
        match self.value(index).ok_or_else(missing_argument)? {
            value if value.is_array() => Ok(value),
            _ => Err(self.type_error(index, "array")),
        }
    }

    /// Returns an array argument that may be omitted.
    ///
    /// # Errors
    /// A `TypeError` if the argument is not an array.
    pub fn optional_array(&self, index: usize) -> Result<Option<&'a Zval>> {
        self.value(index).map(|_| self.array(index)).transpose()
    }

    /// Returns a callable argument. `expected_type` is the name of the expected type in error
    /// messages. An autoloader may run.
    ///
    /// # Errors
    /// A `TypeError` if the argument is not callable; an exception of an autoloader.
    pub fn callable(&self, index: usize, expected_type: &str) -> Result<&'a Zval> {
        match self.value(index) {
            Some(value) if is_callable(value)? => Ok(value),
            _ => Err(self.type_error(index, expected_type)),
        }
    }

    /// Sets the properties of a [promoted constructor](super::Class::promoted_constructor) of
    /// `class` from the arguments, which the typed properties validate. Returns null.
    ///
    /// # Errors
    /// [`Failure::Pending`] for an argument of the wrong type.
    pub fn promote(&self, class: &ClassEntry, constructor: &'static str) -> Outcome {
        let this = self.this();
        for (index, parameter) in Parameter::parse_all(constructor).iter().enumerate() {
            let value = self.value(index);
            this.set(
                class,
                parameter.name,
                value.map_or_else(|| parameter.default_value(), Zval::shallow_clone),
            );
            if should_stop() {
                return Err(Failure::Pending);
            }
        }
        Ok(Zval::new())
    }

    /// Throws a `TypeError` for an argument: "must be of type X, Y given".
    pub fn type_error(&self, index: usize, expected_type: &str) -> Failure {
        if !ext_php_rs::zend::ExecutorGlobals::has_exception() {
            let expected_text = CString::new(expected_type).unwrap_or_default();
            let null_value = Zval::new();
            let value = self.value(index).unwrap_or(&null_value);
            // SAFETY: the format takes two C strings, and both live until the function returns.
            unsafe {
                ffi::zend_argument_type_error(
                    argument_number(index),
                    c"must be of type %s, %s given".as_ptr(),
                    expected_text.as_ptr(),
                    ffi::zend_zval_type_name(value),
                );
            }
        }
        Failure::Pending
    }
}

/// Returns the error for a missing required argument. The error never occurs, because the Zend
/// engine checks the number of arguments before the method runs.
fn missing_argument() -> Failure {
    Failure::error("A required argument is missing")
}

fn argument_number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}
