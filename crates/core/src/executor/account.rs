use crate::tool::CallContext;

/// The account whose queue turns and rate limits a call counts toward.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaAccount {
    /// A user: a verified user, or the user that the call names if no principal was authenticated.
    User(String),
    /// An authenticated principal whose call names no user or an unverified user. All such calls of
    /// the principal count together, whichever users the calls claim.
    Principal(String),
}

impl QuotaAccount {
    /// Returns the account of a call.
    pub(super) fn of(context: &CallContext) -> Self {
        match (context.verified_user(), &context.principal) {
            (None, Some(principal)) => Self::Principal(principal.clone()),
            (Some(user), _) => Self::User(user.to_owned()),
            (None, None) => Self::User(context.user.clone().unwrap_or_default()),
        }
    }
}
