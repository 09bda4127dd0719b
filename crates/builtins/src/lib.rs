//! Pillion's built-in tools: [`calculator`], [`get_time`] and [`roll_dice`], which need no service;
//! [`get_weather`] and [`web_search`], which use the network; and [`memory`], which uses a store.
//!
//! Each tool implements [`Tool`] for the registry of `pillion-core`. The first three tools are also
//! available as plain functions or types. Invalid input is an error with the code `invalid_input`;
//! no input makes a tool panic, hang or use unlimited memory.
//!
//! ```
//! use pillion_core::registry::ToolRegistry;
//!
//! let registry = ToolRegistry::new();
//! let added = registry.register_missing(pillion_builtins::all())?;
//! let names: Vec<_> = added.iter().map(|name| name.as_str()).collect();
//! assert_eq!(names, ["calculator", "get_time", "roll_dice"]);
//! # Ok::<(), pillion_core::registry::RegistryError>(())
//! ```

use std::sync::Arc;

use pillion_core::tool::Tool;

mod aliases;
mod arguments;
pub mod calculator;
mod excerpt;
pub mod get_time;
pub mod get_weather;
pub mod memory;
mod plain_text;
pub mod roll_dice;
mod service;
pub mod web_search;

pub use aliases::{ALIASES, set_aliases};
pub use calculator::Calculator;
pub use excerpt::Excerpt;
pub use get_time::GetTime;
pub use get_weather::{GetWeather, WeatherSettings};
pub use roll_dice::RollDice;
pub use web_search::{SearchSettings, WebSearch};

/// Returns the default tools with their default settings, in listing order. The default tools are
/// those that need nothing outside this process. To use other settings, such as [`GetTime::new`]
/// with another time zone, replace the default tool with `replace` of the registry.
#[must_use]
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Calculator::default()),
        Arc::new(GetTime::default()),
        Arc::new(RollDice::default()),
    ]
}
