//! The packs of the configuration.

use std::sync::Arc;

use pillion_core::pack::Packs;
use pillion_core::store::PackStore;
use pillion_core::tool::Tool;
use pillion_tabletop::Tabletop;

use crate::models::Models;
use pillion_config::Config;

/// The offered packs, and the instances of packs. An instance, with its counters and streams,
/// exists until the process ends, even if the configuration disables its pack.
#[derive(Clone, Default)]
pub struct LoadedPacks {
    /// The packs that are offered.
    pub offered_packs: Packs,
    tabletop: Option<Arc<Tabletop>>,
}

impl LoadedPacks {
    /// Applies a new configuration. Returns the packs, which use `models`, and the tools of the
    /// packs.
    pub fn reload(
        &self,
        config: &Config,
        models: &Models,
        store: Arc<dyn PackStore>,
    ) -> (Self, Vec<Arc<dyn Tool>>) {
        let section = &config.tabletop;
        if !section.enabled {
            let loaded_packs = Self {
                offered_packs: Packs::default(),
                tabletop: self.tabletop.clone(),
            };
            return (loaded_packs, Vec::new());
        }
        let model_name = section.model.as_deref().filter(|_| config.features.llm);
        if model_name.is_none() {
            tracing::info!(
                "The tool orchestrate_action has no model and accepts no actions: set features.llm \
                 and tabletop.model"
            );
        }
        let model = model_name.and_then(|name| {
            let model = models.get(name).map(|model| model.client.clone());
            match model {
                None => tracing::warn!(
                    model = name,
                    "The model that tabletop.model names is not configured: add a [[models]] entry \
                     with this id"
                ),
                Some(Err(error)) => tracing::warn!(
                    model = name, %error,
                    "Cannot use the model that tabletop.model names"
                ),
                Some(Ok(model)) => return Some(model),
            }
            None
        });
        let options = section.options(&config.features);
        let tabletop = match &self.tabletop {
            Some(tabletop) => {
                tabletop.reconfigure(model, options);
                Arc::clone(tabletop)
            }
            None => Arc::new(Tabletop::new(store, model, options)),
        };
        let mut packs = Packs::default();
        let tools = packs.add_without_tools(&*tabletop).unwrap_or_else(|error| {
            tracing::error!(%error, "Cannot register the tools of the pack tabletop");
            Vec::new()
        });
        let loaded_packs = Self {
            offered_packs: packs,
            tabletop: Some(tabletop),
        };
        (loaded_packs, tools)
    }
}

#[cfg(test)]
mod tests;
