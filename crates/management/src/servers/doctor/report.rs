//! The steps of a diagnosis, and their outcomes.

use std::time::Duration;

use pillion_core::escape_line;
use pillion_deadline::timeout_at;
use pillion_mcp_client::{McpClient, shortened};
use tokio::time::Instant;

use super::advice;

/// Maximum length of a detail or an advice, in bytes.
const MAX_TEXT_BYTES: usize = 1_000;

/// Maximum length of a note, in bytes.
pub(super) const MAX_NOTE_BYTES: usize = 240;

/// Maximum number of notes of a step.
const MAX_NOTES: usize = 20;

/// The outcome of examining the connection with an MCP server.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// The steps, in the order of a connection.
    pub steps: Vec<DiagnosisStep>,
    /// The duration of all steps.
    pub duration: Duration,
}

/// One step of a [`Diagnosis`]. The texts contain no credentials, but may contain texts of the
/// server.
#[derive(Debug, Clone)]
pub struct DiagnosisStep {
    /// What the step examines.
    pub kind: StepKind,
    /// Whether the step succeeded.
    pub outcome: StepOutcome,
    /// How long the step took; `None` if the step was not measured separately.
    pub duration: Option<Duration>,
    /// What was found.
    pub detail: String,
    /// What the finding means and what to do.
    pub advice: Option<String>,
    /// Single facts, such as the addresses of a host.
    pub notes: Vec<String>,
}

/// What a [`DiagnosisStep`] examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// The server's settings, and the credential of the user.
    Configuration,
    /// Whether the server's program exists and can be executed.
    Program,
    /// The start of the server's program.
    Start,
    /// The addresses of the host in the server's URL.
    NameResolution,
    /// Which addresses the egress policy allows.
    EgressPolicy,
    /// The TCP connection with one of the allowed addresses.
    TcpConnection,
    /// The TLS handshake and the server's certificate.
    Tls,
    /// The first requests over HTTP, which detect the transport.
    Transport,
    /// The protocol revision that the handshake negotiated.
    Revision,
    /// Whether the server accepts the credential.
    Authorization,
    /// The first `tools/list`.
    ToolList,
}

/// The outcome of a [`DiagnosisStep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepOutcome {
    /// The step succeeded.
    Ok,
    /// The step failed, so the remaining steps were skipped.
    Failed,
    /// The connection does not have this stage.
    NotApplicable,
    /// A previous step failed.
    Skipped,
}

impl StepKind {
    /// The steps for a server with a URL.
    pub(super) const OF_URL: [Self; 9] = [
        Self::Configuration,
        Self::NameResolution,
        Self::EgressPolicy,
        Self::TcpConnection,
        Self::Tls,
        Self::Transport,
        Self::Revision,
        Self::Authorization,
        Self::ToolList,
    ];

    /// The steps for a server that is a program.
    pub(super) const OF_PROGRAM: [Self; 5] = [
        Self::Configuration,
        Self::Program,
        Self::Start,
        Self::Revision,
        Self::ToolList,
    ];

    /// Returns the display name of the step.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Configuration => "Configuration",
            Self::Program => "Program",
            Self::Start => "Start of the program",
            Self::NameResolution => "Name resolution",
            Self::EgressPolicy => "Egress policy",
            Self::TcpConnection => "TCP connection",
            Self::Tls => "TLS",
            Self::Transport => "HTTP and transport",
            Self::Revision => "Handshake and protocol revision",
            Self::Authorization => "Authorization",
            Self::ToolList => "Tool list",
        }
    }
}

impl StepOutcome {
    /// Returns the display name of the outcome.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::NotApplicable => "not applicable",
            Self::Skipped => "skipped",
        }
    }
}

impl Diagnosis {
    /// Returns the step that failed; `None` if no step failed.
    #[must_use]
    pub fn failed_step(&self) -> Option<&DiagnosisStep> {
        let mut steps = self.steps.iter();
        steps.find(|step| step.outcome == StepOutcome::Failed)
    }
}

/// What a step has found.
#[derive(Debug, Default)]
pub(super) struct Finding {
    detail: String,
    advice: Option<String>,
    notes: Vec<String>,
}

