//! The built-in tools that call a service over the network.

use std::time::Duration;

/// Default timeout of the tools in [`TOOL_NAMES`].
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Default cache TTL of the tools in [`TOOL_NAMES`]; their cached results are public.
pub(super) const CACHE_TTL: Duration = Duration::from_secs(300);

/// The built-in tools that call a service over the network.
pub(super) const TOOL_NAMES: [&str; 2] = ["get_weather", "web_search"];
