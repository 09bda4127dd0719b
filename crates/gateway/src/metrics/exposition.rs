use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use pillion_core::executor::{CacheCounts, QueueLoad};
use pillion_core::pack::Counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeLabelSet, MetricEncoder,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use super::{LatencyHistogram, Metrics, SystemMetrics};
use crate::connections::ServerReport;

/// The content type of OpenMetrics, which Prometheus prefers.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A snapshot of all metrics for `/metrics`.
#[derive(Debug, Clone)]
pub struct Scrape {
    /// The counters of the process.
    pub metrics: Arc<Metrics>,
    /// The known state of each MCP server.
    pub servers: Vec<ServerReport>,
    /// The metrics that the operating system reports for this process, such as memory and CPU time.
    pub system: SystemMetrics,
    /// The number of registered tools.
    pub tools: usize,
    /// The numbers of running and waiting calls.
    pub load: QueueLoad,
    /// The counters of the result cache.
    pub cache: CacheCounts,
    /// The number of call log records that were lost in damaged files.
    pub lost_records: u64,
    /// The counters of packs, by name.
    pub packs: Vec<(String, Arc<Counters>)>,
}

impl Scrape {
    /// Returns the metrics as text.
    ///
    /// # Errors
    /// Never fails, because the text is written to a buffer in memory.
    pub fn to_text(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

type NoLabels = [(&'static str, &'static str); 0];

/// Exemplars are not used, but the encoder needs their type.
const NO_EXEMPLAR: Option<&Exemplar<NoLabels, u64>> = None;

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.encode_calls(encoder)?;
        self.encode_executor(encoder)?;
        self.encode_http(encoder)?;
        self.encode_servers(encoder)?;
        self.encode_packs(encoder)?;
        self.encode_system(encoder)
    }
}

impl Scrape {
    fn encode_calls(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let tools = self.metrics.tools.snapshot();
        let outcomes = tools.iter().flat_map(|(tool, stats)| {
            let outcomes = stats.outcomes().filter(|(_, count)| *count > 0);
            outcomes.map(move |(outcome, count)| {
                let labels = [("tool", tool.as_str()), ("outcome", outcome)];
                (labels, count)
            })
        });
        let help = "Finished tool calls, by outcome";
        encode_counters(encoder, "pillion_tool_calls", help, outcomes)?;
        let (name, help) = ("pillion_tool_call_duration", "Duration of tool calls");
        let mut family = begin_histograms(encoder, name, help)?;
        for (tool, stats) in &tools {
            let labels = [("tool", tool.as_str())];
            encode_histogram(family.encode_family(&labels)?, &stats.latency)?;
        }
        let in_flight = self.metrics.tools.in_flight();
        let help = "Tool calls that are running or waiting";
        encode_gauge(encoder, "pillion_tool_calls_in_flight", help, in_flight)?;
        encode_gauge(encoder, "pillion_tools", "Registered tools", self.tools)
    }

    fn encode_executor(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let QueueLoad { running, queued } = self.load;
        let cache = &self.cache;
        let help = "Tool calls that hold a slot";
        encode_gauge(encoder, "pillion_tool_calls_running", help, running)?;
        let help = "Tool calls that wait for a slot";
        encode_gauge(encoder, "pillion_tool_calls_queued", help, queued)?;
        let help = "Cached tool results";
        encode_gauge(encoder, "pillion_result_cache_entries", help, cache.entries)?;
        let help = "Size of the cached tool results, in bytes";
        encode_gauge(encoder, "pillion_result_cache_bytes", help, cache.bytes)?;
        let lookups = [("hit", cache.hits), ("miss", cache.misses)];
        let outcomes = lookups.map(|(outcome, count)| ([("outcome", outcome)], count));
        let help = "Result cache lookups, by outcome";
        encode_counters(encoder, "pillion_result_cache_lookups", help, outcomes)
    }

