//! The form with the settings of a server, for new servers and for servers of the store.

use axum::http::StatusCode;
use maud::{Markup, html};
use pillion_gateway::credentials::CredentialError;
use pillion_management::servers::{EditableServer, ServerError};
use pillion_wire::ServerTrial;
use serde_json::{Map, Value};

use super::authentication::{self, Kinds};
use super::trial_notice;
use crate::form::FormFields;
use crate::ui::{Field, FormControl, Tone, hidden_fields, notice, untrusted_beginning};
use crate::visitor::Visitor;

/// Number of rows for new headers.
const NEW_HEADER_ROWS: usize = 3;

/// Maximum number of rows for headers.
const MAX_HEADER_ROWS: usize = 100;

/// Maximum length of the message above the form, in bytes.
const MAX_FAULT_BYTES: usize = 2_000;

/// The settings that are texts, under their names in the REST API.
const TEXTS: [&str; 4] = ["name", "url", "description", "protocolVersion"];

/// The settings that are numbers.
const NUMBERS: [&str; 3] = ["timeout", "retryAttempts", "maxConcurrent"];

/// The members of the setting `rateLimit`.
const LIMITS: [(&str, &str); 3] = [
    ("perMinute", "Calls of a user in a minute"),
    ("perHour", "Calls of a user in an hour"),
    ("perDay", "Calls of a user in a day"),
];

/// A setting with several values, each with its label.
struct Choice {
    name: &'static str,
    label: &'static str,
    options: &'static [(&'static str, &'static str)],
}

const CALL_CREDENTIAL: Choice = Choice {
    name: "credential",
    label: "Calls use",
    options: &[
        ("shared", "The server's credential"),
        ("per_user", "The credential of the user"),
        (
            "user_or_shared",
            "The credential of the user, or else the server's",
        ),
    ],
};

const TRANSPORT: Choice = Choice {
    name: "transport",
    label: "Transport",
    options: &[
        ("auto", "Detected"),
        ("streamable_http", "Streamable HTTP"),
        ("legacy_sse", "HTTP+SSE"),
        ("post_sse", "POST to the SSE address"),
        ("get_sse", "POST, responses on a GET stream"),
        ("http", "HTTP without streams"),
        ("websocket", "WebSocket"),
    ],
};

const HANDSHAKE: Choice = Choice {
    name: "handshake",
    label: "Handshake",
    options: &[("auto", "If the server supports it"), ("never", "Never")],
};

const REQUIRE_APPROVAL: Choice = Choice {
    name: "requireApproval",
    label: "Calls need approval",
    options: &[
        ("", "As configured in [approvals]"),
        ("auto", "Never"),
        ("trusted-only", "Unless the tool is trusted"),
        ("always-ask", "Always"),
    ],
};

const PIN: Choice = Choice {
    name: "pin",
    label: "A tool whose definition changes",
    options: &[
        ("", "As configured in mcp.pin"),
        ("off", "Is not noticed"),
        ("warn", "Is logged and stays offered"),
        ("block", "Is blocked"),
    ],
};

const NEW_TOOLS: Choice = Choice {
    name: "newTools",
    label: "A tool that is added later",
    options: &[
        ("", "As configured in mcp.new_tools"),
        ("accept", "Is offered"),
        ("block", "Is blocked"),
    ],
};

const CHOICES: [&Choice; 6] = [
    &CALL_CREDENTIAL,
    &TRANSPORT,
    &HANDSHAKE,
    &REQUIRE_APPROVAL,
    &PIN,
    &NEW_TOOLS,
];

/// The reason why a form was rejected.
#[derive(Debug)]
pub(super) struct Fault {
    /// The name of the field beside which the message is shown; another name shows the message
    /// above the form.
    pub(super) field: String,
    pub(super) message: String,
    pub(super) status: StatusCode,
}

impl Fault {
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
            status: StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    /// Returns the message if it belongs to the field `name`.
    pub(super) fn at(&self, name: &str) -> Option<&str> {
        (self.field == name).then_some(self.message.as_str())
    }
}

