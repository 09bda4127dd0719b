use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Object, Ref, RefOr, ResponseBuilder, Schema};
use utoipa::{Modify, OpenApi};

use super::error::{InternalError, RequestError};
use super::table::documented_routes;
use pillion_gateway::problem::Problem;

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

/// Prefixes each operation ID with its tag: the IDs are function names, which are not unique.
struct Names;

impl Modify for Names {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for operation in document.paths.paths.values_mut().flat_map(operations) {
            let group = operation.tags.iter().flatten().next();
            if let (Some(group), Some(id)) = (group, &operation.operation_id) {
                operation.operation_id = Some(format!("{}_{id}", group.replace('-', "_")));
            }
        }
    }
}

/// Returns the operations of a path.
fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let all = [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ];
    all.into_iter().flatten()
}

/// Makes the type of headers a non-null string: a header is absent or has a value.
struct Headers;

impl Modify for Headers {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let items = document.paths.paths.values_mut();
        let operations = items.flat_map(|item| [&mut item.get, &mut item.post]);
        let parameters = operations
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
}

/// Adds the default error response to every operation, and the error body to each 4xx and 5xx
/// response that has none.
struct Refusals;

/// Statuses of errors without a body, whose details are in a header.
const STATUSES_WITHOUT_BODY: [&str; 1] = ["416"];

const MEDIA_TYPE: &str = "application/problem+json";

/// Prefix of the paths whose errors have the format of a compatible API.
const COMPATIBLE_PREFIX: &str = "/v1/";

impl Modify for Refusals {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let problem = Content::new(Some(Ref::from_schema_name("Problem")));
        let is_bare_refusal = |status: &str, response: &utoipa::openapi::Response| {
            status.starts_with(['4', '5'])
                && !STATUSES_WITHOUT_BODY.contains(&status)
                && response.content.is_empty()
        };
        let refusal = ResponseBuilder::new()
            .description("The request is not allowed, too large, too slow or invalid, or the sidecar cannot process it")
            .content(MEDIA_TYPE, problem.clone())
            .build();
        let object = Content::new(Some(Schema::Object(Object::new())));
        let said_otherwise = ResponseBuilder::new()
            .description("An error in the format of the compatible API")
            .content("application/json", object.clone())
            .build();
        let items = document.paths.paths.iter_mut();
        let operations = items.flat_map(|(path, item)| {
            let is_of_others = path.starts_with(COMPATIBLE_PREFIX);
            operations(item).map(move |operation| (is_of_others, operation))
        });
        for (is_of_others, operation) in operations {
            let (media_type, problem, refusal) = match is_of_others {
                true => ("application/json", &object, &said_otherwise),
                false => (MEDIA_TYPE, &problem, &refusal),
            };
            let responses = &mut operation.responses.responses;
            for (status, response) in responses.iter_mut() {
                if let RefOr::T(response) = response
                    && is_bare_refusal(status, response)
                {
                    let content = (media_type.to_owned(), RefOr::T(problem.clone()));
                    response.content.extend([content]);
                }
            }
            responses.insert("default".to_owned(), RefOr::T(refusal.clone()));
        }
    }
}

/// Adds the bearer token, which requests over TCP need and requests over the Unix socket do not.
struct Tokens;

impl Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let token = Http::builder()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An access token, for requests over TCP"))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(token));
        let needs = [
            SecurityRequirement::default(),
            SecurityRequirement::new("token", [""; 0]),
        ];
        document.security = Some(needs.to_vec());
    }
}

static DOCUMENT: LazyLock<Result<String, serde_json::Error>> =
    LazyLock::new(|| document().to_json());

/// Returns the document with the documented routes.
fn document() -> utoipa::openapi::OpenApi {
    let mut document = ApiDocument::openapi();
    let components = document.components.get_or_insert_default();
    for (schemas, paths, _) in documented_routes() {
        components.schemas.extend(schemas);
        document.paths.merge(paths);
    }
    let modifiers: [&dyn Modify; 4] = [&Names, &Headers, &Refusals, &Tokens];
    for modifier in modifiers {
        modifier.modify(&mut document);
    }
    document
}

/// Returns the OpenAPI document.
pub(super) async fn openapi() -> Response {
    match &*DOCUMENT {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text.as_str()).into_response(),
        Err(error) => {
            tracing::error!(%error, "Cannot write the OpenAPI document");
            RequestError::from(InternalError).into_response()
        }
    }
}
