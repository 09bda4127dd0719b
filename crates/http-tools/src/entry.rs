use std::collections::BTreeSet;
use std::sync::Arc;

use http::{HeaderName, Method};
use pillion_core::compose::InputTemplate;
use pillion_core::tool::{JsonObject, ToolDefinition};
use pillion_egress::{CONNECTION_HEADERS, EgressPolicy};
use pillion_mcp_client::Authentication;
use pillion_schema::CompiledSchema;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_access::{ApiAccess, ApiAccessSettings};
use crate::request::{QueryPart, QueryStyle, RequestPlan};
use crate::url_template::UrlTemplate;
use crate::{HttpTool, HttpToolError, StatusRange, digest};

/// The declaration of an HTTP endpoint as a tool.
///
/// `url` has placeholders for arguments in its path and query (`{id}`); `query`, `headers` and
/// `body` are [`InputTemplate`]s. Not `Debug`, because the declaration may contain a credential.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpToolEntry {
    /// The name of the tool.
    pub name: String,
    /// The description of the tool for the model.
    pub description: String,
    /// The category under which the tool is listed.
    pub category: Option<String>,
    /// The HTTP method. Default `GET`.
    pub method: Option<String>,
    /// The URL, with placeholders such as `{id}` for arguments.
    pub url: String,
    /// Query parameters in addition to the parameters in the URL.
    #[serde(default)]
    pub query: JsonObject,
    /// Request headers, by name; each value is an input template.
    #[serde(default)]
    pub headers: JsonObject,
    /// Names of headers whose values are redacted in responses.
    #[serde(default)]
    pub secret_headers: Vec<String>,
    /// The body of the request, sent as JSON.
    pub body: Option<Value>,
    /// The JSON Schema of the arguments. By default, all referenced arguments are strings, and
    /// the arguments in the URL are required.
    pub input_schema: Option<Value>,
    /// The credential: none, `bearer`, `api-key` or `basic`.
    #[serde(default)]
    pub authentication: Authentication,
    /// The egress policy: the addresses that the tool's requests may reach.
    #[serde(default)]
    pub egress: EgressPolicy,
    /// Timeout of the request, including the body, in milliseconds. Default 30,000.
    pub timeout_ms: Option<u64>,
    /// Maximum size of the response, in bytes. Default 1 MiB.
    pub max_answer_bytes: Option<usize>,
    /// The statuses that count as success. Default `["2XX"]`.
    #[serde(default)]
    pub success: Vec<StatusRange>,
    /// JSON pointer to the result in a JSON response. Default: the whole response.
    pub result_at: Option<String>,
    /// Whether the tool changes nothing. Default: `true` for GET and HEAD.
    pub read_only: Option<bool>,
}

pub(crate) fn compile_entry(entry: HttpToolEntry) -> Result<HttpTool, HttpToolError> {
    let method = parse_method(entry.method.as_deref().unwrap_or("GET"))?;
    if entry.body.is_some() && matches!(method, Method::GET | Method::HEAD) {
        let message = format!("a {method} request cannot have a body");
        return Err(HttpToolError::new("body", message));
    }
    let pointer = entry.result_at.as_deref();
    if let Some(pointer) = pointer.filter(|text| !text.is_empty() && !text.starts_with('/')) {
        let message =
            format!("'{pointer}' is not a JSON pointer: a JSON pointer must begin with /");
        return Err(HttpToolError::new("result_at", message));
    }
    let query = entry.query.into_iter().map(|(name, value)| {
        let value = parse_template("query", &name, value)?;
        let style = QueryStyle::Repeated;
        Ok(QueryPart { name, value, style })
    });
    let body = entry.body.map(|body| parse_template("body", "", body));
    let plan = RequestPlan {
        url: UrlTemplate::parse(&entry.url)?,
        query: query.collect::<Result<_, _>>()?,
        headers: parse_headers(entry.headers)?,
        body: body.transpose()?,
        method,
    };
    let schema = match entry.input_schema {
        Some(schema) => check_schema_properties(schema, &plan)?,
        None => create_default_schema(&plan),
    };
    let mut definition = ToolDefinition::builder(entry.name, entry.description)
        .schema(schema)
        .annotations(create_annotations(&plan.method, entry.read_only));
    if let Some(category) = entry.category {
        definition = definition.category(category);
    }
    let access = ApiAccess::new(ApiAccessSettings {
        secrets: secret_values(&plan.headers, &entry.secret_headers)?,
        authentication: entry.authentication,
        egress: entry.egress,
        timeout_ms: entry.timeout_ms,
        max_response_bytes: entry.max_answer_bytes,
        success_statuses: entry.success,
    })?;
    access.check_url(plan.url.sample_url())?;
    let definition = definition
        .build()
        .map_err(|error| HttpToolError::new("", error.to_string()))?;
    build_tool(definition, plan, access, entry.result_at)
}

