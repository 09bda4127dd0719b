//! Shared setup of the loop's tests: a fake model, and real tools behind a real executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::{
    CallContext, FnTool, ParameterType, ToolDefinition, ToolFailure, ToolOutput, ToolParameter,
};
use pillion_providers::Provider;
use pillion_testkit::{FakeLlm, LlmDialect, LlmResponse};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    ChatEnd, ChatError, ChatEvent, ChatLoop, ChatState, Delta, EndedCall, HttpModel,
    HttpModelConfig, ModelErrorKind, SingleTurn, WaitingCall,
};

/// A chat loop with its model, its tools and a recording listener.
pub(super) struct Bench {
    pub(super) llm: FakeLlm,
    pub(super) chat: ChatLoop,
    /// Runs the calls of the chat loop.
    pub(super) executor: Executor,
    pub(super) context: CallContext,
    pub(super) tools: Arc<Tools>,
    pub(super) events: Vec<ChatEvent>,
}

/// Counts the calls of `echo` and `wipe`.
#[derive(Default)]
pub(super) struct Tools {
    pub(super) echoed: AtomicUsize,
    pub(super) wiped: AtomicUsize,
    /// Notified when the tool `wait` has begun.
    pub(super) waits: Notify,
}

impl Tools {
    pub(super) fn echoed(&self) -> usize {
        self.echoed.load(Ordering::SeqCst)
    }

    pub(super) fn wiped(&self) -> usize {
        self.wiped.load(Ordering::SeqCst)
    }
}

/// A response with a call of `echo`.
pub(super) fn echo(text: &str) -> LlmResponse {
    LlmResponse::call("echo", &json!({ "text": text }))
}

pub(super) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Returns the model of a bench, which by default does not retry.
fn model(
    llm: &FakeLlm,
    provider: Provider,
    change: impl FnOnce(&mut HttpModelConfig),
) -> Arc<HttpModel> {
    let mut config = HttpModelConfig {
        retry_pause: Duration::from_millis(1),
        max_retries: 0,
        ..HttpModelConfig::new(provider, llm.base_url.parse().unwrap(), "fake")
    };
    change(&mut config);
    Arc::new(HttpModel::new(config).unwrap())
}

impl Bench {
    /// Creates a bench with a model that gives these responses. The tools are `echo`; `late`, which
    /// echoes after a delay; `boom`, which fails; `wait`, which never ends; `wipe`, which needs
    /// approval; and `hidden`, which the model does not see.
    pub(super) async fn new(responses: impl IntoIterator<Item = LlmResponse>) -> Self {
        Self::at(Provider::OpenAiChat, responses).await
    }

    /// Creates the bench with another provider.
    pub(super) async fn at(
        provider: Provider,
        responses: impl IntoIterator<Item = LlmResponse>,
    ) -> Self {
        let dialect = match provider {
            Provider::OpenAiResponses => LlmDialect::OpenAiResponses,
            Provider::Anthropic => LlmDialect::Anthropic,
            Provider::Google => LlmDialect::Google,
            _ => LlmDialect::OpenAiChat,
        };
        let llm = FakeLlm::with_responses(dialect, responses).await;
        let tools = Arc::new(Tools::default());
        let registry = Arc::new(ToolRegistry::new());
        register(&registry, &tools);
        let all_tools = registry.tools(None);
        let visible = all_tools
            .iter()
            .filter(|tool| tool.name().as_str() != "hidden");
        let shown = visible.map(|tool| Arc::new(tool.definition().clone()));
        let executor = Executor::new(registry, ExecutorConfig::default());
        let model = model(&llm, provider, |_| {});
        let chat = ChatLoop::new(model, Arc::new(executor.clone())).with_tools(shown.collect());
        Self {
            llm,
            chat,
            executor,
            context: CallContext::for_user("ada"),
            tools,
            events: Vec::new(),
        }
    }

    /// Changes the configuration of the model, which by default does not retry.
    pub(super) fn configure_model(&mut self, change: impl FnOnce(&mut HttpModelConfig)) {
        self.chat.model = model(&self.llm, self.chat.model.provider(), change);
    }

    pub(super) fn begin(&self) -> ChatState {
        self.chat.begin(&[user("Go")]).unwrap()
    }

