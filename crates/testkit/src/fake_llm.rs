mod anthropic;
mod chat_request;
mod google;
mod history;
mod obedient;
mod openai_chat;
mod openai_responses;
mod response;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::{Fault, FaultServer, Recorded, Recorder};
use chat_request::ChatRequest;

use response::LlmCall;
pub use response::{LlmFault, LlmResponse};

/// The API of a fake language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LlmDialect {
    /// OpenAI's Chat Completions, at `/v1/chat/completions`. Only this API supports thoughts and
    /// calls without IDs.
    OpenAiChat,
    /// OpenAI's Responses, at `/v1/responses`.
    OpenAiResponses,
    /// Anthropic's Messages, at `/v1/messages`.
    Anthropic,
    /// Google's `generateContent` and `streamGenerateContent`, below `/v1/models`.
    Google,
}

/// A fake language model that gives scripted responses, streamed if the request asks for that, with
/// scripted faults. Like real providers, it rejects invalid conversations: a call whose arguments
/// are not an object, and thinking without a following response.
///
/// ```
/// # use pillion_testkit::{FakeLlm, LlmResponse};
/// # use serde_json::json;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let llm = FakeLlm::start([
///     LlmResponse::call("calculator", &json!({"expression": "6 * 7"})),
///     LlmResponse::text("It is 42."),
/// ])
/// .await;
/// assert!(llm.base_url.ends_with("/v1"));
/// assert!(llm.requests.all().is_empty());
/// # }
/// ```
#[derive(Debug)]
pub struct FakeLlm {
    /// The base URL of the endpoints.
    pub base_url: String,
    /// The requests received so far.
    pub requests: Recorder,
    server: FaultServer,
}

type Script = dyn Fn(&Recorded) -> LlmResponse + Send + Sync;

impl FakeLlm {
    /// Starts a model that gives these responses in order, with OpenAI's Chat Completions API, and
    /// repeats the last response.
    ///
    /// # Panics
    /// If there is no free port, or no response.
    pub async fn start(responses: impl IntoIterator<Item = LlmResponse>) -> Self {
        Self::with_responses(LlmDialect::OpenAiChat, responses).await
    }

    /// Starts a model that gives these responses in order, with another API, and repeats the last
    /// response.
    ///
    /// # Panics
    /// If there is no free port, or no response.
    pub async fn with_responses(
        dialect: LlmDialect,
        responses: impl IntoIterator<Item = LlmResponse>,
    ) -> Self {
        let mut responses: Vec<_> = responses.into_iter().collect();
        assert!(!responses.is_empty(), "a model has something to say");
        responses.reverse();
        let responses = Mutex::new(responses);
        Self::with_script(dialect, move |_| {
            let mut responses = responses.lock().unwrap();
            match responses.len() {
                1 => responses[0].clone(),
                _ => responses.pop().unwrap(),
            }
        })
        .await
    }

    /// Starts a model that answers each request with the response that `script` returns.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn with_script(
        dialect: LlmDialect,
        script: impl Fn(&Recorded) -> LlmResponse + Send + Sync + 'static,
    ) -> Self {
        let script: Arc<Script> = Arc::new(script);
        let server = FaultServer::start(move |request| {
            let rejection = history::rejection(dialect, &request.json());
            let response = rejection.unwrap_or_else(|| script(request));
            response_steps(dialect, request, &response)
        })
        .await;
        Self {
            base_url: server.url.replace("/sse", "/v1"),
            requests: server.requests.clone(),
            server,
        }
    }

    /// Starts a model that follows the user's last message. Lines with a tool's name and JSON
    /// arguments, such as `roll_dice {"notation": "2d6"}`, become calls in one response, and the next
    /// response repeats their results as text. The model repeats any other message.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn obedient(dialect: LlmDialect) -> Self {
        Self::with_script(dialect, move |request| {
            obedient::respond(&ChatRequest::from_body(dialect, &request.json()))
        })
        .await
    }

    /// Returns the number of requests in progress; see [`FaultServer::in_progress`].
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.server.in_progress()
    }

    /// Returns the bodies of the requests.
    #[must_use]
    pub fn bodies(&self) -> Vec<Value> {
        self.requests.all().iter().map(Recorded::json).collect()
    }
}