impl From<&ServerError> for Fault {
    fn from(error: &ServerError) -> Self {
        let (key, message) = match error {
            ServerError::Invalid { key, message }
            | ServerError::Credential(CredentialError::Invalid { key, message }) => {
                (key.as_str(), message.clone())
            }
            ServerError::NameTaken { .. } => ("name", error.to_string()),
            ServerError::MovedAway { key } => (*key, error.to_string()),
            _ => ("", error.to_string()),
        };
        // The key of a nested setting is a path, such as `rateLimit.perDay`.
        let field = key.rsplit('.').next().unwrap_or(key);
        Self {
            field: field.to_owned(),
            message,
            status: error.status_and_code().0,
        }
    }
}

/// The form: the stored settings, what was typed, and the outcome.
pub(super) struct ServerForm<'a> {
    /// The server whose settings are changed; `None` for a new server.
    stored: Option<&'a EditableServer>,
    /// What the visitor has typed; `None` when the form is shown for the first time.
    typed: Option<&'a FormFields>,
    pub(super) fault: Option<Fault>,
    pub(super) trial: Option<ServerTrial>,
}

/// A row for a header. The stored value of a header is never shown.
struct HeaderRow {
    name: String,
    /// The typed value.
    value: Option<String>,
    is_stored: bool,
    is_removed: bool,
}

impl<'a> ServerForm<'a> {
    pub(super) fn new(stored: Option<&'a EditableServer>, typed: Option<&'a FormFields>) -> Self {
        Self {
            stored,
            typed,
            fault: None,
            trial: None,
        }
    }

    /// Returns the status of the response that shows the form.
    pub(super) fn status(&self) -> StatusCode {
        self.fault
            .as_ref()
            .map_or(StatusCode::OK, |fault| fault.status)
    }

    /// Returns the members of a request that makes the typed changes: those settings that differ
    /// from the stored ones, or for a new server, from the defaults.
    ///
    /// # Errors
    /// A value is missing or invalid.
    pub(super) fn keys(&self) -> Result<Map<String, Value>, Fault> {
        if self.value("name").is_empty() {
            return Err(Fault::new("name", "Server name is required"));
        }
        if self.value("url").is_empty() {
            let message = "Valid URL is required for HTTP transport";
            return Err(Fault::new("url", message));
        }
        let mut keys = Map::new();
        let choices = CHOICES.iter().map(|choice| choice.name);
        for name in TEXTS.into_iter().chain(choices) {
            let value = self.value(name);
            if value != self.stored_value(name) {
                keys.insert(name.to_owned(), text_or_null(value));
            }
        }
        for name in NUMBERS {
            if let Some(number) = self.changed_number(name)? {
                keys.insert(name.to_owned(), number);
            }
        }
        let members = [
            ("rateLimit", self.changed_rate_limit()?),
            ("toolPrefix", self.changed_prefix()?),
            ("authentication", self.changed_authentication()?),
            ("headers", self.changed_headers()?),
        ];
        for (name, member) in members {
            if let Some(value) = member {
                keys.insert(name.to_owned(), value);
            }
        }
        Ok(keys)
    }

    /// Returns the value of a field: what was typed, or else the stored value.
    fn value(&self, name: &str) -> String {
        match self.typed {
            Some(typed) => {
                let text = typed.get(name).unwrap_or_default();
                text.trim().replace("\r\n", "\n")
            }
            None => self.stored_value(name),
        }
    }