    pub(super) async fn run(&mut self, state: &mut ChatState) -> Result<ChatEnd, ChatError> {
        let events = &mut self.events;
        let mut listener = |event| events.push(event);
        self.chat.run(state, &self.context, &mut listener).await
    }

    pub(super) async fn turn(&self, state: &mut ChatState) -> Result<SingleTurn, ChatError> {
        self.chat.turn(state, &mut |_: ChatEvent| {}).await
    }

    /// Runs a chat until its model fails.
    pub(super) async fn error_kind(&mut self, state: &mut ChatState) -> ModelErrorKind {
        match self.run(state).await.unwrap_err() {
            ChatError::Model(error) => error.kind,
            other => panic!("{other}"),
        }
    }

    /// Runs a chat until calls wait for approval.
    pub(super) async fn waiting(&mut self, state: &mut ChatState) -> Vec<WaitingCall> {
        match self.run(state).await.unwrap() {
            ChatEnd::AwaitingApproval(waiting) => waiting,
            ChatEnd::Answered(response) => panic!("{response:?}"),
        }
    }

    /// Runs a chat to its final response and returns the text.
    pub(super) async fn respond(&mut self, state: &mut ChatState) -> String {
        match self.run(state).await.unwrap() {
            ChatEnd::Answered(response) => response.text,
            ChatEnd::AwaitingApproval(waiting) => panic!("{waiting:?}"),
        }
    }

    pub(super) fn statuses(&self) -> Vec<&str> {
        let statuses = self.events.iter().filter_map(|event| match event {
            ChatEvent::Status(status) => Some(status.as_str()),
            _ => None,
        });
        statuses.collect()
    }

    /// Returns the ended calls, in the order of their ends.
    pub(super) fn ended(&self) -> impl Iterator<Item = &EndedCall> {
        self.events.iter().filter_map(|event| match event {
            ChatEvent::ToolFinished(ended) => Some(ended),
            _ => None,
        })
    }

    /// Returns the text of the streamed pieces.
    pub(super) fn streamed_text(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            ChatEvent::Delta(Delta::Text(text)) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// Returns the state as another process would load it.
pub(super) fn reloaded(state: &ChatState) -> ChatState {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

/// Returns the contents of the tool messages of a conversation.
pub(super) fn results(messages: &[Value]) -> Vec<&str> {
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap())
        .collect()
}

fn register(registry: &ToolRegistry, tools: &Arc<Tools>) {
    let text = |name: &str| {
        let text = ToolParameter::new("text", ParameterType::String);
        ToolDefinition::builder(name, "Says it again").parameter(text.optional())
    };
    let definition = |name: &str| ToolDefinition::builder(name, "A tool").build().unwrap();
    let repeat = |arguments: &serde_json::Map<String, Value>| {
        let text = arguments.get("text").and_then(Value::as_str);
        ToolOutput::text(text.unwrap_or("nothing"))
    };
    for (name, pause) in [("echo", 0), ("hidden", 0), ("late", 200)] {
        let tools = Arc::clone(tools);
        let tool = FnTool::new(text(name).build().unwrap(), move |arguments, _| {
            tools.echoed.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                Ok(repeat(&arguments))
            }
        });
        registry.register(Arc::new(tool)).unwrap();
    }
    registry.set_alias("say", "echo").unwrap();
    registry.set_alias("lurk", "hidden").unwrap();
    let fail = |_, _| async { Err(ToolFailure::internal("it broke")) };
    let boom = FnTool::new(definition("boom"), fail);
    registry.register(Arc::new(boom)).unwrap();
    let waits = Arc::clone(tools);
    let wait = FnTool::new(definition("wait"), move |_, _| {
        let tools = Arc::clone(&waits);
        async move {
            tools.waits.notify_one();
            std::future::pending().await
        }
    });
    registry.register(Arc::new(wait)).unwrap();
    let wipes = Arc::clone(tools);
    let wipe = text("wipe").requires_confirmation(true).build().unwrap();
    let wipe = FnTool::new(wipe, move |_, _| {
        wipes.wiped.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolOutput::text("wiped")) }
    });
    registry.register(Arc::new(wipe)).unwrap();
}
