use std::cell::RefCell;

use pillion_client::wire::{ChatRequest, ChatResponse, route};
use pillion_client::{Caller, Client, Request, Stream};
use pillion_sse::SseDecoder;
use serde_json::{Map, Value};

use super::{ChatSettings, ChatStep, FinishedChat};
use crate::exception;
use crate::runtime::ProcessBound;
use crate::zend::{Failure, Result};

/// Maximum length of an event in the sidecar's event stream, in bytes. The limit is high, because
/// the last event contains a complete response.
const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// A chat whose tool loop runs in the sidecar, with its event stream.
pub struct SidecarChat {
    reader: ProcessBound<RefCell<EventReader>>,
    id: RefCell<String>,
}

struct EventReader {
    stream: Stream,
    decoder: SseDecoder,
}

/// A chat request to the sidecar: new messages for the existing chat `id`, or for a new chat if
/// `id` is `None`.
pub struct SidecarChatRequest<'a> {
    pub settings: &'a ChatSettings,
    pub model: Option<&'a str>,
    pub id: Option<&'a str>,
    pub messages: Vec<Value>,
    pub caller: Caller,
}

impl SidecarChatRequest<'_> {
    fn encode_body(&self, is_streamed: bool) -> Result<Vec<u8>> {
        let messages: Vec<Map<String, Value>> = (self.messages.iter())
            .filter_map(|message| message.as_object().cloned())
            .collect();
        let continuation = ChatRequest {
            messages: (!messages.is_empty()).then_some(messages),
            stream: Some(is_streamed),
            ..ChatRequest::default()
        };
        let request = match self.id {
            Some(_) => continuation,
            None => ChatRequest {
                model: self.model.map(str::to_owned),
                system: self.settings.system.clone(),
                enable_tools: Some(self.settings.can_use_tools),
                temperature: self.settings.options.temperature,
                max_output_tokens: self.settings.options.max_output_tokens,
                ..continuation
            },
        };
        serde_json::to_vec(&request).map_err(|error| exception::invalid_input(error.to_string()))
    }

    fn new_request<'a>(&'a self, client: &'a Client) -> Request<'a, ChatResponse> {
        let request = match self.id {
            Some(id) => client.request(route::CONTINUE_CHAT, [id]),
            None => client.request(route::BEGIN_CHAT, []),
        };
        request.caller(&self.caller)
    }

    /// Sends the request, and waits for the complete response of the chat.
    ///
    /// # Errors
    /// An exception if the sidecar is unavailable, does not respond in time, or responds with an
    /// error.
    pub fn send(&self, client: &Client) -> Result<FinishedChat> {
        let response = self
            .new_request(client)
            .send_bytes(&self.encode_body(false)?)
            .map_err(|error| exception::for_client_error(&error))?;
        serde_json::from_slice(response.body())
            .map(|response| to_finished_chat(response, ""))
            .map_err(|error| invalid_response(&error))
    }

    /// Sends the request, and waits for the head of the event stream.
    ///
    /// # Errors
    /// The same errors as [`send`](Self::send).
    pub fn stream(&self, client: &Client) -> Result<SidecarChat> {
        let body = self.encode_body(true)?;
        let stream = self.new_request(client).send_for_stream(&body);
        let reader = EventReader {
            stream: stream.map_err(|error| exception::for_client_error(&error))?,
            decoder: SseDecoder::new(MAX_EVENT_BYTES),
        };
        Ok(SidecarChat {
            reader: ProcessBound::new(RefCell::new(reader)),
            id: RefCell::new(self.id.unwrap_or_default().to_owned()),
        })
    }
}

impl SidecarChat {
    /// Waits for the next step of the chat.
    ///
    /// # Errors
    /// A `TransportException` or a `TimeoutException`; an exception from a signal handler.
    pub fn next(&self) -> Result<ChatStep> {
        let reader = self.reader.get().ok_or_else(|| {
            Failure::error("Pillion: the process was forked; only the parent continues the chat")
        })?;
        // The borrow fails if another call of this method is still waiting: a signal handler may
        // call this method during a wait.
        let Ok(mut reader) = reader.try_borrow_mut() else {
            return Err(Failure::error(
                "Pillion: the chat stream is already being read: wait until that read has ended",
            ));
        };
        loop {
            let (kind, data) = reader.next_event()?;
            let data: Value =
                serde_json::from_str(&data).map_err(|error| invalid_response(&error))?;
            match kind.as_str() {
                "chat" => {
                    let id = data["id"].as_str().unwrap_or_default();
                    id.clone_into(&mut self.id.borrow_mut());
                }
                "done" => return Ok(ChatStep::Done(to_finished_chat(data, &self.id.borrow()))),
                _ => return Ok(ChatStep::Event(kind, data)),
            }
        }
    }

    /// Returns the state from which the chat can be resumed, which is the chat ID. `None` if the
    /// sidecar has not sent the ID yet.
    pub fn state(&self) -> Option<String> {
        let id = self.id.borrow();
        (!id.is_empty()).then(|| id.clone())
    }
}

impl EventReader {
    /// Returns the name and the data of the stream's next event.
    fn next_event(&mut self) -> Result<(String, String)> {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Ok((event.event.into_owned(), event.data));
            }
            let length = self
                .stream
                .read(&mut buffer)
                .map_err(|error| exception::for_client_error(&error))?;
            if length == 0 {
                let message = "The sidecar ended the stream before the chat had ended";
                return Err(exception::transport_failure(message));
            }
            self.decoder.feed(&buffer[..length]).map_err(|error| {
                exception::transport_failure(format!(
                    "The sidecar's response is not a valid event stream: {error}"
                ))
            })?;
        }
    }
}

fn to_finished_chat(response: Value, id: &str) -> FinishedChat {
    let state = response["id"].as_str().unwrap_or(id).to_owned();
    FinishedChat { response, state }
}

fn invalid_response(error: &serde_json::Error) -> Failure {
    exception::transport_failure(format!("The sidecar's response cannot be read: {error}"))
}
