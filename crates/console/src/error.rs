//! The reasons why a page cannot be shown, or a form cannot be accepted.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillion_core::store::StoreError;
use pillion_gateway::access::{OtherUser, Scope};
use pillion_gateway::problem::store_error_status;
use pillion_management::RequestError;
use pillion_management::chat::ChatRejection;
use pillion_management::servers::ServerError;
use pillion_management::tokens::TokenError;

use crate::ui::{Page, Tone, bare_page, notice, untrusted_beginning};
use crate::visitor::{Section, Visitor};

/// Maximum length of a message, which may quote a server, in bytes.
const MAX_MESSAGE_BYTES: usize = 4_000;

pub(crate) type Result<T, E = PageError> = std::result::Result<T, E>;

/// Why a page cannot be shown, or a form cannot be accepted.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum PageError {
    /// The browser has no valid session.
    #[error("You are not signed in, or your session has expired.")]
    SignedOut,
    /// The visitor's grant does not include the scope.
    #[error("Your sign-in does not include the scope '{scope}', which this needs.")]
    MissingScope {
        /// The scope that the action needs.
        scope: Scope,
    },
    /// The configuration makes the console read-only.
    #[error("The console is read-only (console.read_only).")]
    ReadOnly,
    /// A form was sent by a page of another site, or is from an earlier session.
    #[error("The form is not from this session. Load the page again, and send the form again.")]
    Forged,
    /// The form cannot be read.
    #[error("The form cannot be read: {0}.")]
    InvalidForm(&'static str),
    /// No page has the path, or the requested item does not exist.
    #[error("{0}")]
    NotFound(&'static str),
    /// The sidecar has rejected the request.
    #[error("{message}")]
    Rejected {
        /// The HTTP status of the response.
        status: StatusCode,
        /// The error message.
        message: String,
    },
}

impl PageError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::SignedOut => StatusCode::UNAUTHORIZED,
            Self::MissingScope { .. } | Self::ReadOnly | Self::Forged => StatusCode::FORBIDDEN,
            Self::InvalidForm(_) => StatusCode::BAD_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Rejected { status, .. } => *status,
        }
    }

    /// Renders the page that shows the error; without navigation if there is no visitor.
    pub(crate) fn render(&self, root: &str, visitor: Option<&Visitor>) -> Markup {
        let title = match self {
            Self::SignedOut => "Signed out",
            Self::NotFound(_) => "Not found",
            Self::MissingScope { .. } | Self::ReadOnly | Self::Forged => "Not allowed",
            Self::InvalidForm(_) | Self::Rejected { .. } => "This did not work",
        };
        let text = self.to_string();
        let message = notice(Tone::Bad, untrusted_beginning(&text, MAX_MESSAGE_BYTES));
        match visitor {
            Some(visitor) => {
                let home = html! { p { a href=(visitor.href("home")) { "Go to the home page" } } };
                Page::new(title, Section::Home, html! { (message) (home) }).render(visitor)
            }
            None => bare_page(
                root,
                title,
                html! { (message) p { a href={ (root) "sign-in" } { "Sign in" } } },
            ),
        }
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "A page of the console failed because of the store");
        Self::Rejected {
            status: store_error_status(&error),
            message: format!("The store cannot be used: {error}"),
        }
    }
}

impl From<OtherUser> for PageError {
    fn from(error: OtherUser) -> Self {
        Self::Rejected {
            status: StatusCode::FORBIDDEN,
            message: error.to_string(),
        }
    }
}

impl From<RequestError> for PageError {
    fn from(error: RequestError) -> Self {
        Self::Rejected {
            status: error.status(),
            message: error.to_string(),
        }
    }
}

impl From<TokenError> for PageError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Store(error) => error.into(),
            error => RequestError::from(error).into(),
        }
    }
}

impl From<ChatRejection> for PageError {
    fn from(error: ChatRejection) -> Self {
        RequestError::from(error).into()
    }
}

impl From<ServerError> for PageError {
    fn from(error: ServerError) -> Self {
        RequestError::from(error).into()
    }
}

/// Attaches the error to the response. [`admit`](crate::admission::admit), which knows the visitor,
/// renders the page.
impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
