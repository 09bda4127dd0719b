//! What is remembered of a conversation (requirement D5): `search_memory`, `remember` and
//! `forget`, over a [`MemoryStore`].
//!
//! A memory belongs to the channel that a call comes from, and to its user or, `shared`, to
//! everybody in the channel. A call finds and forgets the memories of its own user and the shared
//! ones of its channel, and no others. Whose call it is nobody may merely claim: it has to be
//! vouched for.

mod forget;
mod place;
mod remember;
mod search;

use std::sync::Arc;

use pillion_core::store::{MemoryStore, StoreError};
use pillion_core::tool::{ErrorCode, Tool, ToolFailure};

pub use forget::Forget;
use place::Place;
pub use remember::Remember;
pub use search::SearchMemory;

/// The longest memory, in characters.
const LONGEST: usize = 2000;

/// How many memories there may be of one user in one channel, and as many shared ones of the
/// channel: so many are read by a search at most.
const MOST: u32 = 10_000;

/// The three tools over a store, in the order in which they are listed.
#[must_use]
pub fn memory(store: &Arc<dyn MemoryStore>) -> [Arc<dyn Tool>; 3] {
    [
        Arc::new(SearchMemory::new(Arc::clone(store))),
        Arc::new(Remember::new(Arc::clone(store))),
        Arc::new(Forget::new(Arc::clone(store))),
    ]
}

/// What a call ends with where the store fails. What it says of itself is for the log.
fn unavailable(error: &StoreError) -> ToolFailure {
    tracing::warn!(%error, "The memories cannot be reached");
    ToolFailure::new(ErrorCode::Unavailable, "The memories cannot be reached")
}

/// Text fit to be kept: without characters that no database takes or nobody sees.
fn kept(text: &str) -> String {
    let kept = text
        .chars()
        .filter(|char| !char.is_control() || matches!(char, '\n' | '\t'));
    kept.collect::<String>().trim().to_owned()
}
