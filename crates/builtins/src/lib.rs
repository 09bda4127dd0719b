//! The tools that Pillion brings along: [`calculator`] (requirement D1), [`get_time`] (D2)
//! and [`roll_dice`] (D3).
//!
//! Each is a [`Tool`] for the registry of `pillion-core`, and each has its work as a plain
//! function or type as well. Bad input of any kind is an error of code `invalid_input`; no
//! input makes a tool panic, hang or take memory without bound.
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

pub mod calculator;
mod excerpt;
pub mod get_time;
pub mod roll_dice;

pub use calculator::Calculator;
pub use excerpt::Excerpt;
pub use get_time::GetTime;
pub use roll_dice::RollDice;

/// The default tools with their default settings, in the order in which they are listed.
/// A tool with other settings, such as [`GetTime::new`] with another time zone, takes the
/// place of its default in the registry with `replace`.
#[must_use]
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Calculator::default()),
        Arc::new(GetTime::default()),
        Arc::new(RollDice::default()),
    ]
}
