/// The header that names the user on whose behalf a call runs. Cooldowns and rate limits count per
/// user. The value is UTF-8 of at most 256 bytes and is not percent-decoded.
pub const USER_HEADER: &str = "x-pillion-user";

/// The header that names the channel or conversation that a call belongs to. The value is UTF-8 of
/// at most 256 bytes.
pub const CHANNEL_HEADER: &str = "x-pillion-channel";

/// The header that makes a request to run tools idempotent: a repeated request with the same key
/// does not run the tools again (draft-ietf-httpapi-idempotency-key-header). The key has 1 to 255
/// visible ASCII characters, quoted or unquoted.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";

/// The response header that marks the recorded response of an earlier request with the same
/// idempotency key. The value is `true`.
pub const IDEMPOTENCY_REPLAYED_HEADER: &str = "idempotency-replayed";

/// The header that identifies a request in the logs: visible ASCII, at most 128 bytes. The sidecar
/// generates an ID for a request without this header. The response has the same header.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// The header that names the approval that a call uses, by the approval's ID. An approval of
/// another call has no effect.
pub const APPROVAL_HEADER: &str = "x-pillion-approval";

/// The header that sets how long the request may wait for an approval, in milliseconds. The query
/// parameter `wait_ms` has the same meaning.
pub const APPROVAL_WAIT_HEADER: &str = "x-pillion-approval-wait-ms";
