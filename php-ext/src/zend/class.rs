use std::ffi::c_int;
use std::mem::MaybeUninit;

use ext_php_rs::builders::FunctionBuilder;
use ext_php_rs::error::{Error, Result};
use ext_php_rs::ffi::{
    zend_do_implement_interface, zend_function, zend_hash_str_find_ptr_lc,
    zend_register_internal_class_ex, zend_register_internal_interface,
};
use ext_php_rs::flags::{ClassFlags, MethodFlags};
use ext_php_rs::types::{ZendObject, ZendStr, Zval};
use ext_php_rs::zend::{ClassEntry, FunctionEntry};

use super::call::{Handler, MethodBody, handler_for};
use super::declaration::{MethodDeclaration, PropertyDeclaration};
use super::{ClassSlot, ffi};

/// The function that allocates the objects of a class: `zend_class_entry.create_object`.
pub(super) type CreateObject = unsafe extern "C" fn(*mut ClassEntry) -> *mut ZendObject;

/// A class or interface to register at module startup.
#[must_use]
pub struct Class {
    name: &'static str,
    flags: ClassFlags,
    parent: Option<&'static ClassEntry>,
    interfaces: Vec<&'static ClassEntry>,
    properties: Vec<PropertyDeclaration>,
    methods: Vec<Method>,
    create_object: Option<CreateObject>,
    attribute_targets: u32,
}

/// The targets of an attribute: the constants `Attribute::TARGET_*`.
pub struct AttributeTargets;

impl AttributeTargets {
    pub const CLASS: u32 = 1;
    pub const FUNCTION: u32 = 1 << 1;
    pub const METHOD: u32 = 1 << 2;
    pub const PARAMETER: u32 = 1 << 5;
}

