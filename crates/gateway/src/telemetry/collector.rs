use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use pillion_egress::EndpointClient;
use tokio::runtime::Handle;
use url::Url;

/// The HTTP client for the library's exporter, which runs on its own thread without a runtime.
#[derive(Debug)]
pub(super) struct Collector {
    client: EndpointClient,
    runtime: Handle,
    /// Whether the collector fails and the failure was logged.
    is_failing: AtomicBool,
}

impl Collector {
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

    /// Logs once that spans are lost, and once that the collector accepts spans again.
    fn note(&self, failure: Option<&str>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                tracing::warn!(
                    error,
                    "The collector does not accept traces; dropping them until it does"
                );
            }
            None if was_failing => tracing::info!("The collector accepts traces again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let (head, body) = request.into_parts();
        let request = self.runtime.spawn(async move {
            let sent = client.post(head.headers, body).await;
            sent.map_err(|error| error.to_string())
        });
        let sent = request.await.unwrap_or_else(|_| Err("stopped".to_owned()));
        match &sent {
            Ok(response) if response.status().is_success() => self.note(None),
            Ok(response) => self.note(Some(&format!("status {}", response.status().as_u16()))),
            Err(error) => self.note(Some(error)),
        }
        sent.map_err(HttpError::from)
    }
}