    fn encode_http(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let requests = &self.metrics.requests;
        let counts = requests.counts().into_iter().map(|(request, count)| {
            let labels = [
                ("method", request.method.to_owned()),
                ("route", request.route),
                ("status", request.status.to_string()),
            ];
            (labels, count)
        });
        let help = "HTTP requests, by method, route and status";
        encode_counters(encoder, "pillion_http_requests", help, counts)?;
        let name = "pillion_http_request_duration";
        let help = "Time until the head of the response to an HTTP request";
        encode_histogram(begin_histograms(encoder, name, help)?, &requests.latency)?;

        let listeners = [("unix", &self.metrics.unix), ("tcp", &self.metrics.tcp)];
        let open_counts =
            listeners.map(|(name, stats)| ([("transport", name)], stats.open_count()));
        let help = "Open connections, by transport";
        encode_gauges(encoder, "pillion_connections", help, open_counts)?;
        let totals = listeners.into_iter().flat_map(|(transport, stats)| {
            let labels = |outcome| [("transport", transport), ("outcome", outcome)];
            stats
                .totals()
                .map(|(outcome, count)| (labels(outcome), count))
        });
        let help = "Accepted connections, and how many of them were refused or cut off";
        encode_counters(encoder, "pillion_connections_accepted", help, totals)
    }

    fn encode_servers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let labels = |server: &ServerReport| [("server", server.label.clone())];
        let contacted = self.servers.iter().filter(|server| server.was_contacted);
        let statuses = contacted.map(|server| (labels(server), u64::from(server.error.is_none())));
        let help = "Whether the last tool discovery of an MCP server succeeded";
        encode_gauges(encoder, "pillion_upstream_up", help, statuses)?;
        let servers = self.servers.iter();
        let tools = servers.map(|server| (labels(server), server.tools as u64));
        let help = "Tools that an MCP server offers";
        encode_gauges(encoder, "pillion_upstream_tools", help, tools)?;
        let reloads = [
            ("success", &self.metrics.reloads),
            ("failure", &self.metrics.failed_reloads),
        ];
        let outcomes =
            reloads.map(|(outcome, count)| ([("outcome", outcome)], count.load(Ordering::Relaxed)));
        let help = "Configuration reloads, by outcome";
        encode_counters(encoder, "pillion_config_reloads", help, outcomes)
    }

    /// Encodes the counters of packs. For example, the counter `llm.parse.failed` of the pack
    /// `tabletop` becomes `pillion_tabletop_llm_parse_failed_total`.
    fn encode_packs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (pack, pack_counters) in &self.packs {
            for (name, count) in pack_counters.with_prefix("") {
                let family = format!("pillion_{pack}_{}", name.replace('.', "_"));
                let help = format!("Counter {name} of the pack {pack}");
                encode_counter(encoder, &family, &help, &count)?;
            }
        }
        Ok(())
    }

    fn encode_system(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let system = &self.system;
        let resident_memory = ("process_resident_memory_bytes", "Resident memory, in bytes");
        let address_space = ("process_virtual_memory_bytes", "Virtual memory, in bytes");
        let open_files = ("process_open_fds", "Open file descriptors");
        let max_files = ("process_max_fds", "Maximum number of open file descriptors");
        for ((name, help), value) in [
            (resident_memory, system.resident_bytes),
            (address_space, system.virtual_bytes),
            (("process_threads", "Threads"), system.threads),
            (open_files, system.open_descriptors),
            (max_files, system.max_descriptors),
        ] {
            if let Some(value) = value {
                encode_gauge(encoder, name, help, value)?;
            }
        }
        if let Some(cpu_time) = system.processor_time {
            let help = "CPU time in user and kernel mode, in seconds";
            let seconds = cpu_time.as_secs_f64();
            encode_counter(encoder, "process_cpu_seconds", help, &seconds)?;
        }
        let started_at = self.metrics.started_at();
        let since_epoch = started_at.duration_since(SystemTime::UNIX_EPOCH);
        let name = "process_start_time_seconds";
        let help = "Start time of the process, in seconds since the Unix epoch";
        encoder
            .encode_descriptor(name, help, None, MetricType::Gauge)?
            .encode_gauge(&since_epoch.unwrap_or_default().as_secs_f64())?;
        let help = "Records of calls that were lost in damaged files of the store";
        let name = "pillion_store_lost_records";
        encode_counter(encoder, name, help, &self.lost_records)?;
        let (name, help) = ("pillion_build", "Version of the program");
        encoder
            .encode_descriptor(name, help, None, MetricType::Info)?
            .encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }
}

