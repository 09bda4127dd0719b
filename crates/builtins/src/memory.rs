//! Tools that remember facts across conversations: `search_memory`, `remember` and `forget`, over a
//! [`MemoryStore`].
//!
//! A memory belongs to the channel of the call that created it, and to the call's user or, if
//! `shared`, to all users of the channel. A call can find and forget only its own user's memories
//! and the shared memories of its channel. The user must be verified: an unverified user name is
//! rejected.

mod forget;
mod remember;
mod scope;
mod search;

use std::sync::Arc;

use pillion_core::store::{MemoryStore, StoreError};
use pillion_core::tool::{ErrorCode, Tool, ToolFailure};

pub use forget::Forget;
pub use remember::Remember;
use scope::MemoryScope;
pub use search::SearchMemory;

/// Maximum length of a memory, in characters.
const MAX_CONTENT_CHARS: usize = 2000;

/// Maximum number of memories of one user in one channel, and of shared memories of one channel.
/// This also limits how many memories a search reads.
const MAX_MEMORIES: u32 = 10_000;

/// Returns the three tools over a store, in listing order.
#[must_use]
pub fn memory(store: &Arc<dyn MemoryStore>) -> [Arc<dyn Tool>; 3] {
    [
        Arc::new(SearchMemory::new(Arc::clone(store))),
        Arc::new(Remember::new(Arc::clone(store))),
        Arc::new(Forget::new(Arc::clone(store))),
    ]
}

/// Returns the failure of a call if the store fails. Details are only logged.
fn unavailable(error: &StoreError) -> ToolFailure {
    tracing::warn!(%error, "The store of the memories is unavailable");
    ToolFailure::new(
        ErrorCode::Unavailable,
        "The store of the memories is unavailable",
    )
}

/// Removes characters that databases cannot store or that are invisible.
fn sanitize(text: &str) -> String {
    let chars = text
        .chars()
        .filter(|char| !char.is_control() || matches!(char, '\n' | '\t'));
    chars.collect::<String>().trim().to_owned()
}
