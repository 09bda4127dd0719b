//! Defines which messages may be sent again.
//!
//! A request that failed before any byte of it was sent can always be sent again. If the server may
//! have received the request, the request is sent again only if processing it twice is harmless.
//! Only this module decides which messages are harmless, except for calls of a tool whose
//! annotations say that the tool is read-only or idempotent.

use super::McpErrorKind;

/// The last error of a message that was sent again without success. After this error, the message
/// is not sent again.
#[derive(Debug, thiserror::Error)]
#[error("the connection was lost repeatedly")]
pub(super) struct RepeatedConnectionError(
    #[source] pub(super) Box<dyn std::error::Error + Send + Sync>,
);

/// Returns whether an error means that the connection broke, for a message that was not sent again
/// yet.
pub(super) fn is_first_break(error: &McpErrorKind) -> bool {
    matches!(error, McpErrorKind::ConnectionBroken(error) if !error.is::<RepeatedConnectionError>())
}

/// Whether it is safe to send a message again although the server may have received the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepeatSafety {
    /// Sending the message again is safe.
    Harmless,
    /// The message may have an effect, which a second message would repeat.
    Never,
}

impl RepeatSafety {
    /// Returns whether it is safe to send a request or notification of a client again:
    ///
    /// | messages | a second one |
    /// | --- | --- |
    /// | `initialize` | opens another session; the first is unused and expires |
    /// | `server/discover`, `ping`, lists, `resources/read`, `prompts/get`, `completion/complete`, `tasks/get`, `tasks/list`, `tasks/result` | reads again |
    /// | `logging/setLevel`, `resources/subscribe`, `resources/unsubscribe`, `subscriptions/listen` | sets the same state |
    /// | `tasks/cancel` | cancels a task that is already cancelled |
    /// | `notifications/*` of the specification | announces the same fact |
    /// | `tools/call`, `tasks/update` | may repeat an effect |
    /// | all others | unknown, so they are never sent again |
    pub(super) fn for_method(method: &str) -> Self {
        match method {
            "initialize"
            | "server/discover"
            | "ping"
            | "tools/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "prompts/list"
            | "prompts/get"
            | "completion/complete"
            | "logging/setLevel"
            | "subscriptions/listen"
            | "tasks/get"
            | "tasks/list"
            | "tasks/result"
            | "tasks/cancel"
            | "notifications/initialized"
            | "notifications/cancelled"
            | "notifications/progress"
            | "notifications/roots/list_changed" => Self::Harmless,
            _ => Self::Never,
        }
    }

    pub(super) fn is_harmless(self) -> bool {
        self == Self::Harmless
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_that_are_known_to_be_harmless_are_repeated() {
        for method in [
            "initialize",
            "ping",
            "tools/list",
            "notifications/initialized",
        ] {
            let safety = RepeatSafety::for_method(method);
            assert_eq!(safety, RepeatSafety::Harmless, "{method}");
        }
        for method in [
            "tools/call",
            "tasks/update",
            "",
            "tools/List",
            "vendor/thing",
            "tools/list ",
        ] {
            let safety = RepeatSafety::for_method(method);
            assert_eq!(safety, RepeatSafety::Never, "{method}");
        }
    }
}
