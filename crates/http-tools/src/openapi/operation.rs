use std::sync::Arc;

use http::{HeaderName, Method};
use pillion_core::compose::InputTemplate;
use pillion_core::tool::{JsonObject, ToolDefinition};
use serde_json::{Value, json};

use super::document::OpenApiDocument;
use super::schema::SchemaCopier;
use super::text;
use crate::api_access::ApiAccess;
use crate::request::{QueryPart, QueryStyle, RequestPlan};
use crate::url_template::UrlTemplate;
use crate::{HttpTool, HttpToolError, entry};

/// Maximum length of a description, in characters. Limited, because every request to a model
/// contains the description.
const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// Maximum size of an argument schema, as JSON, in bytes.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Maximum number of parameters of an operation.
const MAX_PARAMETERS: usize = 256;

/// The name of the argument that becomes the request's body.
const BODY_ARGUMENT: &str = "body";

/// An operation of an OpenAPI document.
pub(super) struct Operation<'a> {
    path: &'a str,
    method: &'static str,
    /// The path item that contains the operation, with settings for all operations of the path.
    path_item: &'a Value,
    operation: &'a Value,
}

/// The parts of a tool that are collected from an operation's parameters.
struct OperationParts<'a> {
    schemas: SchemaCopier<'a>,
    properties: JsonObject,
    required: Vec<String>,
    query: Vec<QueryPart>,
    headers: Vec<(HeaderName, InputTemplate)>,
    body: Option<InputTemplate>,
}

impl<'a> Operation<'a> {
    pub(super) fn new(
        path: &'a str,
        method: &'static str,
        path_item: &'a Value,
        operation: &'a Value,
    ) -> Self {
        Self {
            path,
            method,
            path_item,
            operation,
        }
    }