/// Returns the steps by which the server sends a response.
fn response_steps(dialect: LlmDialect, request: &Recorded, response: &LlmResponse) -> Vec<Fault> {
    let mut steps = Vec::new();
    if !response.delay.is_zero() {
        steps.push(Fault::Wait(response.delay));
    }
    if let Some(rejection) = &response.rejection {
        let headers: Vec<_> = rejection
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let step = Fault::response_with(&rejection.status, &headers, &rejection.body);
        steps.push(step);
        return steps;
    }
    let body = request.json();
    let wants_stream = body["stream"] == true || request.path.contains(":streamGenerateContent");
    let is_streamed = wants_stream && response.fault != Some(LlmFault::NotStreamed);
    let (whole, events) = match dialect {
        LlmDialect::OpenAiChat => (
            openai_chat::plain_body(response),
            openai_chat::events(response, &body),
        ),
        LlmDialect::OpenAiResponses => (
            openai_responses::plain_body(response),
            openai_responses::events(response),
        ),
        LlmDialect::Anthropic => (anthropic::plain_body(response), anthropic::events(response)),
        LlmDialect::Google => (google::plain_body(response), google::events(response)),
    };
    let whole = whole.to_string();
    match (is_streamed, &response.fault) {
        (true, fault) => stream(&mut steps, &events, fault.as_ref()),
        (false, Some(LlmFault::Truncated)) => {
            let half = &whole.as_bytes()[..whole.len() / 2];
            steps.push(Fault::json(half));
        }
        (false, Some(LlmFault::Broken)) => {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                whole.len(),
                &whole[..1],
            );
            steps.extend([Fault::Send(head.into_bytes()), Fault::Close]);
        }
        (false, Some(LlmFault::Endless)) => {
            steps.push(Fault::head("application/json"));
            steps.push(Fault::Forever(b"[".repeat(1024)));
        }
        (false, Some(LlmFault::Trickling(pause))) => {
            steps.push(Fault::head("application/json"));
            steps.extend(trickle(whole.as_bytes(), *pause));
            steps.push(Fault::Close);
        }
        (false, Some(LlmFault::Error(error))) => steps.push(Fault::json(error.to_string())),
        (false, _) => steps.push(Fault::json(whole)),
    }
    steps
}

/// Adds the steps that send a stream of events, one chunk per event.
fn stream(steps: &mut Vec<Fault>, events: &[String], fault: Option<&LlmFault>) {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    steps.push(Fault::Send(head.as_bytes().to_vec()));
    let chunk = |data: &str| Fault::Send(chunk(format!("data: {data}\n\n").as_bytes()));
    let half = events.len() / 2;
    match fault {
        None | Some(LlmFault::NotStreamed) => steps.extend(events.iter().map(|data| chunk(data))),
        Some(LlmFault::NotDone | LlmFault::BrokenAtEnd) => {
            let events = events.iter().filter(|data| *data != "[DONE]");
            steps.extend(events.map(|data| chunk(data)));
        }
        Some(LlmFault::Truncated) => steps.extend(events[..half].iter().map(|data| chunk(data))),
        Some(LlmFault::Broken) => {
            steps.extend(events[..half].iter().map(|data| chunk(data)));
            steps.push(Fault::Close);
            return;
        }
        Some(LlmFault::Endless) => {
            let event = format!("data: {}\n\n", events[half.min(1)]);
            steps.push(Fault::Forever(self::chunk(event.as_bytes())));
            return;
        }
        Some(LlmFault::Trickling(pause)) => {
            for data in events {
                for byte in format!("data: {data}\n\n").as_bytes() {
                    steps.push(Fault::Send(self::chunk(&[*byte])));
                    steps.push(Fault::Wait(*pause));
                }
            }
        }
        Some(LlmFault::Error(error)) => {
            steps.extend(events[..half].iter().map(|data| chunk(data)));
            steps.push(chunk(&error.to_string()));
        }
    }
    steps.push(match fault {
        Some(LlmFault::BrokenAtEnd) => Fault::Close,
        _ => Fault::Send(b"0\r\n\r\n".to_vec()),
    });
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

fn trickle(bytes: &[u8], pause: Duration) -> impl Iterator<Item = Fault> + '_ {
    bytes
        .iter()
        .flat_map(move |byte| [Fault::Send(vec![*byte]), Fault::Wait(pause)])
}
