//! The fields of a credential for an MCP server. Secrets are write-only: the form is never shown
//! with a secret.

use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::form::Fault;
use crate::form::FormFields;
use crate::ui::{Field, FormControl};

/// The kinds of credentials without OAuth, each with its label.
const FIXED_KINDS: [(&str, &str); 3] = [
    ("bearer", "Bearer token"),
    ("api-key", "API key in a header"),
    ("basic", "User and password"),
];

/// The grants with which the console configures OAuth.
const GRANTS: [(&str, &str); 2] = [
    ("authorization_code", "A person logs in"),
    ("client_credentials", "The sidecar's own credentials"),
];

/// The names of the fields.
pub(super) const FIELDS: [&str; 8] = [
    "authentication",
    "secret",
    "header",
    "username",
    "grant",
    "issuer",
    "clientId",
    "scopes",
];

/// The kinds of credentials of a form.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kinds<'a> {
    /// Every kind. `stored` is the kind of the stored credential, if there is one.
    OfServer { stored: Option<&'a str> },
    /// The kinds without OAuth, for which a user logs in instead.
    OfUser,
}

/// Returns the fields of a credential. `value` returns the value of a field, and `fault` the reason
/// why the value was rejected.
pub(super) fn fields<'a>(
    kinds: Kinds<'_>,
    value: impl Fn(&str) -> String,
    fault: impl Fn(&str) -> Option<&'a str>,
) -> Markup {
    let keep_label = match kinds {
        Kinds::OfServer { stored: Some(kind) } => Some(format!("Keep the stored one ({kind})")),
        _ => None,
    };
    let mut options: Vec<(&str, &str)> = Vec::new();
    options.extend(keep_label.as_deref().map(|label| ("keep", label)));
    let is_of_server = matches!(kinds, Kinds::OfServer { .. });
    if is_of_server {
        options.push(("none", "None"));
    }
    options.extend(FIXED_KINDS);
    if is_of_server {
        options.push(("oauth", "OAuth"));
    }
    let kind = value("authentication");
    let text = |name: &str, label: &str, hint: &str| {
        let current_value = value(name);
        let field = Field::text(name, label, &current_value);
        let shown_hint = (!hint.is_empty()).then_some(hint);
        field.with_hint(shown_hint).with_fault(fault(name)).render()
    };
    html! {
        (Field::new("authentication", "Credential", FormControl::Select { value: &kind, options }).with_fault(fault("authentication")).render())
        (Field::new("secret", "Secret", FormControl::Secret).with_hint("The token, the key, the password or the client secret. Encrypted in the store, and never shown again.").with_fault(fault("secret")).render())
        (text("header", "Header of the API key", "Default: x-api-key"))
        (text("username", "User name", ""))
        @if is_of_server {
            details open[kind == "oauth"] {
                summary { "OAuth settings" }
                div .stack {
                    @let grant = value("grant");
                    (Field::new("grant", "Grant", FormControl::Select { value: &grant, options: GRANTS.to_vec() }).with_fault(fault("grant")).render())
                    (text("issuer", "Issuer", "The only authorization server that may receive the credentials, such as https://login.example.com. Required unless a person logs in."))
                    (text("clientId", "Client ID", "Empty: the client registers itself, if the authorization server permits this."))
                    (text("scopes", "Scopes", "Separated by spaces. Empty: those that the server requires."))
                }
            }
        }
    }
}

/// Returns the credential that the form describes, in the format of the REST API: null for none,
/// and `None` if the stored credential stays.
///
/// # Errors
/// The values of the fields contradict each other.
pub(super) fn parse(form: &FormFields) -> Result<Option<Value>, Fault> {
    let secret = form.text("secret");
    let kind = form.text("authentication").unwrap_or("none");
    let members = match kind {
        "keep" | "none" if secret.is_some() => {
            let message = "Choose what the secret is. Then type the secret again.";
            return Err(Fault::new("authentication", message));
        }
        "keep" => return Ok(None),
        "none" => return Ok(Some(Value::Null)),
        "bearer" => vec![("token", required(secret)?)],
        "api-key" => {
            let mut members = vec![("key", required(secret)?)];
            members.extend(
                form.text("header")
                    .map(|name| ("header", Value::from(name))),
            );
            members
        }
        "basic" => {
            let Some(username) = form.text("username") else {
                return Err(Fault::new("username", "The user is missing."));
            };
            vec![
                ("username", Value::from(username)),
                ("password", Value::from(secret.unwrap_or_default())),
            ]
        }
        "oauth" => parse_oauth(form, secret),
        _ => return Err(Fault::new("authentication", "Choose one of the kinds.")),
    };
    let mut authentication = Map::from_iter([("type".to_owned(), Value::from(kind))]);
    let named_members = members.into_iter();
    authentication.extend(named_members.map(|(name, value)| (name.to_owned(), value)));
    Ok(Some(Value::Object(authentication)))
}

fn parse_oauth(form: &FormFields, secret: Option<&str>) -> Vec<(&'static str, Value)> {
    let scopes = form.text("scopes").map(|text| {
        let names: Vec<&str> = text.split_whitespace().collect();
        json!(names)
    });
    let text = |name: &str| form.text(name).map(Value::from);
    let members = [
        ("grant", text("grant")),
        ("issuer", text("issuer")),
        ("client_id", text("clientId")),
        ("client_secret", secret.map(Value::from)),
        ("scopes", scopes),
    ];
    let set_members = members
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    set_members.collect()
}

fn required(secret: Option<&str>) -> Result<Value, Fault> {
    secret
        .map(Value::from)
        .ok_or_else(|| Fault::new("secret", "The secret is missing."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &str) -> Result<Option<Value>, Fault> {
        parse(&FormFields::parse(body.as_bytes()).unwrap())
    }

    #[test]
    fn a_credential_has_the_members_of_its_kind() {
        for (body, expected) in [
            ("authentication=keep", None),
            ("authentication=none", Some(Value::Null)),
            (
                "authentication=bearer&secret=s&username=u",
                Some(json!({"type": "bearer", "token": "s"})),
            ),
            (
                "authentication=api-key&secret=s&header=x-a",
                Some(json!({"type": "api-key", "key": "s", "header": "x-a"})),
            ),
            (
                "authentication=basic&username=u",
                Some(json!({"type": "basic", "username": "u", "password": ""})),
            ),
            (
                "authentication=oauth&grant=authorization_code&scopes=a++b&secret=",
                Some(json!({"type": "oauth", "grant": "authorization_code", "scopes": ["a", "b"]})),
            ),
        ] {
            assert_eq!(parsed(body).unwrap(), expected, "{body}");
        }
    }

    #[test]
    fn a_contradiction_is_rejected_beside_its_field() {
        for (body, field) in [
            ("authentication=keep&secret=s", "authentication"),
            ("authentication=none&secret=s", "authentication"),
            ("authentication=other", "authentication"),
            ("authentication=bearer", "secret"),
            ("authentication=basic&secret=s", "username"),
        ] {
            assert_eq!(parsed(body).unwrap_err().field, field, "{body}");
        }
    }
}
