use serde_json::{Value, json};

/// The features of a server, each with the text that shows that the feature works. Features that
/// the server does not offer are not checked.
pub struct Offer {
    /// A tool that works.
    pub call: Call,
    /// A call that fails.
    pub error: Call,
    /// A tool that reports progress.
    pub progress: Option<Call>,
    /// A tool with an `outputSchema`.
    pub structured: Option<Call>,
    /// The URI of a resource, and a part of its content.
    pub resource: Option<(&'static str, &'static str)>,
    /// A prompt with its arguments, and a part of its content.
    pub prompt: Option<Call>,
    /// A prompt, an argument, the beginning of a value, and the completed value.
    pub completion: Option<[&'static str; 4]>,
    /// A tool that asks the user, whose name is Ada.
    pub elicitation: Option<Call>,
    /// A tool that requests sampling; the client's model answers [`MODEL_SAYS`].
    pub sampling: Option<Call>,
}

/// A call: a name and arguments, and a part of the expected answer.
pub struct Call {
    pub name: &'static str,
    arguments: &'static str,
    pub expected: &'static str,
}

/// The model's answer to a sampling request.
pub const MODEL_SAYS: &str = "Hello from the model";

const fn call(name: &'static str, arguments: &'static str, expected: &'static str) -> Call {
    Call {
        name,
        arguments,
        expected,
    }
}

impl Call {
    pub fn arguments(&self) -> Value {
        serde_json::from_str(self.arguments).unwrap_or_else(|_| json!({}))
    }
}

/// Returns the offer of a server with only tools.
const fn tools_alone(call: Call, error: Call) -> Offer {
    Offer {
        call,
        error,
        progress: None,
        structured: None,
        resource: None,
        prompt: None,
        completion: None,
        elicitation: None,
        sampling: None,
    }
}

const GREET: Call = call("greet", r#"{"name": "Ada"}"#, "Hello, Ada!");
const GREET_PROMPT: Call = call("greeting-template", r#"{"name": "Ada"}"#, "greet Ada");
const GREET_RESOURCE: (&str, &str) = ("https://example.com/greetings/default", "Hello, world!");
const NOTICES: Call = call(
    "start-notification-stream",
    r#"{"interval": 10, "count": 2}"#,
    "every 10ms",
);
const UNKNOWN: Call = call("no-such-tool", "{}", "not found");

pub const EVERYTHING: Offer = Offer {
    call: call("echo", r#"{"message": "hi 🎲"}"#, "Echo: hi 🎲"),
    error: call("echo", r#"{"message": 7}"#, "expected string"),
    progress: Some(call(
        "trigger-long-running-operation",
        r#"{"duration": 0.4, "steps": 4}"#,
        "Steps: 4",
    )),
    structured: Some(call(
        "get-structured-content",
        r#"{"location": "Chicago"}"#,
        "temperature",
    )),
    resource: Some(("demo://resource/dynamic/text/1", "Resource 1")),
    prompt: Some(call("args-prompt", r#"{"city": "Oslo"}"#, "Oslo")),
    completion: Some(["completable-prompt", "department", "E", "Engineering"]),
    elicitation: Some(call("trigger-elicitation-request", "{}", "Ada")),
    sampling: Some(call(
        "trigger-sampling-request",
        r#"{"prompt": "Say hello", "maxTokens": 20}"#,
        MODEL_SAYS,
    )),
};

pub const SDK_JSON: Offer = tools_alone(GREET, UNKNOWN);
pub const SDK_POLLING: Offer = tools_alone(call("long-task", "{}", "complete"), UNKNOWN);
pub const SDK_COMPATIBLE: Offer = tools_alone(NOTICES, UNKNOWN);

pub const SDK_STATELESS: Offer = Offer {
    resource: Some(GREET_RESOURCE),
    prompt: Some(GREET_PROMPT),
    ..tools_alone(NOTICES, UNKNOWN)
};

pub const SDK_SESSIONS: Offer = Offer {
    resource: Some(GREET_RESOURCE),
    prompt: Some(GREET_PROMPT),
    elicitation: Some(call(
        "collect-user-info",
        r#"{"infoType": "contact"}"#,
        "Ada",
    )),
    ..tools_alone(GREET, UNKNOWN)
};

pub const PYTHON: Offer = Offer {
    call: call("echo", r#"{"text": "grüße 世界 🎲"}"#, "grüße 世界 🎲"),
    error: call("fail", "{}", "fail"),
    progress: Some(call("slow", r#"{"seconds": 0.4}"#, "waited")),
    structured: Some(call("roll", r#"{"dice": "2d6"}"#, "total")),
    resource: Some(("memo://for/Ada", "A memo for Ada")),
    prompt: Some(call("greet", r#"{"name": "Ada"}"#, "Please greet Ada.")),
    completion: Some(["greet", "name", "Al", "Alan"]),
    elicitation: Some(call("ask", "{}", "Hello, Ada!")),
    sampling: Some(call("sample", "{}", MODEL_SAYS)),
};
