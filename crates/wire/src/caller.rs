/// The header that names the user on whose behalf a call runs: cooldowns and rate limits
/// count per user. UTF-8, at most 256 bytes; percent signs are not special.
pub const USER_HEADER: &str = "x-pillion-user";

/// The header that names the channel or conversation a call comes from. UTF-8, at most
/// 256 bytes.
pub const CHANNEL_HEADER: &str = "x-pillion-channel";

/// The header that names a request to run a tool, so that sending it twice runs it once
/// (draft-ietf-httpapi-idempotency-key-header): 1 to 255 visible ASCII characters, in quotes or
/// not.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";

/// The header of an answer that was recorded before: `true`.
pub const IDEMPOTENCY_REPLAYED_HEADER: &str = "idempotency-replayed";

/// The header that identifies a request in the logs. A request may bring its own (visible
/// ASCII, at most 128 bytes); else the sidecar makes one. The response carries it back.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// The header that names the approval that a call is to use, by its id. One that is not for
/// this call changes nothing.
pub const APPROVAL_HEADER: &str = "x-pillion-approval";

/// The header that says how long the request may wait for somebody's approval, in milliseconds;
/// as `?wait_ms=`.
pub const APPROVAL_WAIT_HEADER: &str = "x-pillion-approval-wait-ms";
