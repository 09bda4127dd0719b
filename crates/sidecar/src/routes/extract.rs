//! Extractors for the request handlers: the caller and the body of a request.

use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use pillion_core::compute::{self, MAX_INLINE_BYTES};
use pillion_core::json_error_text;
use pillion_core::json_values::{self, TooManyValues};
use pillion_core::tool::{ApprovalRequestOptions, CallContext, ResultMemory};
use pillion_wire::{APPROVAL_HEADER, APPROVAL_WAIT_HEADER, CHANNEL_HEADER, USER_HEADER};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems};
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, OneOfBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::parameters::Parameters;
use super::request_memory::RequestMemory;
use crate::app::App;
use pillion_config::ElicitFrom;
use pillion_gateway::access::{AccessGrant, GrantHolder, MAX_USER_BYTES, OtherUser, Scope};
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::visibility::Visibility;
use pillion_gateway::waiting_bytes::ConnectionBytes;
use pillion_management::error::{
    DENIED, INVALID_INPUT, RequestError, Result, TIMEOUT, TOO_LARGE, route_error,
};
use pillion_management::parameter::parse_parameter;

/// Maximum length of a user, a channel or an approval ID, in bytes. The length is limited, because
/// the rate limiter stores users and channels.
const MAX_VALUE_BYTES: usize = MAX_USER_BYTES;

/// The expected value of `wait_ms`, for error messages.
const EXPECTED_WAIT: &str = "a number of milliseconds, 0 or more";

route_error! {
    /// The reason why the headers that name the caller are rejected.
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
    pub(super) fn is_over_tcp(&self) -> bool {
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
    ) -> Result<Self> {
        let check_name =
            |name: &'static str, text: Option<&str>, header: &Option<String>| match text {
                None | Some("") => Ok(None),
                Some(text) if text.len() > MAX_VALUE_BYTES => {
                    let expected = format!("at most {MAX_VALUE_BYTES} bytes");
                    Err(RequestError::invalid_parameter(name, expected))
                }
                Some(text) if header.as_deref().is_some_and(|header| header != text) => Err(
                    RequestError::invalid_parameter(name, "the same as in the header"),
                ),
                Some(text) => Ok(Some(text.to_owned())),
            };
        if let Some(channel) = check_name("channel", channel, &self.context.channel)? {
            self.context.channel = Some(channel);
        }
        if user.is_some_and(|user| !user.is_empty()) && self.context.user.as_deref() != user {
            let requested_user = check_name("user", user, &self.context.user)?;
            let (allowed_user, is_verified) = user_for_grant(self.grant.as_ref(), requested_user)?;
            self.context.user = allowed_user;
            self.context.is_user_verified = is_verified;
        }
        Ok(self)
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let approval = ApprovalRequestOptions {
            named: read_header(parts, APPROVAL_HEADER)?,
            wait: read_approval_wait(parts)?,
            decider: find_decider(parts, app),
        };
        let (user, is_user_verified) = read_user(parts)?;
        let grant = parts.extensions.get::<AccessGrant>();
        let allowed_tools = grant.map(|grant| grant.tools.clone());
        let grant_visibility = Visibility::new(allowed_tools.unwrap_or_default());
        let context = CallContext {
            may_use: Some(grant_visibility.filter()),
            user,
            is_user_verified,
            channel: read_header(parts, CHANNEL_HEADER)?,
            principal: grant.map(AccessGrant::principal),
            caller: Some("rest".to_owned()),
            approval,
            result_memory: parts
                .extensions
                .get::<ConnectionBytes>()
                .map(|connection_bytes| ResultMemory::new(connection_bytes.clone())),
            trace: parts.extensions.get().cloned(),
            ..CallContext::default()
        };
        let only_user = grant.and_then(AccessGrant::only_user);
        Ok(Self {
            grant: grant.cloned(),
            context,
            visibility: grant_visibility.restrict_to_user(only_user),
        })
    }
}

/// Returns the user that the request or its token names, and whether the user is verified.
fn read_user(parts: &Parts) -> Result<(Option<String>, bool), CallerError> {
    let requested_user = read_header(parts, USER_HEADER)?;
    user_for_grant(parts.extensions.get::<AccessGrant>(), requested_user)
}

fn user_for_grant(
    grant: Option<&AccessGrant>,
    requested_user: Option<String>,
) -> Result<(Option<String>, bool), CallerError> {
    match grant {
        Some(grant) => grant
            .resolve_user(requested_user)
            .map_err(|OtherUser| CallerError::OtherUser),
        None => Ok((requested_user, false)),
    }
}

