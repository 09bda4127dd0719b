use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A link from a tool to the caller, for progress notifications and elicitation. Only the interface
/// that received the call, and the tools written for that interface, know the type of the link's
/// end; the link is opaque to the executor and to other tools.
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
    /// Creates a link. `end` is the object through which a tool reaches the caller.
    pub fn new<T: Any + Send + Sync>(end: T) -> Self {
        Self(Arc::new(end))
    }

    /// Returns the object through which a tool reaches the caller, if the object has the type `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// Two links are equal if one is a clone of the other.
impl PartialEq for Link {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Link {}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}
