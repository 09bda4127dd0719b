//! A session with an MCP server: the handshake and the first list of tools.

use std::sync::Arc;
use std::time::Duration;

use pillion_core::registry::ToolRegistry;
use pillion_deadline::{timeout, timeout_at};
use pillion_mcp_client::{
    Authentication, ConnectionInfo, McpClient, McpError, McpErrorKind, ProbeStep,
};
use tokio::time::Instant;

use super::advice::Phase;
use super::report::{Finding, Recorder};
use super::tools::ListedTools;
use super::{StepKind, Target, advice};

/// Maximum time for connecting, which for a program includes its start.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum time for the first list of tools.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time for fetching the server's OAuth metadata.
const METADATA_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum time for ending the session with the server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of authorization servers in a note.
const MAX_AUTHORIZATION_SERVERS: usize = 5;

/// Connects with a server in a separate session, and lists its tools. Returns `None` if a step has
/// failed. `registry` contains the tools of all servers.
pub(super) async fn examine_session(
    recorder: &mut Recorder,
    target: &Target,
    registry: Option<Arc<ToolRegistry>>,
) -> Option<()> {
    let mut config = target.config.clone();
    config.timeout = config.timeout.min(CONNECT_TIMEOUT);
    let client = McpClient::new(config);
    let mut session = SessionExaminer {
        recorder: &mut *recorder,
        client: &client,
        target,
        is_program: target.config.url().is_none(),
    };
    let outcome = Box::pin(session.run(registry)).await;
    // The result is dropped, because the diagnosis is complete.
    drop(timeout(CLOSE_TIMEOUT, client.disconnect()).await);
    recorder.redact(&client);
    outcome
}

struct SessionExaminer<'a> {
    recorder: &'a mut Recorder,
    client: &'a McpClient,
    target: &'a Target,
    is_program: bool,
}

