//! OpenTelemetry traces: nested spans for each incoming HTTP request, each MCP request, each call
//! and each request to a server.
//!
//! Without a configured collector, there is no [`Telemetry`] and no overhead. The spans are
//! separate from those of `tracing`, which depend on the log filter and whose fields would all be
//! exported.
//!
//! Names and attributes follow the OpenTelemetry conventions for HTTP, MCP and GenAI. They never
//! contain arguments, results, users or error messages.

mod collector;
mod span;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;
use url::Url;

use collector::CollectorClient;
use pillion_config::TelemetrySection;
pub use span::Span;

/// Timeout for exporting one batch of spans.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time for exporting the last spans at shutdown.
const FINAL_EXPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Creates spans and exports them in the background. At most 2,048 spans wait
/// (`OTEL_BSP_MAX_QUEUE_SIZE`); further spans are dropped.
#[derive(Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Telemetry {
    /// Starts telemetry, if the configuration or the environment enables traces.
    pub fn start(section: &TelemetrySection) -> Option<Arc<Self>> {
        let url = collector_url(section)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        match Self::for_collector(section, url) {
            Ok(telemetry) => {
                tracing::info!(collector = host, "Exporting traces to a collector");
                Some(Arc::new(telemetry))
            }
            Err(error) => {
                tracing::warn!(collector = host, error, "Cannot export traces");
                None
            }
        }
    }

    fn for_collector(section: &TelemetrySection, url: Url) -> Result<Self, String> {
        let endpoint = url.to_string();
        let runtime = Handle::try_current().map_err(|error| error.to_string())?;
        let collector = CollectorClient::new(url, EXPORT_TIMEOUT, runtime)
            .map_err(|error| error.to_string())?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| error.to_string())?;
        let mut builder = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(build_resource(section));
        // If `OTEL_TRACES_SAMPLER` is set, no sampler is set here, because the SDK reads the
        // variable itself.
        if !is_set("OTEL_TRACES_SAMPLER") {
            let sampler = Sampler::TraceIdRatioBased(section.sample_ratio);
            builder = builder.with_sampler(Sampler::ParentBased(Box::new(sampler)));
        }
        let provider = builder.build();
        let tracer = provider.tracer("pillion");
        Ok(Self { provider, tracer })
    }

    /// Exports the remaining spans, and stops waiting after 2 seconds. Later spans are dropped.
    pub async fn stop(self: Arc<Self>) {
        let shutdown_task = tokio::task::spawn_blocking(move || {
            if let Err(error) = self.provider.shutdown_with_timeout(FINAL_EXPORT_TIMEOUT) {
                tracing::debug!(%error, "Cannot export the last spans");
            }
        });
        drop(tokio::time::timeout(FINAL_EXPORT_TIMEOUT, shutdown_task).await);
    }
}

/// Returns the collector's URL, from the environment or else from the configuration.
fn collector_url(section: &TelemetrySection) -> Option<Url> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let is_off = variable("OTEL_SDK_DISABLED")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
    if is_off {
        return None;
    }
    let parse_url = |name: &str, value: String| {
        let url = Url::parse(&value).ok().filter(Url::has_host);
        if url.is_none() {
            tracing::warn!(
                variable = name,
                "The environment variable {name} is not a valid URL: no traces are exported"
            );
        }
        url
    };
    if let Some(value) = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        return parse_url("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value);
    }
    let mut url = match variable("OTEL_EXPORTER_OTLP_ENDPOINT") {
        Some(value) => parse_url("OTEL_EXPORTER_OTLP_ENDPOINT", value)?,
        None => section.endpoint.as_ref()?.0.clone(),
    };
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Some(url)
}

fn build_resource(section: &TelemetrySection) -> Resource {
    let mut resource = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ]);
    // If `OTEL_SERVICE_NAME` is set, no name is set here, because `Resource::builder` reads the
    // variable itself.
    if !is_set("OTEL_SERVICE_NAME") {
        resource = resource.with_service_name(section.service_name.clone());
    }
    resource.build()
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
