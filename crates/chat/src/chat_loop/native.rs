//! MCP servers that the provider calls natively.

use std::borrow::Cow;
use std::collections::HashSet;

use pillion_core::tool::{ErrorCode, ToolCall, ToolResult};
use pillion_providers::{
    NativeCall, NativeCalls, NativeMcpServer, Provider, ProviderError, format_permits, native_calls,
};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::{ChatEvent, ChatListener, ChatState, EndedCall, ModelError, ToolChoice, TurnOptions};

/// An MCP server that the provider calls natively, and its tools.
#[derive(Debug, Clone)]
pub struct NativeServer {
    /// The server as a request to the provider describes it.
    pub server: NativeMcpServer,
    /// The tools that the model may call, as pairs of the server's name and the local name. Events,
    /// approvals and [`ToolRunner::permit`](crate::ToolRunner::permit) use the local name.
    pub tools: Vec<(String, String)>,
}

/// The native servers of a chat.
#[derive(Debug, Clone, Default)]
pub(super) struct NativeServers(pub(super) Vec<NativeServer>);

impl NativeServers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the servers to the options of a request. A request for a response in text keeps the
    /// servers, because the conversation refers to their tools, but forbids all calls.
    pub(super) fn add_to_options<'a>(
        &self,
        options: Cow<'a, TurnOptions>,
        provider: Provider,
        forbids_calls: bool,
    ) -> Cow<'a, TurnOptions> {
        let members: Vec<_> = self
            .0
            .iter()
            .filter_map(|native| provider.api().native_members(&native.server))
            .flatten()
            .collect();
        if members.is_empty() {
            return options;
        }
        let mut options = options.into_owned();
        for (key, value) in members {
            match (options.extra.get_mut(&key), value) {
                (Some(Value::Array(there)), Value::Array(more)) => there.extend(more),
                (_, value) => {
                    options.extra.insert(key, value);
                }
            }
        }
        if forbids_calls {
            let none = provider.api().tool_choice(&ToolChoice::None);
            options.extra.insert("tool_choice".to_owned(), none);
        }
        Cow::Owned(options)
    }

    /// Removes the servers' tokens from the error message: the provider may have repeated a token.
    pub(super) fn without_tokens(&self, mut error: ModelError) -> ModelError {
        let tokens = self
            .0
            .iter()
            .filter_map(|native| native.server.token.as_ref());
        for token in tokens.map(ExposeSecret::expose_secret) {
            if !token.is_empty() && error.message.contains(token) {
                error.message = error.message.replace(token, "(token)");
            }
        }
        error
    }

    /// Parses the native calls in a response and gives the tools their local names.
    pub(super) fn read(
        &self,
        provider: Provider,
        response: &Value,
    ) -> Result<NativeCalls, ProviderError> {
        let mut calls = native_calls(provider, response)?;
        calls
            .permission_requests
            .iter_mut()
            .for_each(|call| self.name(call));
        for (call, result) in &mut calls.ended {
            self.name(call);
            result.tool_name.clone_from(&call.call.name);
        }
        Ok(calls)
    }

    /// Returns whether the model may call the tool with this local name.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut tools = self.0.iter().flat_map(|native| &native.tools);
        tools.any(|(_, here)| here == name)
    }

    /// Replaces the call's tool name with the local name. An unknown tool gets a name that no tool
    /// has.
    fn name(&self, call: &mut NativeCall) {
        let NativeCall {
            server,
            call: ToolCall { name, .. },
        } = call;
        let mut servers = self.0.iter();
        let native = servers.find(|native| native.server.label == *server);
        let mut tools = native.into_iter().flat_map(|native| &native.tools);
        *name = match tools.find(|(there, _)| there == name) {
            Some((_, here)) => here.clone(),
            None => format!("{server}: {name}"),
        };
    }
}

/// The native calls and servers that were already reported to the listener, so that nothing is
/// reported twice: a streamed response reports each call when the call ends, and all calls again
/// when the response ends.
#[derive(Debug, Default)]
pub(super) struct ReportedCalls {
    /// The ids of the calls that were reported.
    calls: HashSet<String>,
    /// The labels of servers that were reported as unreachable.
    unlisted: HashSet<String>,
}

impl ReportedCalls {
    /// Reports the calls that the provider has made and the servers that it could not reach.
    pub(super) fn report_new(&mut self, calls: &NativeCalls, listener: &mut dyn ChatListener) {
        for label in &calls.unlisted {
            if self.unlisted.insert(label.clone()) {
                let line = format!("The provider cannot list the tools of MCP server {label}");
                listener.on_event(ChatEvent::Status(line));
            }
        }
        for (call, result) in &calls.ended {
            if self.calls.insert(call.call.id.clone()) {
                listener.on_event(ChatEvent::ToolStarted(call.call.clone()));
                listener.on_event(ChatEvent::ToolFinished(EndedCall {
                    call: call.call.clone(),
                    result: result.clone(),
                }));
            }
        }
    }
}

/// Revokes permits that may have been sent with a request that got no response: it is unknown
/// whether the provider has made the permitted calls, and the provider must not make them twice.
pub(super) fn revoke_sent_permits(state: &mut ChatState, listener: &mut dyn ChatListener) {
    let Some(mut permitted) = state.permitted.take_if(|permitted| permitted.is_sent) else {
        return;
    };
    let calls = permitted.calls.iter().zip(&mut permitted.permits);
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
    let denials = format_permits(state.provider, &permitted.permits);
    let messages = state.conversation.messages.iter_mut().skip(permitted.at);
    for (message, denial) in messages.zip(denials) {
        *message = denial;
    }
}
