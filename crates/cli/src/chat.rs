mod screen;

use std::io::{ErrorKind, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use pillion_client::{Caller, Client};
use pillion_wire::{CHANNEL_HEADER, ChatApproval, ChatRequest, ChatResponse, USER_HEADER, route};

use super::dispatch::{CommandResult, RunCommand};
use super::error::CliError;
use super::event_stream::SidecarEvents;
use super::input;
use super::output::print_diagnostic;
use super::sidecar::{build_caller, build_query_parameters};
use screen::ChatScreen;

/// Chats with a language model that uses the tools
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion chat",
    "pillion chat 'What time is it in Tokyo?' --model gpt-4-turbo",
    "pillion chat --resume 01a202b1-8b10-74cc-982e-dcae537c06e0",
    "pillion chat --json 'Roll 2d6' | jq -r 'select(.type == \"done\") | .approvals[].id'",
])]
pub(super) struct ChatCommand {
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
    /// Continues the chat with this ID
    #[arg(long, value_name = "CHAT")]
    resume: Option<String>,
    /// Prints each event as one line of JSON; the last event, `done`, has the chat's ID, status and
    /// approvals
    #[arg(long)]
    json: bool,
}

struct ChatSession<'a> {
    client: &'a Client,
    caller: Caller,
    headers: Vec<(&'static str, String)>,
    /// The request that begins a new chat. Later requests omit the settings of the chat.
    first_request: ChatRequest,
    /// The chat's ID; `None` before the first message.
    id: Option<String>,
    screen: ChatScreen,
    can_ask_user: bool,
}

impl RunCommand<Client> for ChatCommand {
    fn run(self, client: &Client) -> CommandResult {
        let is_resumed = self.resume.is_some();
        let mut session = ChatSession {
            client,
            caller: build_caller(self.user.as_deref()),
            headers: build_query_parameters([
                (USER_HEADER, self.user),
                (CHANNEL_HEADER, self.channel),
            ]),
            first_request: ChatRequest {
                model: self.model,
                system: self.system,
                enable_tools: self.no_tools.then_some(false),
                ..ChatRequest::default()
            },
            id: self.resume,
            screen: ChatScreen::new(self.json),
            can_ask_user: std::io::stdin().is_terminal()
                && std::io::stderr().is_terminal()
                && !self.json,
        };
        if let Some(message) = self.message {
            if message.trim().is_empty() {
                let problem = "the message is empty: pass a text";
                return Err(CliError::Usage(problem.to_owned()));
            }
            return session.send_message(Some(message));
        }
        if is_resumed && !std::io::stdin().is_terminal() {
            return session.send_message(None);
        }
        session.send_lines(is_resumed)
    }
}

impl ChatSession<'_> {
    /// Sends each line of standard input as a message.
    fn send_lines(&mut self, is_resumed: bool) -> CommandResult {
        let mut exit_code = ExitCode::SUCCESS;
        if is_resumed {
            exit_code = self.send_message(None)?;
        }
        loop {
            if self.can_ask_user {
                self.screen.prompt("> ")?;
            }
            let Some(line) = input::read_line()? else {
                return Ok(exit_code);
            };
            if !line.trim().is_empty() {
                exit_code = self.send_message(Some(line))?;
            }
        }
    }

    /// Sends a message, and continues the chat until the model gives its final response, or until a
    /// call needs a decision that the user cannot make at this terminal.
    fn send_message(&mut self, mut message: Option<String>) -> CommandResult {
        loop {
            let response = self.send_request(message.take())?;
            if response.status != "awaiting_approval" || !self.can_ask_user {
                return self.report_outcome(&response);
            }
            for approval in &response.approvals {
                self.ask_for_decision(approval)?;
            }
        }
    }

    /// Sends one request and shows its events as they arrive.
    fn send_request(&mut self, message: Option<String>) -> Result<ChatResponse, CliError> {
        let request = ChatRequest {
            message,
            stream: Some(true),
            ..match self.id {
                None => self.first_request.clone(),
                Some(_) => ChatRequest::default(),
            }
        };
        let id = self.id.as_deref().unwrap_or_default();
        let is_id_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !id.bytes().all(is_id_byte) {
            return Err(CliError::Usage(format!(
                "the chat id '{id}' has a character other than letters, digits and '-'"
            )));
        }
        let target = match id {
            "" => route::BEGIN_CHAT.path.to_owned(),
            id => route::CONTINUE_CHAT.path_with([id]),
        };
        let body = serde_json::to_vec(&request)?;
        let socket_path = self.client.socket_path();
        let mut events = SidecarEvents::open(socket_path, &target, &self.headers, Some(&body))?;
        while let Some(event) = events.next()? {
            self.screen.show(&event)?;
            if event.kind == "done" {
                let response: ChatResponse = serde_json::from_value(event.data)?;
                self.id = Some(response.id.clone());
                return Ok(response);
            }
        }
        Err(CliError::SidecarStream(ErrorKind::UnexpectedEof.into()))
    }

    /// Asks the user whether a call may run, and sends the decision.
    fn ask_for_decision(&mut self, approval: &ChatApproval) -> Result<(), CliError> {
        let Some(id) = &approval.id else {
            return Ok(());
        };
        let question = format!("Run {} {}? [y/N] ", approval.tool, approval.arguments);
        self.screen.prompt(&question)?;
        let decision = input::read_line()?.unwrap_or_default();
        let route = match decision.trim() {
            "y" | "Y" | "yes" => route::APPROVE,
            _ => route::DENY,
        };
        let request = self.client.request(route, [id]).caller(&self.caller);
        request.send_bytes(b"{}")?;
        Ok(())
    }

    fn report_outcome(&mut self, response: &ChatResponse) -> CommandResult {
        self.screen.end_line()?;
        match response.status.as_str() {
            "answered" => Ok(ExitCode::SUCCESS),
            "awaiting_approval" => {
                for approval in &response.approvals {
                    let id = approval.id.as_deref().unwrap_or_default();
                    let (tool, arguments) = (&approval.tool, &approval.arguments);
                    self.screen
                        .note(&format!("waits for approval: {tool} {arguments}"));
                    // The command is printed on a separate line, so that users can copy it and it
                    // is never truncated.
                    self.screen
                        .note(&format!("  pillion approvals approve {id}"));
                }
                let id = &response.id;
                self.screen.note("then continue the chat:");
                self.screen.note(&format!("  pillion chat --resume {id}"));
                Ok(ExitCode::FAILURE)
            }
            _ => {
                let message = response.error.as_deref();
                let error = message.unwrap_or("the chat failed without an error message");
                let code = response.error_code.as_deref().unwrap_or("internal_error");
                print_diagnostic(&format!("{error} ({code})"));
                let id = &response.id;
                self.screen
                    .note(&format!("to try again: pillion chat --resume {id}"));
                Ok(ExitCode::FAILURE)
            }
        }
    }
}
