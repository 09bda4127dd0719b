//! `CancellationToken`: cancels calls from outside the code that waits for them.

use std::sync::{Arc, OnceLock};

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use tokio::sync::watch;

use crate::runtime::Bound;
use crate::zend::{
    Class, Failure, MethodCall, Object, Outcome, State, StateClass, bool_of, construct, methods,
    state_of,
};

static CLASS: StateClass<Token> = StateClass::new();

/// The reason of a cancellation, set when the token is cancelled.
pub type Cancelled = Arc<OnceLock<String>>;

struct Token {
    cancelled: Cancelled,
    /// Wakes the waiting calls of this process.
    wake: Bound<watch::Sender<()>>,
}

impl State for Token {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
}

pub fn register() -> ZendResult<()> {
    let class = methods!(
        Class::new("Pillion\\CancellationToken").flags(ClassFlags::Final),
        "__construct()" => construct_token,
        "cancel(?string $reason = null): void" => cancel,
        "isCancelled(): bool" => is_cancelled,
    );
    CLASS.register(class)
}

fn construct_token(call: &mut MethodCall<'_>) -> Outcome {
    let token = Token {
        cancelled: Cancelled::default(),
        wake: Bound::new(watch::Sender::new(())),
    };
    construct(call.this(), token)?;
    Ok(Zval::new())
}

/// Cancels the calls that have this token. Only the first reason counts.
fn cancel(call: &mut MethodCall<'_>) -> Outcome {
    let token = state_of::<Token>(call.this())?;
    let reason = call.optional_string(0)?.unwrap_or_default();
    let _ = token.cancelled.set(reason.to_owned());
    if let Some(wake) = token.wake.get() {
        wake.send_replace(());
    }
    Ok(Zval::new())
}

fn is_cancelled(call: &mut MethodCall<'_>) -> Outcome {
    let token = state_of::<Token>(call.this())?;
    Ok(bool_of(token.cancelled.get().is_some()))
}

/// The cancellation signal of a call. A call without a token is never cancelled.
#[derive(Clone, Default)]
pub struct Cancellation(Option<(Cancelled, watch::Receiver<()>)>);

impl Cancellation {
    /// Returns the signal of the token in an option; `None` if the value is not a token.
    ///
    /// # Errors
    /// An `Error` if the token's constructor has not run.
    pub fn from_value(value: &Zval) -> Result<Option<Self>, Failure> {
        let Some(object) =
            Object::from_value(value).filter(|object| object.instance_of(CLASS.get()))
        else {
            return Ok(None);
        };
        let token = state_of::<Token>(object)?;
        // In a forked child, nothing wakes the call, so only a token that is already cancelled has
        // an effect.
        let wake = token.wake.get().map(watch::Sender::subscribe);
        let cancelled = Arc::clone(&token.cancelled);
        let never = || watch::channel(()).1;
        Ok(Some(Self(Some((cancelled, wake.unwrap_or_else(never))))))
    }

    /// Waits until the token is cancelled and returns the reason, which may be empty.
    pub async fn cancelled(mut self) -> String {
        if let Some((cancelled, wake)) = &mut self.0 {
            loop {
                if let Some(reason) = cancelled.get() {
                    return reason.clone();
                }
                if wake.changed().await.is_err() {
                    break;
                }
            }
        }
        std::future::pending().await
    }
}