    fn stored_value(&self, name: &str) -> String {
        let Some(server) = self.stored else {
            return default_value(name).to_owned();
        };
        let entry = &server.entry;
        let limit = entry.rate_limit.unwrap_or_default();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let number = |number: Option<u32>| number.map(|n| n.to_string()).unwrap_or_default();
        match name {
            "name" => entry.name.clone(),
            "url" => text(&entry.url),
            "description" => text(&entry.description),
            "protocolVersion" => text(&entry.protocol_version),
            "credential" => entry.credential.clone(),
            "transport" => entry.transport.clone(),
            "handshake" => entry.handshake.clone(),
            "requireApproval" => text(&entry.require_approval),
            "pin" => text(&entry.pin),
            "newTools" => text(&entry.new_tools),
            "timeout" => entry.timeout.to_string(),
            "retryAttempts" => entry.retry_attempts.to_string(),
            "maxConcurrent" => {
                let max = entry.max_concurrent.map(|max| max.to_string());
                max.unwrap_or_default()
            }
            "perMinute" => number(limit.per_minute),
            "perHour" => number(limit.per_hour),
            "perDay" => number(limit.per_day),
            "prefix" => match server.tool_prefix.as_deref() {
                None => "default".to_owned(),
                Some("") => "none".to_owned(),
                Some(_) => "own".to_owned(),
            },
            "toolPrefix" => text(&server.tool_prefix),
            "authentication" if self.stored_kind().is_some() => "keep".to_owned(),
            name => default_value(name).to_owned(),
        }
    }

    /// Returns the kind of the stored credential, if there is one.
    fn stored_kind(&self) -> Option<&str> {
        let kind = self.stored?.entry.authentication.kind.as_str();
        (kind != "none").then_some(kind)
    }

    /// Returns whether the typed URL leads to another address, to which the stored credentials are
    /// not sent.
    fn is_moved(&self) -> bool {
        let url = self.value("url");
        let is_changed = url != self.stored_value("url");
        self.stored
            .is_some_and(|server| is_changed && server.is_moved_by(&url))
    }

    fn changed_number(&self, name: &str) -> Result<Option<Value>, Fault> {
        let value = self.value(name);
        if value == self.stored_value(name) {
            return Ok(None);
        }
        if value.is_empty() {
            return Ok(Some(Value::Null));
        }
        match value.parse::<u64>() {
            Ok(number) => Ok(Some(number.into())),
            Err(_) => Err(Fault::new(
                name,
                "Type a whole number, or leave the field empty.",
            )),
        }
    }

    fn changed_rate_limit(&self) -> Result<Option<Value>, Fault> {
        let mut limit = Map::new();
        for (name, _) in LIMITS {
            if let Some(number) = self.changed_number(name)? {
                limit.insert(name.to_owned(), number);
            }
        }
        if limit.is_empty() {
            return Ok(None);
        }
        let has_limit = LIMITS.iter().any(|(name, _)| !self.value(name).is_empty());
        Ok(Some(if has_limit {
            Value::Object(limit)
        } else {
            Value::Null
        }))
    }

    fn changed_prefix(&self) -> Result<Option<Value>, Fault> {
        let typed_prefix = self.value("toolPrefix");
        let prefix = match self.value("prefix").as_str() {
            "none" => Some(String::new()),
            "own" if typed_prefix.is_empty() => {
                let message = "Type a prefix, or choose another option.";
                return Err(Fault::new("toolPrefix", message));
            }
            "own" => Some(typed_prefix),
            _ => None,
        };
        let stored_prefix = self.stored.and_then(|server| server.tool_prefix.clone());
        if prefix == stored_prefix {
            return Ok(None);
        }
        Ok(Some(prefix.map_or(Value::Null, Value::from)))
    }

    fn changed_authentication(&self) -> Result<Option<Value>, Fault> {
        let Some(typed) = self.typed else {
            return Ok(None);
        };
        let has_stored = self.stored_kind().is_some();
        match authentication::parse(typed)? {
            None if has_stored && self.is_moved() => {
                let message = "Set the credential again, or choose None: the stored credential \
                    belongs to the previous address.";
                Err(Fault::new("authentication", message))
            }
            Some(Value::Null) if !has_stored => Ok(None),
            authentication => Ok(authentication),
        }
    }

