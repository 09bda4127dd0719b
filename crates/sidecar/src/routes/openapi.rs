use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, Object, OpenApi as OpenApiDocument, Ref, RefOr, ResponseBuilder, Schema,
};

use super::table::{documented_routes, operations};
use pillion_gateway::problem::Problem;
use pillion_management::error::{InternalError, RequestError};

/// The OpenAPI document of the API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Pillion sidecar",
        description = "Runs tools for applications that talk to language models. The API is HTTP/1.1 over a Unix socket, and optionally over TCP."
    ),
    components(schemas(Problem)),
    tags(
        (name = "tools", description = "Listing and calling tools"),
        (name = "tool-calls", description = "The call log: recorded calls and their outcomes"),
        (name = "approvals", description = "Calls that need approval"),
        (name = "packs", description = "The packs and their stored data"),
        (name = "pins", description = "The accepted tool definitions of MCP servers"),
        (name = "chat", description = "Chats with language models that use the tools"),
        (name = "models", description = "The language models"),
        (name = "formats", description = "Conversion to and from the formats of model providers"),
        (name = "events", description = "Live event streams"),
        (name = "workers", description = "Processes that provide tools to the sidecar"),
        (name = "servers", description = "The MCP servers that the sidecar connects to"),
        (name = "operations", description = "Health, readiness, metrics and status of the sidecar")
    )
)]
struct ApiDocument;

/// Changes the type of each header to a non-null string, because an absent header has no value.
fn require_header_values(document: &mut OpenApiDocument) {
    let path_items = document.paths.paths.values_mut();
    let parameters = path_items
        .flat_map(|item| [&mut item.get, &mut item.post])
        .flatten()
        .flat_map(|operation| operation.parameters.iter_mut().flatten());
    for parameter in parameters {
        let RefOr::T(parameter) = parameter else {
            continue;
        };
        if let (ParameterIn::Header, Some(RefOr::T(Schema::Object(object)))) =
            (&parameter.parameter_in, &mut parameter.schema)
        {
            object.schema_type = SchemaType::Type(Type::String);
        }
    }
}

/// The HTTP statuses of error responses that have no body. The details of such an error are in a
/// header.
const STATUSES_WITHOUT_BODY: [&str; 1] = ["416"];

/// Prefix of the paths whose errors have the format of a compatible API.
const COMPATIBLE_PREFIX: &str = "/v1/";

/// Adds the default error response to every operation, and the error body to each 4xx and 5xx
/// response without a body schema.
fn add_error_responses(document: &mut OpenApiDocument) {
    let problem = Content::new(Some(Ref::from_schema_name("Problem")));
    let object = Content::new(Some(Schema::Object(Object::new())));
    let has_no_body = |status: &str, response: &utoipa::openapi::Response| {
        status.starts_with(['4', '5'])
            && !STATUSES_WITHOUT_BODY.contains(&status)
            && response.content.is_empty()
    };
    for (path, item) in &mut document.paths.paths {
        let (media_type, body, description) = if path.starts_with(COMPATIBLE_PREFIX) {
            let description = "An error in the format of the compatible API";
            ("application/json", &object, description)
        } else {
            let description = "The request is not allowed, too large, too slow or invalid, or the sidecar cannot process it";
            ("application/problem+json", &problem, description)
        };
        let default_response = ResponseBuilder::new()
            .description(description)
            .content(media_type, body.clone())
            .build();
        for operation in operations(item) {
            let responses = &mut operation.responses.responses;
            for (status, response) in responses.iter_mut() {
                if let RefOr::T(response) = response
                    && has_no_body(status, response)
                {
                    let content = (media_type.to_owned(), RefOr::T(body.clone()));
                    response.content.extend([content]);
                }
            }
            responses.insert("default".to_owned(), RefOr::T(default_response.clone()));
        }
    }
}

/// Adds the security scheme of the bearer token, which is required over TCP and not over the Unix
/// socket.
fn add_token(document: &mut OpenApiDocument) {
    let token = Http::builder()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An access token, for requests over TCP"))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(token));
    let alternatives = [
        SecurityRequirement::default(),
        SecurityRequirement::new("token", [""; 0]),
    ];
    document.security = Some(alternatives.to_vec());
}

static OPENAPI_JSON: LazyLock<Result<String, serde_json::Error>> =
    LazyLock::new(|| build_document().to_json());

/// Returns the OpenAPI document, with all documented routes.
fn build_document() -> OpenApiDocument {
    let mut document = ApiDocument::openapi();
    let components = document.components.get_or_insert_default();
    for (schemas, paths, _) in documented_routes() {
        components.schemas.extend(schemas);
        document.paths.merge(paths);
    }
    require_header_values(&mut document);
    add_error_responses(&mut document);
    add_token(&mut document);
    document
}

/// Returns the OpenAPI document.
pub(super) async fn openapi() -> Response {
    match &*OPENAPI_JSON {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text.as_str()).into_response(),
        Err(error) => {
            tracing::error!(%error, "Cannot write the OpenAPI document");
            RequestError::from(InternalError).into_response()
        }
    }
}
