use std::ops::Range;
use std::time::Duration;

use pillion_wire::{
    APPROVAL_HEADER, APPROVAL_WAIT_HEADER, CHANNEL_HEADER, IDEMPOTENCY_KEY_HEADER,
    REQUEST_ID_HEADER, USER_HEADER,
};

/// On whose behalf a call runs; goes out as request headers.
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
    /// Names the user: cooldowns and rate limits count per user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Names the channel or conversation.
    #[must_use]
    pub fn channel(mut self, channel: impl Into<String>) -> Self {
        self.channel = Some(channel.into());
        self
    }

    /// Gives the request an id of the caller's own, which the sidecar's logs then carry.
    #[must_use]
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// Names the request, so that sending it again under the same name gives the result that it
    /// had: only for calls of one tool.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Names the approval that the call is to use.
    #[must_use]
    pub fn approval(mut self, id: impl Into<String>) -> Self {
        self.approval = Some(id.into());
        self
    }

    /// Waits so long for somebody's approval, where the call needs it. The client's own timeout
    /// has to be longer.
    #[must_use]
    pub fn wait_for_approval(mut self, wait: Duration) -> Self {
        self.approval_wait = Some(wait.as_millis().to_string());
        self
    }

    /// Returns the caller for one of several requests of a batch. Each request has its own
    /// idempotency key, which is stable when the batch is sent again.
    pub(crate) fn for_part(&self, calls: &Range<usize>) -> Self {
        let key = self.idempotency_key.as_deref().map(|key| {
            let (inner, quote) = match key.strip_suffix('"') {
                Some(inner) => (inner, "\""),
                None => (key, ""),
            };
            format!("{inner}.{}-{}{quote}", calls.start, calls.end)
        });
        Self {
            idempotency_key: key,
            ..self.clone()
        }
    }

    /// The headers to send, as name and value.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let pairs = [
            (USER_HEADER, &self.user),
            (CHANNEL_HEADER, &self.channel),
            (REQUEST_ID_HEADER, &self.request_id),
            (IDEMPOTENCY_KEY_HEADER, &self.idempotency_key),
            (APPROVAL_HEADER, &self.approval),
            (APPROVAL_WAIT_HEADER, &self.approval_wait),
        ];
        pairs
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}
