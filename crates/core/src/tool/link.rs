use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The way from a tool back to whoever made the call: to tell them how far it has come, or
/// to ask them something. What it is only the two ends know: the door that made the call
/// and the tools that it has made itself. To the executor, and to any other tool, it says
/// nothing.
///
/// ```
/// use pillion_core::tool::Link;
/// let link = Link::new("session 7");
/// assert_eq!(link.get::<&str>(), Some(&"session 7"));
/// assert_eq!(link.get::<u32>(), None);
/// ```
#[derive(Clone)]
pub struct Link(Arc<dyn Any + Send + Sync>);

impl Link {
    /// A link to `end`.
    pub fn new<T: Any + Send + Sync>(end: T) -> Self {
        Self(Arc::new(end))
    }

    /// The other end, if it is a `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// Two links are equal if they are one.
impl PartialEq for Link {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}
