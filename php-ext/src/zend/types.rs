use ext_php_rs::args::Arg;
use ext_php_rs::ffi::{
    _ZEND_TYPE_NULLABLE_BIT, IS_ARRAY, IS_CALLABLE, IS_DOUBLE, IS_LONG, IS_OBJECT, IS_STRING,
    IS_VOID, MAY_BE_ANY, MAY_BE_BOOL, zend_internal_arg_info, zend_type,
};
use ext_php_rs::flags::DataType;
use ext_php_rs::types::ZendStr;

/// The type `static` (`IS_STATIC`), for which `ext-php-rs` has no binding. The type is only valid
/// as a return type.
const IS_STATIC: u32 = 15;

/// A declared PHP type, which Reflection shows and typed properties enforce. Unlike `DataType`, the
/// type can be a union.
#[derive(Clone, Copy)]
pub struct DeclaredType {
    mask: u32,
    classes: Option<&'static str>,
}

impl DeclaredType {
    /// Parses a type such as `?string` or `Pillion\ToolCall|array`. In a union, the classes come
    /// first.
    pub(super) fn parse(text: &'static str) -> Self {
        let non_null_text = text.strip_prefix('?');
        let names = non_null_text.unwrap_or(text);
        let mut mask = non_null_text.map_or(0, |_| _ZEND_TYPE_NULLABLE_BIT);
        let mut classes_end = names.len();
        for name in names.rsplit('|') {
            let Some(type_bits) = Self::find_mask(name) else {
                break;
            };
            mask |= type_bits;
            classes_end = classes_end.saturating_sub(name.len() + 1);
        }
        let classes = &names[..classes_end];
        debug_assert!(
            classes
                .split('|')
                .all(|name| Self::find_mask(name).is_none()),
            "classes come first: {text}"
        );
        Self {
            mask,
            classes: (!classes.is_empty()).then_some(classes),
        }
    }

    fn find_mask(name: &str) -> Option<u32> {
        Some(match name {
            "array" => 1 << IS_ARRAY,
            "bool" => MAY_BE_BOOL,
            "callable" => 1 << IS_CALLABLE,
            "float" => 1 << IS_DOUBLE,
            "int" => 1 << IS_LONG,
            "mixed" => MAY_BE_ANY,
            "null" => _ZEND_TYPE_NULLABLE_BIT,
            "object" => 1 << IS_OBJECT,
            "static" => 1 << IS_STATIC,
            "string" => 1 << IS_STRING,
            "void" => 1 << IS_VOID,
            _ => return None,
        })
    }

    /// Creates an argument of this type. [`complete`](Self::complete) must be called after the
    /// argument is built.
    pub(super) fn to_argument(self, name: &'static str) -> Arg<'static> {
        Arg::new(name, self.data_type())
    }

    /// Returns the nearest type that `ext-php-rs` can express.
    pub(super) fn data_type(self) -> DataType {
        self.classes.map_or(DataType::Mixed, DataType::object)
    }

    /// Completes a built argument with the part of the type that `DataType` cannot express.
    pub(super) fn complete(self, argument_info: &mut zend_internal_arg_info) {
        if self.classes.is_some() {
            argument_info.type_.type_mask |= self.mask;
        } else {
            argument_info.type_.type_mask = self.mask;
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
