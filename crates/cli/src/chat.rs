mod screen;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use pillion_client::{Caller, Client};
use pillion_wire::{CHANNEL_HEADER, ChatAnswer, ChatApproval, ChatRequest, USER_HEADER, route};

use super::event_stream::EventStream;
use super::{CliError, SocketOption, input, print_json};
use screen::Screen;

/// `pillion chat`
#[derive(Debug, Args)]
pub(super) struct Chat {
    #[command(flatten)]
    socket: SocketOption,
    /// The message to send; without it, each line of standard input is a message
    message: Option<String>,
    /// The model, as `pillion models list` shows it
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    model: Option<String>,
    /// The system prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "resume")]
    system: Option<String>,
    /// The user on whose behalf tools run
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The channel that the chat belongs to
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Disables the tools for this chat
    #[arg(long, conflicts_with = "resume")]
    no_tools: bool,
    /// Continues this chat
    #[arg(long, value_name = "CHAT")]
    resume: Option<String>,
    /// Prints each event as one line of JSON; the last event, `done`, has the chat's ID, status and
    /// approvals
    #[arg(long)]
    json: bool,
}

/// A chat in progress.
struct Session {
    socket: PathBuf,
    client: Client,
    caller: Caller,
    headers: Vec<(&'static str, String)>,
    /// The settings of the first message.
    first_request: ChatRequest,
    /// The chat's ID; `None` before the first message.
    id: Option<String>,
    screen: Screen,
    may_ask: bool,
}

impl Chat {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let socket = self.socket.path();
        let mut caller = Caller::default();
        let mut headers = Vec::new();
        if let Some(user) = self.user {
            caller = caller.user(user.clone());
            headers.push((USER_HEADER, user));
        }
        headers.extend(self.channel.map(|channel| (CHANNEL_HEADER, channel)));
        let is_resumed = self.resume.is_some();
        let mut session = Session {
            client: Client::builder(&socket)
                .timeout(Duration::from_secs(30))
                .build(),
            socket,
            caller,
            headers,
            first_request: ChatRequest {
                model: self.model,
                system: self.system,
                enable_tools: self.no_tools.then_some(false),
                ..ChatRequest::default()
            },
            id: self.resume,
            screen: Screen::new(self.json),
            may_ask: std::io::stdin().is_terminal()
                && std::io::stderr().is_terminal()
                && !self.json,
        };
        if let Some(message) = self.message {
            if message.trim().is_empty() {
                return Err(CliError::Usage("the message is empty".to_owned()));
            }
            return session.send_message(Some(message));
        }
        if is_resumed && !std::io::stdin().is_terminal() {
            return session.send_message(None);
        }
        session.send_lines(is_resumed)
    }
}

impl Session {
    /// Sends each line of standard input as a message.
    fn send_lines(&mut self, is_resumed: bool) -> Result<ExitCode, CliError> {
        let mut outcome = ExitCode::SUCCESS;
        if is_resumed {
            outcome = self.send_message(None)?;
        }
        loop {
            if self.may_ask {
                self.screen.prompt("> ")?;
            }
            let Some(line) = input::read_line()? else {
                return Ok(outcome);
            };
            if !line.trim().is_empty() {
                outcome = self.send_message(Some(line))?;
            }
        }
    }

    /// Sends a message, and continues until the model has answered or the chat needs a decision
    /// that cannot be made here.
    fn send_message(&mut self, message: Option<String>) -> Result<ExitCode, CliError> {
        let mut message = message;
        loop {
            let answer = self.send_request(message.take())?;
            if answer.status != "awaiting_approval" || !self.may_ask {
                return self.end(&answer);
            }
            for approval in &answer.approvals {
                self.decide(approval)?;
            }
        }
    }

    /// Sends one request and shows its events as they arrive.
    fn send_request(&mut self, message: Option<String>) -> Result<ChatAnswer, CliError> {
        let request = ChatRequest {
            message,
            stream: Some(true),
            ..match self.id {
                None => self.first_request.clone(),
                Some(_) => ChatRequest::default(),
            }
        };
        let id = self.id.as_deref().unwrap_or_default();
        if !id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return Err(CliError::Usage(format!("'{id}' is not a valid chat id")));
        }
        let target = match id {
            "" => route::BEGIN_CHAT.path.to_owned(),
            id => route::CONTINUE_CHAT.path_with([id]),
        };
        let body = serde_json::to_vec(&request).map_err(CliError::Answer)?;
        let mut events = EventStream::open(&self.socket, &target, &self.headers, Some(&body))?;
        while let Some(event) = events.next()? {
            self.screen.show(&event)?;
            if event.kind == "done" {
                let answer: ChatAnswer =
                    serde_json::from_str(&event.data).map_err(CliError::Answer)?;
                self.id = Some(answer.id.clone());
                return Ok(answer);
            }
        }
        let broken = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        Err(CliError::Streams(broken))
    }

    /// Asks the user whether a call may run, and sends the decision.
    fn decide(&mut self, approval: &ChatApproval) -> Result<(), CliError> {
        let Some(id) = &approval.id else {
            return Ok(());
        };
        let question = format!("Run {} {}? [y/N] ", approval.tool, approval.arguments);
        self.screen.prompt(&question)?;
        let answer = input::read_line()?.unwrap_or_default();
        let route = match answer.trim() {
            "y" | "Y" | "yes" => route::APPROVE,
            _ => route::DENY,
        };
        let request = self.client.request(route, [id]).caller(&self.caller);
        request.send_bytes(b"{}")?;
        Ok(())
    }

    /// Shows the outcome of the chat.
    fn end(&mut self, answer: &ChatAnswer) -> Result<ExitCode, CliError> {
        self.screen.end_line()?;
        match answer.status.as_str() {
            "answered" => Ok(ExitCode::SUCCESS),
            "awaiting_approval" => {
                for approval in &answer.approvals {
                    let id = approval.id.as_deref().unwrap_or_default();
                    let ChatApproval {
                        tool, arguments, ..
                    } = approval;
                    self.screen
                        .note(&format!("waits for approval: {tool} {arguments}"));
                    // Printed on a separate line, so that the command can be copied and is never
                    // truncated.
                    self.screen
                        .note(&format!("  pillion approvals approve {id}"));
                }
                let id = &answer.id;
                self.screen.note("then:");
                self.screen.note(&format!("  pillion chat --resume {id}"));
                Ok(ExitCode::FAILURE)
            }
            _ => {
                let error = answer
                    .error
                    .as_deref()
                    .unwrap_or("the chat failed without an error message");
                let code = answer.error_code.as_deref().unwrap_or("internal_error");
                super::print_diagnostic(&format!("{error} ({code})"));
                let id = &answer.id;
                self.screen
                    .note(&format!("to try again: pillion chat --resume {id}"));
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// Writes text without a line break.
fn write(text: &str) -> Result<(), CliError> {
    let mut output = std::io::stdout().lock();
    let written = output.write_all(text.as_bytes());
    written
        .and_then(|()| output.flush())
        .map_err(CliError::Output)
}
