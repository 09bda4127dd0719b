//! Tools for the game master of a tabletop role-playing game: ability checks, validated narration
//! by a language model, characters, and transcripts of scenes. The pack also provides resources and
//! event streams.
//!
//! The crate is also an example of a pack, which uses only public interfaces of `pillion-core` and
//! `pillion-chat`. docs/how-to/write-a-pack.md explains how to write a pack.
//!
//! Every caller with access to the pack can read and write every scene, because the players at a
//! table share their scenes.

mod arguments;
mod check;
mod dice;
mod failure;
mod orchestrator;
mod resources;
mod scenes;
mod stored_items;
mod telemetry;
mod timestamp;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use pillion_chat::LanguageModel;
use pillion_core::pack::{Counters, EventStream, Pack, ResourceProvider, StoredItems};
use pillion_core::store::PackStore;
use pillion_core::tool::Tool;

pub use check::{Ability, Check, CheckResult};
pub use dice::D20;

use orchestrator::{Orchestrator, OrchestratorSettings};
use resources::TableResources;
use scenes::{SceneLimits, Scenes};
use telemetry::TabletopTelemetry;

/// Maximum of [`TabletopOptions::max_characters`]. Lists of characters are not divided into pages,
/// so each list contains all characters.
pub const MAX_CHARACTERS: u32 = 1_000;

/// The operator's options of the pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabletopOptions {
    /// Whether an action may be `public`, which adds its narration to the scene's transcript
    /// (`features.llm_visible`). Otherwise all actions are `shadow`: only the caller sees their
    /// narration.
    pub may_be_public: bool,
    /// Timeout of one response of the language model.
    pub model_timeout: Duration,
    /// Maximum number of messages per scene. The oldest messages are removed.
    pub max_messages: u32,
    /// Maximum number of scenes. Further scenes are rejected (`denied`).
    pub max_scenes: u32,
    /// Maximum number of characters, at most [`MAX_CHARACTERS`]. Further characters are rejected
    /// (`denied`).
    pub max_characters: u32,
}

impl Default for TabletopOptions {
    fn default() -> Self {
        Self {
            may_be_public: false,
            model_timeout: Duration::from_secs(25),
            max_messages: 1_000,
            max_scenes: 500,
            max_characters: 500,
        }
    }
}

/// The pack: tools, resources, event streams and stored items over one set of scenes.
pub struct Tabletop {
    scenes: Arc<Scenes>,
    telemetry: Arc<TabletopTelemetry>,
    orchestrator: Arc<Orchestrator>,
}

impl Tabletop {
    /// The name of the pack, under which its data is stored.
    pub const NAME: &'static str = "tabletop";

    /// Creates the pack. Without a model, `orchestrate_action` rejects all actions
    /// (`llm_unconfigured`).
    #[must_use]
    pub fn new(
        store: Arc<dyn PackStore>,
        model: Option<Arc<dyn LanguageModel>>,
        options: TabletopOptions,
    ) -> Self {
        let telemetry = Arc::new(TabletopTelemetry::default());
        let limits = SceneLimits::from_options(&options);
        let scenes = Arc::new(Scenes::new(store, Arc::clone(&telemetry), limits));
        let settings = OrchestratorSettings { model, options };
        let orchestrator = Orchestrator::new(settings, Arc::clone(&scenes), Arc::clone(&telemetry));
        Self {
            scenes,
            telemetry,
            orchestrator: Arc::new(orchestrator),
        }
    }

    /// Replaces the model and the options for later actions. Keeps the streams and counters.
    pub fn reconfigure(&self, model: Option<Arc<dyn LanguageModel>>, options: TabletopOptions) {
        self.scenes.reconfigure(SceneLimits::from_options(&options));
        self.orchestrator
            .reconfigure(OrchestratorSettings { model, options });
    }
}

impl Pack for Tabletop {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        tools::create_tools(&self.scenes, &self.orchestrator)
    }

    fn resources(&self) -> Vec<Arc<dyn ResourceProvider>> {
        let (scenes, telemetry) = (Arc::clone(&self.scenes), Arc::clone(&self.telemetry));
        vec![Arc::new(TableResources::new(scenes, telemetry))]
    }

    fn streams(&self) -> Vec<Arc<EventStream>> {
        self.telemetry.streams()
    }

    fn counters(&self) -> Option<Arc<Counters>> {
        Some(Arc::clone(self.telemetry.counters()))
    }

    fn stored_items(&self) -> Vec<Arc<dyn StoredItems>> {
        stored_items::create_stored_items(&self.scenes, &self.orchestrator)
    }
}
