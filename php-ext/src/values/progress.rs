//! `Progress`: the progress of a call.

use ext_php_rs::error::Result;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use pillion_mcp_client::ProgressNotification;

use crate::zend::{Class, ClassSlot, MethodCall, Outcome, create, new_float, new_string};

static CLASS: ClassSlot = ClassSlot::new();

const CONSTRUCTOR: &str =
    "__construct(float $progress, ?float $total = null, ?string $message = null)";

pub fn register() -> Result<()> {
    Class::new("Pillion\\Progress")
        .flags(ClassFlags::Final)
        .promoted_constructor(CONSTRUCTOR, construct)
        .register(&CLASS)
}

fn construct(call: &mut MethodCall<'_>) -> Outcome {
    call.promote(CLASS.get(), CONSTRUCTOR)
}

/// Creates a `Progress` for a progress notification.
pub fn new_progress(progress: &ProgressNotification) -> Outcome {
    let total = progress.total.map_or_else(Zval::new, new_float);
    let message = progress.message.as_ref();
    create(CLASS.get(), |this| {
        this.set(CLASS.get(), "progress", new_float(progress.progress));
        this.set(CLASS.get(), "total", total);
        let message_value = message.map_or_else(Zval::new, new_string);
        this.set(CLASS.get(), "message", message_value);
    })
}
