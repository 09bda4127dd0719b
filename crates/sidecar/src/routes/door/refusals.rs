use std::collections::BTreeMap;

use utoipa::openapi::{RefOr, Response, ResponseBuilder};

/// The error statuses of the compatible APIs, with their descriptions.
const REFUSALS: [(&str, &str); 10] = [
    (
        "400",
        "The request cannot be read, or the provider refused it",
    ),
    (
        "403",
        "Calls wait for an approval, or the token is for another user",
    ),
    ("404", "There is no such model or chat"),
    ("408", "The body took too long"),
    ("409", "Another request goes on with the chat now"),
    ("413", "The body is too long"),
    (
        "429",
        "The provider has had too many requests, or the chat may spend no more",
    ),
    (
        "502",
        "The provider's answer cannot be read, or it did not take our key",
    ),
    (
        "503",
        "No model is configured, or its provider cannot be reached",
    ),
    ("504", "The model did not answer in time"),
];

/// The error responses of the compatible APIs, for the OpenAPI document.
pub(in crate::routes) struct Refusals;

impl utoipa::IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let refusals = REFUSALS.into_iter();
        refusals
            .map(|(status, description)| {
                let response = ResponseBuilder::new().description(description).build();
                (status.to_owned(), RefOr::T(response))
            })
            .collect()
    }
}
