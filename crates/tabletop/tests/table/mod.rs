//! Test setup: the pack with a store in memory, and a scripted model.

mod gated;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use pillion_chat::{
    Delta, Finish, LanguageModel, ModelError, ModelTurn, ProviderConversation, TurnResponse, Usage,
};
use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::pack::{Packs, Resource, ResourceBody, ResourceReader, StoredItems};
use pillion_core::registry::ToolRegistry;
use pillion_core::store::PackStore;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use pillion_providers::Provider;
use pillion_store::{SqlStore, StoreLocation, StoreOptions};
use pillion_tabletop::{Tabletop, TabletopOptions};
use serde_json::{Value, json};
use tokio::sync::Notify;

pub use gated::Gated;

/// Returns a model response with this proposal.
pub fn proposal(dc: i64, ability: &str, reason: &str, narration: &str) -> String {
    let proposal = json!({"action": "ability_check", "ability": ability, "suggested_dc": dc,
        "reason": reason});
    json!({"proposal": proposal, "narration": narration}).to_string()
}

/// A language model that returns scripted responses in order.
pub struct Scripted {
    responses: Mutex<VecDeque<Result<String, ModelError>>>,
    prompts: Mutex<Vec<String>>,
    /// If set, each response waits until this is notified.
    may_respond: Option<Notify>,
}

impl Scripted {
    pub fn new(responses: impl IntoIterator<Item = Result<String, ModelError>>) -> Arc<Self> {
        Self::with_gate(responses, None)
    }

    /// Creates a model that waits before each response.
    pub fn waiting(responses: impl IntoIterator<Item = Result<String, ModelError>>) -> Arc<Self> {
        Self::with_gate(responses, Some(Notify::new()))
    }

    fn with_gate(
        responses: impl IntoIterator<Item = Result<String, ModelError>>,
        may_respond: Option<Notify>,
    ) -> Arc<Self> {
        Arc::new(Self {
            responses: Mutex::new(responses.into_iter().collect()),
            prompts: Mutex::default(),
            may_respond,
        })
    }

    pub fn respond_now(&self) {
        self.may_respond.as_ref().unwrap().notify_one();
    }

    /// Returns the number of requests that the model has received.
    pub fn turns(&self) -> usize {
        self.prompts.lock().unwrap().len()
    }

    /// Returns the messages of the request number `turn`, as JSON.
    pub fn prompt(&self, turn: usize) -> String {
        self.prompts.lock().unwrap()[turn].clone()
    }

    /// Waits for the first request.
    pub async fn requested(&self) {
        let requested = async {
            while self.turns() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, requested).await.unwrap();
    }
}

#[async_trait]
impl LanguageModel for Scripted {
    fn provider(&self) -> Provider {
        Provider::OpenAiChat
    }

    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError> {
        Ok(ProviderConversation {
            system: None,
            messages: messages.to_vec(),
        })
    }

    async fn respond(
        &self,
        turn: &ModelTurn<'_>,
        _listener: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<TurnResponse, ModelError> {
        assert!(turn.tools.is_empty());
        let prompt = json!(turn.conversation.messages).to_string();
        self.prompts.lock().unwrap().push(prompt);
        if let Some(may_respond) = &self.may_respond {
            may_respond.notified().await;
        }
        let text = self.responses.lock().unwrap().pop_front().unwrap()?;
        Ok(TurnResponse {
            body: json!({"choices": [{"message": {"role": "assistant", "content": text}}]}),
            finish: Finish::Stop,
            usage: Usage {
                input_tokens: 100,
                output_tokens: 20,
                cached_tokens: 0,
            },
        })
    }
}

pub struct Table {
    executor: Executor,
    pub packs: Packs,
}

impl Table {
    pub async fn without_model() -> Self {
        Self::new(None, TabletopOptions::default()).await
    }

    pub async fn with(model: &Arc<Scripted>) -> Self {
        Self::new(Some(Arc::clone(model)), TabletopOptions::default()).await
    }

    pub async fn new(model: Option<Arc<Scripted>>, options: TabletopOptions) -> Self {
        Self::over(Self::store().await, model, options)
    }

    pub async fn store() -> Arc<SqlStore> {
        let options = StoreOptions::new(StoreLocation::Memory);
        Arc::new(SqlStore::open(&options).await.unwrap())
    }

    pub fn over(
        store: Arc<dyn PackStore>,
        model: Option<Arc<Scripted>>,
        options: TabletopOptions,
    ) -> Self {
        let model = model.map(|model| model as Arc<dyn LanguageModel>);
        let registry = Arc::new(ToolRegistry::new());
        let mut packs = Packs::default();
        let pack = Tabletop::new(store, model, options);
        packs.add(&pack, &registry).unwrap();
        Self {
            executor: Executor::new(registry, ExecutorConfig::default()),
            packs,
        }
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        let call = ToolCall::new("call", tool, arguments);
        let context = CallContext::for_user("alice");
        self.executor.execute_one(call, &context).await
    }

    /// Returns the data of a call that must succeed.
    pub async fn data(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert!(result.success, "{result:?}");
        result.data.unwrap()
    }

    pub async fn say(&self, scene: &str, author: &str, message: &str) -> Value {
        let message = json!({"scene_id": scene, "author": author, "message": message});
        self.data("append_transcript", message).await
    }

    pub async fn try_read(&self, uri: &str) -> Result<Value, ErrorCode> {
        let provider = self.packs.provider_of(uri).unwrap();
        let context = CallContext::default();
        let read = provider.read(uri, reader(&context)).await;
        let contents = read.map_err(|error| error.code)?;
        assert_eq!(contents.mime_type, "application/json");
        match contents.body {
            ResourceBody::Text(text) => Ok(serde_json::from_str(&text).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    pub async fn read(&self, uri: &str) -> Value {
        self.try_read(uri).await.unwrap()
    }

    /// Returns the stored items of one kind.
    pub fn stored_items_of(&self, kind: &str) -> &dyn StoredItems {
        let pack = self.packs.get("tabletop").unwrap();
        &**pack.stored_items_of(kind).unwrap()
    }

    pub async fn list(&self) -> Vec<Resource> {
        let context = CallContext::default();
        self.packs.resources(reader(&context)).await
    }

    /// Removes a stored item. Returns whether the item existed.
    pub async fn remove(&self, kind: &str, name: &str) -> bool {
        self.stored_items_of(kind).remove(name).await.unwrap()
    }

    /// Returns the messages of a transcript.
    pub async fn transcript(&self, uri: &str) -> Vec<Value> {
        let transcript = self.read(uri).await;
        transcript["messages"].as_array().unwrap().clone()
    }
}

fn reader(context: &CallContext) -> ResourceReader<'_> {
    ResourceReader {
        context,
        only_user: None,
    }
}
