//! Runs players' actions. For each action, a model proposes an ability check and a narration, and
//! the proposal must pass all validation gates.

mod gates;
mod prompt;
mod proposal;
mod recent_actions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use pillion_chat::{
    LanguageModel, ModelError, ModelTurn, TurnOptions, TurnResponse as ModelResponse, Usage,
};
use pillion_core::tool::{CallContext, ErrorCode, ToolFailure};
use pillion_providers::assistant_text;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::TabletopOptions;
use crate::check::{Check, CheckDisplay};
use crate::dice::D20;
use crate::failure::store_failure;
use crate::scenes::{SceneMessage, Scenes};
use crate::telemetry::{LogContext, LogLevel, TabletopTelemetry, counter};
use proposal::Proposal;
use recent_actions::RecentActions;

pub(crate) use prompt::format_facts;

/// The rejection reason if no model is configured; [`NO_MODEL_MESSAGE`] says how to configure a
/// model.
const UNCONFIGURED_REASON: &str = "llm_unconfigured";
const NO_MODEL_MESSAGE: &str =
    "no language model is configured: set features.llm and tabletop.model";

/// Maximum number of transcript messages in the prompt.
const MAX_PROMPT_MESSAGES: u32 = 15;

/// Maximum length of the model's response, in tokens.
const MAX_RESPONSE_TOKENS: u64 = 1_000;

/// The author of public narrations in the transcript.
const NARRATOR_AUTHOR: &str = "narrator";

const TOOL_NAME: &str = "orchestrate_action";

/// The arguments of one call of `orchestrate_action`.
#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) scene: String,
    /// The player's message, trimmed.
    pub(crate) message: String,
    /// The only characters that the narration may name; empty for no restriction.
    pub(crate) allowed_actors: Vec<String>,
    pub(crate) seed: Option<u64>,
    pub(crate) prompt_token_cap: Option<u32>,
    pub(crate) is_public: bool,
}

/// The result of one action.
#[derive(Debug)]
pub(crate) struct ActionOutput {
    /// The text of the result for the language model that called the tool.
    pub(crate) text: String,
    /// The structured output: `{narration, gates, metrics, artifacts?}`.
    pub(crate) data: Value,
    is_accepted: bool,
    /// Whether the narration is in the transcript; locked while the narration is being written.
    is_public: Arc<Mutex<bool>>,
}

/// The outcome of an action, shared by concurrent identical actions.
type ActionOutcome = Result<Arc<ActionOutput>, ToolFailure>;

/// Runs actions. Identical actions (the same scene and message) share one outcome.
pub(crate) struct Orchestrator {
    settings: RwLock<OrchestratorSettings>,
    scenes: Arc<Scenes>,
    telemetry: Arc<TabletopTelemetry>,
    recent_actions: RecentActions,
}

/// The operator's settings. A running action keeps the settings that it started with.
#[derive(Clone)]
pub(crate) struct OrchestratorSettings {
    pub(crate) model: Option<Arc<dyn LanguageModel>>,
    pub(crate) options: TabletopOptions,
}

/// A proposal of the model that has passed the validation gates.
struct AcceptedProposal {
    proposal: Proposal,
    check: Check,
}

impl Orchestrator {
    pub(crate) fn new(
        settings: OrchestratorSettings,
        scenes: Arc<Scenes>,
        telemetry: Arc<TabletopTelemetry>,
    ) -> Self {
        Self {
            settings: RwLock::new(settings),
            scenes,
            telemetry,
            recent_actions: RecentActions::default(),
        }
    }

    /// Replaces the settings for later actions.
    pub(crate) fn reconfigure(&self, settings: OrchestratorSettings) {
        *self.settings.write() = settings;
    }

    /// Removes the accepted and running actions of a scene, so that later identical actions run
    /// again.
    pub(crate) fn forget(&self, scene: &str) {
        self.recent_actions.forget(scene);
    }

