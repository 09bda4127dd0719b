use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use pillion_core::tool::{ApprovalRequestOptions, CallContext, ResultMemory};
use pillion_wire::{APPROVAL_HEADER, APPROVAL_WAIT_HEADER, CHANNEL_HEADER, USER_HEADER};
use serde::Deserialize;

use super::error::{DENIED, INVALID_INPUT, RequestError, route_error};
use super::parameters::{Parameters, parsed};
use crate::app::App;
use pillion_config::ElicitFrom;
use pillion_gateway::access::{AccessGrant, GrantHolder, Scope, Users};
use pillion_gateway::visibility::Visibility;
use pillion_gateway::waiting_bytes::ConnectionBytes;

/// Maximum length of a user or channel, in bytes: the rate limiter stores them.
const MAX_BYTES: usize = 256;

/// The expected value of `wait_ms`, for error messages.
const EXPECTED_WAIT: &str = "a number of milliseconds, 0 or more";

route_error! {
    /// Why the headers that name the caller are rejected.
    #[derive(Debug, thiserror::Error)]
    pub(super) enum CallerError {
        #[error("The header {header} must be UTF-8 of at most {limit_bytes} bytes")]
        InvalidHeader {
            header: &'static str,
            limit_bytes: usize,
        } => INVALID_INPUT,
        #[error("The access token is for a different user than the one in the header x-pillion-user")]
        OtherUser => DENIED,
    }
}

/// The caller of a request, from its headers. A client of the Unix socket may name any user,
/// because the socket's permissions control who may connect. For a client with a token, the grant
/// determines the users and the tools.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) context: CallContext,
    pub(super) visibility: Visibility,
    grant: Option<AccessGrant>,
}

impl Caller {
    /// Returns whether the request came over TCP, where authentication has checked its `Origin`
    /// header.
    pub(super) fn came_over_tcp(&self) -> bool {
        let grant = self.grant.as_ref();
        grant.is_some_and(|grant| grant.holder != GrantHolder::LocalUser)
    }

    /// Returns this caller with the user and channel that the request body names, if any.
    ///
    /// # Errors
    /// The headers or the token name a different user or channel, or a name is too long.
    pub(super) fn with_identity(
        mut self,
        user: Option<&str>,
        channel: Option<&str>,
    ) -> Result<Self, RequestError> {
        let named = |name: &'static str, text: Option<&str>, header: &Option<String>| match text {
            None | Some("") => Ok(None),
            Some(text) if text.len() > MAX_BYTES => {
                let expected = format!("at most {MAX_BYTES} bytes");
                Err(RequestError::parameter(name, expected))
            }
            Some(text) if header.as_deref().is_some_and(|header| header != text) => {
                Err(RequestError::parameter(name, "the same as in the header"))
            }
            Some(text) => Ok(Some(text.to_owned())),
        };
        if let Some(channel) = named("channel", channel, &self.context.channel)? {
            self.context.channel = Some(channel);
        }
        if user.is_some_and(|user| !user.is_empty()) && self.context.user.as_deref() != user {
            let user = named("user", user, &self.context.user)?;
            let (user, is_verified) = named_by(self.grant.as_ref(), user)?;
            self.context.user = user;
            self.context.is_user_verified = is_verified;
        }
        Ok(self)
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, RequestError> {
        let approval = ApprovalRequestOptions {
            named: text_of(parts, APPROVAL_HEADER)?,
            wait: wait_of(parts)?,
            decider: decider_of(parts, app),
        };
        let (user, is_user_verified) = user_of(parts)?;
        let grant = parts.extensions.get::<AccessGrant>();
        let allowed = grant.map(|grant| grant.tools.clone());
        let visibility = Visibility::new(allowed.unwrap_or_default());
        let context = CallContext {
            may_use: Some(visibility.filter()),
            user,
            is_user_verified,
            channel: text_of(parts, CHANNEL_HEADER)?,
            principal: grant.map(AccessGrant::principal),
            caller: Some("rest".to_owned()),
            approval,
            result_memory: parts
                .extensions
                .get::<ConnectionBytes>()
                .map(|waiting| ResultMemory::new(waiting.clone())),
            trace: parts.extensions.get().cloned(),
            ..CallContext::default()
        };
        let visibility = visibility.confined_to(grant.and_then(AccessGrant::only_user));
        let grant = grant.cloned();
        Ok(Self {
            grant,
            context,
            visibility,
        })
    }
}

/// Returns the user that the request or its token names, and whether the user is verified.
fn user_of(parts: &Parts) -> Result<(Option<String>, bool), CallerError> {
    let named = text_of(parts, USER_HEADER)?;
    named_by(parts.extensions.get::<AccessGrant>(), named)
}

fn named_by(
    grant: Option<&AccessGrant>,
    named: Option<String>,
) -> Result<(Option<String>, bool), CallerError> {
    let Some(grant) = grant else {
        return Ok((named, false));
    };
    let user = match (&grant.users, named) {
        (Users::One(own), Some(named)) if *own != named => {
            return Err(CallerError::OtherUser);
        }
        (Users::One(own), _) => Some(own.clone()),
        (_, named) => named,
    };
    let is_verified = user.as_deref().is_some_and(|user| grant.may_act_for(user));
    Ok((user, is_verified))
}

/// Returns the principal, if this client may decide on its own calls.
fn decider_of(parts: &Parts, app: &App) -> Option<String> {
    let grant = parts.extensions.get::<AccessGrant>()?;
    let may_decide = match app.approvals().section().elicit_from {
        ElicitFrom::Deciders => grant.allows(Scope::Approve),
        ElicitFrom::All => true,
        ElicitFrom::None => false,
    };
    may_decide.then(|| grant.principal())
}

/// Returns how long the request may wait for a decision. The query parameter overrides the header.
fn wait_of(parts: &Parts) -> Result<Duration, RequestError> {
    #[derive(Deserialize)]
    struct WaitPreference {
        wait_ms: Option<String>,
    }
    let Parameters(preference) = Parameters::<WaitPreference>::from_uri(&parts.uri)?;
    let (name, text) = match preference.wait_ms {
        Some(text) => ("wait_ms", Some(text)),
        None => (APPROVAL_WAIT_HEADER, text_of(parts, APPROVAL_WAIT_HEADER)?),
    };
    // A signed 64-bit integer, as in the OpenAPI document.
    let millis: i64 = parsed(name, text.as_deref(), EXPECTED_WAIT)?.unwrap_or(0);
    let millis = u64::try_from(millis).map_err(|_| RequestError::parameter(name, EXPECTED_WAIT))?;
    Ok(Duration::from_millis(millis))
}

/// Returns the value of a header; `None` if the header is absent or empty.
fn text_of(parts: &Parts, header: &'static str) -> Result<Option<String>, CallerError> {
    let Some(value) = parts.headers.get(header) else {
        return Ok(None);
    };
    let bytes = value.as_bytes();
    match std::str::from_utf8(bytes) {
        Ok("") => Ok(None),
        Ok(text) if bytes.len() <= MAX_BYTES => Ok(Some(text.to_owned())),
        _ => Err(CallerError::InvalidHeader {
            header,
            limit_bytes: MAX_BYTES,
        }),
    }
}
