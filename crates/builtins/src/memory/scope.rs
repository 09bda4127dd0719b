use pillion_core::tool::{
    ActingIdentity, ActingIdentityFuture, CallContext, ErrorCode, ToolFailure,
};
use serde_json::json;

/// The channel and user whose memories a call uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemoryScope {
    /// The channel; empty for calls without a channel.
    pub(super) channel: String,
    /// The user; `None` for calls without a user, which only use shared memories.
    pub(super) user: Option<String>,
}

impl MemoryScope {
    /// Returns the channel and the user whose memories a call may use.
    ///
    /// # Errors
    /// `denied` if the user is not verified.
    pub(super) fn from_context(context: &CallContext) -> Result<Self, ToolFailure> {
        if let Some(user) = &context.user
            && context.verified_user().is_none()
        {
            return Err(ToolFailure::new(
                ErrorCode::Denied,
                format!(
                    "The caller may not use the memories of '{user}': the user is not verified"
                ),
            ));
        }
        Ok(Self {
            channel: context.channel.clone().unwrap_or_default(),
            user: context.verified_user().map(str::to_owned),
        })
    }

    /// Returns the acting identity of a call, so that its result is cached only for the same
    /// channel and user.
    pub(super) fn acting_identity(context: &CallContext) -> ActingIdentityFuture {
        let scope_result = Self::from_context(context);
        Box::pin(async move {
            let scope = scope_result?;
            let identity = json!([scope.channel, scope.user]).to_string();
            let credential = identity.clone();
            Ok(ActingIdentity::new(identity, credential))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d5_a_claimed_user_has_no_memories() {
        let unverified_context = CallContext::for_user("alice");
        assert_eq!(
            MemoryScope::from_context(&unverified_context)
                .unwrap_err()
                .code,
            ErrorCode::Denied
        );
        let verified_context = CallContext {
            is_user_verified: true,
            channel: Some("table".to_owned()),
            ..unverified_context
        };
        let scope = MemoryScope::from_context(&verified_context).unwrap();
        assert_eq!(
            (scope.channel.as_str(), scope.user.as_deref()),
            ("table", Some("alice"))
        );
        let anonymous_scope = MemoryScope::from_context(&CallContext::default()).unwrap();
        assert_eq!(
            (anonymous_scope.channel.as_str(), anonymous_scope.user),
            ("", None)
        );
    }
}
