use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::OnceLock;

use ext_php_rs::ffi::{
    ext_php_rs_zend_object_alloc, object_properties_init, std_object_handlers,
    zend_object_handlers, zend_object_std_dtor, zend_object_std_init, zend_std_get_properties,
};
use ext_php_rs::types::{ZendHashTable, ZendObject, Zval};
use ext_php_rs::zend::ClassEntry;

use super::object::create;
use super::{Class, ClassSlot, Failure, Object, Outcome, Result, ffi};

/// A Rust value that the objects of a PHP class contain.
///
/// The constructor sets the state once, and the state is dropped with the object. The state must
/// not hold PHP values: PHP values belong in declared properties, or in the [`HiddenValue`] if
/// dumps must not show them. The garbage collector traverses the properties and the
/// [`HiddenValue`].
pub trait State: Sized + 'static {
    /// The class whose objects contain this state.
    const CLASS: &'static StateClass<Self>;
}

/// The class entry and object handlers of a class with state.
pub struct StateClass<T> {
    slot: ClassSlot,
    handlers: OnceLock<zend_object_handlers>,
    state: PhantomData<fn() -> T>,
}

/// The memory layout of an object: the engine uses the address of `object`, and the declared
/// properties follow it.
#[repr(C)]
struct StateLayout<T> {
    state: Option<T>,
    hidden_value: Zval,
    object: ZendObject,
}

impl<T: State> StateClass<T> {
    pub const fn new() -> Self {
        Self {
            slot: ClassSlot::new(),
            handlers: OnceLock::new(),
            state: PhantomData,
        }
    }

    /// Returns the entry of the class.
    pub fn get(&self) -> &'static ClassEntry {
        self.slot.get()
    }

    /// Registers the class. Its objects cannot be cloned or serialized.
    ///
    /// # Errors
    /// The same errors as [`Class::register`].
    pub fn register(&self, class: Class) -> ext_php_rs::error::Result<()> {
        class
            .with_create_object(allocate_object::<T>)
            .register(&self.slot)
    }

    fn handlers(&self) -> &zend_object_handlers {
        self.handlers.get_or_init(|| {
            // SAFETY: the table is static, and the engine never changes it.
            let mut handlers = unsafe { std_object_handlers };
            handlers.offset = i32::try_from(offset_of!(StateLayout<T>, object)).unwrap_or(0);
            handlers.free_obj = Some(free_object::<T>);
            handlers.get_gc = Some(report_values_to_gc::<T>);
            handlers.clone_obj = None;
            handlers
        })
    }
}

unsafe extern "C" fn allocate_object<T: State>(class: *mut ClassEntry) -> *mut ZendObject {
    // SAFETY: the engine requests an object of a linked class; the allocation has space for the
    // layout and for the properties behind it, and every field is written before use.
    unsafe {
        let layout = ext_php_rs_zend_object_alloc(size_of::<StateLayout<T>>(), class)
            .cast::<StateLayout<T>>();
        (&raw mut (*layout).state).write(None);
        (&raw mut (*layout).hidden_value).write(Zval::new());
        let object = &raw mut (*layout).object;
        zend_object_std_init(object, class);
        object_properties_init(object, class);
        (*object).handlers = T::CLASS.handlers();
        object
    }
}

unsafe extern "C" fn free_object<T: State>(object: *mut ZendObject) {
    // SAFETY: the engine frees an object once, and `allocate_object` has created it.
    unsafe {
        let layout = state_layout::<T>(object);
        // A panic in a destructor is caught and ignored: a panic must not cross into C, and no
        // caller could receive an error.
        let _ = catch_unwind(AssertUnwindSafe(|| (*layout).state = None));
        drop((&raw mut (*layout).hidden_value).replace(Zval::new()));
        zend_object_std_dtor(object);
    }
}

/// Reports the PHP values that an object holds to the garbage collector
/// (`zend_object_handlers.get_gc`).
unsafe extern "C" fn report_values_to_gc<T: State>(
    object: *mut ZendObject,
    table: *mut *mut Zval,
    count: *mut c_int,
) -> *mut ZendHashTable {
    // SAFETY: the engine passes a live object that `allocate_object` created, and pointers for the
    // result. The engine reads the `HiddenValue` and the table of properties before other code
    // runs.
    unsafe {
        let hidden_value = &raw mut (*state_layout::<T>(object)).hidden_value;
        if (*hidden_value).is_null() {
            return ffi::zend_std_get_gc(object, table, count);
        }
        *table = hidden_value;
        *count = 1;
        zend_std_get_properties(object)
    }
}

