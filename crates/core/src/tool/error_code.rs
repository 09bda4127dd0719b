use serde::{Deserialize, Serialize};

/// Why a call failed, as a fixed set that is the same at every surface (requirement C5).
///
/// ```
/// use pillion_core::tool::ErrorCode;
/// assert_eq!(ErrorCode::RateLimited.as_str(), "rate_limited");
/// assert_eq!(serde_json::to_string(&ErrorCode::NotFound).unwrap(), "\"not_found\"");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorCode {
    /// The arguments, the request or its JSON are wrong; sending it again cannot help.
    InvalidInput,
    /// No tool, or nothing else, has that name.
    NotFound,
    /// A cooldown or a rate limit; `retry_after` says when to come back.
    RateLimited,
    /// The deadline passed first.
    Timeout,
    /// Somebody has to approve the call before it runs.
    ApprovalRequired,
    /// Somebody, or a policy, said no.
    Denied,
    /// The tool or the server behind it cannot be reached or is not set up.
    Unavailable,
    /// The caller ended the call.
    Cancelled,
    /// The tool failed, or we did.
    InternalError,
}

impl ErrorCode {
    /// The code as it stands in JSON: lower case with underscores.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::NotFound => "not_found",
            Self::RateLimited => "rate_limited",
            Self::Timeout => "timeout",
            Self::ApprovalRequired => "approval_required",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::Cancelled => "cancelled",
            Self::InternalError => "internal_error",
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
