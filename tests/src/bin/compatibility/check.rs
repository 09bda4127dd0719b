use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pillion_mcp_client::{McpClient, McpError, RequestOptions};
use serde_json::json;

use crate::offer::{Call, Offer};

/// The checks of a server's features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    List,
    Call,
    Error,
    Progress,
    Structured,
    Resources,
    Prompts,
    Completion,
    Elicitation,
    Sampling,
}

pub const CHECKS: [Check; 10] = [
    Check::List,
    Check::Call,
    Check::Error,
    Check::Progress,
    Check::Structured,
    Check::Resources,
    Check::Prompts,
    Check::Completion,
    Check::Elicitation,
    Check::Sampling,
];

/// The result of a check.
pub enum Outcome {
    Works,
    NotOffered,
    Fails(String),
}

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Mcp(#[from] McpError),
    #[error("'{expected}' is not in the answer {response}")]
    Missing {
        expected: &'static str,
        response: String,
    },
    #[error("a failing call is answered with {0}")]
    NoError(String),
    #[error("{count} notices of progress came")]
    Progress { count: usize },
    #[error("the structured content does not fit: {0}")]
    Mismatch(String),
    #[error("{0} is not in the list")]
    NotListed(&'static str),
}

impl Outcome {
    /// Adds the circumstances to a failure.
    pub fn with(self, circumstances: &str) -> Self {
        match self {
            Self::Fails(why) => Self::Fails(format!("{circumstances}: {why}")),
            other => other,
        }
    }
}

pub async fn check(check: Check, client: &McpClient, offer: &Offer) -> Outcome {
    match perform(check, client, offer).await {
        Ok(true) => Outcome::Works,
        Ok(false) => Outcome::NotOffered,
        Err(failure) => Outcome::Fails(failure.to_string()),
    }
}

/// Performs a check; returns `false` if the server does not offer the feature.
async fn perform(check: Check, client: &McpClient, offer: &Offer) -> Result<bool, Failure> {
    let tool = match check {
        Check::List => return list(client, offer).await,
        Check::Error => return error(client, &offer.error).await,
        Check::Resources => return resources(client, offer).await,
        Check::Prompts => return prompts(client, offer).await,
        Check::Completion => return completion(client, offer).await,
        Check::Call => Some(&offer.call),
        Check::Progress => offer.progress.as_ref(),
        Check::Structured => offer.structured.as_ref(),
        Check::Elicitation => offer.elicitation.as_ref(),
        Check::Sampling => offer.sampling.as_ref(),
    };
    let Some(tool) = tool else {
        return Ok(false);
    };
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let mut options = RequestOptions::default();
    if check == Check::Progress {
        options = options.on_progress(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
    }
    let arguments = tool.arguments();
    let called = client
        .call_tool_with_options(tool.name, &arguments, &options)
        .await?;
    contains(called.result.get(), tool.expected)?;
    let count = count.load(Ordering::Relaxed);
    match check {
        Check::Progress if count < 3 => Err(Failure::Progress { count }),
        Check::Structured if !called.result.get().contains("\"structuredContent\"") => {
            Err(Failure::Missing {
                expected: "structuredContent",
                response: called.result.get().to_owned(),
            })
        }
        _ => match called.output_mismatch {
            Some(mismatch) => Err(Failure::Mismatch(mismatch)),
            None => Ok(true),
        },
    }
}

async fn list(client: &McpClient, offer: &Offer) -> Result<bool, Failure> {
    let tools = client.list_tools().await?;
    let offered = [Some(&offer.call), offer.elicitation.as_ref()];
    for tool in offered.into_iter().flatten() {
        let name = json!(tool.name).to_string();
        if !tools.iter().any(|listed| listed.get().contains(&name)) {
            return Err(Failure::NotListed(tool.name));
        }
    }
    Ok(true)
}

/// Checks that a failing call is a result with `isError` or a JSON-RPC error, and that the client
/// stays usable.
async fn error(client: &McpClient, call: &Call) -> Result<bool, Failure> {
    let called = client.call_tool(call.name, &call.arguments()).await;
    match called {
        Ok(result) if result.get().replace(' ', "").contains("\"isError\":true") => {
            contains(result.get(), call.expected)?;
        }
        Ok(result) => return Err(Failure::NoError(result.get().to_owned())),
        Err(error) if error.rpc_error().is_some() => {}
        Err(error) => return Err(error.into()),
    }
    client.ping().await?;
    Ok(true)
}

async fn resources(client: &McpClient, offer: &Offer) -> Result<bool, Failure> {
    let Some((uri, part)) = offer.resource else {
        return Ok(false);
    };
    if client.list_resources().await?.is_empty() {
        return Err(Failure::NotListed(uri));
    }
    client.list_resource_templates().await?;
    contains(client.read_resource(uri).await?.get(), part)
}

async fn prompts(client: &McpClient, offer: &Offer) -> Result<bool, Failure> {
    let Some(prompt) = &offer.prompt else {
        return Ok(false);
    };
    let listed = client.list_prompts().await?;
    if !listed
        .iter()
        .any(|listed| listed.get().contains(prompt.name))
    {
        return Err(Failure::NotListed(prompt.name));
    }
    let filled = client.get_prompt(prompt.name, &prompt.arguments()).await?;
    contains(filled.get(), prompt.expected)
}

async fn completion(client: &McpClient, offer: &Offer) -> Result<bool, Failure> {
    let Some([prompt, argument, beginning, value]) = offer.completion else {
        return Ok(false);
    };
    let reference = json!({"type": "ref/prompt", "name": prompt});
    let completed = client.complete(&reference, argument, beginning).await?;
    contains(completed.get(), value)
}

fn contains(response: &str, expected: &'static str) -> Result<bool, Failure> {
    // Some servers escape non-ASCII characters.
    let readable = serde_json::from_str::<serde_json::Value>(response)
        .map_or_else(|_| response.to_owned(), |response| response.to_string());
    if readable.contains(expected) {
        return Ok(true);
    }
    let response = readable.chars().take(300).collect();
    Err(Failure::Missing { expected, response })
}
