use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{CallContext, PausableClock, ToolCall, ToolOrigin, ToolResult};
use crate::call_id::CallId;

/// The return type of [`NestedCallRunner::make`].
pub type NestedCallFuture = Pin<Box<dyn Future<Output = ToolResult> + Send>>;

/// Runs the nested calls of a tool; implemented by the executor.
pub trait NestedCallRunner: Send + Sync + 'static {
    /// Runs one call through the whole pipeline, on behalf of the caller in `context`. With
    /// `is_granted`, the caller itself need not be allowed to use the tool.
    fn make(&self, call: ToolCall, context: CallContext, is_granted: bool) -> NestedCallFuture;
}

/// Lets a running tool call other tools as part of its own call: on behalf of the same caller,
/// within the same deadline, and as children of its call-log record.
#[derive(Clone)]
pub struct FurtherCalls(Arc<dyn NestedCallRunner>);

impl FurtherCalls {
    /// Creates a handle that runs calls with `maker`.
    pub fn new(maker: impl NestedCallRunner) -> Self {
        Self(Arc::new(maker))
    }

    /// Runs one call; see [`NestedCallRunner::make`]. Dropping the future cancels the call.
    pub async fn make(&self, call: ToolCall, context: CallContext, is_granted: bool) -> ToolResult {
        self.0.make(call, context, is_granted).await
    }
}

/// Two values are equal if one is a clone of the other.
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

/// The position of a nested call.
#[derive(Debug, Clone)]
pub struct Nesting {
    /// The id of the parent call in the call log.
    pub parent: Option<CallId>,
    /// Number of ancestors of this call.
    pub depth: usize,
    /// Whether the call may use a tool that its caller may not use.
    pub is_granted: bool,
    /// Number of nested calls of the outermost call so far, at all levels.
    made: Arc<AtomicUsize>,
    /// The pausable clocks of all ancestors of this call.
    above: Vec<Arc<PausableClock>>,
}

impl Nesting {
    /// Maximum nesting depth of calls, for example of composed tools that call each other.
    pub const MAX_DEPTH: usize = 8;

    /// Maximum number of nested calls of one outermost call, at all levels.
    pub const MAX_CALLS: usize = 256;

    /// Creates the position of the calls that `parent` makes. `time` is the clock of `parent`, and
    /// `above` the position of `parent`, if `parent` is nested.
    pub(crate) fn below(
        parent: Option<CallId>,
        time: Arc<PausableClock>,
        above: Option<&Self>,
    ) -> Self {
        let mut nesting = above.cloned().unwrap_or_else(|| Self {
            parent: None,
            depth: 0,
            is_granted: false,
            made: Arc::default(),
            above: Vec::new(),
        });
        nesting.parent = parent;
        nesting.depth += 1;
        nesting.is_granted = false;
        nesting.above.push(time);
        nesting
    }

    /// Returns the clocks of all ancestors of this call, which are paused while this call waits for
    /// a person.
    pub(crate) fn clocks_above(&self) -> &[Arc<PausableClock>] {
        &self.above
    }

    /// Counts this call, and returns the number of nested calls so far.
    pub(crate) fn count(&self) -> usize {
        self.made.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl PartialEq for Nesting {
    fn eq(&self, other: &Self) -> bool {
        (self.parent, self.depth, self.is_granted) == (other.parent, other.depth, other.is_granted)
            && Arc::ptr_eq(&self.made, &other.made)
    }
}

/// The tools that a caller may use.
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

/// Returns whether a tool may be used, by its registered name and origin.
type Admits = dyn Fn(&str, &ToolOrigin) -> bool + Send + Sync;

impl ToolFilter {
    /// Creates a filter that allows the tools for which `admits` returns `true`. Filters may have
    /// the same `fingerprint` only if they allow the same tools: the fingerprint is part of the
    /// cache key of nested calls, also across restarts.
    pub fn new(
        fingerprint: impl Into<Arc<str>>,
        admits: impl Fn(&str, &ToolOrigin) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            fingerprint: fingerprint.into(),
            admits: Arc::new(admits),
        }
    }

    /// Returns whether the filter allows a tool.
    #[must_use]
    pub fn admits(&self, name: &str, origin: &ToolOrigin) -> bool {
        (self.admits)(name, origin)
    }

    /// Returns the fingerprint of the allowed tools.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// Two filters are equal if they have the same fingerprint.
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
