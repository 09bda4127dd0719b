use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use pillion_egress::EndpointClient;
use tokio::runtime::Handle;
use url::Url;

/// The HTTP client for the exporter of the OpenTelemetry library, which runs on its own thread
/// without an async runtime.
#[derive(Debug)]
pub(super) struct CollectorClient {
    client: EndpointClient,
    runtime: Handle,
    /// Whether the last export to the collector failed, so that the failure is already logged.
    is_failing: AtomicBool,
}

impl CollectorClient {
    /// Creates a client that sends its requests in `runtime`.
    pub(super) fn new(
        url: Url,
        timeout: Duration,
        runtime: Handle,
    ) -> Result<Self, pillion_egress::HttpError> {
        Ok(Self {
            client: EndpointClient::new(url, timeout)?,
            runtime,
            is_failing: AtomicBool::new(false),
        })
    }

    /// Logs the first failure after a success, and the first success after a failure.
    fn log_change(&self, failure: Option<&str>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => tracing::warn!(
                error,
                "The collector does not accept traces; dropping them until it does"
            ),
            None if was_failing => tracing::info!("The collector accepts traces again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let (head, body) = request.into_parts();
        let request = self.runtime.spawn(async move {
            let result = client.post(head.headers, body).await;
            result.map_err(|error| error.to_string())
        });
        let result = request
            .await
            .unwrap_or_else(|_| Err("the runtime that sends the traces was stopped".to_owned()));
        match &result {
            Ok(response) if response.status().is_success() => self.log_change(None),
            Ok(response) => {
                self.log_change(Some(&format!("status {}", response.status().as_u16())));
            }
            Err(error) => self.log_change(Some(error)),
        }
        result.map_err(HttpError::from)
    }
}
