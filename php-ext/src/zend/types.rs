use ext_php_rs::args::Arg;
use ext_php_rs::ffi::{
    _ZEND_TYPE_NULLABLE_BIT, IS_ARRAY, IS_CALLABLE, IS_DOUBLE, IS_LONG, IS_OBJECT, IS_STRING,
    IS_VOID, MAY_BE_ANY, MAY_BE_BOOL, zend_internal_arg_info, zend_type,
};
use ext_php_rs::flags::DataType;
use ext_php_rs::types::ZendStr;

/// `IS_STATIC`, for which there is no binding. Only valid as a return type.
const IS_STATIC: u32 = 15;

/// A declared PHP type, which Reflection shows and typed properties enforce. Unlike `DataType` it
/// can be a union.
#[derive(Clone, Copy)]
pub struct Type {
    mask: u32,
    classes: Option<&'static str>,
}

impl Type {
    pub const INT: Self = Self::from_mask(1 << IS_LONG);
    pub const FLOAT: Self = Self::from_mask(1 << IS_DOUBLE);
    pub const STRING: Self = Self::from_mask(1 << IS_STRING);
    pub const BOOL: Self = Self::from_mask(MAY_BE_BOOL);
    pub const ARRAY: Self = Self::from_mask(1 << IS_ARRAY);
    pub const OBJECT: Self = Self::from_mask(1 << IS_OBJECT);
    pub const CALLABLE: Self = Self::from_mask(1 << IS_CALLABLE);
    pub const MIXED: Self = Self::from_mask(MAY_BE_ANY);
    pub const VOID: Self = Self::from_mask(1 << IS_VOID);
    /// `static`, as a return type.
    pub const STATIC: Self = Self::from_mask(1 << IS_STATIC);

    const fn from_mask(mask: u32) -> Self {
        Self {
            mask,
            classes: None,
        }
    }

    /// Returns the type of one class, or of several classes separated by `|`.
    pub const fn class(names: &'static str) -> Self {
        Self {
            mask: 0,
            classes: Some(names),
        }
    }

    /// Returns a union of two types. For two classes, name both in one [`class`](Self::class).
    pub const fn or(self, other: Self) -> Self {
        assert!(self.classes.is_none() || other.classes.is_none());
        Self {
            mask: self.mask | other.mask,
            classes: if self.classes.is_some() {
                self.classes
            } else {
                other.classes
            },
        }
    }

    /// Returns the union of this type and null.
    pub const fn nullable(self) -> Self {
        Self {
            mask: self.mask | _ZEND_TYPE_NULLABLE_BIT,
            ..self
        }
    }

    /// Creates an argument of this type. [`complete`](Self::complete) must be called after it is
    /// built.
    pub(super) fn argument(self, name: &'static str) -> Arg<'static> {
        Arg::new(name, self.data_type())
    }

    /// Returns the nearest type that `ext-php-rs` can express.
    pub(super) fn data_type(self) -> DataType {
        self.classes.map_or(DataType::Mixed, DataType::object)
    }

    /// Adds the part of the type that `DataType` cannot express to a built argument.
    pub(super) fn complete(self, info: &mut zend_internal_arg_info) {
        if self.classes.is_some() {
            info.type_.type_mask |= self.mask;
        } else {
            info.type_.type_mask = self.mask;
        }
    }

    /// Returns the type in the format of typed properties. The class name is interned and lives as
    /// long as the process.
    pub(super) fn to_property_type(self) -> zend_type {
        match self.classes {
            None => zend_type {
                ptr: std::ptr::null_mut(),
                type_mask: self.mask,
            },
            Some(name) => zend_type {
                ptr: ZendStr::new_interned(name, true).into_raw().cast(),
                type_mask: self.mask | ext_php_rs::ffi::_ZEND_TYPE_NAME_BIT,
            },
        }
    }
}
