//! The form that creates a token.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillion_gateway::access::{AccessGate, AllowedTools, Scope, Users};
use pillion_management::RequestError;
use pillion_management::store::require_store;
use pillion_management::tokens::{self, CreatedToken, NewAccessToken, TokenError};

use super::{listener_notice, token_url, tool_list};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::FormFields;
use crate::pages::PageResult;
use crate::ui::{
    Field, FormControl, Page, Tone, card, copyable, hidden_fields, name, notice, untrusted,
};
use crate::visitor::{Section, Visitor};

/// The form of a new token: what was typed, and why it was rejected.
struct TokenDraft<'a> {
    name: &'a str,
    scope: &'a str,
    users: &'a str,
    user: &'a str,
    tools: &'a str,
    days: &'a str,
    /// The name of the rejected value, if known, and the error message.
    fault: Option<(Option<&'static str>, String)>,
}

/// The values of the field that selects the users of a token.
const NO_USER: &str = "none";
const SINGLE_USER: &str = "single";
const ANY_USER: &str = "any";

impl<'a> TokenDraft<'a> {
    fn from_form(form: &'a FormFields) -> Self {
        let text = |name| form.text(name).unwrap_or_default();
        Self {
            name: text("name"),
            scope: text("scope"),
            users: text("users"),
            user: text("user"),
            tools: text("tools"),
            days: text("expiry"),
            fault: None,
        }
    }

    /// Returns the token that the form describes.
    fn to_token(&self) -> Result<NewAccessToken, TokenError> {
        let scope = Scope::parse(self.scope)
            .ok_or_else(|| TokenError::invalid("scope", "select a scope"))?;
        let users = match (self.users, self.user) {
            (SINGLE_USER, user) => Users::SingleUser(
                tokens::parse_user(user).map_err(|message| TokenError::invalid("user", message))?,
            ),
            (NO_USER, "") => Users::NoUser,
            (ANY_USER, "") => Users::AnyUser,
            (NO_USER | ANY_USER, _) => {
                let message = "a name is used only if the token acts for one user: select this, or \
                               leave the name empty";
                return Err(TokenError::invalid("user", message));
            }
            _ => return Err(TokenError::invalid("users", "select the users")),
        };
        let tools = match self.tools {
            "" => AllowedTools::default(),
            list => tokens::parse_tools(list)
                .map_err(|message| TokenError::invalid("tools", message))?,
        };
        let expires_at = match self.days {
            "" => None,
            days => {
                let days = tokens::parse_days(days)
                    .map_err(|message| TokenError::invalid("expiry", message))?;
                Some(tokens::expiry_after_days(days))
            }
        };
        Ok(NewAccessToken {
            name: self.name.to_owned(),
            scope,
            users,
            tools,
            expires_at,
        })
    }
}

pub(super) async fn show(State(console): State<Console>, visitor: Visitor) -> PageResult {
    visitor.require(Scope::Admin)?;
    let own_tools = tool_list(&visitor.grant().tools);
    let only_user = visitor.grant().only_user();
    let draft = TokenDraft {
        name: "",
        scope: Scope::Execute.as_str(),
        users: if only_user.is_some() {
            SINGLE_USER
        } else {
            NO_USER
        },
        user: only_user.unwrap_or_default(),
        tools: own_tools.as_deref().unwrap_or_default(),
        days: "90",
        fault: None,
    };
    Ok(new_token_page(&console, &visitor, &draft))
}

fn new_token_page(console: &Console, visitor: &Visitor, draft: &TokenDraft<'_>) -> Markup {
    const FIELDS: [&str; 6] = ["name", "scope", "users", "user", "tools", "expiry"];
    let fault = |field: &str| {
        let (faulty_field, message) = draft.fault.as_ref()?;
        (*faulty_field == Some(field)).then_some(message.as_str())
    };
    let general_fault = draft
        .fault
        .as_ref()
        .filter(|(field, _)| field.is_none_or(|field| !FIELDS.contains(&field)));
    let scopes = vec![
        ("read", "read: lists, records and status"),
        ("execute", "execute: also call tools"),
        ("approve", "approve: also decide on approvals"),
        ("admin", "admin: everything, including access tokens"),
    ];
    let mut users = vec![(SINGLE_USER, "one user")];
    if visitor.grant().only_user().is_none() {
        users.insert(0, (NO_USER, "no user"));
        users.push((ANY_USER, "every user that a request names"));
    }
    let scope_control = FormControl::Select {
        value: draft.scope,
        options: scopes,
    };
    let users_control = FormControl::Select {
        value: draft.users,
        options: users,
    };
    let days_control = FormControl::Number { value: draft.days };
    let body = html! {
        (listener_notice(console))
        @if let Some((_, message)) = general_fault { (notice(Tone::Bad, untrusted(message))) }
        section .card { form .content method="post" action=(visitor.href("access/new")) {
            (hidden_fields(visitor))
            (Field::text("name", "Name", draft.name).with_hint("Unique among all tokens, including revoked ones.").with_fault(fault("name")).render())
            (Field::new("scope", "Scope", scope_control).with_hint("Each scope includes the previous ones.").with_fault(fault("scope")).render())
            (Field::new("users", "Acts for", users_control).with_hint("“Every user” is for an application that authenticates its users. With the scope admin, “no user” means every user, too.").with_fault(fault("users")).render())
            (Field::text("user", "User", draft.user).with_hint("The only user, if the token acts for one user.").with_fault(fault("user")).render())
            (Field::text("tools", "Allowed tools", draft.tools).with_hint("Names, or prefixes followed by *, separated by commas without spaces, such as get_time,far_*. Empty: every tool.").with_fault(fault("tools")).render())
            (Field::new("expiry", "Expires after days", days_control).with_hint("Empty: never.").with_fault(fault("expiry")).render())
            div .row {
                button .primary type="submit" { "Create" }
                a .button href=(visitor.href("access")) { "Cancel" }
            }
        } }
    };
    Page::new("Create a token", Section::Access, body).render(visitor)
}

