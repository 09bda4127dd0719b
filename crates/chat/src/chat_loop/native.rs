//! MCP servers whose tools the provider calls itself.

use std::borrow::Cow;
use std::collections::HashSet;

use pillion_core::tool::{ErrorCode, ToolCall, ToolResult};
use pillion_providers::{
    NativeCall, NativeCalls, NativeMcpServer, Provider, ProviderError, format_permits, native_calls,
};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::{ChatEvent, ChatListener, ChatState, EndedCall, ModelError, ToolChoice, TurnOptions};

/// An MCP server whose tools the provider calls itself.
#[derive(Debug, Clone)]
pub struct NativeServer {
    /// The description of the server that is sent to the provider in each request.
    pub server: NativeMcpServer,
    /// The tools that the model may call, each with the name on the server and the local name in
    /// Pillion. Events, approvals and [`ToolRunner::permit`](crate::ToolRunner::permit) use the
    /// local name.
    pub tools: Vec<(String, String)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct NativeServers(pub(super) Vec<NativeServer>);

impl NativeServers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the servers to the options of a request. A request for a text-only response also
    /// describes the servers, because the conversation refers to their tools, but forbids all
    /// calls.
    pub(super) fn add_to_options<'a>(
        &self,
        options: Cow<'a, TurnOptions>,
        provider: Provider,
        forbids_calls: bool,
    ) -> Cow<'a, TurnOptions> {
        let members: Vec<_> = self
            .0
            .iter()
            .filter_map(|native_server| provider.api().native_members(&native_server.server))
            .flatten()
            .collect();
        if members.is_empty() {
            return options;
        }
        let mut options = options.into_owned();
        for (key, value) in members {
            match (options.extra.get_mut(&key), value) {
                (Some(Value::Array(items)), Value::Array(new_items)) => items.extend(new_items),
                (_, value) => {
                    options.extra.insert(key, value);
                }
            }
        }
        if forbids_calls {
            let no_tool_choice = provider.api().tool_choice(&ToolChoice::None);
            options
                .extra
                .insert("tool_choice".to_owned(), no_tool_choice);
        }
        Cow::Owned(options)
    }

    /// Removes the servers' tokens from the error message, because the provider may have repeated a
    /// token in its error.
    pub(super) fn redact_tokens(&self, mut error: ModelError) -> ModelError {
        let tokens = self
            .0
            .iter()
            .filter_map(|native_server| native_server.server.token.as_ref());
        for token in tokens.map(ExposeSecret::expose_secret) {
            if !token.is_empty() && error.message.contains(token) {
                error.message = error.message.replace(token, "(token)");
            }
        }
        error
    }

    /// Parses the calls of MCP tools that the provider made itself or requests permission for, and
    /// gives the tools their local names.
    pub(super) fn parse_calls(
        &self,
        provider: Provider,
        response: &Value,
    ) -> Result<NativeCalls, ProviderError> {
        let mut calls = native_calls(provider, response)?;
        calls
            .permission_requests
            .iter_mut()
            .for_each(|call| self.set_local_name(call));
        for (call, result) in &mut calls.finished_calls {
            self.set_local_name(call);
            result.tool_name.clone_from(&call.call.name);
        }
        Ok(calls)
    }

    /// Returns whether the model may call the tool with this local name.
    pub(super) fn has_tool(&self, name: &str) -> bool {
        let mut tools = self.0.iter().flat_map(|native_server| &native_server.tools);
        tools.any(|(_, local_name)| local_name == name)
    }

    /// Replaces the tool name in the call with the tool's local name. An unknown tool gets a name
    /// that no existing tool has.
    fn set_local_name(&self, call: &mut NativeCall) {
        let NativeCall {
            server,
            call: ToolCall { name, .. },
        } = call;
        let mut servers = self.0.iter();
        let native_server = servers.find(|native_server| native_server.server.label == *server);
        let mut tools = native_server
            .into_iter()
            .flat_map(|native_server| &native_server.tools);
        *name = match tools.find(|(server_tool, _)| server_tool == name) {
            Some((_, local_name)) => local_name.clone(),
            None => format!("{server}: {name}"),
        };
    }
}

/// The calls and servers of [`NativeCalls`] that the listener has already received, so that no call
/// and no server is reported twice. A streamed response contains each call when the call ends, and
/// all calls again when the response ends.
#[derive(Debug, Default)]
pub(super) struct ReportedCalls {
    /// The IDs of the calls that were reported.
    call_ids: HashSet<String>,
    /// The labels of servers that were reported as unreachable.
    unreachable_servers: HashSet<String>,
}

impl ReportedCalls {
    /// Reports the calls that the provider has made and the servers that it could not reach.
    pub(super) fn report_new(&mut self, calls: &NativeCalls, listener: &mut dyn ChatListener) {
        for label in &calls.unlisted_servers {
            if self.unreachable_servers.insert(label.clone()) {
                let status = format!("The provider cannot list the tools of MCP server {label}");
                listener.on_event(ChatEvent::Status(status));
            }
        }
        for (call, result) in &calls.finished_calls {
            if self.call_ids.insert(call.call.id.clone()) {
                listener.on_event(ChatEvent::ToolStarted(call.call.clone()));
                listener.on_event(ChatEvent::ToolFinished(EndedCall {
                    call: call.call.clone(),
                    result: result.clone(),
                }));
            }
        }
    }
}

/// Replaces approvals of the provider's own calls with denials, if the approvals may have been sent
/// with a request that failed. Pillion does not know whether the provider has already made these
/// calls, and a second request with the approvals could make the provider repeat them.
pub(super) fn revoke_sent_permits(state: &mut ChatState, listener: &mut dyn ChatListener) {
    let Some(mut permitted_calls) = state
        .permitted_calls
        .take_if(|permitted_calls| permitted_calls.is_sent)
    else {
        return;
    };
    let calls = permitted_calls
        .calls
        .iter()
        .zip(&mut permitted_calls.permits);
    for (call, permit) in calls.filter(|(_, permit)| permit.success) {
        *permit = ToolResult::failure(
            &permit.tool_call_id,
            &permit.tool_name,
            ErrorCode::InternalError,
            "The call was interrupted; whether it took effect is unknown",
        );
        listener.on_event(ChatEvent::ToolFinished(EndedCall {
            call: call.clone(),
            result: permit.clone(),
        }));
    }
    let denials = format_permits(state.provider, &permitted_calls.permits);
    let messages = state
        .conversation
        .messages
        .iter_mut()
        .skip(permitted_calls.first_permit_index);
    for (message, denial) in messages.zip(denials) {
        *message = denial;
    }
}
