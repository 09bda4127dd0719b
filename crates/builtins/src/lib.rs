//! The tools that Pillion brings along. Without any service: [`calculator`] (requirement D1),
//! [`get_time`] (D2) and [`roll_dice`] (D3). Over the network: [`get_weather`] (D6) and
//! [`web_search`] (D7). Over a store: [`memory`] (D5).
//!
//! Each is a [`Tool`] for the registry of `pillion-core`, and each of the first three has its
//! work as a plain function or type as well. Bad input of any kind is an error of code
//! `invalid_input`; no input makes a tool panic, hang or take memory without bound.
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

/// The default tools with their default settings, in the order in which they are listed: those
/// that need nothing but this process (L2). A tool with other settings, such as
/// [`GetTime::new`] with another time zone, takes the place of its default in the registry with
/// `replace`.
#[must_use]
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Calculator::default()),
        Arc::new(GetTime::default()),
        Arc::new(RollDice::default()),
    ]
}