    /// Runs an action. If an identical action is running, or was accepted in this scene in the last
    /// 30 seconds, returns the outcome of that action instead, with `true` as the second value.
    pub(crate) async fn run(
        &self,
        action: Action,
        context: &CallContext,
    ) -> Result<(Arc<ActionOutput>, bool), ToolFailure> {
        let log_context = LogContext {
            scene: &action.scene,
            tool: TOOL_NAME,
            context,
        };
        let settings = &self.settings.read().clone();
        let key = (action.scene.clone(), action.message.clone());
        let (outcome, is_duplicate) = self
            .recent_actions
            .run(key, || {
                Box::pin(self.decide_action(settings, &action, log_context))
            })
            .await;
        if is_duplicate {
            self.telemetry.count(counter::ACTION_DUPLICATE);
        }
        let output = outcome?;
        if action.is_public && settings.options.may_be_public {
            self.publish_narration(&output, log_context).await?;
        }
        Ok((output, is_duplicate))
    }

    async fn decide_action(
        &self,
        settings: &OrchestratorSettings,
        action: &Action,
        log_context: LogContext<'_>,
    ) -> ActionOutcome {
        let Some(model) = &settings.model else {
            return Ok(self.reject_action(
                UNCONFIGURED_REASON,
                Usage::default(),
                Duration::ZERO,
                log_context,
            ));
        };
        let last_messages = self
            .scenes
            .load_last_messages(&action.scene, MAX_PROMPT_MESSAGES)
            .await;
        let facts = format_facts(&last_messages.map_err(|error| store_failure(&error))?);
        let began_at = Instant::now();
        let timeout = settings.options.model_timeout;
        let messages = prompt::format_messages(action, facts);
        let response = self
            .request_response(&**model, &messages, timeout, log_context)
            .await?;
        let elapsed = began_at.elapsed();
        let usage = response.usage;
        // A response that is not in the provider's format counts as an empty response.
        let text = assistant_text(model.provider(), &response.body).unwrap_or_default();
        let Some(proposal) = proposal::parse(&text) else {
            self.telemetry.count(counter::PARSE_FAILED);
            return Ok(self.reject_action("llm_invalid_or_empty", usage, elapsed, log_context));
        };
        let ability = match gates::check_proposal(&proposal, &action.allowed_actors) {
            Ok(ability) => ability,
            Err(reason) => {
                self.telemetry.count(counter::DEFENSE_REJECTED);
                return Ok(self.reject_action(reason, usage, elapsed, log_context));
            }
        };
        let check = Check::untrained(ability, proposal.suggested_dc);
        let mut d20 = D20::for_call(action.seed)?;
        let accepted_proposal = AcceptedProposal { proposal, check };
        let output = accepted_proposal.into_output(&mut d20, usage, elapsed);
        self.telemetry.count(counter::FORMAT_SENT);
        self.telemetry.count(counter::ACTION_ACCEPTED);
        let extra = &output.data["artifacts"]["rule_eval"];
        self.telemetry.emit_event("format.sent", log_context, extra);
        let (module, message) = (module_path!(), "An action was accepted");
        self.telemetry
            .emit_log_line(LogLevel::Info, module, message, log_context);
        Ok(Arc::new(output))
    }

    async fn request_response(
        &self,
        model: &dyn LanguageModel,
        messages: &[Value],
        timeout: Duration,
        log_context: LogContext<'_>,
    ) -> Result<ModelResponse, ToolFailure> {
        let log_failure = |error: &ModelError| {
            let message = format!("The request to the language model failed: {}", error.code());
            let (level, module) = (LogLevel::Warning, module_path!());
            self.telemetry
                .emit_log_line(level, module, &message, log_context);
            let failure = ToolFailure::new(error.code(), error.message.clone());
            match error.retry_after {
                Some(delay) => failure.with_retry_after(delay),
                None => failure,
            }
        };
        let conversation = model
            .conversation(messages)
            .map_err(|error| log_failure(&error))?;
        let options = TurnOptions {
            max_output_tokens: Some(MAX_RESPONSE_TOKENS),
            ..TurnOptions::default()
        };
        let turn = ModelTurn {
            conversation: &conversation,
            tools: &[],
            options: &options,
            stream: false,
            deadline: Instant::now() + timeout,
        };
        self.telemetry.count(counter::REQUEST_ENQUEUED);
        self.telemetry
            .emit_event("llm.enqueued", log_context, &json!({}));
        let mut ignore_deltas = |_| {};
        let response_result =
            tokio::time::timeout(timeout, model.respond(&turn, &mut ignore_deltas)).await;
        let to_timeout = |_| {
            let seconds = timeout.as_secs_f64();
            let message = format!("The language model did not respond within {seconds:?}s");
            ToolFailure::new(ErrorCode::Timeout, message)
        };
        let response = response_result
            .map_err(to_timeout)?
            .map_err(|error| log_failure(&error))?;
        self.telemetry.count(counter::RESPONSE_RECEIVED);
        let extra = json!({
            "tokens_in": response.usage.input_tokens,
            "tokens_out": response.usage.output_tokens,
        });
        self.telemetry
            .emit_event("llm.received", log_context, &extra);
        Ok(response)
    }

