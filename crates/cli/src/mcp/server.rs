use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use pillion_mcp_client::{
    Authentication, Callbacks, ConnectionInfo, McpClient, McpError, McpErrorKind, Notification,
    OAuthGrant, RequestOptions, ServerConfig,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::authorization::BrowserPrompt;
use super::elicitation;
use super::error::McpCommandError;
use super::interrupt::{InterruptSignals, StopSignal};
use super::options::Options;
use super::plain;
use super::progress::ProgressDisplay;
use super::terminal::{PromptDuration, Terminal};
use crate::output::print_diagnostic;
use crate::typed;

/// The MCP client's timeout for requests whose timeout this module enforces; effectively unlimited.
const UNLIMITED_TIMEOUT: Duration = Duration::from_secs(7 * 86_400);

/// The connection to the server that a command uses.
pub(super) struct ServerConnection {
    pub(super) client: McpClient,
    /// The terminal at which the user responds to the server's elicitations; `None` if there is no
    /// terminal.
    terminal: Option<Arc<Terminal>>,
    /// Asks the user for authorization; `None` if the server's configuration does not use the OAuth
    /// authorization code grant, or if the user cannot be asked.
    browser: Option<Arc<BrowserPrompt>>,
    progress: Arc<ProgressDisplay>,
}

impl ServerConnection {
    /// Creates the MCP client of this connection. Does not connect yet.
    pub(super) async fn new(
        mut config: ServerConfig,
        options: &Options,
    ) -> Result<Self, McpCommandError> {
        let progress = Arc::new(ProgressDisplay::new(options.verbose));
        let is_at_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let terminal = is_at_terminal.then(|| Arc::new(Terminal::new(Arc::clone(&progress))));
        let mut callbacks = Callbacks::new();
        if let Some(terminal) = &terminal {
            let (terminal, server) = (Arc::clone(terminal), config.display_url());
            callbacks = callbacks.on_elicitation(move |params| {
                let (terminal, server) = (Arc::clone(&terminal), server.clone());
                async move { Ok(elicitation::elicit(&terminal, &server, &params).await) }
            });
        }
        let browser = match &config.authentication {
            Authentication::OAuth(oauth)
                if oauth.grant == OAuthGrant::AuthorizationCode
                    && (options.oauth || std::io::stderr().is_terminal()) =>
            {
                let (port, progress) = (options.oauth_port, Arc::clone(&progress));
                let browser = BrowserPrompt::listen(oauth, port, progress).await?;
                Some(Arc::new(browser))
            }
            _ => None,
        };
        if let Some(browser) = &browser {
            config.authorization.prompt = Some(Arc::<BrowserPrompt>::clone(browser));
        }
        if options.verbose {
            callbacks = callbacks.on_notification(print_notification);
        }
        Ok(Self {
            client: McpClient::with_callbacks(config, callbacks),
            terminal,
            browser,
            progress,
        })
    }

    /// Runs the operation of a command until the operation finishes, times out or is interrupted by
    /// a signal, then disconnects.
    pub(super) async fn run_until_done<T>(
        &self,
        operation: impl Future<Output = Result<T, McpCommandError>>,
    ) -> Result<T, McpCommandError> {
        /// Timeout for sending the cancellation of an abandoned request.
        const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);
        let mut signals = InterruptSignals::listen().map_err(McpCommandError::Signals)?;
        let outcome = tokio::select! {
            outcome = operation => outcome,
            signal = self.wait_for_stop_signal(&mut signals) => {
                Err(McpCommandError::Interrupted(signal))
            }
        };
        self.progress.finish();
        let is_abandoned = match &outcome {
            Err(McpCommandError::Interrupted(_) | McpCommandError::TimedOut { .. }) => true,
            Err(McpCommandError::Request { source, .. }) => source.is_timeout(),
            _ => false,
        };
        let disconnection = async {
            if is_abandoned {
                tokio::time::sleep(CANCEL_TIMEOUT).await;
            }
            self.client.disconnect().await;
        };
        tokio::select! {
            () = disconnection => {}
            _ = signals.next() => {}
        }
        outcome
    }

    /// Waits for a signal that stops the command. If the user is being prompted, Ctrl-C cancels
    /// only the prompt.
    async fn wait_for_stop_signal(&self, signals: &mut InterruptSignals) -> StopSignal {
        loop {
            let signal = signals.next().await;
            let is_question_cancelled = signal == StopSignal::Interrupt
                && (self.terminal.as_ref()).is_some_and(|terminal| terminal.interrupt());
            if !is_question_cancelled {
                return signal;
            }
        }
    }

    /// Connects to the server before the first request, so that a failed connection is reported as
    /// a connection error and not as a failed request.
    pub(super) async fn connect(&self) -> Result<(), McpCommandError> {
        self.repeat_after_authorization(|| self.client.connect())
            .await
            .map_err(|source| {
                let steps = self.client.connection_steps();
                self.request_error(source).with_steps(steps)
            })
    }

    /// Connects to the server, and returns what the server declares.
    pub(super) async fn fetch_connection_info(&self) -> Result<ConnectionInfo, McpCommandError> {
        self.connect().await?;
        self.client
            .connection()
            .await
            .map_err(|source| self.request_error(source))
    }

    /// Sends a request and shows its progress.
    pub(super) async fn request<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<Box<RawValue>, McpCommandError> {
        let client = &self.client;
        self.with_timeout(|options| async move {
            client.request_with_options(method, params, &options).await
        })
        .await
    }

    /// Runs `send` with a progress display and the timeout. The time that the user takes to respond
    /// to prompts does not count toward the timeout.
    pub(super) async fn with_timeout<T, F>(
        &self,
        send: impl FnOnce(RequestOptions) -> F,
    ) -> Result<T, McpCommandError>
    where
        F: Future<Output = Result<T, McpError>>,
    {
        let progress = Arc::clone(&self.progress);
        let mut options = RequestOptions::default()
            .on_progress(move |progress_event| progress.show(&progress_event));
        let timeout = self.client.config().timeout;
        if self.can_prompt_user() {
            options = options.timeout(UNLIMITED_TIMEOUT);
        }
        self.progress.begin();
        let outcome = tokio::select! {
            outcome = send(options) => {
                outcome.map_err(|source| self.request_error(source))
            }
            () = self.wait_for_timeout(timeout) => Err(McpCommandError::TimedOut {
                server_name: self.server_name(),
                timeout,
            }),
        };
        self.progress.finish();
        outcome
    }

    /// Waits until `timeout` has passed, not counting the time during which the user is prompted.
    /// Never returns if the user cannot be prompted, because the MCP client then enforces the
    /// timeout.
    async fn wait_for_timeout(&self, timeout: Duration) {
        const POLL_INTERVAL: Duration = Duration::from_millis(100);
        if !self.can_prompt_user() {
            return std::future::pending().await;
        }
        let started_at = Instant::now();
        let previous_duration = self.prompt_stopwatch();
        loop {
            let prompt_stopwatch = self.prompt_stopwatch().saturating_sub(previous_duration);
            let remaining = (timeout + prompt_stopwatch).saturating_sub(started_at.elapsed());
            if remaining.is_zero() && !self.prompt_durations().any(PromptDuration::is_prompting) {
                return;
            }
            tokio::time::sleep(remaining.max(POLL_INTERVAL)).await;
        }
    }

    /// Returns whether the command can prompt the user.
    fn can_prompt_user(&self) -> bool {
        self.prompt_durations().next().is_some()
    }

    fn prompt_stopwatch(&self) -> Duration {
        self.prompt_durations().map(PromptDuration::total).sum()
    }

    fn prompt_durations(&self) -> impl Iterator<Item = &PromptDuration> {
        let terminal = self
            .terminal
            .iter()
            .map(|terminal| terminal.prompt_stopwatch());
        terminal.chain(
            self.browser
                .iter()
                .map(|browser| browser.prompt_stopwatch()),
        )
    }

    /// Runs a read-only request. A request that times out while the user is asked for authorization
    /// is repeated at once; the repeated request waits for the authorization, which continues.
    pub(super) async fn repeat_after_authorization<T, F>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T, McpError>
    where
        F: Future<Output = Result<T, McpError>>,
    {
        let Some(browser) = &self.browser else {
            return attempt().await;
        };
        loop {
            let previous_prompt_stopwatch = browser.prompt_stopwatch().total();
            let outcome = attempt().await;
            let is_timeout = outcome.as_ref().is_err_and(McpError::is_timeout);
            if !is_timeout || browser.prompt_stopwatch().total() == previous_prompt_stopwatch {
                return outcome;
            }
        }
    }

    /// Returns the outcome of an optional request, even if the request failed. Only a failed
    /// authorization is an error, because otherwise the next request would ask the user for
    /// authorization again.
    pub(super) fn fail_if_unauthorized<T>(
        &self,
        outcome: Result<T, McpError>,
    ) -> Result<Result<T, McpError>, McpCommandError> {
        match outcome {
            Err(error) if matches!(error.kind(), McpErrorKind::Authorization(_)) => {
                Err(self.request_error(error))
            }
            outcome => Ok(outcome),
        }
    }

    pub(super) fn request_error(&self, source: McpError) -> McpCommandError {
        McpCommandError::Request {
            server_name: self.server_name(),
            source: Box::new(source),
            steps: Vec::new(),
            available_names: Vec::new(),
        }
    }

    /// Parses a result of the server, or a part of the result.
    pub(super) fn parse<T: serde::de::DeserializeOwned>(
        &self,
        result: &RawValue,
    ) -> Result<T, McpCommandError> {
        serde_json::from_str(result.get()).map_err(|source| McpCommandError::UnexpectedResult {
            server_name: self.server_name(),
            source,
        })
    }

    /// Returns the name by which errors refer to the server.
    fn server_name(&self) -> String {
        self.client.config().display_url()
    }
}

/// Prints a notification of the server: the message of a log notification, or the method of any
/// other notification.
fn print_notification(notification: &Notification) {
    let params: Value = serde_json::from_str(notification.params.get()).unwrap_or_default();
    let line = match (notification.method.as_str(), params.get("data")) {
        ("notifications/message", Some(data)) => {
            let level = params["level"].as_str().unwrap_or("info");
            let text = typed::to_text(data);
            format!("log message of the server ({level}): {text}")
        }
        (method, _) => format!("the server sent {method}"),
    };
    print_diagnostic(&plain::truncate(&plain::to_one_line(&line), 1000));
}
