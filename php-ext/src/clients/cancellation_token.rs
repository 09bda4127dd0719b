//! `CancellationToken`: cancels calls from outside the code that waits for them.

use std::sync::{Arc, OnceLock};

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use tokio::sync::watch;

use crate::runtime::ProcessBound;
use crate::zend::{
    Class, MethodCall, Object, Outcome, Result, State, StateClass, construct, methods, new_bool,
    read_state,
};

static CLASS: StateClass<TokenState> = StateClass::new();

/// The reason for the cancellation; not set until the token is cancelled.
pub type CancellationReason = Arc<OnceLock<String>>;

struct TokenState {
    reason: CancellationReason,
    /// Wakes the calls in this process that wait with the token.
    wake_sender: ProcessBound<watch::Sender<()>>,
}

impl State for TokenState {
    const CLASS: &'static StateClass<Self> = &CLASS;
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
    let token = TokenState {
        reason: CancellationReason::default(),
        wake_sender: ProcessBound::new(watch::Sender::new(())),
    };
    construct(call.this(), token)?;
    Ok(Zval::new())
}

/// Cancels the calls that have this token. If the token is cancelled several times, the first
/// reason stays.
fn cancel(call: &mut MethodCall<'_>) -> Outcome {
    let token = read_state::<TokenState>(call.this())?;
    let reason = call.optional_string(0)?.unwrap_or_default();
    let _ = token.reason.set(reason.to_owned());
    if let Some(wake_sender) = token.wake_sender.get() {
        wake_sender.send_replace(());
    }
    Ok(Zval::new())
}

fn is_cancelled(call: &mut MethodCall<'_>) -> Outcome {
    let token = read_state::<TokenState>(call.this())?;
    Ok(new_bool(token.reason.get().is_some()))
}

/// The cancellation signal of a call. A call without a token is never cancelled.
#[derive(Clone, Default)]
pub struct Cancellation(Option<(CancellationReason, watch::Receiver<()>)>);

impl Cancellation {
    /// Returns the cancellation signal of a token that was passed as an option; `None` if the value
    /// is not a token.
    ///
    /// # Errors
    /// An `Error` if the token's constructor has not run.
    pub fn from_value(value: &Zval) -> Result<Option<Self>> {
        let Some(object) = Object::from_instance(value, CLASS.get()) else {
            return Ok(None);
        };
        let token = read_state::<TokenState>(object)?;
        // In a forked child, a token from before the fork has an effect only if it was cancelled
        // before the fork, because the child has no task that would wake the call.
        let wake_receiver = token.wake_sender.get().map(watch::Sender::subscribe);
        let reason = Arc::clone(&token.reason);
        let closed_receiver = || watch::channel(()).1;
        Ok(Some(Self(Some((
            reason,
            wake_receiver.unwrap_or_else(closed_receiver),
        )))))
    }

    /// Waits until the token is cancelled and returns the reason, which may be empty.
    pub async fn wait_for_reason(mut self) -> String {
        if let Some((reason, wake_receiver)) = &mut self.0 {
            loop {
                if let Some(text) = reason.get() {
                    return text.clone();
                }
                if wake_receiver.changed().await.is_err() {
                    break;
                }
            }
        }
        std::future::pending().await
    }
}