unsafe fn state_layout<T>(object: *mut ZendObject) -> *mut StateLayout<T> {
    // SAFETY: the caller promises that `object` is the field of a `StateLayout<T>`.
    unsafe { object.byte_sub(offset_of!(StateLayout<T>, object)).cast() }
}

fn find_layout<T: State>(object: Object<'_>) -> Option<*mut StateLayout<T>> {
    let pointer = object.as_ptr();
    // SAFETY: the code reads a field of a live object.
    let has_state_handlers = std::ptr::eq(unsafe { (*pointer).handlers }, T::CLASS.handlers());
    // SAFETY: only objects that `allocate_object::<T>` created have these handlers.
    has_state_handlers.then(|| unsafe { state_layout(pointer) })
}

/// A value of an object that is not a property: dumps, casts and reflection do not show it, but the
/// garbage collector traverses it.
pub struct HiddenValue<'a> {
    value: NonNull<Zval>,
    object: PhantomData<Object<'a>>,
}

impl Clone for HiddenValue<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for HiddenValue<'_> {}

impl<'a> HiddenValue<'a> {
    /// Returns the [`HiddenValue`] of an object, which is initially null.
    ///
    /// # Errors
    /// An `Error` if the object has another class.
    pub fn for_object<T: State>(object: Object<'a>) -> Result<Self> {
        let layout = find_layout::<T>(object).ok_or_else(|| not_constructed::<T>())?;
        // SAFETY: the layout belongs to a live object.
        let value = unsafe { NonNull::new_unchecked(&raw mut (*layout).hidden_value) };
        Ok(Self {
            value,
            object: PhantomData,
        })
    }

    /// Returns the object's value, which PHP code cannot see.
    pub fn get(self) -> Zval {
        // SAFETY: the object lives for `'a`, and the reference is not used beyond this line.
        unsafe { self.value.as_ref() }.shallow_clone()
    }

    /// Sets the object's value, which PHP code cannot see. The destructor of the previous value may
    /// run.
    pub fn set(self, value: Zval) {
        // SAFETY: the object lives for `'a`; the previous value is dropped only after the new value
        // has replaced it.
        drop(unsafe { self.value.replace(value) });
    }
}

/// Sets the state of an object, in its constructor.
///
/// # Errors
/// An `Error` if the object already has a state.
pub fn construct<T: State>(object: Object<'_>, state: T) -> Result<()> {
    let layout = find_layout::<T>(object).ok_or_else(|| not_constructed::<T>())?;
    // SAFETY: the object is alive, and no reference to the state exists while the state is `None`.
    let slot = unsafe { &mut (*layout).state };
    if slot.is_some() {
        return Err(Failure::error(format!(
            "{} is already constructed",
            state_class_name::<T>()
        )));
    }
    *slot = Some(state);
    Ok(())
}

/// Returns the state of an object.
///
/// # Errors
/// An `Error` if the object has no state, because a subclass did not call `parent::__construct()`.
pub fn read_state<'a, T: State>(object: Object<'a>) -> Result<&'a T> {
    let layout = find_layout::<T>(object).ok_or_else(|| not_constructed::<T>())?;
    // SAFETY: the state is written once, and only read from then on.
    unsafe { (*layout).state.as_ref() }.ok_or_else(|| not_constructed::<T>())
}

/// Creates an object with its state, for classes that PHP code does not construct.
///
/// # Errors
/// [`Failure::Pending`] if the engine cannot create the object.
pub fn new_with_state<T: State>(state: T) -> Outcome {
    let mut outcome = Ok(());
    let value = create(T::CLASS.get(), |object| {
        outcome = construct(object, state);
    })?;
    outcome.map(|()| value)
}

fn state_class_name<T: State>() -> &'static str {
    T::CLASS.get().name().unwrap_or_default()
}

fn not_constructed<T: State>() -> Failure {
    Failure::error(format!(
        "{} is not constructed: call parent::__construct()",
        state_class_name::<T>()
    ))
}
