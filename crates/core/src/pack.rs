//! What somebody adds to Pillion beside a single tool: tools, resources and event streams that
//! belong together.
//!
//! A [`Pack`] says what it has; [`Packs`] puts that of several together, for whoever offers it. The
//! sidecar runs a pack's tools like any other, serves its resources as those of its MCP server,
//! tells subscribers what has changed, and sends its streams as server-sent events. Its operator
//! sees what the pack keeps, and removes it.
//!
//! ```
//! use std::sync::Arc;
//! use pillion_core::pack::{EventStream, Pack, Packs};
//! use pillion_core::registry::ToolRegistry;
//! use pillion_core::tool::{FnTool, Tool, ToolDefinition, ToolOutput};
//! use serde_json::json;
//!
//! struct Bell {
//!     rings: Arc<EventStream>,
//! }
//!
//! impl Pack for Bell {
//!     fn name(&self) -> &str {
//!         "bell"
//!     }
//!
//!     fn tools(&self) -> Vec<Arc<dyn Tool>> {
//!         let definition = ToolDefinition::builder("ring", "Rings the bell").build();
//!         let rings = Arc::clone(&self.rings);
//!         let ring = move |_arguments, _context| {
//!             rings.emit("ring", None, &json!({"type": "ring"}));
//!             async { Ok(ToolOutput::text("Dong")) }
//!         };
//!         definition.map(|definition| Arc::new(FnTool::new(definition, ring)) as _).into_iter().collect()
//!     }
//!
//!     fn streams(&self) -> Vec<Arc<EventStream>> {
//!         vec![Arc::clone(&self.rings)]
//!     }
//! }
//!
//! let registry = ToolRegistry::new();
//! let mut packs = Packs::default();
//! let rings = EventStream::new("bell", "events://bell", "Each ring of the bell");
//! packs.add(&Bell { rings: Arc::new(rings) }, &registry)?;
//! assert!(registry.contains("ring"));
//! assert!(packs.provider_of("events://bell").is_some());
//! # Ok::<(), pillion_core::pack::PackError>(())
//! ```

mod changes;
mod counters;
mod keeping;
mod packs;
mod resource;
mod stream;

use std::sync::Arc;

pub use changes::{ChangeListener, ResourceChange, ResourceChanges};
pub use counters::Counters;
pub use keeping::{Keeping, Kept};
pub use packs::{PackContents, PackError, Packs};
pub use resource::{
    Reader, Resource, ResourceBody, ResourceContents, ResourceError, ResourceProvider,
    ResourceTemplate, without_query,
};
pub use stream::{EventStream, Heard, StreamEvent, StreamListener};

use crate::tool::Tool;

/// Tools, resources and event streams that belong together: who may use none of its tools is not
/// shown its resources and streams either. It is asked once, each time it is added.
pub trait Pack: Send + Sync {
    /// Its name: small letters, digits and `_`, beginning with a letter.
    fn name(&self) -> &str;

    /// Its tools.
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// Whatever has its resources.
    fn resources(&self) -> Vec<Arc<dyn ResourceProvider>> {
        Vec::new()
    }

    /// Its event streams; each is a resource as well.
    fn streams(&self) -> Vec<Arc<EventStream>> {
        Vec::new()
    }

    /// What it counts, for statistics.
    fn counters(&self) -> Option<Arc<Counters>> {
        None
    }

    /// What it keeps, by kind, for the operator.
    fn keeps(&self) -> Vec<Arc<dyn Keeping>> {
        Vec::new()
    }
}
