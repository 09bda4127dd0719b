use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pillion_core::compose::InputTemplate;
use pillion_core::tool::ToolFailure;
use pillion_egress::HttpRequest;
use serde_json::Value;

use crate::api_access::ApiAccess;
use crate::url_template::{UrlTemplate, percent_encode};

const JSON_MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/json");

/// The request of a tool, with placeholders for arguments.
#[derive(Debug, Clone)]
pub(crate) struct RequestPlan {
    pub(crate) method: Method,
    pub(crate) url: UrlTemplate,
    pub(crate) query: Vec<QueryPart>,
    pub(crate) headers: Vec<(HeaderName, InputTemplate)>,
    pub(crate) body: Option<InputTemplate>,
}

/// A query parameter whose value is filled with arguments.
#[derive(Debug, Clone)]
pub(crate) struct QueryPart {
    pub(crate) name: String,
    pub(crate) value: InputTemplate,
    pub(crate) style: QueryStyle,
}

/// The encoding of lists and objects in a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryStyle {
    /// One `name=value` pair for each item: `a=1&a=2`.
    Repeated,
    /// One `name=value` pair whose items have this separator: `a=1,2`.
    Joined(&'static str),
    /// One `name[member]=value` pair for each member: `a[x]=1&a[y]=2`.
    DeepObject,
    /// One `name=value` pair with the value as JSON.
    Json,
}

impl RequestPlan {
    /// Fills the placeholders with the given arguments, and returns the request.
    pub(crate) fn fill(
        &self,
        arguments: &Value,
        access: &ApiAccess,
    ) -> Result<HttpRequest, ToolFailure> {
        let mut url = self.url.fill(arguments)?;
        let mut query: Vec<String> = url.query().map(str::to_owned).into_iter().collect();
        for part in &self.query {
            if let Some(value) = part.value.fill(arguments) {
                part.write(&value, &mut query)?;
            }
        }
        if !query.is_empty() {
            url.set_query(Some(&query.join("&")));
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, JSON_MEDIA_TYPE);
        let mut request = HttpRequest::get(url);
        request.method = self.method.clone();
        if let Some(body) = &self.body
            && let Some(body) = body.fill(arguments)
        {
            headers.insert(CONTENT_TYPE, JSON_MEDIA_TYPE);
            request.body = body.to_string().into();
        }
        for (name, value) in &self.headers {
            let Some(text_result) = value
                .fill(arguments)
                .map(|value| format_header(name, &value))
            else {
                continue;
            };
            let Some(text) = text_result? else { continue };
            let mut header = HeaderValue::from_str(&text).map_err(|_| {
                ToolFailure::invalid_input(format!(
                    "The value of the header '{name}' has characters that are not allowed in a \
                    header"
                ))
            })?;
            // Marks a constant value as sensitive, because it may come from the operator's
            // environment and may be secret.
            header.set_sensitive(value.is_constant());
            headers.insert(name.clone(), header);
        }
        access.add_credential(&mut headers);
        request.headers = headers;
        Ok(request)
    }
}

/// Returns the text of a header's value; `None` for null, which omits the header.
fn format_header(name: &HeaderName, value: &Value) -> Result<Option<String>, ToolFailure> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Array(items) => {
            let texts: Option<Vec<_>> = items.iter().map(scalar_to_text).collect();
            texts
                .ok_or_else(|| invalid_parameter(name.as_str()))?
                .join(",")
        }
        scalar => scalar_to_text(scalar).ok_or_else(|| invalid_parameter(name.as_str()))?,
    }))
}

impl QueryPart {
    fn write(&self, value: &Value, query: &mut Vec<String>) -> Result<(), ToolFailure> {
        let name = percent_encode(&self.name);
        let invalid_value = || invalid_parameter(&self.name);
        match (value, self.style) {
            (Value::Null, _) => {}
            (value, QueryStyle::Json) => {
                query.push(format!("{name}={}", percent_encode(&value.to_string())));
            }
            (Value::Array(items), QueryStyle::Joined(separator)) => {
                let texts: Option<Vec<_>> = items
                    .iter()
                    .map(|item| Some(percent_encode(&scalar_to_text(item)?)))
                    .collect();
                let joined_items = texts.ok_or_else(invalid_value)?.join(separator);
                query.push(format!("{name}={joined_items}"));
            }
            (Value::Array(items), _) => {
                for item in items {
                    let text = scalar_to_text(item).ok_or_else(invalid_value)?;
                    query.push(format!("{name}={}", percent_encode(&text)));
                }
            }
            (Value::Object(members), QueryStyle::DeepObject) => {
                for (key, value) in members {
                    let text = scalar_to_text(value).ok_or_else(invalid_value)?;
                    let encoded_key = percent_encode(key);
                    query.push(format!(
                        "{name}%5B{encoded_key}%5D={}",
                        percent_encode(&text)
                    ));
                }
            }
            (value, _) => {
                let text = scalar_to_text(value).ok_or_else(invalid_value)?;
                query.push(format!("{name}={}", percent_encode(&text)));
            }
        }
        Ok(())
    }
}

/// Returns a string, number or boolean as text.
fn scalar_to_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

fn invalid_parameter(name: &str) -> ToolFailure {
    ToolFailure::invalid_input(format!(
        "'{name}' must be a string, number or boolean, or an array of these"
    ))
}