impl Finding {
    pub(super) fn new(detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            ..Self::default()
        }
    }

    pub(super) fn with_advice(self, advice: impl Into<String>) -> Self {
        self.with_optional_advice(Some(advice.into()))
    }

    pub(super) fn with_optional_advice(self, advice: Option<String>) -> Self {
        Self { advice, ..self }
    }

    pub(super) fn with_notes(self, notes: Vec<String>) -> Self {
        Self { notes, ..self }
    }
}

/// Runs the steps of a diagnosis with deadlines, and records their outcomes.
pub(super) struct Recorder {
    /// The kinds of the steps, in the order of a connection.
    plan: &'static [StepKind],
    steps: Vec<DiagnosisStep>,
    started_at: Instant,
    deadline: Instant,
}

impl Recorder {
    pub(super) fn new(plan: &'static [StepKind], max_duration: Duration) -> Self {
        let started_at = Instant::now();
        Self {
            plan,
            steps: Vec::new(),
            started_at,
            deadline: started_at + max_duration,
        }
    }

    /// Returns the deadline of a step that begins now and takes at most `limit`.
    pub(super) fn deadline_of_step(&self, limit: Duration) -> Instant {
        self.deadline.min(Instant::now() + limit)
    }

    /// Runs a step for at most `limit`, and records its outcome. Returns `None` if the step failed.
    pub(super) async fn run<T>(
        &mut self,
        kind: StepKind,
        limit: Duration,
        work: impl Future<Output = Result<(T, Finding), Finding>>,
    ) -> Option<T> {
        let started_at = Instant::now();
        let outcome = timeout_at(self.deadline_of_step(limit), work).await;
        let duration = started_at.elapsed();
        match outcome {
            Ok(Ok((value, finding))) => {
                self.record(kind, StepOutcome::Ok, Some(duration), finding);
                Some(value)
            }
            Ok(Err(finding)) => {
                self.record_failure(kind, Some(duration), finding);
                None
            }
            Err(_) => {
                self.record_timeout(kind, duration, Vec::new());
                None
            }
        }
    }

    pub(super) fn record_success(
        &mut self,
        kind: StepKind,
        duration: Option<Duration>,
        finding: Finding,
    ) {
        self.record(kind, StepOutcome::Ok, duration, finding);
    }

    pub(super) fn record_failure(
        &mut self,
        kind: StepKind,
        duration: Option<Duration>,
        finding: Finding,
    ) {
        self.record(kind, StepOutcome::Failed, duration, finding);
    }

    /// Records a step that did not end in time.
    pub(super) fn record_timeout(
        &mut self,
        kind: StepKind,
        duration: Duration,
        notes: Vec<String>,
    ) {
        let seconds = duration.as_secs_f64();
        let finding = Finding::new(format!("The step did not end within {seconds:.1} s."))
            .with_advice(advice::for_timeout(kind))
            .with_notes(notes);
        self.record_failure(kind, Some(duration), finding);
    }

    /// Records that the connection does not have this stage.
    pub(super) fn record_inapplicable(&mut self, kind: StepKind, reason: &str) {
        self.record(kind, StepOutcome::NotApplicable, None, Finding::new(reason));
    }

    /// Records the outcome of a step in place of an earlier outcome of the step.
    fn record(
        &mut self,
        kind: StepKind,
        outcome: StepOutcome,
        duration: Option<Duration>,
        finding: Finding,
    ) {
        self.steps.retain(|step| step.kind != kind);
        self.steps.push(DiagnosisStep {
            kind,
            outcome,
            duration,
            detail: finding.detail,
            advice: finding.advice,
            notes: finding.notes,
        });
    }

    /// Removes the credentials of a client from the texts of all steps.
    pub(super) fn redact(&mut self, client: &McpClient) {
        for step in &mut self.steps {
            client.redact(&mut step.detail);
            step.advice.iter_mut().for_each(|text| client.redact(text));
            step.notes.iter_mut().for_each(|text| client.redact(text));
        }
    }

