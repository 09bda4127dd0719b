use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{CallContext, PausableClock, ToolCall, ToolOrigin, ToolResult};
use crate::call_id::CallId;

/// The return type of [`NestedCallRunner::run`].
pub type NestedCallFuture = Pin<Box<dyn Future<Output = ToolResult> + Send>>;

/// Runs the nested calls of a tool; implemented by the executor.
pub trait NestedCallRunner: Send + Sync + 'static {
    /// Runs one call through the whole pipeline, on behalf of the caller in `context`. With
    /// `is_granted`, the caller itself need not be allowed to use the tool.
    fn run(&self, call: ToolCall, context: CallContext, is_granted: bool) -> NestedCallFuture;
}

/// Allows a running tool to call other tools as part of its own call: on behalf of the same caller,
/// within the same deadline, and as children of that call in the call log.
#[derive(Clone)]
pub struct NestedCallHandle(Arc<dyn NestedCallRunner>);

impl NestedCallHandle {
    /// Creates a handle that runs calls with `runner`.
    pub fn new(runner: impl NestedCallRunner) -> Self {
        Self(Arc::new(runner))
    }

    /// Runs one call; see [`NestedCallRunner::run`]. Dropping the future cancels the call.
    pub async fn run(&self, call: ToolCall, context: CallContext, is_granted: bool) -> ToolResult {
        self.0.run(call, context, is_granted).await
    }
}

/// Two handles are equal if one is a clone of the other.
impl PartialEq for NestedCallHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for NestedCallHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NestedCallHandle")
    }
}

/// The nesting of a call that another call made: its parent, its depth in the tree of calls, and
/// the state that all calls of the tree share.
#[derive(Debug, Clone)]
pub struct Nesting {
    /// The ID of the parent call in the call log.
    pub parent: Option<CallId>,
    /// Number of ancestors of this call.
    pub depth: usize,
    /// Whether the nested call may use a tool that its caller may not call directly.
    pub is_granted: bool,
    /// Number of nested calls that the outermost call has made, at all levels.
    call_count: Arc<AtomicUsize>,
    /// The pausable clocks of all ancestors of this call.
    ancestor_clocks: Vec<Arc<PausableClock>>,
}

impl Nesting {
    /// Maximum nesting depth of calls, for example of composed tools that call each other.
    pub const MAX_DEPTH: usize = 8;

    /// Maximum number of nested calls of one outermost call, at all levels.
    pub const MAX_CALLS: usize = 256;

    /// Creates the nesting of the calls that the call `parent` makes. `parent_nesting` is the
    /// nesting of `parent`, or `None` if no other call made `parent`. `clock` is the clock that
    /// measures the deadline of `parent`.
    pub(crate) fn for_calls_of(
        parent: Option<CallId>,
        clock: Arc<PausableClock>,
        parent_nesting: Option<&Self>,
    ) -> Self {
        let mut nesting = parent_nesting.cloned().unwrap_or_else(|| Self {
            parent: None,
            depth: 0,
            is_granted: false,
            call_count: Arc::default(),
            ancestor_clocks: Vec::new(),
        });
        nesting.parent = parent;
        nesting.depth += 1;
        nesting.is_granted = false;
        nesting.ancestor_clocks.push(clock);
        nesting
    }

    /// Returns the clocks of all ancestors of this call, which are paused while this call waits for
    /// a person.
    pub(crate) fn ancestor_clocks(&self) -> &[Arc<PausableClock>] {
        &self.ancestor_clocks
    }

    /// Counts this call, and returns the number of nested calls of the outermost call, including
    /// this call.
    pub(crate) fn count(&self) -> usize {
        self.call_count.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl PartialEq for Nesting {
    fn eq(&self, other: &Self) -> bool {
        (self.parent, self.depth, self.is_granted) == (other.parent, other.depth, other.is_granted)
            && Arc::ptr_eq(&self.call_count, &other.call_count)
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
    admits: Arc<ToolPredicate>,
}

/// Returns whether a tool may be used, by its registered name and origin.
type ToolPredicate = dyn Fn(&str, &ToolOrigin) -> bool + Send + Sync;

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
