use axum::Json;
use axum::extract::State;
use pillion_wire::{
    CallCounts, InvalidTool, ProcessStatus, ServerStatus, Status, ToolStatus, route,
};

use super::ready;
use super::tools::schema_fault;
use crate::app::App;
use pillion_gateway::metrics::Scrape;
use pillion_gateway::timestamp::format_timestamp;

/// Return the status of the sidecar.
///
/// Counters since the start, the last known state of each MCP server, and the resource usage of the
/// process. This request contacts no MCP server.
#[utoipa::path(
    get,
    path = route::STATUS.path,
    responses((status = 200, description = "The status", body = Status))
)]
pub(super) async fn status(State(app): State<App>) -> Json<Status> {
    app.check_store().await;
    let scrape = app.scrape();
    let tools = tools(&scrape);
    let metrics = &scrape.metrics;
    let readiness = ready::readiness(&app);
    Json(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        status: readiness.status,
        pid: std::process::id(),
        started_at: format_timestamp(metrics.started_at().into()),
        uptime_seconds: metrics.uptime().as_secs(),
        connections: metrics.unix.open() + metrics.tcp.open(),
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
        servers: servers(&scrape),
        invalid_tools: invalid_tools(&app),
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

fn invalid_tools(app: &App) -> Vec<InvalidTool> {
    let mut invalid = app.wasm_tools().faults();
    let registered = app.registry().tools(None);
    invalid.extend(registered.iter().filter_map(|tool| schema_fault(tool)));
    invalid
}

fn tools(scrape: &Scrape) -> Vec<ToolStatus> {
    let all = scrape.metrics.tools.all().into_iter();
    let mut tools: Vec<_> = all
        .map(|(name, stats)| {
            let (calls, failed) = stats.calls_and_failures();
            let millis = |share| stats.latency.percentile(share).map(|seconds| seconds * 1e3);
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

fn servers(scrape: &Scrape) -> Vec<ServerStatus> {
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
