use async_trait::async_trait;
use pillion_chat::{Answer, Conversation, Delta, Finish, ModelError, Turn, Usage};
use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::provider::Provider;
use pillion_core::tool::{CallContext, ToolCall};
use pillion_store::{SqlStore, StoreLocation, StoreOptions};
use serde_json::{Value, json};

use super::*;

/// Always proposes the same.
struct Steady;

#[async_trait]
impl LanguageModel for Steady {
    fn provider(&self) -> Provider {
        Provider::OpenAiChat
    }

    fn conversation(&self, messages: &[Value]) -> Result<Conversation, ModelError> {
        Ok(Conversation {
            system: None,
            messages: messages.to_vec(),
        })
    }

    async fn respond(
        &self,
        _turn: &Turn<'_>,
        _listener: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, ModelError> {
        let proposal = json!({"action": "ability_check", "ability": "WIS", "suggested_dc": 9,
            "reason": "It is quiet"});
        let text = json!({"proposal": proposal, "narration": "You listen."}).to_string();
        Ok(Answer {
            body: json!({"choices": [{"message": {"role": "assistant", "content": text}}]}),
            finish: Finish::Stop,
            usage: Usage::default(),
        })
    }
}

/// The gates of an action under a configuration in which there is one model, `steady`.
async fn gates(toml: &str) -> Option<Value> {
    let config = Config::parse(toml, "pillion.toml").unwrap();
    let store = StoreOptions::new(StoreLocation::Memory);
    let store = Arc::new(SqlStore::open(&store).await.unwrap());
    let registry = Arc::new(ToolRegistry::new());
    let model_of = |name: &str| (name == "steady").then(|| Arc::new(Steady) as _);
    assemble(&config, store, &registry, model_of).unwrap();
    registry.contains("orchestrate_action").then_some(())?;
    let action = json!({"scene_id": "hall", "player_msg": "I listen"});
    let call = ToolCall::new("1", "orchestrate_action", action);
    let executor = Executor::new(registry, ExecutorConfig::default());
    let context = CallContext::default();
    let result = Box::pin(executor.execute_one(call, &context)).await;
    Some(result.data.unwrap()["gates"].clone())
}

#[tokio::test]
async fn n2_the_pack_and_its_model_are_off_until_somebody_asks_for_them() {
    let enabled = "[tabletop]\nenabled = true\nmodel = \"steady\"\n";
    let unconfigured = json!({"accepted": false, "reasons": ["llm_unconfigured"]});
    let llm = "[features]\nllm = true\n";
    assert_eq!(gates("").await, None);
    assert_eq!(gates(llm).await, None);
    assert_eq!(gates(enabled).await, Some(unconfigured.clone()));
    let nobody = enabled.replace("steady", "nobody") + llm;
    assert_eq!(gates(&nobody).await, Some(unconfigured));
    let accepted = json!({"accepted": true});
    assert_eq!(gates(&format!("{enabled}{llm}")).await, Some(accepted));
}
