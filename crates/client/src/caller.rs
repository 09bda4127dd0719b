use std::ops::Range;
use std::time::Duration;

use pillion_wire::{
    APPROVAL_HEADER, APPROVAL_WAIT_HEADER, CHANNEL_HEADER, IDEMPOTENCY_KEY_HEADER,
    REQUEST_ID_HEADER, USER_HEADER,
};

/// The identity and options of a call, sent as request headers.
///
/// ```
/// use pillion_client::Caller;
/// let caller = Caller::default().user("alice").channel("support");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    user: Option<String>,
    channel: Option<String>,
    request_id: Option<String>,
    idempotency_key: Option<String>,
    approval: Option<String>,
    approval_wait: Option<String>,
}

impl Caller {
    /// Sets the user on whose behalf the call runs. Cooldowns and rate limits count per user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the channel or conversation that the call belongs to.
    #[must_use]
    pub fn channel(mut self, channel: impl Into<String>) -> Self {
        self.channel = Some(channel.into());
        self
    }

    /// Sets the request ID for the sidecar's logs.
    #[must_use]
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// Sets the idempotency key: a repeated request with the same key returns the recorded result
    /// and does not run the tools again. Only for requests that run tools.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Sets the ID of the approval that the call uses.
    #[must_use]
    pub fn approval(mut self, id: impl Into<String>) -> Self {
        self.approval = Some(id.into());
        self
    }

    /// Sets how long the request waits for an approval, if the call needs one. The client's timeout
    /// must be longer.
    #[must_use]
    pub fn wait_for_approval(mut self, max_wait: Duration) -> Self {
        self.approval_wait = Some(max_wait.as_millis().to_string());
        self
    }

    /// Returns the caller for one of several requests of a batch. Each request has its own
    /// idempotency key, which stays the same when the batch is sent again.
    pub(crate) fn for_part(&self, calls: &Range<usize>) -> Self {
        let key = self.idempotency_key.as_deref().map(|key| {
            let (key_text, closing_quote) = match key.strip_suffix('"') {
                Some(key_text) => (key_text, "\""),
                None => (key, ""),
            };
            format!("{key_text}.{}-{}{closing_quote}", calls.start, calls.end)
        });
        Self {
            idempotency_key: key,
            ..self.clone()
        }
    }

    /// Returns the headers to send, as pairs of name and value.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let headers = [
            (USER_HEADER, &self.user),
            (CHANNEL_HEADER, &self.channel),
            (REQUEST_ID_HEADER, &self.request_id),
            (IDEMPOTENCY_KEY_HEADER, &self.idempotency_key),
            (APPROVAL_HEADER, &self.approval),
            (APPROVAL_WAIT_HEADER, &self.approval_wait),
        ];
        headers
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}
