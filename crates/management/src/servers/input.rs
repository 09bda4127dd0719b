//! The OpenAPI schema of a request that adds or changes a server.

use pillion_config::ServerSettings;
use pillion_mcp_client::ServerDefinition;
use pillion_wire::ServerRateLimit;
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::{Object, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::definition::{MAX_SERVER_NAME_CHARS, NUMBER_RANGES, PROGRAM_MEMBERS, member_name};

/// The request body that adds or changes a server, as the OpenAPI document describes it. The schema
/// combines the schemas of [`ServerDefinition`] and [`ServerSettings`]; `Definition` parses the
/// body.
pub struct ServerInput;

impl ToSchema for ServerInput {}

impl PartialSchema for ServerInput {
    fn schema() -> RefOr<Schema> {
        let mut input = Object::with_type(Type::Object);
        input.description = Some("Request body that adds a server. `url` is required.".to_owned());
        let schemas = [ServerDefinition::schema(), ServerSettings::schema()];
        for (key, schema) in schemas.into_iter().flat_map(into_properties) {
            let name = member_name(&key).filter(|name| !PROGRAM_MEMBERS.contains(&name.as_str()));
            if let (Some(name), RefOr::T(Schema::Object(property))) = (name, schema) {
                let member_schema = Schema::Object(build_member(&name, property));
                input.properties.insert(name, member_schema.into());
            }
        }
        Schema::Object(input).into()
    }
}

/// Returns the properties of an object.
fn into_properties(schema: RefOr<Schema>) -> impl Iterator<Item = (String, RefOr<Schema>)> {
    let properties = match schema {
        RefOr::T(Schema::Object(object)) => Some(object.properties),
        _ => None,
    };
    properties.into_iter().flatten()
}

/// Returns the schema of a member, with the limits of the REST API. Each member may be null, which
/// means that the member is missing.
fn build_member(name: &str, mut property: Object) -> Object {
    if let SchemaType::Type(kind) = &property.schema_type {
        property.schema_type = [kind.clone(), Type::Null].into_iter().collect();
    }
    let mut description = without_links(&property.description.unwrap_or_default());
    match name {
        "name" => {
            (property.min_length, property.max_length) = (Some(1), Some(MAX_SERVER_NAME_CHARS));
        }
        "headers" | "authentication" => {
            description.push_str(" Stored encrypted and never returned.");
        }
        "rateLimit" => property
            .properties
            .extend(into_properties(ServerRateLimit::schema())),
        _ => {}
    }
    if let Some((_, min, max, _)) = NUMBER_RANGES.iter().find(|(member, ..)| *member == name) {
        (property.minimum, property.maximum) = (Some((*min).into()), Some((*max).into()));
    }
    property.description = Some(description);
    // Removes the default of the type, because the REST API has the default that the description
    // states.
    property.default = None;
    property
}

/// Returns Markdown in which each link is replaced by its text.
fn without_links(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((text_before, link)) = rest.split_once('[') {
        text.push_str(text_before);
        let Some((label, (_, text_after))) = link
            .split_once("](")
            .and_then(|(label, target)| Some((label, target.split_once(')')?)))
        else {
            text.push('[');
            rest = link;
            continue;
        };
        text.push_str(label);
        rest = text_after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_members_of_the_api_and_no_links() {
        let schema = serde_json::to_value(ServerInput::schema()).unwrap();
        let members = schema["properties"].as_object().unwrap();
        let names: Vec<_> = members.keys().map(String::as_str).collect();
        assert_eq!(
            names.join(" "),
            "name description transport handshake protocolVersion url headers authentication timeout \
             retryAttempts enabled toolPrefix requireApproval pin newTools rateLimit maxConcurrent \
             credential"
        );
        for (name, member) in members {
            let description = member["description"].as_str().unwrap();
            assert!(!description.is_empty(), "{name}");
            assert!(!description.contains("]("), "{name}");
            assert_eq!(member["type"][1], "null", "{name}");
            assert_eq!(member.get("default"), None, "{name}");
        }
        assert_eq!(members["timeout"]["maximum"], 300_000);
        assert_eq!(members["retryAttempts"]["minimum"], 0);
        assert_eq!(members["name"]["maxLength"], 100);
        assert_eq!(members["maxConcurrent"]["minimum"], 1);
        assert!(members["rateLimit"]["properties"]["perHour"].is_object());
    }
}
