/// Why a composed tool cannot be as it was declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct ComposeError {
    /// Where in the declaration, as `steps[1].parallel[0].arguments`; of several declarations
    /// the name of one.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

impl ComposeError {
    pub(super) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
        }
    }
}