fn encode_counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    count: &impl EncodeCounterValue,
) -> fmt::Result {
    encoder
        .encode_descriptor(name, help, None, MetricType::Counter)?
        .encode_counter(count, NO_EXEMPLAR)
}

/// Encodes a family of counters, each with its labels.
fn encode_counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    counts: impl IntoIterator<Item = (impl EncodeLabelSet, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in counts {
        let mut metric = family.encode_family(&labels)?;
        metric.encode_counter(&count, NO_EXEMPLAR)?;
    }
    Ok(())
}

fn encode_gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: impl TryInto<i64>,
) -> fmt::Result {
    encoder
        .encode_descriptor(name, help, None, MetricType::Gauge)?
        .encode_gauge(&value.try_into().unwrap_or(i64::MAX))
}

/// Encodes a family of gauges, each with its labels.
fn encode_gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (impl EncodeLabelSet, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn begin_histograms<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)
}

fn encode_histogram(mut metric: MetricEncoder<'_>, latency: &LatencyHistogram) -> fmt::Result {
    let (sum, count) = (latency.sum_seconds(), latency.count());
    metric.encode_histogram::<NoLabels>(sum, count, &latency.buckets(), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn m1_the_text_is_openmetrics() {
        let metrics = Arc::new(Metrics::new());
        let elapsed = Duration::from_millis(3);
        metrics.requests.add("GET", "/healthz", 200, elapsed);
        metrics.requests.add("MADEUP", "unknown", 405, elapsed);
        metrics.unix.count_opened();
        let dice = Arc::new(Counters::new(["roll.lost"]));
        dice.add("roll.won");
        let scrape = Scrape {
            metrics,
            servers: vec![ServerReport {
                label: "a\"b".to_owned(),
                was_contacted: true,
                tools: 2,
                error: Some("no".to_owned()),
                ..ServerReport::default()
            }],
            system: SystemMetrics::read(),
            tools: 3,
            load: QueueLoad {
                running: 5,
                queued: 7,
            },
            cache: CacheCounts {
                hits: 9,
                ..CacheCounts::default()
            },
            lost_records: 4,
            packs: vec![("dice".to_owned(), dice)],
        };
        let text = scrape.to_text().unwrap();
        for line in [
            "# TYPE pillion_http_requests counter",
            "pillion_http_requests_total{method=\"GET\",route=\"/healthz\",status=\"200\"} 1",
            "pillion_http_requests_total{method=\"other\",route=\"unknown\",status=\"405\"} 1",
            "pillion_http_request_duration_seconds_bucket{le=\"0.005\"} 2",
            "pillion_http_request_duration_seconds_bucket{le=\"+Inf\"} 2",
            "pillion_http_request_duration_seconds_count 2",
            "pillion_connections{transport=\"unix\"} 1",
            "pillion_upstream_up{server=\"a\\\"b\"} 0",
            "pillion_upstream_tools{server=\"a\\\"b\"} 2",
            "pillion_tools 3",
            "pillion_tool_calls_running 5",
            "pillion_tool_calls_queued 7",
            "pillion_dice_roll_lost_total 0",
            "pillion_dice_roll_won_total 1",
            "pillion_store_lost_records_total 4",
            "pillion_result_cache_lookups_total{outcome=\"hit\"} 9",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
