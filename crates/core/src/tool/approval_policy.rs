use serde::{Deserialize, Serialize};

/// Determines whether a call needs approval. The policies are ordered from least to most strict.
/// The values of server configurations are accepted, too: `never` means `auto`; `always` and
/// `prompt` mean `always-ask`.
///
/// ```
/// use pillion_core::tool::ApprovalPolicy;
/// let policy: ApprovalPolicy = serde_json::from_str("\"prompt\"").unwrap();
/// assert_eq!(policy, ApprovalPolicy::AlwaysAsk);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Calls never need approval.
    #[default]
    #[serde(alias = "never")]
    Auto,
    /// Calls need approval unless the tool is
    /// [trusted](crate::executor::ApprovalRules::trusted_tools).
    TrustedOnly,
    /// Calls always need approval.
    #[serde(alias = "always", alias = "prompt")]
    AlwaysAsk,
}
