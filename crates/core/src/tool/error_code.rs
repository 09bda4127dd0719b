use serde::{Deserialize, Serialize};

/// Why a call failed: a fixed set of codes, the same in all interfaces.
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
    /// The arguments, the request or its JSON are invalid; repeating the call unchanged fails
    /// again.
    InvalidInput,
    /// No tool, or other object, has the requested name.
    NotFound,
    /// A cooldown or rate limit applies; `retry_after` contains the number of seconds to wait.
    RateLimited,
    /// The call exceeded its deadline.
    Timeout,
    /// The call needs an approval before it runs.
    ApprovalRequired,
    /// A person or a policy denied the call.
    Denied,
    /// The tool, or the server behind it, cannot be reached or is not set up.
    Unavailable,
    /// The caller cancelled the call.
    Cancelled,
    /// The call failed because of an error in the tool or in Pillion.
    InternalError,
}

impl ErrorCode {
    /// Returns the code's name in JSON, in snake case.
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