/// Returns the principal if this client may approve or deny its own calls.
fn find_decider(parts: &Parts, app: &App) -> Option<String> {
    let grant = parts.extensions.get::<AccessGrant>()?;
    let may_decide = match app.approvals().section().elicit_from {
        ElicitFrom::Deciders => grant.allows(Scope::Approve),
        ElicitFrom::All => true,
        ElicitFrom::None => false,
    };
    may_decide.then(|| grant.principal())
}

/// Returns how long the request may wait for a decision. The query parameter overrides the header.
fn read_approval_wait(parts: &Parts) -> Result<Duration> {
    #[derive(Deserialize)]
    struct WaitPreference {
        wait_ms: Option<String>,
    }
    let Parameters(preference) = Parameters::<WaitPreference>::from_uri(&parts.uri)?;
    let (name, text) = match preference.wait_ms {
        Some(text) => ("wait_ms", Some(text)),
        None => (
            APPROVAL_WAIT_HEADER,
            read_header(parts, APPROVAL_WAIT_HEADER)?,
        ),
    };
    // The number is parsed as a signed 64-bit integer, which is the type in the OpenAPI document.
    let signed_millis: i64 = parse_parameter(name, text.as_deref(), EXPECTED_WAIT)?.unwrap_or(0);
    let millis = u64::try_from(signed_millis)
        .map_err(|_| RequestError::invalid_parameter(name, EXPECTED_WAIT))?;
    Ok(Duration::from_millis(millis))
}

/// Returns the value of a header; `None` if the header is absent or empty.
fn read_header(parts: &Parts, header: &'static str) -> Result<Option<String>, CallerError> {
    let Some(value) = parts.headers.get(header) else {
        return Ok(None);
    };
    let bytes = value.as_bytes();
    match std::str::from_utf8(bytes) {
        Ok("") => Ok(None),
        Ok(text) if bytes.len() <= MAX_VALUE_BYTES => Ok(Some(text.to_owned())),
        _ => Err(CallerError::InvalidHeader {
            header,
            limit_bytes: MAX_VALUE_BYTES,
        }),
    }
}

route_error! {
    /// The reason why a request body is rejected.
    #[derive(Debug, thiserror::Error)]
    pub(super) enum BodyError {
        #[error("Malformed JSON: {}", json_error_text(.0))]
        MalformedJson(#[source] serde_json::Error) => INVALID_INPUT,
        #[error("The request body is invalid: {}{source}", member_prefix(path))]
        Invalid { path: String, source: serde_json::Error } => INVALID_INPUT,
        #[error("The body must be a JSON object with the tool's arguments")]
        NotAnObject => INVALID_INPUT,
        #[error("The request body is longer than {limit_bytes} bytes")]
        TooLong { limit_bytes: usize } => TOO_LARGE,
        #[error("The body has {0}")]
        TooManyValues(#[source] TooManyValues) => TOO_LARGE,
        #[error("The body did not arrive within {:.1}s", body_timeout.as_secs_f64())]
        TooSlow { body_timeout: Duration } => TIMEOUT,
        #[error("The request body is incomplete: the connection was closed")]
        Broken(#[source] BytesRejection) => INVALID_INPUT,
    }
}

/// A request body that was received within the size limit and the read timeout.
///
/// The `Content-Type` is ignored: all routes take JSON, and `curl -d` declares form data.
pub(super) struct Body(pub(super) Bytes);

impl FromRequest<App> for Body {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let limits = app.http();
        let limit_bytes = limits.max_body_bytes.get();
        let header = request.headers().get(CONTENT_LENGTH);
        let announced_bytes = header.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced_bytes.is_some_and(|length| length > limit_bytes) {
            return Err(BodyError::TooLong { limit_bytes }.into());
        }
        let memory = request.extensions().get::<RequestMemory>().cloned();
        let body_timeout = limits.body_timeout;
        // A body above `limit_bytes` fails with `LengthLimitError`, because the router limits
        // bodies to the same size.
        match pillion_deadline::timeout(body_timeout, Bytes::from_request(request, app)).await {
            Ok(Ok(bytes)) => Self::from_bytes(bytes, memory.as_ref()).await,
            Ok(Err(BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(
                _,
            )))) => Err(BodyError::TooLong { limit_bytes }.into()),
            Ok(Err(rejection)) => Err(BodyError::Broken(rejection).into()),
            Err(_) => Err(BodyError::TooSlow { body_timeout }.into()),
        }
    }
}

impl Body {
    /// Checks the number of JSON values in a body, and reserves memory for the values in `memory`.
    ///
    /// # Errors
    /// [`BodyError::TooManyValues`] if this body has too many values; `TooManyRunningValues` if the
    /// bodies of running requests have too many values together.
    pub(super) async fn from_bytes(bytes: Bytes, memory: Option<&RequestMemory>) -> Result<Self> {
        json_values::check(&bytes).map_err(BodyError::TooManyValues)?;
        if let Some(memory) = memory {
            memory.try_reserve(&bytes).await?;
        }
        Ok(Self(bytes))
    }

    /// Reads the body and parses it. A long body is parsed on another thread, where principals take
    /// turns.
    async fn parse<T: Send + 'static>(
        request: Request,
        app: &App,
        parse: fn(&[u8]) -> Result<T, BodyError>,
    ) -> Result<T> {
        let account = long_body_account(&request);
        let Self(bytes) = Self::from_request(request, app).await?;
        let parse_outcome = match account {
            Some(account) => compute::run(&account, bytes.len(), move || parse(&bytes)).await,
            None => parse(&bytes),
        };
        parse_outcome.map_err(RequestError::from)
    }
}

