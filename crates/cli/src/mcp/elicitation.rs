//! Elicitation: a server asks the user to fill in a form, field by field, or to open a page (MCP
//! 2025-11-25, client features, "Elicitation").

mod field;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::plain;
use super::terminal::{Cancelled, Conversation, Terminal};
use field::Field;

/// Maximum number of fields in a form.
const MAX_FIELDS: usize = 64;

/// Maximum number of attempts to enter a valid value for a field.
const MAX_ATTEMPTS: usize = 5;

#[derive(Deserialize)]
struct Question {
    #[serde(default)]
    message: String,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(rename = "requestedSchema", default)]
    schema: Schema,
}

#[derive(Default, Deserialize)]
struct Schema {
    #[serde(default)]
    properties: Map<String, Value>,
    #[serde(default)]
    required: Vec<String>,
}

/// The user's answer.
enum Answer {
    Accept(Option<Map<String, Value>>),
    Decline,
}

/// Asks the user and returns an `ElicitResult`.
pub(super) async fn answer(terminal: &Terminal, server: &str, question: &RawValue) -> Value {
    let Ok(question) = serde_json::from_str::<Question>(question.get()) else {
        return json!({"action": "cancel"});
    };
    let mut user = terminal.start_conversation().await;
    let message = plain::truncate(&plain::text(&question.message), 4000);
    user.write(&format!("\n{} asks:\n{message}\n", plain::one_line(server)));
    let answer = if question.mode.as_deref() == Some("url") {
        page(&mut user, question.url.as_deref().unwrap_or_default()).await
    } else {
        form(&mut user, &question.schema).await
    };
    match answer {
        Ok(Answer::Accept(Some(content))) => json!({"action": "accept", "content": content}),
        Ok(Answer::Accept(None)) => json!({"action": "accept"}),
        Ok(Answer::Decline) => json!({"action": "decline"}),
        Err(Cancelled) => json!({"action": "cancel"}),
    }
}

/// Asks the user to open a page. This program never opens a URL from a server.
async fn page(user: &mut Conversation<'_>, url: &str) -> Result<Answer, Cancelled> {
    user.write(&format!(
        "The server asks you to open this page:\n  {}\n",
        plain::one_line(url)
    ));
    let consent = user.answer("Will you open it? [y/N] ").await?;
    Ok(if is_yes(&consent) {
        Answer::Accept(None)
    } else {
        Answer::Decline
    })
}

async fn form(user: &mut Conversation<'_>, schema: &Schema) -> Result<Answer, Cancelled> {
    if schema.properties.len() > MAX_FIELDS {
        user.write(&format!("The form has more than {MAX_FIELDS} fields.\n"));
        return Ok(Answer::Decline);
    }
    if !schema.properties.is_empty() {
        user.write(
            "(Press Enter for the default value or to skip a field; skipping a required field \
            declines. Ctrl-C cancels.)\n",
        );
    }
    let mut content = Map::new();
    for (name, property) in &schema.properties {
        let field = Field::new(name, property, schema.required.contains(name));
        match ask(user, &field).await? {
            ParsedInput::Value(value) => {
                content.insert(name.clone(), value);
            }
            ParsedInput::Nothing if field.is_required => return Ok(Answer::Decline),
            ParsedInput::Nothing => {}
        }
    }
    let consent = user.answer("Send the answer? [Y/n] ").await?;
    Ok(if consent.is_empty() || is_yes(&consent) {
        Answer::Accept(Some(content))
    } else {
        Answer::Decline
    })
}

enum ParsedInput {
    Value(Value),
    Nothing,
}

async fn ask(user: &mut Conversation<'_>, field: &Field<'_>) -> Result<ParsedInput, Cancelled> {
    let prompt = field.prompt();
    for _ in 0..MAX_ATTEMPTS {
        let answer = user.answer(&prompt).await?;
        if answer.is_empty() {
            return Ok(field
                .default()
                .map_or(ParsedInput::Nothing, ParsedInput::Value));
        }
        match field.read(&answer) {
            Ok(value) => return Ok(ParsedInput::Value(value)),
            Err(why) => user.write(&format!("  {why}\n")),
        }
    }
    Err(Cancelled)
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes")
}
