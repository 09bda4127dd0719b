//! The methods of `Iterator` that [`ChatStream`](super::chat_stream) and
//! [`ToolStream`](super::tool_stream) share. Like a generator, a stream yields each item once.

use std::cell::Cell;

use ext_php_rs::types::Zval;

use crate::zend::{
    Class, Failure, MethodCall, Object, Outcome, State, bool_of, int_of, iterator, methods,
    state_of,
};

/// The property with the stream's current item; null at the end.
const CURRENT: &str = "current";

/// The state of a stream object.
pub trait StreamState: State {
    /// The name of the class without its namespace, for messages.
    const SHORT_NAME: &'static str;
    /// The declarations of the property [`CURRENT`] and of the method that returns its value.
    const CURRENT_PROPERTY: &'static str;
    const CURRENT_METHOD: &'static str;

    /// Returns the index of the stream's current item.
    fn position(&self) -> &ItemIndex;

    /// Checks whether the stream may wait for the next item now. Does not change the stream.
    ///
    /// # Errors
    /// The reason why the stream may not wait.
    fn may_advance(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Waits for the next item and passes it to [`set_current`], or waits for the end of the
    /// stream.
    ///
    /// # Errors
    /// The failure of the stream.
    fn advance(&self, this: Object<'_>) -> Result<(), Failure>;
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
    this.set(S::class().get(), CURRENT, item);
}

/// Advances a stream to its next item or to its end.
///
/// # Errors
/// A failure of [`StreamState::may_advance`] or [`StreamState::advance`].
pub fn advance<S: StreamState>(this: Object<'_>) -> Result<(), Failure> {
    let stream = state_of::<S>(this)?;
    stream.may_advance()?;
    set_current::<S>(this, Zval::new());
    let ItemIndex(position) = stream.position();
    position.set(Some(position.get().map_or(0, |position| position + 1)));
    stream.advance(this)
}

fn begin<S: StreamState>(this: Object<'_>) -> Result<(), Failure> {
    match state_of::<S>(this)?.position().0.get() {
        None => advance::<S>(this),
        Some(_) => Ok(()),
    }
}

fn current<S: StreamState>(call: &mut MethodCall<'_>) -> Outcome {
    begin::<S>(call.this())?;
    call.this().get(S::class().get(), CURRENT)
}

fn key<S: StreamState>(call: &mut MethodCall<'_>) -> Outcome {
    begin::<S>(call.this())?;
    let ItemIndex(position) = state_of::<S>(call.this())?.position();
    Ok(int_of(position.get().unwrap_or_default()))
}

fn next<S: StreamState>(call: &mut MethodCall<'_>) -> Outcome {
    begin::<S>(call.this())?;
    advance::<S>(call.this())?;
    Ok(Zval::new())
}

/// Returns to the first item before any item was read; later, this fails, because a stream does not
/// keep its items.
fn rewind<S: StreamState>(call: &mut MethodCall<'_>) -> Outcome {
    let ItemIndex(position) = state_of::<S>(call.this())?.position();
    if position.get().is_some_and(|position| position > 0) {
        return Err(Failure::error(format!(
            "A {} cannot be rewound",
            S::SHORT_NAME
        )));
    }
    begin::<S>(call.this())?;
    Ok(Zval::new())
}

fn valid<S: StreamState>(call: &mut MethodCall<'_>) -> Outcome {
    begin::<S>(call.this())?;
    let current = call.this().get(S::class().get(), CURRENT)?;
    Ok(bool_of(!current.is_null()))
}
