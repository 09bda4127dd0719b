use std::ffi::c_char;
use std::marker::PhantomData;
use std::ptr::NonNull;

use ext_php_rs::ffi::zend_hash_str_find_ptr_lc;
use ext_php_rs::flags::ZvalTypeFlags;
use ext_php_rs::types::{ZendObject, Zval};
use ext_php_rs::zend::{ClassEntry, ExecutorGlobals};

use super::{Failure, Outcome, callback, ffi, hold_value};

/// The type of a class that PHP code declares (`ZEND_USER_CLASS`).
const USER_CLASS: c_char = 2;

/// A pointer to a PHP object that another owner keeps alive for `'a`.
///
/// The type is not a Rust reference, because the engine and other owners may write to an object at
/// any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object<'a> {
    object: NonNull<ZendObject>,
    lifetime: PhantomData<&'a ZendObject>,
}

impl<'a> Object<'a> {
    /// Returns the object in a value, if there is one.
    pub fn from_value(value: &'a Zval) -> Option<Self> {
        // SAFETY: in a value of type object the pointer is that of a live object, which
        // the value keeps alive.
        value
            .is_object()
            .then(|| unsafe { Self::from_raw(value.value.obj) })
            .flatten()
    }

    /// Returns the object in a value, if the object is an instance of this class or interface.
    pub fn from_instance(value: &'a Zval, class: &ClassEntry) -> Option<Self> {
        Self::from_value(value).filter(|object| object.instance_of(class))
    }

    /// # Safety
    /// The pointer must be null or point to an object that stays alive for `'a`.
    pub(super) unsafe fn from_raw(object: *mut ZendObject) -> Option<Self> {
        NonNull::new(object).map(|object| Self {
            object,
            lifetime: PhantomData,
        })
    }

    pub(super) fn as_ptr(self) -> *mut ZendObject {
        self.object.as_ptr()
    }

    /// Returns the object's class.
    pub fn class(self) -> &'static ClassEntry {
        // SAFETY: a live object has a class, which outlives the object.
        unsafe { &*(*self.as_ptr()).ce }
    }

    /// Returns the name of the object's class.
    pub fn class_name(self) -> &'static str {
        self.class().name().unwrap_or_default()
    }

    /// Returns whether the object has this class, is an instance of a subclass, or implements this
    /// interface.
    pub fn instance_of(self, class: &ClassEntry) -> bool {
        self.class().instance_of(class)
    }

    /// Returns a PHP value that refers to the object, and increments the reference count of the
    /// object.
    pub fn to_value(self) -> Zval {
        let mut value = Zval::new();
        value.u1.type_info = ZvalTypeFlags::ObjectEx.bits();
        value.value.obj = self.as_ptr();
        // SAFETY: the object is alive; dropping the value releases the added reference.
        unsafe { (*self.as_ptr()).gc.refcount += 1 };
        value
    }

    /// Sets a declared property, including a readonly property that has no value yet. A value of
    /// the wrong type, or a second value of a readonly property, leaves an exception pending.
    pub fn set(self, scope: &ClassEntry, name: &str, mut value: Zval) {
        // SAFETY: the engine copies the value and adds its own reference.
        unsafe {
            ffi::zend_update_property(
                std::ptr::from_ref(scope).cast_mut(),
                self.as_ptr(),
                name.as_ptr().cast(),
                name.len(),
                &raw mut value,
            );
        }
    }

    /// Sets several declared properties, as [`set`](Self::set) does.
    pub fn set_all<const N: usize>(self, scope: &ClassEntry, values: [(&str, Zval); N]) {
        for (name, value) in values {
            self.set(scope, name, value);
        }
    }

    /// Reads a declared property with the access rights of the class `scope`. A `__get()` or a
    /// property hook of a PHP class may run.
    ///
    /// # Errors
    /// [`Failure::Pending`] if the property has no value yet; the failures of
    /// [`run_guarded`](super::run_guarded).
    pub fn get(self, scope: &ClassEntry, name: &str) -> Outcome {
        let is_php_class = self.class().type_ == USER_CLASS;
        if is_php_class {
            let this = self.to_value();
            return super::run_guarded(|| match Object::from_value(&this) {
                Some(this) => this.read_property(scope, name),
                None => Zval::new(),
            });
        }
        let value = self.read_property(scope, name);
        if ExecutorGlobals::has_exception() {
            return Err(Failure::Pending);
        }
        Ok(value)
    }

    fn read_property(self, scope: &ClassEntry, name: &str) -> Zval {
        let mut buffer = Zval::new();
        // SAFETY: the returned pointer is either `buffer` or the property's slot, and is only read,
        // before other code runs.
        let value = unsafe {
            ext_php_rs::ffi::zend_read_property(
                std::ptr::from_ref(scope).cast_mut(),
                self.as_ptr(),
                name.as_ptr().cast(),
                name.len(),
                false,
                &raw mut buffer,
            )
            .as_ref()
        };
        value.map_or_else(Zval::new, hold_value)
    }

    /// Returns whether the class has a method with this name (in lower-case ASCII or as declared).
    pub fn has_method(self, name: &str) -> bool {
        // SAFETY: the code looks up the lower-case name in the method table of the object's class.
        let method = unsafe {
            let table = &raw mut (*(*self.as_ptr()).ce).function_table;
            zend_hash_str_find_ptr_lc(table, name.as_ptr().cast(), name.len())
        };
        !method.is_null()
    }

    /// Calls a method of the object.
    ///
    /// # Errors
    /// An exception of the called method, or a bail-out.
    pub fn call<const N: usize>(self, name: &str, arguments: [Zval; N]) -> Outcome {
        callback::call_method(Some(&mut self.to_value()), name, arguments)
    }
}

/// Creates an object of a class without calling its constructor. `initialize` sets its properties.
///
/// # Errors
/// [`Failure::Pending`] if the engine cannot create the object.
pub fn create(class: &ClassEntry, initialize: impl FnOnce(Object<'_>)) -> Outcome {
    let mut value = Zval::new();
    // SAFETY: the class is linked. On failure, the zval is null and an exception is pending.
    unsafe { ffi::object_init_ex(&raw mut value, std::ptr::from_ref(class).cast_mut()) };
    initialize(Object::from_value(&value).ok_or(Failure::Pending)?);
    Ok(value)
}