    fn changed_headers(&self) -> Result<Option<Value>, Fault> {
        let is_moved = self.is_moved();
        let mut headers = Map::new();
        let mut has_stored = false;
        for (index, row) in self.header_rows().into_iter().enumerate() {
            has_stored |= row.is_stored;
            let value_field = format!("header-value-{index}");
            let value_fault = |message: &str| Err(Fault::new(value_field, message));
            match row.value {
                _ if row.is_stored && row.is_removed => {
                    // A request for another address replaces all headers.
                    if !is_moved {
                        headers.insert(row.name, Value::Null);
                    }
                }
                Some(_) if row.name.is_empty() => {
                    let message = "Type the header, and its value again.";
                    return Err(Fault::new(format!("header-name-{index}"), message));
                }
                Some(value) => {
                    headers.insert(row.name, value.into());
                }
                None if row.is_stored && is_moved => {
                    return value_fault(
                        "Type the value again: the stored value belongs to the previous address.",
                    );
                }
                None if row.is_stored || row.name.is_empty() => {}
                None => return value_fault("Type the value of the header."),
            }
        }
        let must_send = !headers.is_empty() || is_moved && has_stored;
        Ok(must_send.then_some(Value::Object(headers)))
    }

    /// Returns the rows for headers: those that were typed, or else the stored headers and empty
    /// rows.
    fn header_rows(&self) -> Vec<HeaderRow> {
        let stored_headers = self.stored.map(|server| server.entry.headers.as_slice());
        let stored_names = stored_headers.unwrap_or_default();
        let Some(typed) = self.typed else {
            let empty_names = std::iter::repeat_n("", NEW_HEADER_ROWS);
            let names = stored_names.iter().map(String::as_str).chain(empty_names);
            return names
                .map(|name| HeaderRow {
                    name: name.to_owned(),
                    value: None,
                    is_stored: !name.is_empty(),
                    is_removed: false,
                })
                .collect();
        };
        (0..MAX_HEADER_ROWS)
            .map_while(|index| {
                let name = typed.get(&format!("header-name-{index}"))?.trim();
                let value = typed.text(&format!("header-value-{index}"));
                Some(HeaderRow {
                    is_stored: stored_names.iter().any(|stored_name| stored_name == name),
                    is_removed: typed.text(&format!("header-remove-{index}")).is_some(),
                    name: name.to_owned(),
                    value: value.map(str::to_owned),
                })
            })
            .collect()
    }

    /// Returns whether the visitor has typed a secret, which the form does not show again.
    fn has_typed_secrets(&self) -> bool {
        let secret = self.typed.and_then(|typed| typed.text("secret"));
        secret.is_some() || self.header_rows().iter().any(|row| row.value.is_some())
    }

    fn fault_at(&self, name: &str) -> Option<&str> {
        self.fault.as_ref()?.at(name)
    }

    /// Returns the fault that belongs to no field.
    fn general_fault(&self) -> Option<&Fault> {
        let is_field = |name: &str| {
            TEXTS.contains(&name)
                || NUMBERS.contains(&name)
                || CHOICES.iter().any(|choice| choice.name == name)
                || LIMITS.iter().any(|(limit, _)| *limit == name)
                || authentication::FIELDS.contains(&name)
                || name == "toolPrefix"
                || name.starts_with("header-")
        };
        self.fault.as_ref().filter(|fault| !is_field(&fault.field))
    }

    fn text(&self, name: &str, label: &str, hint: &str) -> Markup {
        let value = self.value(name);
        let field = Field::text(name, label, &value).with_hint(hint);
        field.with_fault(self.fault_at(name)).render()
    }

    fn number(&self, name: &str, label: &str, hint: &str) -> Markup {
        let value = self.value(name);
        let control = FormControl::Number { value: &value };
        let field = Field::new(name, label, control).with_hint(hint);
        field.with_fault(self.fault_at(name)).render()
    }

    fn choice(&self, choice: &Choice) -> Markup {
        let value = self.value(choice.name);
        let options = choice.options.to_vec();
        let control = FormControl::Select {
            value: &value,
            options,
        };
        let field = Field::new(choice.name, choice.label, control);
        field.with_fault(self.fault_at(choice.name)).render()
    }