    /// Returns the diagnosis. Steps of the plan that were not recorded are skipped.
    pub(super) fn finish(mut self) -> Diagnosis {
        let mut steps = Vec::with_capacity(self.plan.len());
        for kind in self.plan {
            let recorded_step = self.steps.extract_if(.., |step| step.kind == *kind).next();
            steps.push(recorded_step.unwrap_or_else(|| DiagnosisStep {
                kind: *kind,
                outcome: StepOutcome::Skipped,
                duration: None,
                detail: String::new(),
                advice: None,
                notes: Vec::new(),
            }));
        }
        steps.append(&mut self.steps);
        steps.iter_mut().for_each(DiagnosisStep::limit_texts);
        Diagnosis {
            steps,
            duration: self.started_at.elapsed(),
        }
    }
}

impl DiagnosisStep {
    /// Shortens the texts of the step, which may be texts of the server, and makes each text one
    /// line without hidden characters.
    fn limit_texts(&mut self) {
        let limit = |text: &mut String, max_bytes: usize| {
            let limited_text = shortened(&escape_line(text), max_bytes).into_owned();
            *text = limited_text;
        };
        let omitted_count = self.notes.len().saturating_sub(MAX_NOTES);
        self.notes.truncate(MAX_NOTES);
        for note in &mut self.notes {
            limit(note, MAX_NOTE_BYTES);
        }
        if omitted_count > 0 {
            self.notes.push(format!("and {omitted_count} more"));
        }
        limit(&mut self.detail, MAX_TEXT_BYTES);
        if let Some(advice) = &mut self.advice {
            limit(advice, MAX_TEXT_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use pillion_mcp_client::ServerConfig;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn recorder() -> Recorder {
        Recorder::new(&StepKind::OF_URL, LIMIT)
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_hangs_fails_at_its_deadline_and_the_others_are_skipped() {
        let mut recorder = recorder();
        let found = recorder.run(StepKind::Configuration, LIMIT, async {
            Ok(((), Finding::new("found")))
        });
        assert_eq!(found.await, Some(()));
        let started_at = Instant::now();
        let hanging = std::future::pending::<Result<((), Finding), Finding>>();
        let limit = Duration::from_secs(60);
        assert_eq!(recorder.run(StepKind::Tls, limit, hanging).await, None);
        assert!(started_at.elapsed() < LIMIT * 2);
        let diagnosis = recorder.finish();
        let outcomes: Vec<_> = diagnosis
            .steps
            .iter()
            .map(|step| (step.kind, step.outcome))
            .collect();
        let expected: Vec<_> = StepKind::OF_URL
            .into_iter()
            .map(|kind| match kind {
                StepKind::Configuration => (kind, StepOutcome::Ok),
                StepKind::Tls => (kind, StepOutcome::Failed),
                _ => (kind, StepOutcome::Skipped),
            })
            .collect();
        assert_eq!(outcomes, expected);
        let failed_step = diagnosis.failed_step().unwrap();
        assert_eq!(failed_step.kind, StepKind::Tls);
        assert!(failed_step.advice.is_some());
    }

    #[tokio::test]
    async fn texts_contain_no_credentials_and_no_hidden_characters_and_are_short() {
        let mut config = ServerConfig::new("x", "https://mcp.example/").unwrap();
        config.authentication = pillion_mcp_client::Authentication::bearer("hush-hush");
        let client = McpClient::new(config);
        let mut recorder = recorder();
        let finding = Finding::new(format!("{} hush-hush", "x".repeat(2_000)))
            .with_advice("hush-hush\u{202e}\n")
            .with_notes(vec!["a hush-hush".to_owned(); 100]);
        recorder.record_failure(StepKind::Transport, None, finding);
        recorder.redact(&client);
        let diagnosis = recorder.finish();
        assert!(!format!("{diagnosis:?}").contains("hush"));
        let step = diagnosis.failed_step().unwrap();
        assert!(step.detail.len() <= MAX_TEXT_BYTES);
        let advice = step.advice.as_deref();
        assert_eq!(advice, Some(r"[redacted]\u{202e}\n"));
        assert_eq!(step.notes.len(), MAX_NOTES + 1);
        assert_eq!(step.notes.last().unwrap(), "and 80 more");
    }
}
