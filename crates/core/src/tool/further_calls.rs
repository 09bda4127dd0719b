use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{CallContext, Patience, Pause, ToolCall, ToolOrigin, ToolResult};
use crate::store::CallId;

/// What [`MakesCalls::make`] returns.
pub type FurtherCallFuture = Pin<Box<dyn Future<Output = ToolResult> + Send>>;

/// Takes the calls of a tool that is made of other tools; the executor does.
pub trait MakesCalls: Send + Sync + 'static {
    /// Makes one call, through everything that any other call goes through, in the name that
    /// `context` says. `is_lent`: also if the caller itself may not use the tool.
    fn make(&self, call: ToolCall, context: CallContext, is_lent: bool) -> FurtherCallFuture;
}

/// The way for a running tool to call others, as part of its own call: in its caller's name,
/// within its deadline, below it in the call log.
#[derive(Clone)]
pub struct FurtherCalls(Arc<dyn MakesCalls>);

impl FurtherCalls {
    /// Calls that `maker` takes.
    pub fn new(maker: impl MakesCalls) -> Self {
        Self(Arc::new(maker))
    }

    /// Makes one call; see [`MakesCalls::make`]. Dropping the future cancels it.
    pub async fn make(&self, call: ToolCall, context: CallContext, is_lent: bool) -> ToolResult {
        self.0.make(call, context, is_lent).await
    }
}

/// Two are equal if they are one.
impl PartialEq for FurtherCalls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for FurtherCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FurtherCalls")
    }
}

/// Where a call stands that another call has made.
#[derive(Debug, Clone)]
pub struct Nesting {
    /// The call that made it, in the call log.
    pub parent: Option<CallId>,
    /// How many calls stand above it.
    pub depth: usize,
    /// Whether it may be a call of a tool that its caller may not use.
    pub is_lent: bool,
    /// How many calls the outermost one has made so far, all together.
    made: Arc<AtomicUsize>,
    /// The time of each call above it.
    above: Vec<Arc<Patience>>,
}

impl Nesting {
    /// How many calls may stand above a call: composed tools in each other, say.
    pub const DEEPEST: usize = 8;

    /// How many calls one call may make, with all those that these make.
    pub const MOST_CALLS: usize = 256;

    /// Of all calls that the call `parent` makes, which has this time, and stands at `above`
    /// itself or is an outermost one.
    pub(crate) fn below(parent: Option<CallId>, time: Arc<Patience>, above: Option<&Self>) -> Self {
        let mut nesting = above.cloned().unwrap_or_else(|| Self {
            parent: None,
            depth: 0,
            is_lent: false,
            made: Arc::default(),
            above: Vec::new(),
        });
        nesting.parent = parent;
        nesting.depth += 1;
        nesting.is_lent = false;
        nesting.above.push(time);
        nesting
    }

    /// Stops the time of all calls above this one, which waits for a person.
    pub(crate) fn pause(&self) -> Vec<Pause> {
        self.above.iter().map(Patience::pause).collect()
    }

    /// Counts this call; how many there are with it.
    pub(crate) fn count(&self) -> usize {
        self.made.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl PartialEq for Nesting {
    fn eq(&self, other: &Self) -> bool {
        (self.parent, self.depth, self.is_lent) == (other.parent, other.depth, other.is_lent)
            && Arc::ptr_eq(&self.made, &other.made)
    }
}

/// Which tools a caller may use.
///
/// ```
/// use pillion_core::tool::{ToolFilter, ToolOrigin};
/// let filter = ToolFilter::new("get_*", |name, _origin| name.starts_with("get_"));
/// assert!(filter.admits("get_time", &ToolOrigin::Native));
/// assert!(!filter.admits("calculator", &ToolOrigin::Native));
/// ```
#[derive(Clone)]
pub struct ToolFilter {
    fingerprint: Arc<str>,
    admits: Arc<Admits>,
}

/// Whether a tool may be used, by the name that it is registered under.
type Admits = dyn Fn(&str, &ToolOrigin) -> bool + Send + Sync;

impl ToolFilter {
    /// The tools for which `admits` says yes. `fingerprint` is a text that filters alone have in
    /// common which admit the same: what one caller's calls came to is not told to a caller of
    /// another fingerprint, whatever becomes of the process.
    pub fn new(
        fingerprint: impl Into<Arc<str>>,
        admits: impl Fn(&str, &ToolOrigin) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            fingerprint: fingerprint.into(),
            admits: Arc::new(admits),
        }
    }

    /// Whether the tool of that name and origin is one of them.
    #[must_use]
    pub fn admits(&self, name: &str, origin: &ToolOrigin) -> bool {
        (self.admits)(name, origin)
    }

    /// What stands for all that it admits.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// Two are equal that have one fingerprint.
impl PartialEq for ToolFilter {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl fmt::Debug for ToolFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolFilter")
            .field(&self.fingerprint)
            .finish()
    }
}