    pub(super) fn id(&self) -> Option<&'a str> {
        text(self.operation, "operationId")
    }

    /// Rejects an operation with its own servers, unless the operator configured a base URL,
    /// because the credential could be sent to the wrong server.
    pub(super) fn check_base_url(&self, configured_url: Option<&str>) -> Result<(), HttpToolError> {
        let has_servers = |value: &Value| {
            let servers = value.get("servers");
            servers.is_some_and(|servers| servers != &json!([]))
        };
        if configured_url.is_some() || !(has_servers(self.path_item) || has_servers(self.operation))
        {
            return Ok(());
        }
        let label = self.format_label();
        let message = format!("{label}: the operation has its own 'servers': set base_url");
        Err(HttpToolError::new("operations", message))
    }

    fn format_label(&self) -> String {
        format!("{} {}", self.method.to_ascii_uppercase(), self.path)
    }

    /// Converts the operation to a tool.
    pub(super) fn to_tool(
        &self,
        document: &'a OpenApiDocument,
        base_url: &str,
        prefix: &str,
        headers: &[(HeaderName, InputTemplate)],
        access: &Arc<ApiAccess>,
    ) -> Result<HttpTool, HttpToolError> {
        let label = self.format_label();
        let fault = |reason: String| HttpToolError::new("operations", format!("{label}: {reason}"));
        let url_fault = |error: HttpToolError| fault(error.message);
        // Rejects a path without a leading slash, which would extend the host name.
        if !self.path.starts_with('/') {
            return Err(fault("the path does not begin with '/'".to_owned()));
        }
        let url = UrlTemplate::parse(&format!("{base_url}{}", self.path)).map_err(url_fault)?;
        access.check_url(url.sample_url())?;
        let method = Method::from_bytes(self.method.to_ascii_uppercase().as_bytes())
            .map_err(|error| fault(error.to_string()))?;
        let mut parts = OperationParts {
            schemas: SchemaCopier::new(document),
            properties: JsonObject::new(),
            required: Vec::new(),
            query: Vec::new(),
            headers: headers.to_vec(),
            body: None,
        };
        for (parameter, name) in self.collect_parameters(document).map_err(fault)? {
            parts
                .add_parameter(document, parameter, name)
                .map_err(fault)?;
        }
        let path_arguments: Vec<_> = url.arguments().map(str::to_owned).collect();
        let mut names = path_arguments.iter();
        if let Some(undeclared_name) = names.find(|name| !parts.required.contains(name)) {
            return Err(fault(format!(
                "'{undeclared_name}' is used in the path, but is not declared as a parameter"
            )));
        }
        if let Some(body) = self.operation.get("requestBody") {
            parts.add_body(document, body).map_err(fault)?;
        }
        let id = self
            .id()
            .map_or_else(|| label.to_ascii_lowercase(), str::to_owned);
        let is_legal = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
        let characters = id.chars().map(|c| if is_legal(c) { c } else { '_' });
        let name: String = characters.collect();
        let annotations = entry::create_annotations(&method, None);
        let plan = RequestPlan {
            method,
            url,
            query: parts.query,
            headers: parts.headers,
            body: parts.body,
        };
        let mut schema = json!({
            "type": "object",
            "properties": parts.properties,
            "required": parts.required,
            "additionalProperties": false,
        });
        let definitions = parts.schemas.into_definitions().map_err(fault)?;
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        let size = schema.to_string().len();
        if size > MAX_SCHEMA_BYTES {
            return Err(fault(format!(
                "the schema has {size} bytes; the limit is {MAX_SCHEMA_BYTES}"
            )));
        }
        let definition =
            ToolDefinition::builder(format!("{prefix}{name}"), self.format_description(&label))
                .schema(schema)
                .annotations(annotations)
                .build()
                .map_err(|error| fault(error.to_string()))?;
        entry::build_tool(definition, plan, Arc::clone(access), None)
            .map_err(|error| fault(error.message))
    }

    fn format_description(&self, label: &str) -> String {
        let texts: Vec<_> = ["summary", "description"]
            .into_iter()
            .filter_map(|key| text(self.operation, key))
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .collect();
        if texts.is_empty() {
            return label.to_owned();
        }
        let description = texts.join("\n\n");
        description.chars().take(MAX_DESCRIPTION_CHARS).collect()
    }

    /// Returns the parameters of the path and of the operation, each with the name of its argument.
    /// A parameter of the operation replaces a parameter of the path with the same name and
    /// location. An argument has the name of its parameter, unless another argument already has
    /// this name.
    fn collect_parameters(
        &self,
        document: &'a OpenApiDocument,
    ) -> Result<Vec<(&'a Value, String)>, String> {
        let parameter_key = |parameter: &Value| {
            let (location, name) = (text(parameter, "in")?, text(parameter, "name")?);
            Some((location.to_owned(), name.to_owned()))
        };
        let mut unique_parameters: Vec<((String, String), &'a Value)> = Vec::new();
        for parameter_source in [self.path_item, self.operation] {
            let parameters = parameter_source.get("parameters").and_then(Value::as_array);
            for (index, parameter) in parameters.into_iter().flatten().enumerate() {
                let parameter = document.resolve(parameter)?;
                let key = parameter_key(parameter).ok_or_else(|| {
                    format!("parameters[{index}] needs the strings 'name' and 'in'")
                })?;
                unique_parameters.retain(|(existing_key, _)| *existing_key != key);
                unique_parameters.push((key, parameter));
                if unique_parameters.len() > MAX_PARAMETERS {
                    return Err(format!(
                        "the operation has more than {MAX_PARAMETERS} parameters"
                    ));
                }
            }
        }
        // Sorts path parameters first, so that an argument of a path parameter always keeps the
        // name of the parameter.
        unique_parameters.sort_by_key(|((location, _), _)| location != "path");
        let mut used_names = vec![BODY_ARGUMENT.to_owned()];
        let named_parameters =
            unique_parameters
                .into_iter()
                .map(|((location, name), parameter)| {
                    let argument = if used_names.contains(&name) {
                        format!("{location}_{name}")
                    } else {
                        name
                    };
                    used_names.push(argument.clone());
                    (parameter, argument)
                });
        Ok(named_parameters.collect())
    }
}

