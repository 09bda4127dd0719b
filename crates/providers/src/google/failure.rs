use std::time::Duration;

use serde_json::Value;

use crate::ModelErrorKind;
use crate::failure::{ProviderFailure, kind_for_status};

/// Reads an error body `{"error": {"code", "message", "status", "details"}}`, which may also be in
/// an array.
pub(super) fn parse(body: &Value) -> ProviderFailure<'_> {
    let error = &body.get(0).unwrap_or(body)["error"];
    let detail_list = error.get("details").and_then(Value::as_array);
    let details = detail_list.map(Vec::as_slice).unwrap_or_default();
    let has_invalid_key = details.iter().any(|detail| {
        matches!(
            detail.get("reason").and_then(Value::as_str),
            Some("API_KEY_INVALID" | "ACCESS_TOKEN_EXPIRED" | "CREDENTIALS_MISSING")
        )
    });
    let kind = if has_invalid_key {
        Some(ModelErrorKind::Unauthorized)
    } else {
        kind_for_error(error)
    };
    ProviderFailure {
        kind,
        message: error.get("message").and_then(Value::as_str),
        retry_after: details.iter().find_map(retry_delay),
        ..ProviderFailure::default()
    }
}

/// Returns the kind of failure for a `google.rpc.Code`.
fn kind_for_error(error: &Value) -> Option<ModelErrorKind> {
    let status = match error.get("status").and_then(Value::as_str) {
        Some("INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE") => 400,
        Some("UNAUTHENTICATED") => 401,
        Some("PERMISSION_DENIED") => 403,
        Some("NOT_FOUND" | "UNIMPLEMENTED") => 404,
        Some("RESOURCE_EXHAUSTED") => 429,
        Some("INTERNAL" | "UNKNOWN" | "ABORTED" | "DATA_LOSS") => 500,
        Some("UNAVAILABLE") => 503,
        Some("DEADLINE_EXCEEDED" | "CANCELLED") => 504,
        _ => u16::try_from(error.get("code")?.as_u64()?).ok()?,
    };
    Some(kind_for_status(status))
}

/// Reads the delay of a `google.rpc.RetryInfo`: seconds with a fraction, such as `47.5s`.
fn retry_delay(detail: &Value) -> Option<Duration> {
    let seconds: f64 = detail
        .get("retryDelay")?
        .as_str()?
        .strip_suffix('s')?
        .parse()
        .ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