/// Returns the principal under which a long body is parsed on another thread; empty if the request
/// has no grant. Returns `None` if the body is short.
fn long_body_account(request: &Request) -> Option<String> {
    let max_bytes = request.body().size_hint().upper();
    if max_bytes.is_some_and(|max_bytes| max_bytes <= MAX_INLINE_BYTES as u64) {
        return None;
    }
    let grant = request.extensions().get::<AccessGrant>();
    Some(grant.map(AccessGrant::principal).unwrap_or_default())
}

/// A JSON object body, deserialized into `T`; an empty body counts as an empty object.
pub(super) struct ObjectBody<T>(pub(super) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for ObjectBody<T> {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        Body::parse(request, app, parse_object).await.map(Self)
    }
}

/// An optional JSON object body, deserialized into `T`; an empty body and `null` count as an empty
/// object. For operations with the documented body `Option<T>`.
pub(super) struct OptionalBody<T>(pub(super) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for OptionalBody<T> {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let parse = |bytes: &[u8]| match bytes.trim_ascii() {
            b"null" => parse_object(b""),
            _ => parse_object(bytes),
        };
        Body::parse(request, app, parse).await.map(Self)
    }
}

fn parse_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BodyError> {
    let json = match bytes.trim_ascii() {
        b"" => b"{}",
        json => json,
    };
    // The body is parsed as a map first, because serde would also read a struct from an array.
    let members: serde_json::Map<String, Value> =
        serde_json::from_slice(json).map_err(|source| match source.classify() {
            serde_json::error::Category::Data => BodyError::Invalid {
                path: String::new(),
                source,
            },
            _ => BodyError::MalformedJson(source),
        })?;
    serde_path_to_error::deserialize(Value::Object(members)).map_err(
        |error: serde_path_to_error::Error<serde_json::Error>| BodyError::Invalid {
            path: error.path().to_string(),
            source: error.into_inner(),
        },
    )
}

/// Returns the path of an invalid member of a body, for an error message; empty if the body itself is
/// invalid.
fn member_prefix(path: &str) -> String {
    match path {
        "" | "." => String::new(),
        path => format!("{}: ", truncate_input(path)),
    }
}

/// A body with any JSON value.
pub(super) struct AnyJson(pub(super) Value);

impl FromRequest<App> for AnyJson {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let parse = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(BodyError::MalformedJson);
        Body::parse(request, app, parse).await.map(Self)
    }
}

/// A body with the arguments of one tool: an object. An empty body, `null` and `[]` (PHP's form of
/// an empty object) count as an empty object.
pub(super) struct Arguments(pub(super) Value);

impl PartialSchema for Arguments {
    fn schema() -> RefOr<Schema> {
        let object =
            ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(true)));
        let empty_array = ArrayBuilder::new()
            .items(ArrayItems::RefOrSchema(Box::default()))
            .max_items(Some(0));
        OneOfBuilder::new().item(object).item(empty_array).into()
    }
}

impl ToSchema for Arguments {}

impl FromRequest<App> for Arguments {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        Body::parse(request, app, parse_arguments).await.map(Self)
    }
}

fn parse_arguments(bytes: &[u8]) -> Result<Value, BodyError> {
    if bytes.trim_ascii().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_slice(bytes).map_err(BodyError::MalformedJson)? {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Array(items) if items.is_empty() => Ok(Value::Object(serde_json::Map::new())),
        object @ Value::Object(_) => Ok(object),
        _ => Err(BodyError::NotAnObject),
    }
}
