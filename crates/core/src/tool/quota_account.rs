/// The account to which a call belongs for the turns in the queue, the rate limits and the number
/// of pending approvals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaAccount {
    /// A verified user, or the unverified user that the call names if no principal was
    /// authenticated. Empty for a call with neither user nor principal.
    User(String),
    /// An authenticated principal whose call names no user or an unverified user. All such calls of
    /// the principal count together, whichever users the calls claim.
    Principal(String),
}

impl QuotaAccount {
    /// Returns the account of a call with this user and principal.
    ///
    /// ```
    /// use pillion_core::tool::QuotaAccount;
    /// let token = QuotaAccount::Principal("token:a".to_owned());
    /// assert_eq!(QuotaAccount::new(Some("alice"), false, Some("token:a")), token);
    /// let alice = QuotaAccount::User("alice".to_owned());
    /// assert_eq!(QuotaAccount::new(Some("alice"), true, Some("token:a")), alice);
    /// ```
    #[must_use]
    pub fn new(user: Option<&str>, is_user_verified: bool, principal: Option<&str>) -> Self {
        match (user.filter(|_| is_user_verified), principal) {
            (None, Some(principal)) => Self::Principal(principal.to_owned()),
            (Some(user), _) => Self::User(user.to_owned()),
            (None, None) => Self::User(user.unwrap_or_default().to_owned()),
        }
    }
}
