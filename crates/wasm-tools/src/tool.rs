use std::fmt;
use std::sync::Arc;

use pillion_core::digest::sha256_hex;
use pillion_core::json_values;
use pillion_core::tool::{
    CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure, ToolFuture, ToolOutput,
};
use pillion_egress::LazyHttpClient;
use pillion_schema::CompiledSchema;
use serde_json::{Value, json};

use crate::bindings::ToolPre;
use crate::bindings::pillion::tool::types as wit;
use crate::bounded_text;
use crate::host::HostState;
use crate::manifest::Manifest;
use crate::permissions::ToolPermissions;
use crate::run::{RunConditions, RunUsage, run};
use crate::sandbox::Sandbox;
use crate::settings::{Grant, Limits, WasmToolsSettings};
use crate::{FaultCode, WasmToolError};

/// The category of a tool whose component declares none.
const DEFAULT_CATEGORY: &str = "sandboxed";

/// Maximum size of each text in a definition, in bytes. Limited, because every list of tools
/// contains these texts.
const MAX_TEXT_BYTES: [(&str, usize); 3] = [
    ("description", 16 * 1024),
    ("input-schema", 256 * 1024),
    ("category", 64),
];

/// Maximum size of a failure's message, in bytes.
const MAX_FAILURE_BYTES: usize = 16 * 1024;

/// A compiled component with its description.
pub(crate) struct CompiledComponent {
    pub(crate) sha256: String,
    tool_pre: ToolPre<HostState>,
    wit_definition: wit::Definition,
    input_schema: Value,
}

/// A WebAssembly component as a tool.
pub struct WasmTool {
    definition: ToolDefinition,
    digest: String,
    pub(crate) component: Arc<CompiledComponent>,
    pub(crate) manifest: Manifest,
    conditions: RunConditions,
}

impl CompiledComponent {
    /// Compiles a component and calls `describe`, without any permissions. Blocks, and must be
    /// called inside a runtime.
    ///
    /// # Errors
    /// The component is invalid, or `describe` fails or returns an invalid definition.
    pub(crate) fn new(
        sandbox: &Sandbox,
        bytes: &[u8],
        sha256: String,
        limits: &Limits,
        http_client: &Arc<LazyHttpClient>,
    ) -> Result<Self, WasmToolError> {
        let tool_pre = sandbox.compile(bytes)?;
        let conditions = RunConditions {
            limits: limits.clone(),
            permissions: Arc::default(),
            http_client: Arc::clone(http_client),
        };
        let describe_run = run(tool_pre.clone(), conditions, async |tool, store| {
            tool.call_describe(store).await
        });
        let (wit_definition, _) = tokio::runtime::Handle::current()
            .block_on(describe_run)
            .map_err(|fault| {
                let message = format!("'describe' {fault}");
                WasmToolError::new(FaultCode::DescribeFailed, message)
            })?;
        let category = wit_definition.category.as_deref().unwrap_or_default();
        let texts = [
            wit_definition.description.as_str(),
            wit_definition.input_schema.as_str(),
            category,
        ];
        for (text, (member, max_bytes)) in texts.into_iter().zip(MAX_TEXT_BYTES) {
            if text.len() > max_bytes {
                return Err(bad_definition(format!(
                    "{member} is longer than {max_bytes} bytes"
                )));
            }
        }
        let input_schema = serde_json::from_str(&wit_definition.input_schema)
            .map_err(|error| bad_definition(format!("input-schema is not valid JSON: {error}")))?;
        CompiledSchema::check(&input_schema)
            .map_err(|error| bad_definition(format!("input-schema: {error}")))?;
        Ok(Self {
            sha256,
            tool_pre,
            wit_definition,
            input_schema,
        })
    }
}

fn bad_definition(message: String) -> WasmToolError {
    WasmToolError::new(FaultCode::BadDefinition, message)
}

impl WasmTool {
    /// Creates the tool with this name, if the settings permit it. Does no I/O.
    ///
    /// # Errors
    /// [`FaultCode::OtherFile`] if the grant is for another file; [`FaultCode::NotGranted`] if the
    /// manifest requests more than the grant; [`FaultCode::BadDefinition`] if the description is
    /// not a valid tool definition.
    pub(crate) fn new(
        name: &str,
        component: Arc<CompiledComponent>,
        manifest: Manifest,
        settings: &WasmToolsSettings,
        http_client: &Arc<LazyHttpClient>,
    ) -> Result<Self, WasmToolError> {
        let no_grant = Grant::default();
        let grant = settings.grants.get(name).unwrap_or(&no_grant);
        let granted_sha256 = grant.sha256.as_deref();
        if granted_sha256
            .is_some_and(|granted_sha256| !granted_sha256.eq_ignore_ascii_case(&component.sha256))
        {
            let message = format!(
                "the file does not match the granted sha256: the file's SHA-256 is {}",
                component.sha256
            );
            return Err(WasmToolError::new(FaultCode::OtherFile, message));
        }
        let permissions = ToolPermissions::from_grant(&manifest.permissions, grant)?;
        let definition = build_definition(name, &component, &permissions)?;
        let limits = manifest.limits.cap_limits(&settings.limits);
        let digest = json!([component.sha256, permissions.summary()]).to_string();
        Ok(Self {
            definition,
            digest: sha256_hex(&digest),
            component,
            manifest,
            conditions: RunConditions {
                limits,
                permissions: Arc::new(permissions),
                http_client: Arc::clone(http_client),
            },
        })
    }

