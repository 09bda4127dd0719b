//! Tools for a game master at the table: ability checks (requirement D8), narration by a language
//! model behind gates (D9), characters (D10) and transcripts of scenes (D11); with the resources
//! and event streams that belong to them (K1, K2).
//!
//! It is an example as well: everything here goes through what `pillion-core` and `pillion-chat`
//! offer to anybody. docs/PACKS.md leads through it.
//!
//! Whoever may use the pack may read and write every scene: those at one table share what happens
//! there.

mod arguments;
mod check;
mod dice;
mod keeping;
mod orchestrator;
mod resources;
mod scenes;
mod telling;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use pillion_chat::LanguageModel;
use pillion_core::pack::{Counters, EventStream, Keeping, Pack, ResourceProvider};
use pillion_core::store::PackStore;
use pillion_core::tool::Tool;

pub use check::{Ability, Check, CheckResult};
pub use dice::D20;

use orchestrator::{Orchestrator, Settings};
use resources::TableResources;
use scenes::{Room, Scenes};
use telling::Telling;

/// The most characters that there may be; a list of them has as many.
pub const MOST_CHARACTERS: u32 = 1_000;

/// How the pack works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabletopOptions {
    /// Whether an action may be made `public`, which writes what came of it into the scene's
    /// transcript (`features.llm_visible` of requirement N2). Otherwise it stays `shadow`: its
    /// caller alone sees it.
    pub may_be_public: bool,
    /// How long the language model may take for one answer.
    pub model_timeout: Duration,
    /// The messages of a scene that are kept: the oldest make way for new ones.
    pub max_messages: u32,
    /// The scenes that there may be: no other begins (`denied`) until one is removed.
    pub max_scenes: u32,
    /// The characters that there may be, [`MOST_CHARACTERS`] at most: no other comes to the table
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

/// The pack.
pub struct Tabletop {
    scenes: Arc<Scenes>,
    telling: Arc<Telling>,
    orchestrator: Arc<Orchestrator>,
}

impl Tabletop {
    /// Its name, and what its records in the store go by.
    pub const NAME: &'static str = "tabletop";

    /// The pack over a store. Without a model, `orchestrate_action` accepts nothing
    /// (`llm_unconfigured`).
    #[must_use]
    pub fn new(
        store: Arc<dyn PackStore>,
        model: Option<Arc<dyn LanguageModel>>,
        options: TabletopOptions,
    ) -> Self {
        let telling = Arc::new(Telling::default());
        let scenes = Scenes::new(store, Arc::clone(&telling), Room::of(&options));
        let scenes = Arc::new(scenes);
        let settings = Settings { model, options };
        let orchestrator = Orchestrator::new(settings, Arc::clone(&scenes), Arc::clone(&telling));
        Self {
            scenes,
            telling,
            orchestrator: Arc::new(orchestrator),
        }
    }

    /// Another model and other options are in force: actions that come from now on have them.
    /// Streams and counters go on.
    pub fn reconfigure(&self, model: Option<Arc<dyn LanguageModel>>, options: TabletopOptions) {
        self.scenes.reconfigure(Room::of(&options));
        self.orchestrator.reconfigure(Settings { model, options });
    }
}

impl Pack for Tabletop {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        tools::all(&self.scenes, &self.orchestrator)
    }

    fn resources(&self) -> Vec<Arc<dyn ResourceProvider>> {
        let (scenes, telling) = (Arc::clone(&self.scenes), Arc::clone(&self.telling));
        vec![Arc::new(TableResources::new(scenes, telling))]
    }

    fn streams(&self) -> Vec<Arc<EventStream>> {
        self.telling.streams()
    }

    fn counters(&self) -> Option<Arc<Counters>> {
        Some(Arc::clone(self.telling.counters()))
    }

    fn keeps(&self) -> Vec<Arc<dyn Keeping>> {
        keeping::all(&self.scenes, &self.orchestrator)
    }
}
