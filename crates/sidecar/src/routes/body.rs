use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_LENGTH;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems};
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, OneOfBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::error::RequestError;
use crate::app::App;

/// A request body, within the size limit and the read timeout.
///
/// The `Content-Type` is ignored: all routes take JSON, and `curl -d` declares form data.
pub(super) struct Body(pub(super) Bytes);

impl FromRequest<App> for Body {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self, RequestError> {
        let limits = app.http();
        let limit_bytes = limits.max_body_bytes.get();
        let announced = request.headers().get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit_bytes) {
            return Err(RequestError::BodyTooLong { limit_bytes });
        }
        let after = limits.body_timeout;
        // The router's body limit is the same value.
        match pillion_deadline::timeout(after, Bytes::from_request(request, app)).await {
            Ok(Ok(bytes)) => Ok(Self(bytes)),
            Ok(Err(BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(
                _,
            )))) => Err(RequestError::BodyTooLong { limit_bytes }),
            Ok(Err(rejection)) => Err(RequestError::BodyBroken(rejection)),
            Err(_) => Err(RequestError::BodyTooSlow { after }),
        }
    }
}

/// A JSON object body, deserialized into `T`; an empty body counts as an empty object.
pub(super) struct Object<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for Object<T> {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self, RequestError> {
        let Body(bytes) = Body::from_request(request, app).await?;
        let bytes = match bytes.trim_ascii() {
            b"" => b"{}",
            bytes => bytes,
        };
        // Parses a map first: serde would also read a struct from an array.
        let members: serde_json::Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|error| match error.classify() {
                serde_json::error::Category::Data => RequestError::NotThatBody(error),
                _ => RequestError::MalformedJson(error),
            })?;
        let read = T::deserialize(Value::Object(members)).map_err(RequestError::NotThatBody)?;
        Ok(Self(read))
    }
}

/// A body with any JSON value.
pub(super) struct AnyJson(pub(super) Value);

impl FromRequest<App> for AnyJson {
    type Rejection = RequestError;

    async fn from_request(request: Request, app: &App) -> Result<Self, RequestError> {
        let Body(bytes) = Body::from_request(request, app).await?;
        let value = serde_json::from_slice(&bytes).map_err(RequestError::MalformedJson)?;
        Ok(Self(value))
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
        let Body(bytes) = Body::from_request(request, app).await?;
        if bytes.trim_ascii().is_empty() {
            return Ok(Self(Value::Object(serde_json::Map::new())));
        }
        match serde_json::from_slice(&bytes).map_err(RequestError::MalformedJson)? {
            Value::Null => Ok(Self(Value::Object(serde_json::Map::new()))),
            Value::Array(items) if items.is_empty() => {
                Ok(Self(Value::Object(serde_json::Map::new())))
            }
            object @ Value::Object(_) => Ok(Self(object)),
            _ => Err(RequestError::NotAnObject),
        }
    }
}
