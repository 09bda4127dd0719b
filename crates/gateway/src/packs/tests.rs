use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::pack::EventStream;
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::{CallContext, ToolCall};
use pillion_store::SqlStore;
use pillion_testkit::{FakeLlm, LlmResponse};
use serde_json::{Value, json};

use super::*;
use crate::credentials::UserCredentials;
use crate::test_support::memory_store;

/// A sidecar's packs under a sequence of configurations.
struct Bench {
    store: Arc<SqlStore>,
    loaded_packs: LoadedPacks,
    tools: Vec<Arc<dyn Tool>>,
    actions: u32,
}

impl Bench {
    async fn new() -> Self {
        Self {
            store: memory_store().await,
            loaded_packs: LoadedPacks::default(),
            tools: Vec::new(),
            actions: 0,
        }
    }

    fn reload(&mut self, toml: &str) {
        let config = Config::parse(toml, "pillion.toml").unwrap();
        let models = Models::new(&config, &UserCredentials::default());
        let store = Arc::clone(&self.store) as _;
        (self.loaded_packs, self.tools) = self.loaded_packs.reload(&config, &models, store);
    }

    /// Returns the gates of a new action, or `None` without the pack.
    async fn gates(&mut self) -> Option<Value> {
        let registry = Arc::new(ToolRegistry::new());
        let tools = self.tools.iter().cloned();
        registry.register_missing(tools).unwrap();
        registry.contains("orchestrate_action").then_some(())?;
        self.actions += 1;
        let message = format!("I listen {} times", self.actions);
        let action = json!({"scene_id": "hall", "player_msg": message});
        let call = ToolCall::new("1", "orchestrate_action", action);
        let executor = Executor::new(registry, ExecutorConfig::default());
        let context = CallContext::default();
        let result = Box::pin(executor.execute_one(call, &context)).await;
        Some(result.data.unwrap()["gates"].clone())
    }

    fn streams(&self) -> Vec<Arc<EventStream>> {
        self.loaded_packs.offered_packs.streams().cloned().collect()
    }
}

/// A model that always proposes the same action.
async fn steady() -> FakeLlm {
    let proposal = json!({"action": "ability_check", "ability": "WIS", "suggested_dc": 9,
        "reason": "It is quiet"});
    let text = json!({"proposal": proposal, "narration": "You listen."}).to_string();
    FakeLlm::start([LlmResponse::text(&text)]).await
}

fn models(llm: &FakeLlm) -> String {
    format!(
        "[[providers]]\nname = \"fake\"\nbase_url = \"{}\"\n\
         [[models]]\nid = \"steady\"\nprovider = \"fake\"\n",
        llm.base_url
    )
}

const ENABLED: &str = "[tabletop]\nenabled = true\nmodel = \"steady\"\n";
const LLM: &str = "[features]\nllm = true\n";

#[tokio::test]
async fn n2_the_pack_and_its_model_are_off_by_default() {
    let llm = steady().await;
    let unconfigured = json!({"accepted": false, "reasons": ["llm_unconfigured"]});
    let accepted = json!({"accepted": true});
    let unknown = ENABLED.replace("steady", "unknown");
    let mut bench = Bench::new().await;
    // Each configuration is loaded after the previous one.
    for (toml, gates) in [
        (String::new(), None),
        (LLM.to_owned(), None),
        (ENABLED.to_owned(), Some(unconfigured.clone())),
        (format!("{ENABLED}{LLM}"), Some(accepted.clone())),
        (format!("{unknown}{LLM}"), Some(unconfigured.clone())),
        (String::new(), None),
        (format!("{ENABLED}{LLM}"), Some(accepted)),
        (ENABLED.to_owned(), Some(unconfigured)),
    ] {
        bench.reload(&(toml.clone() + &models(&llm)));
        assert_eq!(bench.gates().await, gates, "{toml}");
    }
}

#[tokio::test]
async fn p_the_model_of_the_pack_follows_the_configuration() {
    let (before, after) = (steady().await, steady().await);
    let mut bench = Bench::new().await;
    for llm in [&before, &after] {
        bench.reload(&(ENABLED.to_owned() + LLM + &models(llm)));
        assert_eq!(bench.gates().await, Some(json!({"accepted": true})));
    }
    assert_eq!([before.bodies().len(), after.bodies().len()], [1, 1]);
}

#[tokio::test]
async fn k2_streams_and_counters_survive_reloads() {
    let mut bench = Bench::new().await;
    bench.reload(ENABLED);
    let streams = bench.streams();
    assert_eq!(streams.len(), 2);
    let mut listener = streams[0].listen(None);
    drop(listener.next().await);
    bench.reload("");
    assert!(bench.streams().is_empty() && bench.tools.is_empty());
    bench.reload(&(ENABLED.to_owned() + LLM));
    assert!(Arc::ptr_eq(&bench.streams()[0], &streams[0]));
    bench.gates().await;
    let event = tokio::time::timeout(std::time::Duration::from_secs(20), listener.next()).await;
    assert!(event.is_ok());
    let counters = bench.loaded_packs.offered_packs.counters();
    let rejected = counters[0].1.with_prefix("orchestrator.action.rejected");
    assert_eq!(rejected, [("orchestrator.action.rejected", 1)]);
}
