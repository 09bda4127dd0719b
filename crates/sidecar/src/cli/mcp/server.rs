use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::mcp::{
    Authentication, Callbacks, McpClient, McpError, McpErrorKind, Notification, OAuthGrant,
    ProbeStep, RequestOptions, ServerConfig,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::asking::AskingTime;
use super::authorization::BrowserPrompt;
use super::elicitation;
use super::error::McpCommandError;
use super::interrupt::{StopSignal, StopSignals};
use super::options::Options;
use super::plain;
use super::progress::ProgressDisplay;
use super::terminal::Terminal;
use crate::cli::complain;

/// Longer than anybody waits: the deadline of requests whose time is kept here.
const WITHOUT_END: Duration = Duration::from_secs(7 * 86_400);

/// The server that a command is about.
pub(super) struct Server {
    pub(super) client: McpClient,
    /// Who answers the server's questions, if there is somebody.
    terminal: Option<Arc<Terminal>>,
    /// Asks the user for an authorization, if the server may want one.
    browser: Option<Arc<BrowserPrompt>>,
    progress: Arc<ProgressDisplay>,
}

impl Server {
    /// # Errors
    /// [`McpCommandError::Listen`]
    pub(super) async fn new(
        mut config: ServerConfig,
        options: &Options,
    ) -> Result<Self, McpCommandError> {
        let progress = Arc::new(ProgressDisplay::new(options.verbose));
        let at_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let terminal = at_terminal.then(|| Arc::new(Terminal::new(Arc::clone(&progress))));
        let mut callbacks = Callbacks::new();
        if let Some(terminal) = &terminal {
            let (terminal, server) = (Arc::clone(terminal), config.display_url());
            callbacks = callbacks.on_elicitation(move |question| {
                let (terminal, server) = (Arc::clone(&terminal), server.clone());
                async move { Ok(elicitation::answer(&terminal, &server, &question).await) }
            });
        }
        let browser = match &config.authentication {
            Authentication::OAuth(oauth)
                if oauth.grant == OAuthGrant::AuthorizationCode
                    && (options.oauth || std::io::stderr().is_terminal()) =>
            {
                let (port, progress) = (options.oauth_port, Arc::clone(&progress));
                Some(Arc::new(
                    BrowserPrompt::listen(oauth, port, progress).await?,
                ))
            }
            _ => None,
        };
        if let Some(browser) = &browser {
            config.authorization.prompt = Some(Arc::<BrowserPrompt>::clone(browser));
        }
        if options.verbose {
            callbacks = callbacks.on_notification(tell);
        }
        Ok(Self {
            client: McpClient::with_callbacks(config, callbacks),
            terminal,
            browser,
            progress,
        })
    }

    /// Runs what a command has to do, until it is done, time is up or a signal comes; then
    /// takes leave of the server.
    pub(super) async fn during<T>(
        &self,
        work: impl Future<Output = Result<T, McpCommandError>>,
    ) -> Result<T, McpCommandError> {
        /// How long the word that a request was given up may take to leave.
        const LEAVE: Duration = Duration::from_millis(500);
        let mut signals = StopSignals::listen().map_err(McpCommandError::Signals)?;
        let outcome = tokio::select! {
            outcome = work => outcome,
            signal = self.stopped(&mut signals) => Err(McpCommandError::Interrupted(signal)),
        };
        self.progress.finish();
        let gave_up = match &outcome {
            Err(McpCommandError::Interrupted(_) | McpCommandError::TimedOut { .. }) => true,
            Err(McpCommandError::Request { source, .. }) => source.is_timeout(),
            _ => false,
        };
        let farewell = async {
            if gave_up {
                tokio::time::sleep(LEAVE).await;
            }
            self.client.disconnect().await;
        };
        tokio::select! {
            () = farewell => {}
            _ = signals.next() => {}
        }
        outcome
    }

    /// A signal that is not the answer to a question.
    async fn stopped(&self, signals: &mut StopSignals) -> StopSignal {
        loop {
            let signal = signals.next().await;
            let terminal = self
                .terminal
                .as_ref()
                .filter(|_| signal == StopSignal::Interrupt);
            if !terminal.is_some_and(|terminal| terminal.interrupt()) {
                return signal;
            }
        }
    }

    /// Connects, so that what follows need not wonder whether there is a server at all.
    pub(super) async fn connect(&self) -> Result<(), McpCommandError> {
        let connected = self.past_authorization(|| self.client.connect()).await;
        connected.map_err(|source| {
            let steps = self.client.connection_steps();
            self.failed(source, steps)
        })
    }

    /// A request, with its progress shown.
    pub(super) async fn request<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<Box<RawValue>, McpCommandError> {
        let result = self.in_time(|options| async move {
            self.client.request_with(method, params, &options).await
        });
        result.await
    }

    /// Sends what `send` sends, with its progress shown, and keeps its time. The time that
    /// the user takes to answer a question does not count.
    pub(super) async fn in_time<T, F>(
        &self,
        send: impl FnOnce(RequestOptions) -> F,
    ) -> Result<T, McpCommandError>
    where
        F: Future<Output = Result<T, McpError>>,
    {
        let progress = Arc::clone(&self.progress);
        let mut options = RequestOptions::default().on_progress(move |told| progress.show(&told));
        let timeout = self.client.config().timeout;
        if self.asks() {
            options = options.timeout(WITHOUT_END);
        }
        self.progress.begin();
        let outcome = tokio::select! {
            outcome = send(options) => outcome.map_err(|source| self.failed(source, Vec::new())),
            () = self.out_of_patience(timeout) => Err(McpCommandError::TimedOut {
                place: self.place(),
                after: timeout,
            }),
        };
        self.progress.finish();
        outcome
    }

    /// Waits until `timeout` has passed without the questions; forever where none are asked,
    /// for then the client keeps the time.
    async fn out_of_patience(&self, timeout: Duration) {
        const LOOK: Duration = Duration::from_millis(100);
        if !self.asks() {
            return std::future::pending().await;
        }
        let begun = Instant::now();
        let before = self.time_asking();
        loop {
            let asking = self.time_asking().saturating_sub(before);
            let left = (timeout + asking).saturating_sub(begun.elapsed());
            if left.is_zero() && !self.times().any(AskingTime::is_asking) {
                return;
            }
            tokio::time::sleep(left.max(LOOK)).await;
        }
    }

    /// Whether the user may be asked something.
    fn asks(&self) -> bool {
        self.times().next().is_some()
    }

    fn time_asking(&self) -> Duration {
        self.times().map(AskingTime::total).sum()
    }

    fn times(&self) -> impl Iterator<Item = &AskingTime> {
        let terminal = self.terminal.as_ref().map(|terminal| terminal.time());
        let browser = self.browser.as_ref().map(|browser| browser.time());
        terminal.into_iter().chain(browser)
    }

    /// Attempts what only reads, and again, at once, when its time ran out while the user was
    /// asked for an authorization: that goes on, and the next attempt waits for it too.
    pub(super) async fn past_authorization<T, F>(
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
            let before = browser.time().total();
            let outcome = attempt().await;
            let ran_out = outcome
                .as_ref()
                .is_err_and(|error| matches!(error.kind(), McpErrorKind::Timeout { .. }));
            if !ran_out || browser.time().total() == before {
                return outcome;
            }
        }
    }

    /// What an attempt came to that may fail, except for want of an authorization: the user
    /// who has refused it is not asked again by the next attempt.
    pub(super) fn unless_unauthorized<T>(
        &self,
        outcome: Result<T, McpError>,
    ) -> Result<Result<T, McpError>, McpCommandError> {
        match outcome {
            Err(error) if matches!(error.kind(), McpErrorKind::Authorization(_)) => {
                Err(self.failed(error, Vec::new()))
            }
            outcome => Ok(outcome),
        }
    }

    /// The error of a request, and what was tried where connecting is what failed.
    pub(super) fn failed(&self, source: McpError, steps: Vec<ProbeStep>) -> McpCommandError {
        McpCommandError::Request {
            place: self.place(),
            source: Box::new(source),
            steps,
            available: Vec::new(),
        }
    }

    /// Reads a result, or a part of it.
    pub(super) fn read<T: serde::de::DeserializeOwned>(
        &self,
        result: &RawValue,
    ) -> Result<T, McpCommandError> {
        serde_json::from_str(result.get()).map_err(|source| McpCommandError::Result {
            place: self.place(),
            source,
        })
    }

    /// What errors call the server.
    fn place(&self) -> String {
        self.client.config().display_url()
    }
}

/// Shows a notice of the server's: what it logs as that, anything else by its name.
fn tell(notification: &Notification) {
    let params: Value = serde_json::from_str(notification.params.get()).unwrap_or_default();
    let line = match (notification.method.as_str(), params.get("data")) {
        ("notifications/message", Some(data)) => {
            let level = params["level"].as_str().unwrap_or("info");
            let data = data
                .as_str()
                .map_or_else(|| data.to_string(), str::to_owned);
            format!("the server says ({level}): {data}")
        }
        (method, _) => format!("the server sent {method}"),
    };
    complain(&plain::shortened(&plain::one_line(&line), 1000));
}
