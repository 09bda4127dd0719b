use std::time::Duration;

/// What a service says is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not take the key, or not for this.
    WrongKey,
    /// Too many requests; how long to wait.
    Limit(Duration),
    /// The request asks for something that it does not do, in its words.
    Input(String),
    /// It is somewhere else.
    Redirect,
    /// Any other status, and what it says.
    Status(u16, String),
}