/// Creates a tool. Checks that the schema can be compiled, which registering the tool requires.
pub(crate) fn build_tool(
    definition: ToolDefinition,
    plan: RequestPlan,
    access: Arc<ApiAccess>,
    result_at: Option<String>,
) -> Result<HttpTool, HttpToolError> {
    CompiledSchema::check(definition.input_schema())
        .map_err(|error| HttpToolError::new("input_schema", error.to_string()))?;
    let digest = digest::compute_tool_digest(&definition, &plan, &access, result_at.as_deref());
    Ok(HttpTool {
        definition,
        plan,
        access,
        result_at,
        digest,
    })
}

fn parse_method(text: &str) -> Result<Method, HttpToolError> {
    match text.to_ascii_uppercase().as_str() {
        "GET" => Ok(Method::GET),
        "HEAD" => Ok(Method::HEAD),
        "POST" => Ok(Method::POST),
        "PUT" => Ok(Method::PUT),
        "PATCH" => Ok(Method::PATCH),
        "DELETE" => Ok(Method::DELETE),
        _ => Err(HttpToolError::new(
            "method",
            "the method must be GET, HEAD, POST, PUT, PATCH or DELETE",
        )),
    }
}

pub(crate) fn parse_headers(
    headers: JsonObject,
) -> Result<Vec<(HeaderName, InputTemplate)>, HttpToolError> {
    let parsed_headers = headers.into_iter().map(|(name, value)| {
        let header_error = |message: String| HttpToolError::new("headers", message);
        let header: HeaderName = name
            .parse()
            .map_err(|_| header_error(format!("'{name}' is not a valid header name")))?;
        if CONNECTION_HEADERS.contains(&header.as_str()) {
            return Err(header_error(format!(
                "the header '{name}' is set by the HTTP client and cannot be configured"
            )));
        }
        Ok((header, parse_template("headers", &name, value)?))
    });
    parsed_headers.collect()
}

/// Returns the values of secret headers, which must not contain placeholders.
pub(crate) fn secret_values(
    headers: &[(HeaderName, InputTemplate)],
    names: &[String],
) -> Result<Vec<(HeaderName, SecretString)>, HttpToolError> {
    let secret_values = names.iter().map(|name| {
        let mut headers = headers.iter();
        let header = headers.find(|(header, _)| header.as_str().eq_ignore_ascii_case(name));
        let value = header.and_then(|(header, value)| Some((header, value.fill(&json!({}))?)));
        match value {
            Some((header, Value::String(value))) => Ok((header.clone(), SecretString::from(value))),
            _ => {
                let message =
                    format!("'{name}' is not a configured header with a constant string value");
                Err(HttpToolError::new("secret_headers", message))
            }
        }
    });
    secret_values.collect()
}

fn parse_template(
    key: &'static str,
    name: &str,
    value: Value,
) -> Result<InputTemplate, HttpToolError> {
    InputTemplate::parse(value).map_err(|error| {
        let message = format!("{name}{}: {}", error.path, error.reason);
        HttpToolError::new(key, message)
    })
}

/// Returns the annotations of a tool with this HTTP method, overridden by the operator's
/// `read_only`.
pub(crate) fn create_annotations(method: &Method, read_only: Option<bool>) -> JsonObject {
    let is_read_only = read_only.unwrap_or(matches!(*method, Method::GET | Method::HEAD));
    let is_idempotent = is_read_only || matches!(*method, Method::PUT | Method::DELETE);
    let mut annotations = JsonObject::new();
    annotations.insert("readOnlyHint".to_owned(), json!(is_read_only));
    annotations.insert("idempotentHint".to_owned(), json!(is_idempotent));
    if *method == Method::DELETE && !is_read_only {
        annotations.insert("destructiveHint".to_owned(), json!(true));
    }
    annotations.insert("openWorldHint".to_owned(), json!(true));
    annotations
}

/// Returns the distinct names of the arguments that a request refers to. The names in the URL come
/// first.
fn collect_argument_names(plan: &RequestPlan) -> Vec<String> {
    let mut names: Vec<String> = plan.url.arguments().map(str::to_owned).collect();
    let query_values = plan.query.iter().map(|part| &part.value);
    let header_values = plan.headers.iter().map(|(_, value)| value);
    let templates = query_values.chain(header_values).chain(&plan.body);
    for name in templates.flat_map(InputTemplate::arguments) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Checks that a schema contains all arguments that the request refers to.
fn check_schema_properties(schema: Value, plan: &RequestPlan) -> Result<Value, HttpToolError> {
    let properties = &schema["properties"];
    let mut names = collect_argument_names(plan).into_iter();
    let missing_name = names.find(|name| properties.get(name).is_none());
    match missing_name {
        None => Ok(schema),
        Some(name) => {
            let message = format!("the schema has no property '{name}', which the request uses");
            Err(HttpToolError::new("input_schema", message))
        }
    }
}

fn create_default_schema(plan: &RequestPlan) -> Value {
    let properties: JsonObject = collect_argument_names(plan)
        .into_iter()
        .map(|name| (name, json!({"type": "string"})))
        .collect();
    // Collects the arguments in a set: JSON Schema requires the names in `required` to be distinct,
    // but the URL may repeat an argument.
    let required_names: BTreeSet<_> = plan.url.arguments().collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required_names,
        "additionalProperties": false,
    })
}
