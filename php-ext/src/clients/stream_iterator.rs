//! The methods of `Iterator` that `ChatStream` and [`ToolStream`](super::tool_stream) share. Like a
//! generator, a stream yields each item once.

use std::cell::Cell;

use ext_php_rs::types::Zval;

use crate::zend::{
    Class, Failure, MethodCall, Object, Outcome, Result, State, iterator, methods, new_bool,
    new_int, read_state,
};

/// The property with the stream's current item; null at the end.
const CURRENT_ITEM: &str = "current";

/// The state of a stream object.
pub trait StreamState: State {
    /// The name of the class without its namespace, for messages.
    const SHORT_NAME: &'static str;
    /// The declaration of the property [`CURRENT_ITEM`].
    const CURRENT_PROPERTY: &'static str;
    /// The declaration of the method that returns the value of [`CURRENT_ITEM`].
    const CURRENT_METHOD: &'static str;

    /// Returns the index of the stream's current item.
    fn item_index(&self) -> &ItemIndex;

    /// Returns an error if the stream must not wait for its next item now. Does not change the
    /// stream.
    ///
    /// # Errors
    /// The reason why the stream must not wait for its next item.
    fn check_can_advance(&self) -> Result<()> {
        Ok(())
    }

    /// Waits for the next item and passes it to [`set_current`], or waits for the end of the
    /// stream.
    ///
    /// # Errors
    /// A failure of the chat or tool call that the stream reads.
    fn advance(&self, this: Object<'_>) -> Result<()>;
}

/// The index of the current item, from 0; `None` before the first item was requested.
#[derive(Default)]
pub struct ItemIndex(Cell<Option<i64>>);

/// Adds the methods and properties of an `Iterator` to a class.
pub fn with_iteration<S: StreamState>(class: Class) -> Class {
    methods!(
        class.implements(iterator()).property(S::CURRENT_PROPERTY),
        S::CURRENT_METHOD => current::<S>,
        "key(): int" => key::<S>,
        "next(): void" => next::<S>,
        "rewind(): void" => rewind::<S>,
        "valid(): bool" => valid::<S>,
    )
}

/// Sets the current item of a stream; null at the end.
pub fn set_current<S: StreamState>(this: Object<'_>, item: Zval) {
    this.set(S::CLASS.get(), CURRENT_ITEM, item);
}

/// Advances a stream to its next item or to its end.
///
/// # Errors
/// A failure of the stream, or the reason why the stream must not wait for its next item.
pub fn advance<S: StreamState>(this: Object<'_>) -> Result<()> {
    let stream = read_state::<S>(this)?;
    stream.check_can_advance()?;
    set_current::<S>(this, Zval::new());
    let ItemIndex(index) = stream.item_index();
    index.set(Some(index.get().map_or(0, |index| index + 1)));
    stream.advance(this)
}

fn request_first_item<S: StreamState>(this: Object<'_>) -> Result<()> {
    match read_state::<S>(this)?.item_index().0.get() {
        None => advance::<S>(this),
        Some(_) => Ok(()),
    }
}

fn current<S: StreamState>(call: &mut MethodCall<'_>) -> Outcome {
    request_first_item::<S>(call.this())?;
    call.this().get(S::CLASS.get(), CURRENT_ITEM)
}

fn key<S: StreamState>(call: &mut MethodCall<'_>) -> Outcome {
    request_first_item::<S>(call.this())?;
    let ItemIndex(index) = read_state::<S>(call.this())?.item_index();
    Ok(new_int(index.get().unwrap_or_default()))
}

fn next<S: StreamState>(call: &mut MethodCall<'_>) -> Outcome {
    request_first_item::<S>(call.this())?;
    advance::<S>(call.this())?;
    Ok(Zval::new())
}

/// Requests the first item if no item has been requested yet. Later calls fail, because a stream
/// does not keep the items that PHP has read.
fn rewind<S: StreamState>(call: &mut MethodCall<'_>) -> Outcome {
    let ItemIndex(index) = read_state::<S>(call.this())?.item_index();
    if index.get().is_some_and(|index| index > 0) {
        return Err(Failure::error(format!(
            "A {} cannot be rewound",
            S::SHORT_NAME
        )));
    }
    request_first_item::<S>(call.this())?;
    Ok(Zval::new())
}

fn valid<S: StreamState>(call: &mut MethodCall<'_>) -> Outcome {
    request_first_item::<S>(call.this())?;
    let current_item = call.this().get(S::CLASS.get(), CURRENT_ITEM)?;
    Ok(new_bool(!current_item.is_null()))
}
