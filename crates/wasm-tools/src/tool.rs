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
use crate::host::Host;
use crate::manifest::Manifest;
use crate::permissions::ToolPermissions;
use crate::run::{RunConditions, RunUsage, run};
use crate::sandbox::Sandbox;
use crate::settings::{Grant, Limits, WasmToolsSettings};
use crate::{FaultCode, WasmToolError};

/// The default category of a tool.
const CATEGORY: &str = "sandboxed";

/// Maximum sizes of the texts in a definition, in bytes, because every list of tools contains them.
const MAX_TEXT_BYTES: [(&str, usize); 3] = [
    ("description", 16 * 1024),
    ("input-schema", 256 * 1024),
    ("category", 64),
];

/// Maximum size of a failure's message, in bytes.
const MAX_MESSAGE_LEN: usize = 16 * 1024;

/// A compiled component with its description.
pub(crate) struct CompiledComponent {
    pub(crate) sha256: String,
    pre: ToolPre<Host>,
    described: wit::Definition,
    input_schema: Value,
}

/// A WebAssembly component as a tool.
pub struct WasmTool {
    definition: ToolDefinition,
    digest: String,
    pub(crate) compiled: Arc<CompiledComponent>,
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
        let pre = sandbox.compile(bytes)?;
        let conditions = RunConditions {
            limits: limits.clone(),
            permissions: Arc::default(),
            http_client: Arc::clone(http_client),
        };
        let describe = run(pre.clone(), conditions, async |tool, store| {
            tool.call_describe(store).await
        });
        let (described, _) = tokio::runtime::Handle::current()
            .block_on(describe)
            .map_err(|fault| {
                let what = format!("'describe' {fault}");
                WasmToolError::new(FaultCode::DescribeFailed, what)
            })?;
        let category = described.category.as_deref().unwrap_or_default();
        let texts = [
            described.description.as_str(),
            described.input_schema.as_str(),
            category,
        ];
        for (text, (what, max_bytes)) in texts.into_iter().zip(MAX_TEXT_BYTES) {
            if text.len() > max_bytes {
                return Err(bad_definition(format!(
                    "{what} is longer than {max_bytes} bytes"
                )));
            }
        }
        let input_schema = serde_json::from_str(&described.input_schema)
            .map_err(|error| bad_definition(format!("input-schema is not valid JSON: {error}")))?;
        CompiledSchema::check(&input_schema)
            .map_err(|error| bad_definition(format!("input-schema: {error}")))?;
        Ok(Self {
            sha256,
            pre,
            described,
            input_schema,
        })
    }
}

fn bad_definition(what: String) -> WasmToolError {
    WasmToolError::new(FaultCode::BadDefinition, what)
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
        compiled: Arc<CompiledComponent>,
        manifest: Manifest,
        settings: &WasmToolsSettings,
        http_client: &Arc<LazyHttpClient>,
    ) -> Result<Self, WasmToolError> {
        let none = Grant::default();
        let grant = settings.grants.get(name).unwrap_or(&none);
        let pinned = grant.sha256.as_deref();
        if pinned.is_some_and(|pinned| !pinned.eq_ignore_ascii_case(&compiled.sha256)) {
            let what = format!(
                "the granted sha256 is that of another file: this file's SHA-256 is {}",
                compiled.sha256
            );
            return Err(WasmToolError::new(FaultCode::OtherFile, what));
        }
        let permissions = ToolPermissions::from_grant(&manifest.permissions, grant)?;
        let definition = definition(name, &compiled, &permissions)?;
        let limits = manifest.limits.within(&settings.limits);
        let digest = json!([compiled.sha256, permissions.summary()]).to_string();
        Ok(Self {
            definition,
            digest: sha256_hex(&digest),
            compiled,
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
        let arguments = Value::Object(arguments).to_string();
        let context = wit::Context {
            user_is_verified: context.verified_user().is_some(),
            call_id: context.call_id,
            user: context.user,
            channel: context.channel,
        };
        let running = run(
            self.compiled.pre.clone(),
            self.conditions.clone(),
            async move |tool, store| tool.call_call(store, &arguments, &context).await,
        );
        let (result, usage) = running.await.map_err(|fault| fault.failure(name))?;
        match result {
            Ok(output) => tool_output(name, output, usage),
            Err(failure) => Err(tool_failure(name, &failure)),
        }
    }
}

fn definition(
    name: &str,
    compiled: &CompiledComponent,
    permissions: &ToolPermissions,
) -> Result<ToolDefinition, WasmToolError> {
    let described = &compiled.described;
    let category = described.category.as_deref().unwrap_or(CATEGORY);
    ToolDefinition::builder(name, &described.description)
        .schema(compiled.input_schema.clone())
        .category(category)
        .requires_confirmation(described.requires_confirmation)
        .annotations(annotations(described.effects, permissions))
        .build()
        .map_err(|error| bad_definition(error.to_string()))
}

/// Returns the annotations that the tool describes, corrected by its permissions.
fn annotations(effects: wit::Effects, permissions: &ToolPermissions) -> JsonObject {
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
        ("openWorldHint", permissions.reaches_out()),
    ]
    .map(|(hint, value)| (hint.to_owned(), json!(value)))
    .into_iter()
    .collect()
}

fn tool_output(
    name: &str,
    output: wit::Output,
    usage: RunUsage,
) -> Result<ToolOutput, ToolFailure> {
    let converted = match output {
        wit::Output::Text(text) => ToolOutput::text(text),
        wit::Output::Json(json) => {
            let value = json_values::from_str(&json).map_err(|error| {
                ToolFailure::internal(format!("Tool '{name}' returned invalid JSON: {error}"))
            })?;
            ToolOutput::value(value)
        }
    };
    Ok(converted
        .with_metadata("fuel", usage.fuel.into())
        .with_metadata("memory_bytes", usage.memory_bytes.into()))
}

fn tool_failure(name: &str, failure: &wit::Failure) -> ToolFailure {
    let code = match failure.code {
        wit::ErrorCode::InvalidInput => ErrorCode::InvalidInput,
        wit::ErrorCode::NotFound => ErrorCode::NotFound,
        wit::ErrorCode::RateLimited => ErrorCode::RateLimited,
        wit::ErrorCode::Denied => ErrorCode::Denied,
        wit::ErrorCode::Unavailable => ErrorCode::Unavailable,
        wit::ErrorCode::InternalError => ErrorCode::InternalError,
    };
    let message = match failure.message.trim() {
        "" => format!("Tool '{name}' failed"),
        message => bounded_text::truncate(message, MAX_MESSAGE_LEN),
    };
    let failed = ToolFailure::new(code, message);
    match failure.retry_after {
        Some(seconds) => failed.with_metadata("retry_after", seconds.into()),
        None => failed,
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
            .field("sha256", &self.compiled.sha256)
            .finish_non_exhaustive()
    }
}