    /// Renders the form, with the outcome of the last test or the reason why the form was rejected.
    /// `action` is the path that receives the form.
    pub(super) fn render(&self, visitor: &Visitor, action: &str) -> Markup {
        let version = self
            .stored
            .and_then(|server| server.entry.updated_at.as_ref());
        let (button_value, button_label) = match self.stored {
            Some(_) => ("save", "Save"),
            None => ("add", "Add"),
        };
        let is_shown_again = self.typed.is_some() || self.stored.is_some();
        html! {
            @if let Some(fault) = self.general_fault() { (notice(Tone::Bad, general_message(fault))) }
            @else if self.fault.is_some() { (notice(Tone::Bad, html! { "Nothing was saved: see the message beside the field. Secrets must be typed again." })) }
            @if let Some(trial) = &self.trial {
                (trial_notice(trial))
                @if self.has_typed_secrets() { (notice(Tone::Warning, html! { "Secrets are not shown again: type them again before you save." })) }
            }
            section .card { form .content method="post" action=(visitor.href(action)) {
                (hidden_fields(visitor))
                @if let Some(version) = version { input type="hidden" name="version" value=(version); }
                (self.general_fields())
                fieldset #credential-fields {
                    legend { "Credential" }
                    @let kinds = Kinds::OfServer { stored: self.stored_kind() };
                    (authentication::fields(kinds, |name| self.value(name), |name| self.fault_at(name)))
                    (self.choice(&CALL_CREDENTIAL))
                }
                details open[is_shown_again] { summary { "Headers" } (self.header_fields()) }
                details open[is_shown_again] { summary { "Tools" } div .stack { (self.tool_fields()) } }
                details open[is_shown_again] { summary { "Connection" } div .stack { (self.connection_fields()) } }
                div .row {
                    button type="submit" name="action" value="test" { "Test and list the tools" }
                    button .primary type="submit" name="action" value=(button_value) { (button_label) }
                }
            } }
        }
    }

    fn general_fields(&self) -> Markup {
        let url_hint = match self.stored {
            Some(server) if server.has_hidden_url_part => {
                "The stored URL has a query, which is not shown. The query stays unless you change \
                 the URL."
            }
            Some(_) => "A URL with another scheme, host or port needs all secrets again.",
            None => "Such as https://mcp.example.com/mcp",
        };
        let description = self.value("description");
        let description_field = Field::new(
            "description",
            "Description",
            FormControl::Lines {
                value: &description,
            },
        );
        html! {
            (self.text("name", "Name", "Also the beginning of its tools' names."))
            (self.text("url", "URL", url_hint))
            (description_field.with_fault(self.fault_at("description")).render())
        }
    }

    fn header_fields(&self) -> Markup {
        html! {
            div .stack {
                p .muted.small { "Sent with every request. The values are encrypted in the store, and never shown again." }
                @for (index, row) in self.header_rows().iter().enumerate() {
                    @let name_field = format!("header-name-{index}");
                    @let value_field = format!("header-value-{index}");
                    @let remove_field = format!("header-remove-{index}");
                    @if row.is_stored {
                        input type="hidden" name=(name_field) value=(row.name);
                        @let label = format!("Value of {}", row.name);
                        @let hint = if row.value.is_some() { "Type the new value again. Empty: the stored value stays." } else { "Empty: the stored value stays." };
                        (Field::new(&value_field, &label, FormControl::Secret).with_hint(hint).with_fault(self.fault_at(&value_field)).render())
                        @let remove_label = format!("Remove {}", row.name);
                        (Field::new(&remove_field, &remove_label, FormControl::Checkbox { is_checked: row.is_removed }).render())
                    } @else {
                        div .columns {
                            @let label = format!("Header {}", index + 1);
                            (Field::text(&name_field, &label, &row.name).with_fault(self.fault_at(&name_field)).render())
                            @let value_label = format!("Value {}", index + 1);
                            (Field::new(&value_field, &value_label, FormControl::Secret).with_fault(self.fault_at(&value_field)).render())
                        }
                    }
                }
            }
        }
    }

    fn tool_fields(&self) -> Markup {
        let prefix = self.value("prefix");
        let options = vec![
            ("default", "The server's name and _"),
            ("none", "None"),
            ("own", "The prefix below"),
        ];
        let control = FormControl::Select {
            value: &prefix,
            options,
        };
        html! {
            (Field::new("prefix", "Prefix of the tools", control).render())
            (self.text("toolPrefix", "Own prefix", "Letters, digits, _ and -, such as weather_"))
            (self.choice(&REQUIRE_APPROVAL))
            (self.choice(&PIN))
            (self.choice(&NEW_TOOLS))
            @for (name, label) in LIMITS { (self.number(name, label, "Empty: no limit")) }
            (self.number("maxConcurrent", "Concurrent calls", "Empty: as configured in executor.max_concurrent"))
        }
    }

    fn connection_fields(&self) -> Markup {
        html! {
            (self.choice(&TRANSPORT))
            (self.choice(&HANDSHAKE))
            (self.text("protocolVersion", "Protocol version", "Such as 2025-06-18. Empty: the newest"))
            (self.number("timeout", "Timeout in milliseconds", "Empty: 30000"))
            (self.number("retryAttempts", "Retries", "If the server fails to list its tools. Empty: 3"))
        }
    }
}