impl Class {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            flags: ClassFlags::empty(),
            parent: None,
            interfaces: Vec::new(),
            properties: Vec::new(),
            methods: Vec::new(),
            create_object: None,
            attribute_targets: 0,
        }
    }

    pub fn interface(name: &'static str) -> Self {
        Self::new(name).flags(ClassFlags::Interface)
    }

    pub fn flags(mut self, flags: ClassFlags) -> Self {
        self.flags |= flags;
        self
    }

    pub fn extends(mut self, parent: &'static ClassEntry) -> Self {
        self.parent = Some(parent);
        self
    }

    pub fn implements(mut self, interface: &'static ClassEntry) -> Self {
        self.interfaces.push(interface);
        self
    }

    /// Adds a property. `declaration` declares the property as in PHP: `private array $tools = []`.
    pub fn property(mut self, declaration: &'static str) -> Self {
        self.properties
            .push(PropertyDeclaration::parse(declaration));
        self
    }

    /// Adds several properties; each declaration has the form that [`property`](Self::property)
    /// accepts.
    pub fn properties(self, declarations: &[&'static str]) -> Self {
        declarations
            .iter()
            .fold(self, |class, declaration| class.property(declaration))
    }

    /// Adds a property with a default value, which must not be reference-counted.
    pub fn property_with_default(mut self, declaration: &'static str, default: Zval) -> Self {
        self.properties.push(PropertyDeclaration {
            default,
            ..PropertyDeclaration::parse(declaration)
        });
        self
    }

    /// Adds a method that runs `body`. See also [`methods!`](super::methods).
    pub fn method(mut self, declaration: &'static str, body: impl MethodBody) -> Self {
        self.methods.push(Method {
            declaration: MethodDeclaration::parse(declaration),
            handler: Some(handler_for(body)),
        });
        self
    }

    /// Adds abstract methods, which implementing classes or subclasses must define.
    pub fn abstract_methods(mut self, declarations: &[&'static str]) -> Self {
        self.methods
            .extend(declarations.iter().map(|declaration| Method {
                declaration: MethodDeclaration::parse(declaration),
                handler: None,
            }));
        self
    }

    /// Adds a constructor and, as PHP's constructor promotion does, a public readonly property for
    /// each parameter.
    pub fn promoted_constructor(mut self, method: &'static str, body: impl MethodBody) -> Self {
        let method_declaration = MethodDeclaration::parse(method);
        let promoted_properties = method_declaration
            .parameters
            .iter()
            .map(PropertyDeclaration::for_promoted);
        self.properties.extend(promoted_properties);
        self.methods.push(Method {
            declaration: method_declaration,
            handler: Some(handler_for(body)),
        });
        self
    }

    /// Makes the class an attribute for these [`AttributeTargets`].
    pub fn with_attribute_targets(mut self, targets: u32) -> Self {
        self.attribute_targets = targets;
        self
    }

    pub(super) fn with_create_object(mut self, create_object: CreateObject) -> Self {
        self.create_object = Some(create_object);
        self
    }

    /// Registers the class and stores its entry in `slot`.
    ///
    /// # Errors
    /// An error if a method cannot be built or the engine rejects the class.
    pub fn register(self, slot: &ClassSlot) -> Result<()> {
        let mut functions: Vec<FunctionEntry> = Vec::with_capacity(self.methods.len() + 1);
        let mut sensitive_parameters = Vec::new();
        for method in self.methods {
            let declaration = &method.declaration;
            for (index, parameter) in declaration.parameters.iter().enumerate() {
                if parameter.is_sensitive {
                    sensitive_parameters.push((declaration.name, index));
                }
            }
            functions.push(method.build()?);
        }
        functions.push(FunctionEntry::end());

        // SAFETY: a class entry is a plain C struct, in which zero means "not set".
        let mut entry: ClassEntry = unsafe { MaybeUninit::zeroed().assume_init() };
        entry.name = ZendStr::new_interned(self.name, true).into_raw();
        entry.ce_flags = self.flags.bits();
        // The table of methods is leaked, because the engine uses the methods as long as the module
        // is loaded.
        entry.info.internal.builtin_functions = Vec::leak(functions).as_ptr();

        let parent = self.parent.map_or(std::ptr::null_mut(), |parent| {
            std::ptr::from_ref(parent).cast_mut()
        });
        // SAFETY: the code runs in MINIT with a complete entry, which the engine copies.
        let class_pointer = unsafe {
            if self.flags.contains(ClassFlags::Interface) {
                zend_register_internal_interface(&raw mut entry)
            } else {
                zend_register_internal_class_ex(&raw mut entry, parent)
            }
        };
        // SAFETY: the engine returns the entry in its class table.
        let class = unsafe { class_pointer.as_mut() }.ok_or(Error::InvalidPointer)?;
        for (method, index) in sensitive_parameters {
            hide_in_traces(class, method, index);
        }
        for property in self.properties {
            property.declare(class);
        }
        for interface in self.interfaces {
            // SAFETY: both entries are registered, because interfaces are registered before the
            // classes that implement them.
            unsafe { zend_do_implement_interface(class, std::ptr::from_ref(interface).cast_mut()) };
        }
        if self.attribute_targets != 0 {
            // SAFETY: the code runs in MINIT, and the internal class has just been registered.
            unsafe { ffi::zend_internal_attribute_register(class, self.attribute_targets) };
        }
        if let Some(create_object) = self.create_object {
            class.__bindgen_anon_2.create_object = Some(create_object);
            // The class is marked as not serializable, because an object that unserialize() creates
            // would lack the Rust state.
            class.ce_flags |= ClassFlags::NotSerializable.bits();
        }
        slot.set(class);
        Ok(())
    }
}

/// Adds PHP's attribute `SensitiveParameter` to a parameter.
fn hide_in_traces(class: &mut ClassEntry, method: &str, index: usize) {
    const PERSISTENT_FLAG: u32 = 1;
    let offset = u32::try_from(index + 1).unwrap_or(u32::MAX);
    // SAFETY: the code runs in MINIT; the method has just been registered, and its table of
    // attributes lives as long as the method. The attribute's name is interned.
    unsafe {
        let function_pointer = zend_hash_str_find_ptr_lc(
            &raw mut class.function_table,
            method.as_ptr().cast(),
            method.len(),
        )
        .cast::<zend_function>();
        if let Some(function) = function_pointer.as_mut() {
            ffi::zend_add_attribute(
                &raw mut function.common.attributes,
                ZendStr::new_interned("SensitiveParameter", true).into_raw(),
                0,
                PERSISTENT_FLAG,
                offset,
                0,
            );
        }
    }
}

impl PropertyDeclaration {
    fn declare(mut self, class: &mut ClassEntry) {
        // SAFETY: the code runs in MINIT; the name is interned, and the default value is not
        // reference-counted.
        unsafe {
            ffi::zend_declare_typed_property(
                class,
                ZendStr::new_interned(self.name, true).into_raw(),
                &raw mut self.default,
                self.flags as c_int,
                std::ptr::null_mut(),
                self.declared_type.to_property_type(),
            );
        }
    }
}

/// The declaration of a method, and the method's C function. An abstract method has no C function.
struct Method {
    declaration: MethodDeclaration,
    handler: Option<Handler>,
}

impl Method {
    fn build(self) -> Result<FunctionEntry> {
        let MethodDeclaration {
            name,
            flags,
            parameters,
            return_type,
        } = self.declaration;
        let (mut builder, abstract_flag) = match self.handler {
            Some(handler) => (FunctionBuilder::new(name, handler), MethodFlags::empty()),
            None => (FunctionBuilder::new_abstract(name), MethodFlags::Abstract),
        };
        let required_count = parameters
            .iter()
            .take_while(|parameter| parameter.default.is_none())
            .count();
        builder = builder.required_args(required_count);
        for parameter in &parameters {
            let mut argument = parameter.declared_type.to_argument(parameter.name);
            if let Some(default) = parameter.default {
                argument = argument.default(default);
            }
            builder = builder.arg(argument);
        }
        if let Some(return_type) = return_type {
            builder = builder.returns(return_type.data_type(), false, false);
        }
        let (mut function, boxed_information) = builder.build()?;
        function.flags |= (flags | abstract_flag).bits();
        // The table is leaked, because the engine keeps pointers into it until the module is
        // unloaded.
        let information = Box::leak(boxed_information);
        if let Some(return_type) = return_type {
            return_type.complete(&mut information[0]);
        }
        for (parameter, argument_information) in parameters.iter().zip(&mut information[1..]) {
            parameter.declared_type.complete(argument_information);
        }
        Ok(function)
    }
}
