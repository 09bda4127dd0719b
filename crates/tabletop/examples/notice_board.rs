//! A complete example of a pack: a notice board, which an operator can clear, with a tool, a
//! resource, a stream and a counter.
//!
//! `cargo run --package pillion-tabletop --example notice_board`

#![expect(clippy::print_stdout, reason = "it is an example")]

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::pack::{
    ChangeListener, Counters, EventStream, Pack, Packs, Resource, ResourceChange, ResourceChanges,
    ResourceContents, ResourceError, ResourceProvider, ResourceReader, StoredItem, StoredItems,
    StreamMessage,
};
use pillion_core::registry::ToolRegistry;
use pillion_core::store::{LogBounds, PackStore, StoreError, Timestamp};
use pillion_core::tool::{
    CallContext, DefinitionError, FnTool, ParameterType, Tool, ToolCall, ToolDefinition,
    ToolFailure, ToolOutput, ToolParameter,
};
use pillion_store::{SqlStore, StoreLocation, StoreOptions};
use serde_json::{Value, json};

/// Limits the board to the most recent notices.
const BOUNDS: LogBounds = LogBounds {
    max_entries: Some(1_000),
    max_logs: None,
};

const NAME: &str = "notices";
const URI: &str = "notices://board";

/// State shared by the tool and the resource.
struct Board {
    store: Arc<dyn PackStore>,
    changes: ResourceChanges,
    posted: Arc<EventStream>,
    counters: Arc<Counters>,
}

impl Board {
    async fn post(&self, text: &str, context: &CallContext) -> Result<u64, StoreError> {
        let json = json!(text).to_string();
        let entry = self
            .store
            .append_entry(NAME, "board", &json, Timestamp::now(), BOUNDS);
        let number = entry.await?.number;
        self.counters.add("notice.posted");
        let event = json!({"type": "posted", "number": number});
        self.posted.emit("posted", context.verified_user(), &event);
        self.changes.notify_updated(URI);
        Ok(number)
    }
}

/// The notice board as a resource.
struct BoardResource(Arc<Board>);

#[async_trait]
impl ResourceProvider for BoardResource {
    fn owns(&self, uri: &str) -> bool {
        uri == URI
    }

    async fn list(&self, _reader: ResourceReader<'_>) -> Result<Vec<Resource>, ResourceError> {
        let resource = Resource::new(URI, "board").describe("The last ten notices");
        Ok(vec![resource.with_json_type()])
    }

    async fn read(
        &self,
        _uri: &str,
        _reader: ResourceReader<'_>,
    ) -> Result<ResourceContents, ResourceError> {
        let entries = self.0.store.last_entries(NAME, "board", None, 10).await?;
        let notices: Vec<Value> = entries
            .iter()
            .filter_map(|entry| serde_json::from_str(&entry.json).ok())
            .collect();
        Ok(ResourceContents::json(&json!(notices)))
    }

    fn changes(&self) -> Option<ChangeListener> {
        Some(self.0.changes.listen())
    }
}

/// The notice board as a stored item, whose size operators can see, and which they can clear.
struct StoredBoard(Arc<Board>);

#[async_trait]
impl StoredItems for StoredBoard {
    fn kind(&self) -> &str {
        "boards"
    }

    fn max_items(&self) -> Option<u32> {
        Some(1)
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.0.store.count_logs(NAME, "").await
    }

    async fn list(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredItem>, StoreError> {
        let boards = self.0.store.logs_by_name(NAME, "", after, limit).await?;
        Ok(boards
            .into_iter()
            .map(|board| StoredItem::new(board.log).with_fact("posted", board.latest.number))
            .collect())
    }

    async fn remove(&self, name: &str) -> Result<bool, StoreError> {
        let was_there = self.0.store.remove_log(NAME, name).await?;
        if was_there {
            self.0.changes.notify_updated(URI);
        }
        Ok(was_there)
    }
}

/// The pack with the notice board.
struct Notices {
    board: Arc<Board>,
    post: ToolDefinition,
}

impl Notices {
    fn new(store: Arc<dyn PackStore>) -> Result<Self, DefinitionError> {
        let text = ToolParameter::new("text", ParameterType::String).describe("What it says");
        let post = ToolDefinition::builder("post_notice", "Puts a notice on the board")
            .parameter(text)
            .category(NAME)
            .build()?;
        let stream = EventStream::new("notices", "events://notices", "Each new notice");
        let board = Board {
            store,
            changes: ResourceChanges::default(),
            posted: Arc::new(stream),
            counters: Arc::new(Counters::new(["notice.posted"])),
        };
        Ok(Self {
            board: Arc::new(board),
            post,
        })
    }
}

impl Pack for Notices {
    fn name(&self) -> &str {
        NAME
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let board = Arc::clone(&self.board);
        let post = FnTool::new(self.post.clone(), move |arguments, context: CallContext| {
            let board = Arc::clone(&board);
            async move {
                let text = arguments["text"].as_str().unwrap_or_default();
                let number = board.post(text, &context).await.map_err(|error| {
                    ToolFailure::new(error.code(), "The board cannot be written")
                })?;
                let output = ToolOutput::text(format!("It is notice {number}"));
                Ok(output.with_data(json!({"number": number})))
            }
        });
        vec![Arc::new(post)]
    }

    fn resources(&self) -> Vec<Arc<dyn ResourceProvider>> {
        vec![Arc::new(BoardResource(Arc::clone(&self.board)))]
    }

    fn streams(&self) -> Vec<Arc<EventStream>> {
        vec![Arc::clone(&self.board.posted)]
    }

    fn counters(&self) -> Option<Arc<Counters>> {
        Some(Arc::clone(&self.board.counters))
    }

    fn stored_items(&self) -> Vec<Arc<dyn StoredItems>> {
        vec![Arc::new(StoredBoard(Arc::clone(&self.board)))]
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = SqlStore::open(&StoreOptions::new(StoreLocation::Memory)).await?;
    let registry = Arc::new(ToolRegistry::new());
    let mut packs = Packs::default();
    packs.add(&Notices::new(Arc::new(store))?, &registry)?;

    let provider = packs.provider_of(URI).ok_or("no provider")?;
    let mut changes = provider.changes().ok_or("no changes")?;
    let mut posted = packs.stream("notices").ok_or("no stream")?.listen(None);
    let executor = Executor::new(registry, ExecutorConfig::default());
    let arguments = json!({"text": "Rats in the cellar, two silver a tail"});
    let call = ToolCall::new("1", "post_notice", arguments);
    let context = CallContext::for_user("innkeeper");
    let result = executor.execute_one(call, &context).await;
    assert_eq!(result.to_message(), "It is notice 1");

    let updated = ResourceChange::Updated(URI.to_owned());
    assert_eq!(changes.next().await, Some(updated));
    assert!(matches!(posted.next().await, StreamMessage::Ready { .. }));
    assert!(matches!(posted.next().await, StreamMessage::Event(event) if event.kind == "posted"));
    let reader = ResourceReader {
        context: &context,
        only_user: None,
    };
    let contents = provider.read(URI, reader).await?;
    assert!(format!("{contents:?}").contains("Rats"));
    let boards = packs
        .get(NAME)
        .and_then(|pack| pack.stored_items_of("boards"))
        .ok_or("no boards")?;
    for board in boards.list(None, 10).await? {
        println!("{}: {:?}", board.name, board.facts);
        assert!(boards.remove(&board.name).await?);
    }
    assert_eq!(boards.count().await?, 0);
    for (pack, counters) in packs.counters() {
        println!("{pack}: {:?}", counters.with_prefix("notice."));
    }
    Ok(())
}