impl SessionExaminer<'_> {
    async fn run(&mut self, registry: Option<Arc<ToolRegistry>>) -> Option<()> {
        let started_at = Instant::now();
        let deadline = self.recorder.deadline_of_step(CONNECT_TIMEOUT);
        let outcome = timeout_at(deadline, Box::pin(self.client.connection())).await;
        let duration = started_at.elapsed();
        match outcome {
            Ok(Ok(info)) => self.record_connection(&info, duration),
            Ok(Err(error)) => {
                let attempts = format_attempts(self.client.connection_steps());
                Box::pin(self.record_failed_connection(&error, duration, attempts)).await;
                return None;
            }
            Err(_) => {
                let attempts = format_attempts(self.client.connection_steps());
                let step = if self.is_program {
                    StepKind::Revision
                } else {
                    StepKind::Transport
                };
                self.record_start();
                self.recorder.record_timeout(step, duration, attempts);
                return None;
            }
        }
        Box::pin(self.list_tools(registry)).await
    }

    /// Records that the program of the server runs.
    fn record_start(&mut self) {
        if self.is_program {
            let finding = Finding::new("The program runs.");
            self.recorder.record_success(StepKind::Start, None, finding);
        }
    }

    fn record_connection(&mut self, info: &ConnectionInfo, duration: Duration) {
        let server = match info.server_name() {
            Some((name, version)) => format!("The server is {name} {version}")
                .trim_end()
                .to_owned(),
            None => "The server sends no name".to_owned(),
        };
        let attempts = format_attempts(info.steps.clone());
        let revision = match info.protocol_version {
            Some(version) => format!("{server}; the protocol revision is {version}."),
            None => format!("{server}; no protocol revision was negotiated."),
        };
        let revision_finding = Finding::new(revision);
        if self.is_program {
            self.record_start();
            let finding = revision_finding.with_notes(attempts);
            self.recorder
                .record_success(StepKind::Revision, Some(duration), finding);
            return;
        }
        let transport = info.transport.name();
        let finding = Finding::new(format!("The transport is {transport}.")).with_notes(attempts);
        self.recorder
            .record_success(StepKind::Transport, Some(duration), finding);
        self.recorder
            .record_success(StepKind::Revision, None, revision_finding);
    }

    async fn record_failed_connection(
        &mut self,
        error: &McpError,
        duration: Duration,
        attempts: Vec<String>,
    ) {
        let (step, advice) = advice::for_session(error.kind(), Phase::Connecting, self.is_program);
        let has_response = matches!(step, StepKind::Revision | StepKind::Authorization);
        if self.is_program || !has_response {
            if step == StepKind::Revision {
                self.record_start();
            }
            let finding = Finding::new(error.to_string())
                .with_advice(advice)
                .with_notes(attempts);
            self.recorder.record_failure(step, Some(duration), finding);
            return;
        }
        let responds = Finding::new("The server responds.").with_notes(attempts);
        self.recorder
            .record_success(StepKind::Transport, Some(duration), responds);
        let finding = self.describe_failure(step, advice, error).await;
        self.recorder.record_failure(step, None, finding);
    }

    async fn list_tools(&mut self, registry: Option<Arc<ToolRegistry>>) -> Option<()> {
        let started_at = Instant::now();
        let deadline = self.recorder.deadline_of_step(LIST_TIMEOUT);
        let outcome = timeout_at(deadline, Box::pin(self.client.list_tools())).await;
        let duration = started_at.elapsed();
        match outcome {
            Ok(Ok(entries)) => {
                self.record_authorization("The server accepts the requests.");
                let section = &self.target.section;
                let listed_tools = ListedTools {
                    entries,
                    label: section.label().to_owned(),
                    prefix: section.tool_prefix(),
                    client: self.client.clone(),
                    registry,
                };
                let finding = listed_tools.examine().await;
                self.recorder
                    .record_success(StepKind::ToolList, Some(duration), finding);
                Some(())
            }
            Ok(Err(error)) => {
                let (step, advice) =
                    advice::for_session(error.kind(), Phase::Listing, self.is_program);
                if step != StepKind::Authorization {
                    self.record_authorization("The server accepts the handshake.");
                }
                let finding = Box::pin(self.describe_failure(step, advice, &error)).await;
                self.recorder.record_failure(step, Some(duration), finding);
                None
            }
            Err(_) => {
                self.record_authorization("The server accepts the handshake.");
                let step = StepKind::ToolList;
                self.recorder.record_timeout(step, duration, Vec::new());
                None
            }
        }
    }

    fn record_authorization(&mut self, detail: &str) {
        if !self.is_program {
            let finding = Finding::new(detail);
            self.recorder
                .record_success(StepKind::Authorization, None, finding);
        }
    }

    /// Describes a failure. If the server has rejected a request, also describes which credential
    /// the server requires.
    async fn describe_failure(
        &self,
        step: StepKind,
        advice: &'static str,
        error: &McpError,
    ) -> Finding {
        let finding = Finding::new(error.to_string());
        let (
            StepKind::Authorization,
            McpErrorKind::HttpStatus {
                status, challenge, ..
            },
        ) = (step, error.kind())
        else {
            return finding.with_advice(advice);
        };
        let challenge_note = match error.challenge() {
            Some(shown_challenge) => {
                format!("The server requests: {}", shown_challenge.header)
            }
            None => "The server does not say which credential it requires (no header \
                     WWW-Authenticate)."
                .to_owned(),
        };
        let deadline = self.recorder.deadline_of_step(METADATA_TIMEOUT);
        let fetch = Box::pin(self.client.authorization_servers(challenge.as_deref()));
        let (has_metadata, metadata_note) = match timeout_at(deadline, fetch).await {
            Ok(Ok(servers)) if servers.is_empty() => {
                (false, "The server publishes no OAuth metadata.".to_owned())
            }
            Ok(Ok(mut servers)) => {
                servers.truncate(MAX_AUTHORIZATION_SERVERS);
                let names = servers.join(", ");
                (
                    true,
                    format!("The server's OAuth metadata names the authorization server {names}"),
                )
            }
            Ok(Err(metadata_error)) => (
                false,
                format!("The server's OAuth metadata cannot be used: {metadata_error}"),
            ),
            Err(_) => (
                false,
                "The server's OAuth metadata did not arrive in time.".to_owned(),
            ),
        };
        let config = &self.target.config;
        let has_credential =
            !matches!(config.authentication, Authentication::None) || !config.headers.is_empty();
        finding
            .with_advice(advice::for_rejection(*status, has_credential, has_metadata))
            .with_notes(vec![challenge_note, metadata_note])
    }
}

/// Returns the attempts to connect, each with its outcome.
fn format_attempts(steps: Vec<ProbeStep>) -> Vec<String> {
    let format_step = |step: ProbeStep| match step.outcome {
        Ok(description) => format!("{}: {description}", step.attempt),
        Err(error) => format!("{}: failed: {error}", step.attempt),
    };
    steps.into_iter().map(format_step).collect()
}
