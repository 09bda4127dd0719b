//! Elicitation: a server asks the user to fill in a form, field by field, or to open a page (MCP
//! 2025-11-25, client features, "Elicitation").

mod field;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::plain;
use super::terminal::{PromptCancelled, Terminal, UserConversation};
use field::FormField;

/// Maximum number of fields in a form.
const MAX_FIELDS: usize = 64;

/// Maximum number of attempts to enter a valid value for a field.
const MAX_ATTEMPTS: usize = 5;

/// The parameters of `elicitation/create`.
#[derive(Deserialize)]
struct ElicitRequest {
    #[serde(default)]
    message: String,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(rename = "requestedSchema", default)]
    schema: FormSchema,
}

#[derive(Default, Deserialize)]
struct FormSchema {
    #[serde(default)]
    properties: Map<String, Value>,
    #[serde(default)]
    required: Vec<String>,
}

/// How the user responded to an elicitation.
enum UserAction {
    Accept(Option<Map<String, Value>>),
    Decline,
}

/// Asks the user and returns an `ElicitResult`.
pub(super) async fn elicit(terminal: &Terminal, server: &str, params: &RawValue) -> Value {
    let Ok(request) = serde_json::from_str::<ElicitRequest>(params.get()) else {
        return json!({"action": "cancel"});
    };
    let mut conversation = terminal.start_conversation().await;
    let message = plain::truncate(&plain::escape(&request.message), 4000);
    let server_name = plain::to_one_line(server);
    conversation.write(&format!("\n{server_name} asks:\n{message}\n"));
    let action = if request.mode.as_deref() == Some("url") {
        let url = request.url.unwrap_or_default();
        ask_page_consent(&mut conversation, &url).await
    } else {
        ask_form_values(&mut conversation, &request.schema).await
    };
    match action {
        Ok(UserAction::Accept(Some(content))) => json!({"action": "accept", "content": content}),
        Ok(UserAction::Accept(None)) => json!({"action": "accept"}),
        Ok(UserAction::Decline) => json!({"action": "decline"}),
        Err(PromptCancelled) => json!({"action": "cancel"}),
    }
}

/// Asks the user to open a page. This program never opens a URL from a server.
async fn ask_page_consent(
    conversation: &mut UserConversation<'_>,
    url: &str,
) -> Result<UserAction, PromptCancelled> {
    let page = plain::to_one_line(url);
    conversation.write(&format!(
        "The server asks you to open this page:\n  {page}\n"
    ));
    let consent = conversation.ask("Will you open it? [y/N] ").await?;
    Ok(if is_yes(&consent) {
        UserAction::Accept(None)
    } else {
        UserAction::Decline
    })
}

async fn ask_form_values(
    conversation: &mut UserConversation<'_>,
    schema: &FormSchema,
) -> Result<UserAction, PromptCancelled> {
    if schema.properties.len() > MAX_FIELDS {
        conversation.write(&format!(
            "The server's form was declined: it has {} fields, more than the maximum of \
            {MAX_FIELDS}.\n",
            schema.properties.len()
        ));
        return Ok(UserAction::Decline);
    }
    if !schema.properties.is_empty() {
        conversation.write(
            "(To use the default value or skip a field, press Enter. Skipping a required field \
            declines the form. To cancel, press Ctrl-C.)\n",
        );
    }
    let mut content = Map::new();
    for (name, property) in &schema.properties {
        let field = FormField::new(name, property, schema.required.contains(name));
        match ask_for_value(conversation, &field).await? {
            Some(value) => {
                content.insert(name.clone(), value);
            }
            None if field.is_required => return Ok(UserAction::Decline),
            None => {}
        }
    }
    let consent = conversation.ask("Send the answer? [Y/n] ").await?;
    Ok(if consent.is_empty() || is_yes(&consent) {
        UserAction::Accept(Some(content))
    } else {
        UserAction::Decline
    })
}

/// Returns the value of a field; `None` if the user skips the field and the field has no default.
async fn ask_for_value(
    conversation: &mut UserConversation<'_>,
    field: &FormField<'_>,
) -> Result<Option<Value>, PromptCancelled> {
    let prompt = field.format_prompt();
    for _ in 0..MAX_ATTEMPTS {
        let input = conversation.ask(&prompt).await?;
        if input.is_empty() {
            return Ok(field.default());
        }
        match field.parse_input(&input) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => conversation.write(&format!("  {error}\n")),
        }
    }
    Err(PromptCancelled)
}

fn is_yes(input: &str) -> bool {
    matches!(input.to_ascii_lowercase().as_str(), "y" | "yes")
}
