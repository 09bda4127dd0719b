use std::collections::BTreeMap;

use utoipa::openapi::{RefOr, Response, ResponseBuilder};

/// The error statuses of the compatible APIs, with their descriptions.
const ERROR_STATUSES: [(&str, &str); 10] = [
    ("400", "The request is invalid, or the provider rejected it"),
    (
        "403",
        "Calls wait for approval, or the token is for another user",
    ),
    ("404", "Model or chat not found"),
    ("408", "The request body took too long to arrive"),
    ("409", "Another request is continuing the chat"),
    ("413", "The request body is too large"),
    (
        "429",
        "The provider's rate limit or the chat's token limit is exceeded",
    ),
    (
        "502",
        "The provider's response is invalid, or the provider rejected the sidecar's key",
    ),
    (
        "503",
        "No model is configured, or the model's provider is unreachable",
    ),
    ("504", "The model did not answer in time"),
];

/// The error responses of the compatible APIs, for the OpenAPI document.
pub(in crate::routes) struct ErrorResponses;

impl utoipa::IntoResponses for ErrorResponses {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let statuses = ERROR_STATUSES.into_iter();
        statuses
            .map(|(status, description)| {
                let response = ResponseBuilder::new().description(description).build();
                (status.to_owned(), RefOr::T(response))
            })
            .collect()
    }
}
