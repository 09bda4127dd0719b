//! Facts about a text, counted and not guessed: characters, words, lines, sentences, the most
//! frequent words, the time that it takes to read. The text comes with the call, or is a file of
//! `/texts`, where the operator has granted that folder.

mod facts;

use serde::Deserialize;

use facts::Facts;

wit_bindgen::generate!({
    path: "../../crates/wasm-tools/wit",
    world: "tool",
});

use pillion::tool::types::{Effects, ErrorCode};

struct TextFacts;

/// The arguments, as the schema has them.
#[derive(Deserialize)]
struct Arguments {
    text: Option<String>,
    file: Option<String>,
    #[serde(default = "five")]
    top: usize,
}

fn five() -> usize {
    5
}

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The text"},
        "file": {"type": "string", "pattern": "^[^/]+$", "description": "A file to read it from, in place of text"},
        "top": {"type": "integer", "minimum": 0, "maximum": 100, "default": 5, "description": "How many of the most frequent words"}
    },
    "additionalProperties": false
}"#;

impl Guest for TextFacts {
    fn describe() -> Definition {
        Definition {
            description: "Counts exactly: characters, words, lines, sentences and the most frequent words of a text"
                .to_owned(),
            input_schema: SCHEMA.to_owned(),
            category: Some("text".to_owned()),
            requires_confirmation: false,
            effects: Effects::None,
        }
    }

    fn call(arguments: String, _context: Context) -> Result<Output, Failure> {
        let arguments: Arguments = serde_json::from_str(&arguments)
            .map_err(|error| failure(ErrorCode::InvalidInput, error.to_string()))?;
        let text = match (arguments.text, arguments.file) {
            (Some(text), None) => text,
            (None, Some(file)) => read(&file)?,
            _ => {
                let message = "Say either text or file";
                return Err(failure(ErrorCode::InvalidInput, message.to_owned()));
            }
        };
        let facts = Facts::of(&text, arguments.top);
        let json = serde_json::to_string(&facts)
            .map_err(|error| failure(ErrorCode::InternalError, error.to_string()))?;
        Ok(Output::Json(json))
    }
}

/// A file of the folder that the operator may have granted.
fn read(file: &str) -> Result<String, Failure> {
    std::fs::read_to_string(format!("/texts/{file}")).map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorCode::NotFound,
            std::io::ErrorKind::InvalidData => ErrorCode::InvalidInput,
            _ => ErrorCode::Denied,
        };
        failure(code, format!("{file}: {error}"))
    })
}

fn failure(code: ErrorCode, message: String) -> Failure {
    Failure {
        code,
        message,
        retry_after: None,
    }
}

export!(TextFacts);
