//! Health, readiness, metrics and status of the sidecar.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use pillion_wire::{
    CallCounts, Health, InvalidTool, ProcessStatus, Readiness, ReloadReport, ServerStatus, Status,
    ToolStatus, UnavailableServer, route,
};

use super::tools::schema_fault;
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::metrics::{self, Scrape};
use pillion_gateway::timestamp::format_timestamp;
use pillion_management::error::{InternalError, RequestError};

/// Check whether the sidecar is up.
///
/// This request contacts no MCP server.
#[utoipa::path(
    get,
    path = route::HEALTH.path,
    responses((status = 200, description = "The sidecar is up", body = Health))
)]
pub(super) async fn health(State(app): State<App>) -> Json<Health> {
    Json(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tools: app.registry().len(),
    })
}

/// Return the metrics, for Prometheus.
///
/// The format is OpenMetrics text. This request contacts no MCP server.
#[utoipa::path(
    get,
    path = route::METRICS.path,
    responses((status = 200, description = "The metrics", body = String, content_type = "application/openmetrics-text"))
)]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    match app.scrape().to_text() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "Cannot write the metrics");
            RequestError::from(InternalError).into_response()
        }
    }
}

/// Check whether the sidecar is ready for requests.
///
/// Returns 503 until the sidecar has tried to list the tools of every MCP server, while it drains,
/// and while its store cannot be written. The first readiness check starts the discovery of MCP
/// tools in the background.
#[utoipa::path(
    get,
    path = route::READY.path,
    responses(
        (status = 200, description = "Ready", body = Readiness),
        (status = 503, description = "The sidecar is starting or draining, or its store cannot be written", body = Readiness),
    )
)]
pub(super) async fn ready(
    State(app): State<App>,
    grant: Option<Extension<AccessGrant>>,
) -> Response {
    app.check_store().await;
    let mut readiness = check_readiness(&app);
    let is_ready = readiness.status == "ready";
    if readiness.status == "starting"
        && let Ok(discovery_guard) =
            Arc::clone(&app.process().background_discovery_lock).try_lock_owned()
    {
        // Concurrent readiness checks, which need no token, share one discovery.
        tokio::spawn(async move {
            let _discovery_guard = discovery_guard;
            app.discover().await
        });
    }
    if grant.is_none() {
        // A client without a token gets no server names and no paths.
        readiness = Readiness {
            status: readiness.status,
            ..Readiness::default()
        };
    }
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(readiness)).into_response()
}

/// Returns the readiness of the sidecar.
fn check_readiness(app: &App) -> Readiness {
    let process = app.process();
    let status = if process.is_draining() {
        "draining"
    } else if app.is_store_missing() {
        "store_gone"
    } else if app.store_failure().is_some() {
        "store_unavailable"
    } else if app.has_tried_discovery() {
        "ready"
    } else {
        "starting"
    };
    let failed_servers = app.server_reports().into_iter().filter_map(|server| {
        Some(UnavailableServer {
            label: server.label,
            error: server.error?,
        })
    });
    Readiness {
        status: status.to_owned(),
        unavailable_servers: failed_servers.collect(),
        store_error: app.store_failure(),
        last_reload: process.last_reload().map(|reload| ReloadReport {
            at: format_timestamp(reload.at.into()),
            success: reload.error.is_none(),
            error: reload.error,
        }),
    }
}

/// Return the status of the sidecar.
///
/// The status has counters since the sidecar started, the last known state of each MCP server, and
/// the resource usage of the process. This request contacts no MCP server.
#[utoipa::path(
    get,
    path = route::STATUS.path,
    responses((status = 200, description = "The status", body = Status))
)]
pub(super) async fn status(State(app): State<App>) -> Json<Status> {
    app.check_store().await;
    let scrape = app.scrape();
    let tools = collect_tool_statuses(&scrape);
    let metrics = &scrape.metrics;
    let readiness = check_readiness(&app);
    Json(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        status: readiness.status,
        pid: std::process::id(),
        started_at: format_timestamp(metrics.started_at().into()),
        uptime_seconds: metrics.uptime().as_secs(),
        connections: metrics.unix.open_count() + metrics.tcp.open_count(),
        requests: metrics.requests.latency.count(),
        tools_discovered: scrape.tools,
        calls: CallCounts {
            in_flight: u64::try_from(metrics.tools.in_flight()).unwrap_or_default(),
            running: scrape.load.running as u64,
            queued: scrape.load.queued as u64,
            total: tools.iter().map(|tool| tool.calls).sum(),
            failed: tools.iter().map(|tool| tool.failed).sum(),
        },
        tools,
        servers: collect_server_statuses(&scrape),
        invalid_tools: find_invalid_tools(&app),
        store_error: readiness.store_error,
        process: ProcessStatus {
            resident_bytes: scrape.system.resident_bytes,
            open_descriptors: scrape.system.open_descriptors,
            max_descriptors: scrape.system.max_descriptors,
            threads: scrape.system.threads,
            cpu_seconds: scrape.system.processor_time.map(|time| time.as_secs_f64()),
        },
        last_reload: readiness.last_reload,
        store_id: app
            .state()
            .and_then(|state| Some(state.store_id()?.to_owned())),
    })
}

fn find_invalid_tools(app: &App) -> Vec<InvalidTool> {
    let mut invalid_tools = app.wasm_tools().faults();
    let registered_tools = app.registry().tools(None);
    invalid_tools.extend(
        registered_tools
            .iter()
            .filter_map(|tool| schema_fault(tool)),
    );
    invalid_tools
}

fn collect_tool_statuses(scrape: &Scrape) -> Vec<ToolStatus> {
    let tool_stats = scrape.metrics.tools.snapshot().into_iter();
    let mut tools: Vec<_> = tool_stats
        .map(|(name, stats)| {
            let (calls, failed) = stats.calls_and_failures();
            let millis = |quantile| {
                stats
                    .latency
                    .percentile(quantile)
                    .map(|seconds| seconds * 1e3)
            };
            ToolStatus {
                name,
                calls,
                failed,
                p50_ms: millis(0.5),
                p99_ms: millis(0.99),
            }
        })
        .collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.calls));
    tools
}

fn collect_server_statuses(scrape: &Scrape) -> Vec<ServerStatus> {
    let servers = scrape.servers.iter();
    servers
        .map(|server| ServerStatus {
            label: server.label.clone(),
            status: server.status().as_str().to_owned(),
            tools: server.tools,
            error: server.error.clone(),
        })
        .collect()
}