impl OperationParts<'_> {
    fn add_parameter(
        &mut self,
        document: &OpenApiDocument,
        parameter: &Value,
        argument: String,
    ) -> Result<(), String> {
        let name = text(parameter, "name").unwrap_or_default();
        let is_required = parameter["required"] == true;
        let style = text(parameter, "style");
        let content = parameter.get("content").and_then(Value::as_object);
        let first_media = content.and_then(|content| content.values().next());
        let declared_schema = parameter
            .get("schema")
            .or_else(|| first_media?.get("schema"));
        let template = InputTemplate::argument(&argument);
        match text(parameter, "in").unwrap_or_default() {
            "path" if style.is_none_or(|style| style == "simple") && content.is_none() => {
                if argument != name {
                    return Err(format!(
                        "the path parameter '{name}' has the name of the argument for the \
                         request body: rename the parameter"
                    ));
                }
            }
            "path" => {
                return Err(format!(
                    "the path parameter '{name}' is not supported: a path parameter needs a \
                     'schema', and its style must be 'simple'"
                ));
            }
            "query" => self.query.push(QueryPart {
                name: name.to_owned(),
                value: template,
                style: parse_query_style(document, parameter, declared_schema, content.is_some())?,
            }),
            "header" => {
                let header: HeaderName = name
                    .parse()
                    .map_err(|_| format!("'{name}' is not a valid header name"))?;
                // Skips parameters for the headers `Accept`, `Content-Type` and `Authorization`,
                // because the OpenAPI specification requires such parameters to be ignored.
                if ["accept", "content-type", "authorization"].contains(&header.as_str()) {
                    return Ok(());
                }
                let mut header_to_check = JsonObject::new();
                header_to_check.insert(name.to_owned(), Value::Null);
                entry::parse_headers(header_to_check).map_err(|error| error.message)?;
                let mut headers = self.headers.iter();
                if headers.any(|(existing_header, _)| *existing_header == header) {
                    return Ok(()); // The header of the operator takes precedence.
                }
                self.headers.push((header, template));
            }
            "cookie" if !is_required => return Ok(()),
            location => {
                return Err(format!(
                    "'{name}' is a required {location} parameter, which is not supported"
                ));
            }
        }
        let mut schema = match declared_schema {
            Some(schema) => self.schemas.copy(schema)?,
            None => json!({}),
        };
        if let (Some(description), Value::Object(schema)) =
            (text(parameter, "description"), &mut schema)
            && !schema.contains_key("$ref")
        {
            schema
                .entry("description")
                .or_insert_with(|| json!(description));
        }
        if is_required || parameter["in"] == "path" {
            self.required.push(argument.clone());
        }
        self.properties.insert(argument, schema);
        Ok(())
    }

    fn add_body(&mut self, document: &OpenApiDocument, body: &Value) -> Result<(), String> {
        let resolved_body = document.resolve(body)?;
        let is_required = resolved_body["required"] == true;
        let is_json = |media_type: &str| {
            let media_type_essence = media_type.split(';').next().unwrap_or_default().trim();
            media_type_essence == "application/json"
                || media_type_essence.ends_with("+json")
                || media_type_essence == "*/*"
        };
        let content = resolved_body.get("content").and_then(Value::as_object);
        let json_content =
            content.and_then(|content| content.iter().find(|(media_type, _)| is_json(media_type)));
        let Some((_, media)) = json_content else {
            return if is_required {
                Err("the required request body is not JSON".to_owned())
            } else {
                Ok(())
            };
        };
        let schema = match media.get("schema") {
            Some(schema) => self.schemas.copy(schema)?,
            None => json!({}),
        };
        self.properties.insert(BODY_ARGUMENT.to_owned(), schema);
        if is_required {
            self.required.push(BODY_ARGUMENT.to_owned());
        }
        self.body = Some(InputTemplate::argument(BODY_ARGUMENT));
        Ok(())
    }
}

/// Returns how lists and objects are encoded in the query.
fn parse_query_style(
    document: &OpenApiDocument,
    parameter: &Value,
    schema: Option<&Value>,
    is_content: bool,
) -> Result<QueryStyle, String> {
    if is_content {
        return Ok(QueryStyle::Json);
    }
    let name = text(parameter, "name").unwrap_or_default();
    let style = text(parameter, "style").unwrap_or("form");
    let is_exploded = parameter
        .get("explode")
        .and_then(Value::as_bool)
        .unwrap_or(style == "form");
    let resolved_schema = schema.map(|schema| document.resolve(schema)).transpose()?;
    let is_object = resolved_schema.is_some_and(|schema| schema["type"] == "object");
    match style {
        "deepObject" => Ok(QueryStyle::DeepObject),
        // Rejects an object, because without `deepObject`, its members would become query
        // parameters with arbitrary names.
        _ if is_object => Err(format!(
            "the query parameter '{name}' is an object and needs the style deepObject"
        )),
        "form" | "spaceDelimited" | "pipeDelimited" if is_exploded => Ok(QueryStyle::Repeated),
        "form" => Ok(QueryStyle::Joined(",")),
        "spaceDelimited" => Ok(QueryStyle::Joined("%20")),
        "pipeDelimited" => Ok(QueryStyle::Joined("%7C")),
        _ => Err(format!("'{name}' has the unknown style '{style}'")),
    }
}
