//! Turns of a chat that continue even if the client of the request disconnects.

use std::time::Duration;

use pillion_deadline::timeout;
use pillion_gateway::Gateway;
use pillion_gateway::accounts::{AccountReservation, Usage, json_memory};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{
    Chat, ChatCaller, ChatInput, ChatRejection, NewChat, Result, format_owner, run_before_deadline,
    user_message,
};

/// A turn of a chat that a task of the process runs. The task ends at the deadline of the chat.
#[derive(Debug)]
pub struct BackgroundTurn {
    chat_id: String,
    /// Closed when the turn has ended.
    end_receiver: oneshot::Receiver<()>,
}

impl BackgroundTurn {
    /// Returns the ID of the chat.
    #[must_use]
    pub fn chat_id(&self) -> &str {
        &self.chat_id
    }

    /// Waits up to `limit` for the end of the turn, which continues afterwards.
    pub async fn wait(self, limit: Duration) {
        // Receiving always fails, because the task sends nothing and drops the sender at its end.
        drop(timeout(limit, self.end_receiver).await);
    }
}

/// Starts and stores a chat, and runs its first turn in the background. Returns when the chat is
/// stored.
///
/// # Errors
/// The errors of [`Chat::begin`]; [`ChatRejection::TooManyInBackground`].
pub async fn begin_in_background(
    gateway: &Gateway,
    caller: ChatCaller,
    new_chat: NewChat,
) -> Result<BackgroundTurn> {
    let bytes = new_chat.input.memory();
    let reservation = reserve(gateway, &caller, bytes)?;
    let task_gateway = gateway.clone();
    let begin_future = Box::pin(async move { Chat::begin(&task_gateway, &caller, new_chat).await });
    run_turn(gateway, reservation, begin_future).await
}

/// Continues a chat in the background, with the user's next message, if any. Returns when the
/// message is stored.
///
/// # Errors
/// The errors of [`Chat::resume`]; [`ChatRejection::TooManyInBackground`].
pub async fn resume_in_background(
    gateway: &Gateway,
    caller: ChatCaller,
    id: &str,
    message: Option<&str>,
) -> Result<BackgroundTurn> {
    let messages: Vec<_> = message.map(user_message).into_iter().collect();
    let stored_bytes = stored_memory(gateway, &caller, id).await?;
    let bytes = stored_bytes.saturating_add(memory(&messages));
    let reservation = reserve(gateway, &caller, bytes)?;
    let (task_gateway, task_id) = (gateway.clone(), id.to_owned());
    let begin_future =
        Box::pin(async move { Chat::resume(&task_gateway, &caller, &task_id, &messages).await });
    run_turn(gateway, reservation, begin_future).await
}

impl ChatInput {
    /// Returns the approximate memory of the conversation, in bytes.
    fn memory(&self) -> u64 {
        match self {
            Self::Messages(messages) => memory(messages),
            Self::ProviderFormat(conversation) => memory(&conversation.messages),
        }
    }
}

/// Returns the approximate memory of messages, in bytes.
fn memory(messages: &[Value]) -> u64 {
    let sizes = messages
        .iter()
        .map(|message| json_memory(&message.to_string()));
    sizes.sum()
}

/// Returns the approximate memory of the caller's chat with this ID, in bytes.
async fn stored_memory(gateway: &Gateway, caller: &ChatCaller, id: &str) -> Result<u64> {
    let store = gateway.store().ok_or(ChatRejection::NoStore)?;
    let deadline = Instant::now() + gateway.models().chat().timeout;
    let owner = format_owner(&caller.context);
    let find_future = async { Ok(store.find_chat(&owner, id).await?) };
    let stored_record = run_before_deadline(deadline, find_future).await?;
    let record = stored_record.ok_or_else(|| ChatRejection::UnknownChat { id: id.to_owned() })?;
    Ok(json_memory(&record.json))
}

/// Counts a turn toward the limits on requests that continue without their clients.
fn reserve(gateway: &Gateway, caller: &ChatCaller, bytes: u64) -> Result<AccountReservation> {
    let accounts = &gateway.process().detached_requests;
    let principal = caller.context.principal.as_deref();
    accounts
        .try_reserve(principal, Usage::for_request(bytes))
        .ok_or(ChatRejection::TooManyInBackground)
}

/// Runs a turn in a task. Returns when the chat has begun.
async fn run_turn(
    gateway: &Gateway,
    reservation: AccountReservation,
    begin_future: impl Future<Output = Result<Chat>> + Send + 'static,
) -> Result<BackgroundTurn> {
    let (start_sender, start_receiver) = oneshot::channel();
    let (end_sender, end_receiver) = oneshot::channel();
    let turn = async move {
        // Both are dropped at the end of the turn.
        let _guards: (AccountReservation, oneshot::Sender<()>) = (reservation, end_sender);
        match begin_future.await {
            Ok(chat) => {
                drop(start_sender.send(Ok(chat.id().to_owned())));
                // The outcome is stored with the chat.
                drop(Box::pin(chat.run(None)).await);
            }
            Err(error) => drop(start_sender.send(Err(error))),
        }
    };
    gateway.process().call_tasks.spawn(Box::pin(turn));
    let chat_id = start_receiver.await.map_err(|_| ChatRejection::Aborted)??;
    Ok(BackgroundTurn {
        chat_id,
        end_receiver,
    })
}