fn default_value(name: &str) -> &'static str {
    match name {
        "transport" | "handshake" => "auto",
        "credential" => "shared",
        "prefix" => "default",
        "authentication" => "none",
        "grant" => "authorization_code",
        _ => "",
    }
}

fn text_or_null(text: String) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        text.into()
    }
}

fn general_message(fault: &Fault) -> Markup {
    let text = if fault.field.is_empty() {
        fault.message.clone()
    } else {
        format!("{}: {}", fault.field, fault.message)
    };
    untrusted_beginning(&text, MAX_FAULT_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keys(body: &str) -> Result<Map<String, Value>, Fault> {
        let typed = FormFields::parse(body.as_bytes()).unwrap();
        ServerForm::new(None, Some(&typed)).keys()
    }

    #[test]
    fn a_new_server_has_the_settings_that_differ_from_the_defaults() {
        let body = "name=a&url=https%3A%2F%2Fmcp.example%2F&description=x%0D%0Ay&transport=auto\
            &handshake=never&credential=shared&requireApproval=&pin=block&timeout=5000\
            &perDay=9&perHour=&prefix=none&toolPrefix=&authentication=bearer&secret=s\
            &header-name-0=X-A&header-value-0=1&header-name-1=&header-value-1=";
        let expected = json!({
            "name": "a", "url": "https://mcp.example/", "description": "x\ny",
            "handshake": "never", "pin": "block", "timeout": 5000, "rateLimit": {"perDay": 9},
            "toolPrefix": "", "authentication": {"type": "bearer", "token": "s"},
            "headers": {"X-A": "1"}
        });
        assert_eq!(Value::Object(keys(body).unwrap()), expected);
    }

    #[test]
    fn an_invalid_value_is_rejected_beside_its_field() {
        let defaults = "&transport=auto&handshake=auto&credential=shared";
        for (body, field) in [
            ("url=https%3A%2F%2Fa", "name"),
            ("name=a", "url"),
            ("name=a&url=b&timeout=1s", "timeout"),
            ("name=a&url=b&perHour=-1", "perHour"),
            ("name=a&url=b&prefix=own", "toolPrefix"),
            ("name=a&url=b&secret=s", "authentication"),
            (
                "name=a&url=b&header-name-0=&header-value-0=v",
                "header-name-0",
            ),
            (
                "name=a&url=b&header-name-0=n&header-value-0=",
                "header-value-0",
            ),
        ] {
            let fault = keys(&format!("{body}{defaults}")).unwrap_err();
            assert_eq!(fault.field, field, "{body}");
            assert_eq!(fault.status, StatusCode::UNPROCESSABLE_ENTITY);
        }
    }

    #[test]
    fn an_error_of_a_nested_setting_belongs_to_its_field() {
        let error = ServerError::Invalid {
            key: "rateLimit.perDay".to_owned(),
            message: "m".to_owned(),
        };
        let fault = Fault::from(&error);
        assert_eq!((fault.at("perDay"), fault.at("perHour")), (Some("m"), None));
        assert_eq!(fault.status, StatusCode::BAD_REQUEST);
    }
}