    /// Returns whether calls of this tool and of `other` have the same effect.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        self.digest == other.digest
            && self.definition == other.definition
            && self.conditions.limits == other.conditions.limits
            && self.conditions.permissions == other.conditions.permissions
            && Arc::ptr_eq(&self.conditions.http_client, &other.conditions.http_client)
    }

    async fn run(
        &self,
        arguments: JsonObject,
        context: CallContext,
    ) -> Result<ToolOutput, ToolFailure> {
        let name = self.definition.name().as_str();
        let arguments_text = Value::Object(arguments).to_string();
        let wit_context = wit::Context {
            user_is_verified: context.verified_user().is_some(),
            call_id: context.call_id,
            user: context.user,
            channel: context.channel,
        };
        let tool_run = run(
            self.component.tool_pre.clone(),
            self.conditions.clone(),
            async move |tool, store| tool.call_call(store, &arguments_text, &wit_context).await,
        );
        let (result, usage) = tool_run.await.map_err(|fault| fault.to_failure(name))?;
        match result {
            Ok(output) => convert_output(name, output, usage),
            Err(failure) => Err(convert_failure(name, &failure)),
        }
    }
}

fn build_definition(
    name: &str,
    component: &CompiledComponent,
    permissions: &ToolPermissions,
) -> Result<ToolDefinition, WasmToolError> {
    let wit_definition = &component.wit_definition;
    let category = wit_definition
        .category
        .as_deref()
        .unwrap_or(DEFAULT_CATEGORY);
    ToolDefinition::builder(name, &wit_definition.description)
        .schema(component.input_schema.clone())
        .category(category)
        .requires_confirmation(wit_definition.requires_confirmation)
        .annotations(create_annotations(wit_definition.effects, permissions))
        .build()
        .map_err(|error| bad_definition(error.to_string()))
}

/// Returns the tool's annotations: the effects that the component describes, corrected by the
/// tool's permissions.
fn create_annotations(effects: wit::Effects, permissions: &ToolPermissions) -> JsonObject {
    let (is_read_only, is_idempotent, is_destructive) = match effects {
        _ if !permissions.can_change_something() => (true, true, false),
        wit::Effects::None => (true, true, false),
        wit::Effects::Idempotent => (false, true, false),
        wit::Effects::Changes => (false, false, false),
        wit::Effects::Destroys => (false, false, true),
    };
    [
        ("readOnlyHint", is_read_only),
        ("idempotentHint", is_idempotent),
        ("destructiveHint", is_destructive),
        ("openWorldHint", permissions.can_send_requests()),
    ]
    .map(|(hint, value)| (hint.to_owned(), json!(value)))
    .into_iter()
    .collect()
}

fn convert_output(
    name: &str,
    wit_output: wit::Output,
    usage: RunUsage,
) -> Result<ToolOutput, ToolFailure> {
    let output = match wit_output {
        wit::Output::Text(text) => ToolOutput::text(text),
        wit::Output::Json(json) => {
            let value = json_values::from_str(&json).map_err(|error| {
                ToolFailure::internal(format!("Tool '{name}' returned invalid JSON: {error}"))
            })?;
            ToolOutput::value(value)
        }
    };
    Ok(output
        .with_metadata("fuel", usage.fuel.into())
        .with_metadata("memory_bytes", usage.memory_bytes.into()))
}

fn convert_failure(name: &str, wit_failure: &wit::Failure) -> ToolFailure {
    let code = match wit_failure.code {
        wit::ErrorCode::InvalidInput => ErrorCode::InvalidInput,
        wit::ErrorCode::NotFound => ErrorCode::NotFound,
        wit::ErrorCode::RateLimited => ErrorCode::RateLimited,
        wit::ErrorCode::Denied => ErrorCode::Denied,
        wit::ErrorCode::Unavailable => ErrorCode::Unavailable,
        wit::ErrorCode::InternalError => ErrorCode::InternalError,
    };
    let message = match wit_failure.message.trim() {
        "" => format!("Tool '{name}' failed without an error message"),
        message => bounded_text::truncate(message, MAX_FAILURE_BYTES),
    };
    let failure = ToolFailure::new(code, message);
    match wit_failure.retry_after {
        Some(seconds) => failure.with_metadata("retry_after", seconds.into()),
        None => failure,
    }
}

impl Tool for WasmTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn digest(&self) -> Option<String> {
        Some(self.digest.clone())
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move { self.run(arguments, context).await })
    }
}

impl fmt::Debug for WasmTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WasmTool")
            .field("name", self.definition.name())
            .field("sha256", &self.component.sha256)
            .finish_non_exhaustive()
    }
}