    fn reject_action(
        &self,
        reason: &str,
        usage: Usage,
        elapsed: Duration,
        log_context: LogContext<'_>,
    ) -> Arc<ActionOutput> {
        self.telemetry.count(counter::ACTION_REJECTED);
        let extra = json!({"reason": reason});
        self.telemetry
            .emit_event("defense.rejected", log_context, &extra);
        let message = format!("An action was rejected: {reason}");
        self.telemetry
            .emit_log_line(LogLevel::Info, module_path!(), &message, log_context);
        Arc::new(ActionOutput {
            text: match reason {
                UNCONFIGURED_REASON => format!("Rejected: {reason}: {NO_MODEL_MESSAGE}"),
                _ => format!("Rejected: {reason}"),
            },
            data: json!({
                "narration": "",
                "gates": {"accepted": false, "reasons": [reason]},
                "metrics": format_metrics(usage, elapsed),
            }),
            is_accepted: false,
            is_public: Arc::default(),
        })
    }

    /// Adds an accepted narration to the transcript, unless the narration was already added.
    /// Continues even if the call is cancelled. A repeated action waits until the narration is
    /// added.
    async fn publish_narration(
        &self,
        output: &ActionOutput,
        log_context: LogContext<'_>,
    ) -> Result<(), ToolFailure> {
        if !output.is_accepted {
            return Ok(());
        }
        let message = SceneMessage {
            author: NARRATOR_AUTHOR.to_owned(),
            message: output.text.clone(),
            ooc: false,
        };
        let is_public = Arc::clone(&output.is_public);
        let (scenes, scene) = (Arc::clone(&self.scenes), log_context.scene.to_owned());
        let write_task = tokio::spawn(async move {
            let mut is_public = is_public.lock().await;
            if !*is_public {
                scenes.append(&scene, message).await?;
                *is_public = true;
            }
            Ok(())
        });
        write_task
            .await
            .map_err(|_| {
                ToolFailure::internal("Writing the narration to the transcript failed unexpectedly")
            })?
            .map_err(|error| store_failure(&error))
    }
}

impl AcceptedProposal {
    fn into_output(self, d20: &mut D20, usage: Usage, elapsed: Duration) -> ActionOutput {
        let Self { proposal, check } = self;
        let result = check.throw(d20);
        let mechanics = CheckDisplay(&check, &result).to_string();
        let narration = proposal.narration.trim();
        let mut check_result_json = json!(result);
        check_result_json["mechanics"] = json!(mechanics);
        ActionOutput {
            text: format!("{mechanics}\n\n{narration}").trim_end().to_owned(),
            data: json!({
                "narration": narration,
                "gates": {"accepted": true},
                "metrics": format_metrics(usage, elapsed),
                "artifacts": {"proposal": proposal.to_json(), "rule_eval": check_result_json},
            }),
            is_accepted: true,
            is_public: Arc::default(),
        }
    }
}

fn format_metrics(usage: Usage, elapsed: Duration) -> Value {
    json!({
        "tokens_in": usage.input_tokens,
        "tokens_out": usage.output_tokens,
        "latency_ms": u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
    })
}
