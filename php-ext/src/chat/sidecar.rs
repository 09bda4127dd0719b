use std::cell::RefCell;

use pillion_client::wire::{ChatRequest, ChatResponse, route};
use pillion_client::{Caller, Client, Request, Stream};
use pillion_sse::SseDecoder;
use serde_json::{Map, Value};

use super::{ChatSettings, FinishedChat, Step};
use crate::exception;
use crate::runtime::Bound;
use crate::zend::Failure;

/// Maximum length of an event in bytes; the last event contains a complete response.
const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// A chat whose tool loop runs in the sidecar, with its event stream.
pub struct SidecarChat {
    reader: Bound<RefCell<EventReader>>,
    id: RefCell<String>,
}

struct EventReader {
    stream: Stream,
    decoder: SseDecoder,
}

/// A chat request to the sidecar: new messages for the chat `id`, or for a new chat.
pub struct SidecarChatRequest<'a> {
    pub settings: &'a ChatSettings,
    pub model: Option<&'a str>,
    pub id: Option<&'a str>,
    pub messages: Vec<Value>,
    pub caller: Caller,
}

impl SidecarChatRequest<'_> {
    fn body(&self, stream: bool) -> Result<Vec<u8>, Failure> {
        let messages: Vec<Map<String, Value>> = (self.messages.iter())
            .filter_map(|message| message.as_object().cloned())
            .collect();
        let continued = ChatRequest {
            messages: (!messages.is_empty()).then_some(messages),
            stream: Some(stream),
            ..ChatRequest::default()
        };
        let request = match self.id {
            Some(_) => continued,
            None => ChatRequest {
                model: self.model.map(str::to_owned),
                system: self.settings.system.clone(),
                enable_tools: Some(self.settings.with_tools),
                temperature: self.settings.options.temperature,
                max_output_tokens: self.settings.options.max_output_tokens,
                ..continued
            },
        };
        serde_json::to_vec(&request).map_err(|error| exception::invalid_input(error.to_string()))
    }

    fn request<'a>(&'a self, client: &'a Client) -> Request<'a, ChatResponse> {
        let request = match self.id {
            Some(id) => client.request(route::CONTINUE_CHAT, [id]),
            None => client.request(route::BEGIN_CHAT, []),
        };
        request.caller(&self.caller)
    }

    /// Sends the request, and waits for the complete response of the chat.
    ///
    /// # Errors
    /// The exception for the failed request.
    pub fn send(&self, client: &Client) -> Result<FinishedChat, Failure> {
        let response = self
            .request(client)
            .send_bytes(&self.body(false)?)
            .map_err(|error| exception::for_client_error(&error))?;
        serde_json::from_slice(response.body())
            .map(|response| finished_chat(response, ""))
            .map_err(|error| invalid_response(&error))
    }

    /// Sends the request, and waits for the head of the event stream.
    ///
    /// # Errors
    /// The exception for the failed request, as for [`send`](Self::send).
    pub fn stream(&self, client: &Client) -> Result<SidecarChat, Failure> {
        let body = self.body(true)?;
        let stream = self.request(client).send_for_stream(&body);
        let reader = EventReader {
            stream: stream.map_err(|error| exception::for_client_error(&error))?,
            decoder: SseDecoder::new(MAX_EVENT_BYTES),
        };
        Ok(SidecarChat {
            reader: Bound::new(RefCell::new(reader)),
            id: RefCell::new(self.id.unwrap_or_default().to_owned()),
        })
    }
}

impl SidecarChat {
    /// Waits for the next step of the chat.
    ///
    /// # Errors
    /// A `TransportException` or a `TimeoutException`; an exception from a signal handler.
    pub fn next(&self) -> Result<Step, Failure> {
        let reader = self.reader.get().ok_or_else(|| {
            Failure::error("Pillion: the process was forked; only the parent continues the chat")
        })?;
        // A signal handler may call this method during the wait.
        let Ok(mut reader) = reader.try_borrow_mut() else {
            return Err(Failure::error("Pillion: the stream is being read"));
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
                "done" => return Ok(Step::Done(finished_chat(data, &self.id.borrow()))),
                _ => return Ok(Step::Event(kind, data)),
            }
        }
    }

    /// Returns the state that resumes the chat: the chat ID, once the sidecar has sent it.
    pub fn state(&self) -> Option<String> {
        let id = self.id.borrow();
        (!id.is_empty()).then(|| id.clone())
    }
}

impl EventReader {
    /// Returns the name and the data of the stream's next event.
    fn next_event(&mut self) -> Result<(String, String), Failure> {
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
                return Err(exception::transport(message));
            }
            self.decoder.feed(&buffer[..length]).map_err(|error| {
                exception::transport(format!("The sidecar's response: {error}"))
            })?;
        }
    }
}

fn finished_chat(response: Value, id: &str) -> FinishedChat {
    let state = response["id"].as_str().unwrap_or(id).to_owned();
    FinishedChat { response, state }
}

fn invalid_response(error: &serde_json::Error) -> Failure {
    exception::transport(format!("The sidecar's response cannot be read: {error}"))
}
