/// Why the declaration of a composed tool is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct ComposeError {
    /// The location in the declaration, such as `steps[1].parallel[0].arguments`; the name of a
    /// tool if several declarations are checked.
    pub path: String,
    /// What is wrong with the declaration at `path`.
    pub reason: String,
}

impl ComposeError {
    pub(super) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            reason: reason.into(),
        }
    }
}
