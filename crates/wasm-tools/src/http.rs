use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pillion_egress::{CONNECTION_HEADERS, HttpError, HttpRequest, LazyHttpClient};
use url::Url;

use crate::bindings::pillion::tool::http as wit;
use crate::origin::HttpOrigin;
use crate::settings::Limits;

/// Sends the HTTP requests of one run of a component.
pub(crate) struct RunRequests {
    http_client: Arc<LazyHttpClient>,
    origins: Vec<HttpOrigin>,
    timeout: Duration,
    max_response_bytes: usize,
}

impl RunRequests {
    pub(crate) fn new(
        http_client: Arc<LazyHttpClient>,
        origins: Vec<HttpOrigin>,
        limits: &Limits,
    ) -> Self {
        Self {
            http_client,
            origins,
            timeout: limits.timeout(),
            max_response_bytes: limits.max_answer_bytes,
        }
    }

    pub(crate) async fn send(&self, request: wit::Request) -> Result<wit::Response, wit::Error> {
        let request = parse_request(request)?;
        let host = request.url.host_str().unwrap_or_default().to_owned();
        let mut origins = self.origins.iter();
        if !origins.any(|origin| origin.contains(&request.url)) {
            let message = format!("the origin of '{host}' is not granted to this tool");
            return Err(wit::Error::Denied(message));
        }
        let to_wit_error = |error: HttpError| match error {
            HttpError::Denied(error) => wit::Error::Denied(error.to_string()),
            HttpError::TooLong { .. } => wit::Error::TooLong,
            http_error => wit::Error::Unavailable(format!("'{host}': {http_error}")),
        };
        let client = self.http_client.get().map_err(to_wit_error)?;
        let response = client
            .send(request, self.timeout)
            .await
            .map_err(to_wit_error)?;
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
            .collect();
        let body = response
            .bytes(self.max_response_bytes)
            .await
            .map_err(to_wit_error)?;
        Ok(wit::Response {
            status,
            headers,
            body: body.into(),
        })
    }
}

fn parse_request(request: wit::Request) -> Result<HttpRequest, wit::Error> {
    let invalid_request = |message: String| wit::Error::InvalidRequest(message);
    let method = Method::from_bytes(request.method.as_bytes())
        .ok()
        .filter(|method| *method != Method::CONNECT)
        .ok_or_else(|| {
            invalid_request(format!("the HTTP method '{}' is invalid", request.method))
        })?;
    let url: Url = request
        .url
        .parse()
        .map_err(|error| invalid_request(format!("the URL is invalid: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid_request(
            "the URL must not contain credentials".to_owned(),
        ));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let header_name: HeaderName = name
            .parse()
            .map_err(|_| invalid_request(format!("'{name}' is not a valid header name")))?;
        if CONNECTION_HEADERS.contains(&header_name.as_str()) {
            return Err(invalid_request(format!(
                "the header '{name}' is set by the host and cannot be sent"
            )));
        }
        let header_value = HeaderValue::from_str(value).map_err(|_| {
            invalid_request(format!(
                "the value of the header '{name}' has characters that are not allowed in a header"
            ))
        })?;
        let append_result = headers.try_append(header_name, header_value);
        append_result.map_err(|_| {
            invalid_request(format!(
                "the request has more than {} headers",
                headers.len()
            ))
        })?;
    }
    Ok(HttpRequest {
        method,
        url,
        headers,
        body: request.body.into(),
    })
}