pub(super) async fn create(
    State(console): State<Console>,
    visitor: Visitor,
    form: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let mut draft = TokenDraft::from_form(&form);
    let creation = match draft.to_token() {
        Ok(new_token) => create_token(&console, &visitor, new_token).await,
        Err(error) => Err(error.into()),
    };
    match creation {
        Ok(created_token) => Ok(created_page(&console, &visitor, &created_token).into_response()),
        Err(CreationError::Token(error)) => {
            draft.fault = Some((error.field(), error.to_string()));
            let status = RequestError::from(error).status();
            let page = new_token_page(&console, &visitor, &draft);
            Ok((status, page).into_response())
        }
        Err(CreationError::NoStore(message)) => {
            draft.fault = Some((None, message));
            let page = new_token_page(&console, &visitor, &draft);
            Ok((StatusCode::SERVICE_UNAVAILABLE, page).into_response())
        }
    }
}

/// Why no token was created.
pub(in crate::pages) enum CreationError {
    /// The sidecar has no store.
    NoStore(String),
    /// The token was rejected, or cannot be stored.
    Token(TokenError),
}

impl From<TokenError> for CreationError {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

impl From<CreationError> for PageError {
    fn from(error: CreationError) -> Self {
        match error {
            CreationError::NoStore(message) => Self::Rejected {
                status: StatusCode::SERVICE_UNAVAILABLE,
                message,
            },
            CreationError::Token(error) => error.into(),
        }
    }
}

/// Creates a token with at most the permission of the visitor.
pub(in crate::pages) async fn create_token(
    console: &Console,
    visitor: &Visitor,
    new_token: NewAccessToken,
) -> Result<CreatedToken, CreationError> {
    let store = require_store(&console.gateway)
        .map_err(|error| CreationError::NoStore(error.to_string()))?;
    let gate = console.gate.as_deref();
    let configured = gate.map(AccessGate::configured_grants).unwrap_or_default();
    let created_token = tokens::create(&*store, visitor.grant(), &configured, new_token).await?;
    Ok(created_token)
}

/// Shows a new token. This response is the only one that contains the token.
fn created_page(console: &Console, visitor: &Visitor, created_token: &CreatedToken) -> Markup {
    let token_name = &created_token.record.name;
    let body = html! {
        (listener_notice(console))
        (notice(Tone::Good, html! { "The token " (name(token_name)) " was created. Copy the token now: Pillion stores only its hash, and cannot show the token again." }))
        (card("The token", None, html! { div .content { (copyable("token", created_token.token.expose())) } }))
        p { a href=(token_url(visitor, "access/token", token_name)) { "What the token may see" } " · " a href=(visitor.href("connect")) { "Configure a client" } " · " a href=(visitor.href("access")) { "All tokens" } }
    };
    Page::new("The token was created", Section::Access, body).render(visitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(body: &str) -> Result<NewAccessToken, TokenError> {
        let form = FormFields::parse(body.as_bytes()).unwrap();
        TokenDraft::from_form(&form).to_token()
    }

    #[test]
    fn the_form_describes_a_token() {
        let new_token =
            token("name=bot&scope=execute&users=single&user=ada&tools=get_time%2Cfar_*&expiry=30")
                .unwrap();
        assert_eq!(new_token.name, "bot");
        assert_eq!(new_token.scope, Scope::Execute);
        assert_eq!(new_token.users, Users::SingleUser("ada".to_owned()));
        assert_eq!(tool_list(&new_token.tools).unwrap(), "get_time,far_*");
        assert!(new_token.expires_at.is_some());
        let new_token = token("name=bot&scope=read&users=none&user=&tools=&expiry=").unwrap();
        assert_eq!(new_token.users, Users::NoUser);
        assert_eq!(tool_list(&new_token.tools), None);
        assert_eq!(new_token.expires_at, None);
    }

    #[test]
    fn a_missing_or_invalid_value_never_means_more_permission() {
        for (body, field) in [
            ("name=bot", "scope"),
            ("name=bot&scope=all&users=none", "scope"),
            ("name=bot&scope=read", "users"),
            ("name=bot&scope=read&users=x", "users"),
            ("name=bot&scope=read&users=single", "user"),
            ("name=bot&scope=read&users=none&user=ada", "user"),
            ("name=bot&scope=read&users=any&user=ada", "user"),
            ("name=bot&scope=read&users=none&tools=a,+b", "tools"),
            ("name=bot&scope=read&users=none&tools=,", "tools"),
            ("name=bot&scope=read&users=none&expiry=0", "expiry"),
            ("name=bot&scope=read&users=none&expiry=soon", "expiry"),
        ] {
            let error = token(body).unwrap_err();
            assert_eq!(error.field(), Some(field), "{body}: {error}");
        }
    }
}
