use serde::{Deserialize, Serialize};

/// When a call needs approval (G1), the less strict first. The words of server entries are understood too (G2):
/// `never` is `auto`, `always` and `prompt` are `always-ask`.
///
/// ```
/// use pillion_core::tool::ApprovalPolicy;
/// let policy: ApprovalPolicy = serde_json::from_str("\"prompt\"").unwrap();
/// assert_eq!(policy, ApprovalPolicy::AlwaysAsk);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Never.
    #[default]
    #[serde(alias = "never")]
    Auto,
    /// Unless the tool is one of those that are
    /// [trusted](crate::executor::ApprovalRules::trusted_tools).
    TrustedOnly,
    /// Always.
    #[serde(alias = "always", alias = "prompt")]
    AlwaysAsk,
}
