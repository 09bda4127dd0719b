use std::time::Duration;

use serde_json::{Value, json};

use super::LlmDialect;
use super::heard::Heard;

/// What a fake language model answers to one request.
#[derive(Debug, Clone, Default)]
pub struct LlmAnswer {
    pub(super) text: String,
    pub(super) thought: String,
    pub(super) items: Vec<Value>,
    pub(super) calls: Vec<LlmCall>,
    pub(super) usage: Option<(u64, u64)>,
    pub(super) finish: Option<String>,
    pub(super) delay: Duration,
    pub(super) fault: Option<LlmFault>,
    pub(super) refusal: Option<Refusal>,
}

/// What comes instead of an answer.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) status: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

/// One tool call of an answer.
#[derive(Debug, Clone)]
pub struct LlmCall {
    /// Its id; none is left out, as some servers do.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The text of its arguments, JSON or not.
    pub arguments: String,
}

/// How an answer goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum LlmFault {
    /// It ends in the middle, as if that were its end.
    Truncated,
    /// The connection ends in the middle.
    Broken,
    /// It never ends.
    Endless,
    /// It comes byte by byte, with this pause after each.
    Trickling(Duration),
    /// An error: in place of an answer, or in the middle of a stream; the status is 200.
    Error(Value),
    /// It is plain though a stream was asked for.
    NotStreamed,
    /// The stream says nowhere that it is complete.
    NotDone,
    /// The same, and the connection breaks then.
    BrokenAtEnd,
}

impl LlmAnswer {
    /// Words.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    /// What a model says that does what the last message of the user says, to a request of OpenAI's
    /// chat completions: see [`FakeLlm::obedient`](crate::FakeLlm::obedient).
    #[must_use]
    pub fn obedient(request: &Value) -> Self {
        super::obedient::answer(&Heard::of(LlmDialect::OpenAiChat, request))
    }

    /// One call.
    #[must_use]
    pub fn call(name: &str, arguments: &Value) -> Self {
        Self::default().and_call(name, &arguments.to_string())
    }

    /// So many calls of one tool, without arguments.
    #[must_use]
    pub fn calls(count: usize, name: &str) -> Self {
        (0..count).fold(Self::default(), |answer, _| answer.and_call(name, "{}"))
    }

    /// The same with one more call. `arguments` need not be JSON.
    #[must_use]
    pub fn and_call(mut self, name: &str, arguments: &str) -> Self {
        let id = Some(format!("call_{}", self.calls.len() + 1));
        self.calls.push(LlmCall {
            id,
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        });
        self
    }

    /// The same after an item of OpenAI's Responses, or a block of Anthropic's, as it stands: what the
    /// provider has done by itself.
    #[must_use]
    pub fn after_item(mut self, item: Value) -> Self {
        self.items.push(item);
        self
    }

    /// The same, with calls that have no id.
    #[must_use]
    pub fn without_ids(mut self) -> Self {
        self.calls.iter_mut().for_each(|call| call.id = None);
        self
    }

    /// The same after what the model shows of its thinking.
    #[must_use]
    pub fn thinking(self, thought: &str) -> Self {
        Self {
            thought: thought.to_owned(),
            ..self
        }
    }

    /// The same, which took so many tokens in and out.
    #[must_use]
    pub fn costing(self, input: u64, output: u64) -> Self {
        Self {
            usage: Some((input, output)),
            ..self
        }
    }

    /// The same, ended for this reason, in the dialect's word.
    #[must_use]
    pub fn ended_by(self, reason: &str) -> Self {
        Self {
            finish: Some(reason.to_owned()),
            ..self
        }
    }

    /// The same, after a while.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// The same, gone wrong.
    #[must_use]
    pub fn with(self, fault: LlmFault) -> Self {
        Self {
            fault: Some(fault),
            ..self
        }
    }

    /// No answer: a status such as `500 Internal Server Error`, and an error as OpenAI has it.
    #[must_use]
    pub fn refusal(status: &str, code: &str, message: &str) -> Self {
        let error =
            json!({"error": {"message": message, "type": code, "param": null, "code": code}});
        Self::failing(status, &error.to_string())
    }

    /// No answer: a status and any body.
    #[must_use]
    pub fn failing(status: &str, body: &str) -> Self {
        let refusal = Refusal {
            status: status.to_owned(),
            headers: vec![("Content-Type", "application/json".to_owned())],
            body: body.to_owned(),
        };
        Self {
            refusal: Some(refusal),
            ..Self::default()
        }
    }

    /// The same with a header, of an answer that is none.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Some(refusal) = &mut self.refusal {
            refusal.headers.push((name, value.to_owned()));
        }
        self
    }
}

impl LlmCall {
    /// The arguments as an object; `{}` where they are none.
    pub(super) fn object(&self) -> Value {
        let arguments = serde_json::from_str(&self.arguments).ok();
        arguments
            .filter(Value::is_object)
            .unwrap_or_else(|| json!({}))
    }
}
