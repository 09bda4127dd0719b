//! The packs that the configuration asks for.

use std::sync::Arc;

use pillion_chat::LanguageModel;
use pillion_core::pack::{PackError, Packs};
use pillion_core::registry::ToolRegistry;
use pillion_core::store::PackStore;
use pillion_tabletop::Tabletop;

use crate::config::Config;

/// Puts the packs together and registers their tools. `model_of` finds a language model by its name.
///
/// # Errors
/// [`PackError`], as when a tool's name is taken.
pub(crate) fn assemble(
    config: &Config,
    store: Arc<dyn PackStore>,
    registry: &ToolRegistry,
    model_of: impl Fn(&str) -> Option<Arc<dyn LanguageModel>>,
) -> Result<Packs, PackError> {
    let mut packs = Packs::default();
    let section = &config.tabletop;
    if !section.enabled {
        return Ok(packs);
    }
    let wanted = section.model.as_deref().filter(|_| config.features.llm);
    let model = wanted.and_then(|name| {
        let model = model_of(name);
        if model.is_none() {
            tracing::warn!(model = name, "tabletop.model: there is no such model");
        }
        model
    });
    let options = section.options(&config.features);
    packs.add(&Tabletop::new(store, model, options), registry)?;
    Ok(packs)
}

#[cfg(test)]
mod tests;
