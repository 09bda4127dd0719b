use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_LENGTH;
use pillion_core::compute::{self, MAX_INLINE_BYTES};
use pillion_core::json_error_text;
use pillion_core::json_values::{self, TooManyValues};
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems};
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, OneOfBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::error::{INVALID_INPUT, RequestError, TIMEOUT, TOO_LARGE, route_error};
use super::request_memory::RequestMemory;
use crate::app::App;
use pillion_gateway::access::AccessGrant;

route_error! {
    /// Why a request body is rejected.
    #[derive(Debug, thiserror::Error)]
    pub(super) enum BodyError {
        #[error("Malformed JSON: {}", json_error_text(.0))]
        MalformedJson(#[source] serde_json::Error) => INVALID_INPUT,
        #[error("The request body is invalid: {0}")]
        Invalid(#[source] serde_json::Error) => INVALID_INPUT,
        #[error("The body must be a JSON object with the tool's arguments")]
        NotAnObject => INVALID_INPUT,
        #[error("The body is longer than {limit_bytes} bytes")]
        TooLong { limit_bytes: usize } => TOO_LARGE,
        #[error("The body has {0}")]
        TooManyValues(#[source] TooManyValues) => TOO_LARGE,
        #[error("The body did not arrive within {:.1}s", after.as_secs_f64())]
        TooSlow { after: Duration } => TIMEOUT,
        #[error("The request body is incomplete: the connection broke")]
        Broken(#[source] BytesRejection) => INVALID_INPUT,
    }
}

/// A request body that was received within the size limit and the read timeout.
///
/// The `Content-Type` is ignored: all routes take JSON, and `curl -d` declares form data.
pub(super) struct Body(pub(super) Bytes);

impl FromRequest<App> for Body {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self, RequestError> {
        let limits = app.http();
        let limit_bytes = limits.max_body_bytes.get();
        let header = request.headers().get(CONTENT_LENGTH);
        let announced = header.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit_bytes) {
            return Err(BodyError::TooLong { limit_bytes }.into());
        }
        let memory = request.extensions().get::<RequestMemory>().cloned();
        let after = limits.body_timeout;
        // The router limits bodies to the same size.
        match pillion_deadline::timeout(after, Bytes::from_request(request, app)).await {
            Ok(Ok(bytes)) => Self::checked(bytes, memory.as_ref()).await,
            Ok(Err(BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(
                _,
            )))) => Err(BodyError::TooLong { limit_bytes }.into()),
            Ok(Err(rejection)) => Err(BodyError::Broken(rejection).into()),
            Err(_) => Err(BodyError::TooSlow { after }.into()),
        }
    }
}

impl Body {
    /// Checks the number of JSON values in a body, and charges their memory.
    ///
    /// # Errors
    /// [`BodyError::TooManyValues`]; `TooManyRunningValues` if the bodies of running requests have
    /// too many values.
    pub(super) async fn checked(
        bytes: Bytes,
        memory: Option<&RequestMemory>,
    ) -> Result<Self, RequestError> {
        json_values::check(&bytes).map_err(BodyError::TooManyValues)?;
        if let Some(memory) = memory {
            memory.charge(&bytes).await?;
        }
        Ok(Self(bytes))
    }

    /// Reads the body and parses it. A long body is parsed on another thread, where principals take
    /// turns.
    async fn parse<T: Send + 'static>(
        request: Request,
        app: &App,
        parse: fn(&[u8]) -> Result<T, BodyError>,
    ) -> Result<T, RequestError> {
        let account = long_body_account(&request);
        let Self(bytes) = Self::from_request(request, app).await?;
        let parsed = match account {
            Some(account) => compute::run(&account, bytes.len(), move || parse(&bytes)).await,
            None => parse(&bytes),
        };
        parsed.map_err(RequestError::from)
    }
}

/// Returns the account of a request whose body may be long.
fn long_body_account(request: &Request) -> Option<String> {
    let max = request.body().size_hint().upper();
    if max.is_some_and(|max| max <= MAX_INLINE_BYTES as u64) {
        return None;
    }
    let grant = request.extensions().get::<AccessGrant>();
    Some(grant.map(AccessGrant::principal).unwrap_or_default())
}

/// A JSON object body, deserialized into `T`; an empty body counts as an empty object.
pub(super) struct Object<T>(pub(super) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Object<T> {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self, RequestError> {
        Body::parse(request, app, parse_object).await.map(Self)
    }
}

fn parse_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BodyError> {
    let bytes = match bytes.trim_ascii() {
        b"" => b"{}",
        bytes => bytes,
    };
    // Parses a map first: serde would also read a struct from an array.
    let members: serde_json::Map<String, Value> =
        serde_json::from_slice(bytes).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => BodyError::Invalid(error),
            _ => BodyError::MalformedJson(error),
        })?;
    T::deserialize(Value::Object(members)).map_err(BodyError::Invalid)
}

/// A body with any JSON value.
pub(super) struct AnyJson(pub(super) Value);

impl FromRequest<App> for AnyJson {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self, RequestError> {
        let parse = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(BodyError::MalformedJson);
        Body::parse(request, app, parse).await.map(Self)
    }
}

/// A body with the arguments of one tool: an object. An empty body, `null` and `[]` (PHP's form of
/// an empty object) count as an empty object.
pub(super) struct Arguments(pub(super) Value);

impl PartialSchema for Arguments {
    fn schema() -> RefOr<Schema> {
        let named =
            ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(true)));
        let none = ArrayBuilder::new()
            .items(ArrayItems::RefOrSchema(Box::default()))
            .max_items(Some(0));
        OneOfBuilder::new().item(named).item(none).into()
    }
}

impl ToSchema for Arguments {}

impl FromRequest<App> for Arguments {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self, RequestError> {
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
