//! Packs: extensions that combine tools, resources and event streams.
//!
//! A [`Pack`] provides its contents; [`Packs`] combines several packs. The sidecar runs a pack's
//! tools like any other tools, serves its resources on the MCP endpoint, notifies subscribers of
//! changes, and sends its streams as server-sent events. Operators can list and remove the items
//! that a pack stores.
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
//!         let tool = definition.map(|definition| Arc::new(FnTool::new(definition, ring)) as _);
//!         tool.into_iter().collect()
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
mod packs;
mod resource;
mod stored_items;
mod stream;

use std::sync::Arc;

pub use changes::{ChangeListener, ResourceChange, ResourceChanges};
pub use counters::Counters;
pub use packs::{PackContents, PackError, Packs};
pub use resource::{
    Resource, ResourceBody, ResourceContents, ResourceError, ResourceProvider, ResourceReader,
    ResourceTemplate, split_query,
};
pub use stored_items::{StoredItem, StoredItems};
pub use stream::{EventStream, StreamEvent, StreamListener, StreamMessage};

use crate::tool::Tool;

/// Tools, resources and event streams that belong together. A caller that may use none of the
/// pack's tools does not see the pack's resources and streams either. The methods are called once
/// when the pack is added.
pub trait Pack: Send + Sync {
    /// Returns the pack's name: lower-case letters, digits and `_`, beginning with a letter.
    fn name(&self) -> &str;

    /// Returns the tools, which the caller registers.
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// Returns the resource providers, in addition to the streams.
    fn resources(&self) -> Vec<Arc<dyn ResourceProvider>> {
        Vec::new()
    }

    /// Returns the event streams; each is also a resource.
    fn streams(&self) -> Vec<Arc<EventStream>> {
        Vec::new()
    }

    /// Returns the counters for statistics, if any.
    fn counters(&self) -> Option<Arc<Counters>> {
        None
    }

    /// Returns the kinds of stored items, for operators.
    fn stored_items(&self) -> Vec<Arc<dyn StoredItems>> {
        Vec::new()
    }
}
