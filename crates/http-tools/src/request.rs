use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pillion_core::compose::InputTemplate;
use pillion_core::tool::ToolFailure;
use pillion_egress::HttpRequest;
use serde_json::Value;

use crate::api_access::ApiAccess;
use crate::url_template::{UrlTemplate, encoded};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

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

/// How lists and objects are encoded in a query.
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
    /// Fills the placeholders with these arguments, and returns the request.
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
        headers.insert(ACCEPT, JSON);
        let mut request = HttpRequest::get(url);
        request.method = self.method.clone();
        if let Some(body) = &self.body
            && let Some(body) = body.fill(arguments)
        {
            headers.insert(CONTENT_TYPE, JSON);
            request.body = body.to_string().into();
        }
        for (name, value) in &self.headers {
            let Some(text) = value.fill(arguments).map(|value| header_text(name, &value)) else {
                continue;
            };
            let Some(text) = text? else { continue };
            let mut header = HeaderValue::from_str(&text).map_err(|_| {
                ToolFailure::invalid_input(format!(
                    "The value of the header '{name}' has characters that are not allowed in a \
                    header"
                ))
            })?;
            // A constant value may come from the operator's environment, and may be secret.
            header.set_sensitive(value.is_constant());
            headers.insert(name.clone(), header);
        }
        access.add_credential(&mut headers);
        request.headers = headers;
        Ok(request)
    }
}

/// Returns the text of a header's value; `None` for null, which omits the header.
fn header_text(name: &HeaderName, value: &Value) -> Result<Option<String>, ToolFailure> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Array(items) => {
            let texts: Option<Vec<_>> = items.iter().map(scalar).collect();
            texts
                .ok_or_else(|| invalid_parameter(name.as_str()))?
                .join(",")
        }
        other => scalar(other).ok_or_else(|| invalid_parameter(name.as_str()))?,
    }))
}

impl QueryPart {
    fn write(&self, value: &Value, query: &mut Vec<String>) -> Result<(), ToolFailure> {
        let name = encoded(&self.name);
        let misfits = || invalid_parameter(&self.name);
        match (value, self.style) {
            (Value::Null, _) => {}
            (value, QueryStyle::Json) => {
                query.push(format!("{name}={}", encoded(&value.to_string())));
            }
            (Value::Array(items), QueryStyle::Joined(between)) => {
                let texts: Option<Vec<_>> = items
                    .iter()
                    .map(|item| Some(encoded(&scalar(item)?)))
                    .collect();
                let joined = texts.ok_or_else(misfits)?.join(between);
                query.push(format!("{name}={joined}"));
            }
            (Value::Array(items), _) => {
                for item in items {
                    let item = scalar(item).ok_or_else(misfits)?;
                    query.push(format!("{name}={}", encoded(&item)));
                }
            }
            (Value::Object(members), QueryStyle::DeepObject) => {
                for (key, value) in members {
                    let value = scalar(value).ok_or_else(misfits)?;
                    let key = encoded(key);
                    query.push(format!("{name}%5B{key}%5D={}", encoded(&value)));
                }
            }
            (value, _) => {
                let value = scalar(value).ok_or_else(misfits)?;
                query.push(format!("{name}={}", encoded(&value)));
            }
        }
        Ok(())
    }
}

/// Returns a string, number or boolean as text.
fn scalar(value: &Value) -> Option<String> {
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
