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

/// Maximum length of a description, in characters, because every request to a model contains it.
const MAX_DESCRIPTION_LEN: usize = 1_024;

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
    item: &'a Value,
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
        item: &'a Value,
        operation: &'a Value,
    ) -> Self {
        Self {
            path,
            method,
            item,
            operation,
        }
    }

    pub(super) fn id(&self) -> Option<&'a str> {
        text(self.operation, "operationId")
    }

    /// Rejects an operation with its own servers, unless the operator configured a base URL: the
    /// credential could be sent to the wrong server.
    pub(super) fn check_base_url(&self, configured: Option<&str>) -> Result<(), HttpToolError> {
        let has_servers = |value: &Value| value.get("servers").is_some_and(|it| it != &json!([]));
        if configured.is_some() || !(has_servers(self.item) || has_servers(self.operation)) {
            return Ok(());
        }
        let what = format!(
            "{}: the operation has its own 'servers': set base_url",
            self.label()
        );
        Err(HttpToolError::new("operations", what))
    }

    fn label(&self) -> String {
        format!("{} {}", self.method.to_ascii_uppercase(), self.path)
    }

    /// Converts the operation to a tool.
    pub(super) fn tool(
        &self,
        document: &'a OpenApiDocument,
        base: &str,
        prefix: &str,
        headers: &[(HeaderName, InputTemplate)],
        access: &Arc<ApiAccess>,
    ) -> Result<HttpTool, HttpToolError> {
        let label = self.label();
        let fault = |what: String| HttpToolError::new("operations", format!("{label}: {what}"));
        let url_fault = |error: HttpToolError| fault(error.what);
        // A path without a leading slash would extend the host name.
        if !self.path.starts_with('/') {
            return Err(fault("the path does not begin with '/'".to_owned()));
        }
        let url = UrlTemplate::parse(&format!("{base}{}", self.path)).map_err(url_fault)?;
        access.check(url.sample())?;
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
        for (parameter, name) in self.parameters(document).map_err(fault)? {
            parts.add(document, parameter, name).map_err(fault)?;
        }
        let path_arguments: Vec<_> = url.arguments().map(str::to_owned).collect();
        if let Some(stray) = path_arguments
            .iter()
            .find(|name| !parts.required.contains(name))
        {
            return Err(fault(format!(
                "'{stray}' is used in the path, but is not declared as a parameter"
            )));
        }
        if let Some(body) = self.operation.get("requestBody") {
            parts.add_body(document, body).map_err(fault)?;
        }
        let id = self
            .id()
            .map_or_else(|| label.to_ascii_lowercase(), str::to_owned);
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name: String = id.chars().map(|c| if legal(c) { c } else { '_' }).collect();
        let annotations = entry::annotations(&method, None);
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
        let definitions = parts.schemas.definitions().map_err(fault)?;
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
            ToolDefinition::builder(format!("{prefix}{name}"), self.description(&label))
                .schema(schema)
                .annotations(annotations)
                .build()
                .map_err(|error| fault(error.to_string()))?;
        entry::build_tool(definition, plan, Arc::clone(access), None)
            .map_err(|error| fault(error.what))
    }

    fn description(&self, label: &str) -> String {
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
        description.chars().take(MAX_DESCRIPTION_LEN).collect()
    }

    /// Returns the parameters of the path and of the operation (which take precedence), with the
    /// names of their arguments: a parameter's own name, unless another parameter has taken that
    /// name.
    fn parameters(
        &self,
        document: &'a OpenApiDocument,
    ) -> Result<Vec<(&'a Value, String)>, String> {
        let key = |parameter: &Value| {
            Some((
                text(parameter, "in")?.to_owned(),
                text(parameter, "name")?.to_owned(),
            ))
        };
        let mut all: Vec<((String, String), &'a Value)> = Vec::new();
        for owner in [self.item, self.operation] {
            let parameters = owner.get("parameters").and_then(Value::as_array);
            for parameter in parameters.into_iter().flatten() {
                let parameter = document.resolve(parameter)?;
                let key = key(parameter).ok_or("a parameter has no 'name' or no 'in'")?;
                all.retain(|(known, _)| *known != key);
                all.push((key, parameter));
                if all.len() > MAX_PARAMETERS {
                    return Err(format!(
                        "the operation has more than {MAX_PARAMETERS} parameters"
                    ));
                }
            }
        }
        // Path parameters come first, so that they keep their names.
        all.sort_by_key(|((location, _), _)| location != "path");
        let mut taken = vec![BODY_ARGUMENT.to_owned()];
        let named = all.into_iter().map(|((location, name), parameter)| {
            let argument = if taken.contains(&name) {
                format!("{location}_{name}")
            } else {
                name
            };
            taken.push(argument.clone());
            (parameter, argument)
        });
        Ok(named.collect())
    }
}

impl OperationParts<'_> {
    fn add(
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
        let schema = parameter
            .get("schema")
            .or_else(|| first_media?.get("schema"));
        let template = InputTemplate::argument(&argument);
        match text(parameter, "in").unwrap_or_default() {
            "path" if style.is_none_or(|style| style == "simple") && content.is_none() => {
                if argument != name {
                    return Err(format!(
                        "the name of the path parameter '{name}' is not supported"
                    ));
                }
            }
            "path" => {
                return Err(format!(
                    "the path parameter '{name}' is not supported: it needs a 'schema', and no \
                     style but 'simple'"
                ));
            }
            "query" => self.query.push(QueryPart {
                name: name.to_owned(),
                value: template,
                style: query_style(document, parameter, schema, content.is_some())?,
            }),
            "header" => {
                let header: HeaderName = name
                    .parse()
                    .map_err(|_| format!("'{name}' is not a valid header name"))?;
                // The OpenAPI specification requires these header parameters to be ignored.
                if ["accept", "content-type", "authorization"].contains(&header.as_str()) {
                    return Ok(());
                }
                let mut checked = JsonObject::new();
                checked.insert(name.to_owned(), Value::Null);
                entry::headers(checked).map_err(|error| error.what)?;
                if self.headers.iter().any(|(known, _)| *known == header) {
                    return Ok(()); // The operator sets this header.
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
        let mut schema = match schema {
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
        let body = document.resolve(body)?;
        let is_required = body["required"] == true;
        let is_json = |kind: &str| {
            let essence = kind.split(';').next().unwrap_or_default().trim();
            essence == "application/json" || essence.ends_with("+json") || essence == "*/*"
        };
        let content = body.get("content").and_then(Value::as_object);
        let json = content.and_then(|content| content.iter().find(|(kind, _)| is_json(kind)));
        let Some((_, media)) = json else {
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
fn query_style(
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
    let explode = parameter
        .get("explode")
        .and_then(Value::as_bool)
        .unwrap_or(style == "form");
    let resolved = schema.map(|schema| document.resolve(schema)).transpose()?;
    let is_object = resolved.is_some_and(|schema| schema["type"] == "object");
    match style {
        "deepObject" => Ok(QueryStyle::DeepObject),
        // The members of an object would become parameters with arbitrary names.
        _ if is_object => Err(format!(
            "the query parameter '{name}' is an object and needs the style deepObject"
        )),
        "form" | "spaceDelimited" | "pipeDelimited" if explode => Ok(QueryStyle::Repeated),
        "form" => Ok(QueryStyle::Joined(",")),
        "spaceDelimited" => Ok(QueryStyle::Joined("%20")),
        "pipeDelimited" => Ok(QueryStyle::Joined("%7C")),
        other => Err(format!("'{name}' has the unknown style '{other}'")),
    }
}
