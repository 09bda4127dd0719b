use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use pillion_core::executor::{CacheCounts, QueueLoad};
use pillion_core::pack::Counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use super::{Latency, Metrics, System};
use crate::connections::ServerReport;

/// The content type: OpenMetrics, which Prometheus prefers.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A snapshot of all metrics for `/metrics`.
#[derive(Debug, Clone)]
pub struct Scrape {
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The known state of each MCP server.
    pub servers: Vec<ServerReport>,
    /// The system's values for the process.
    pub system: System,
    /// The number of registered tools.
    pub tools: usize,
    /// The numbers of running and waiting calls.
    pub load: QueueLoad,
    /// The counters of the result cache.
    pub cache: CacheCounts,
    /// The number of records of calls that were lost in damaged files.
    pub lost_records: u64,
    /// The counters of packs, by name.
    pub packs: Vec<(String, Arc<Counters>)>,
}

impl Scrape {
    /// Returns the metrics as text.
    ///
    /// # Errors
    /// None for a buffer in memory.
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
        let tools = self.metrics.tools.all();
        let help = "Finished tool calls, by outcome";
        let mut family = counters(encoder, "pillion_tool_calls", help)?;
        for (tool, stats) in &tools {
            for (outcome, count) in stats.outcomes().filter(|(_, count)| *count > 0) {
                let labels = [("tool", tool.as_str()), ("outcome", outcome)];
                counter(&mut family, &labels, count)?;
            }
        }
        let help = "Duration of tool calls";
        let mut family = encoder.encode_descriptor(
            "pillion_tool_call_duration",
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (tool, stats) in &tools {
            histogram(&mut family, &[("tool", tool.as_str())], &stats.latency)?;
        }
        let in_flight = self.metrics.tools.in_flight();
        let help = "Tool calls that are running or waiting";
        gauge(encoder, "pillion_tool_calls_in_flight", help, in_flight)?;
        let known = i64::try_from(self.tools).unwrap_or(i64::MAX);
        gauge(encoder, "pillion_tools", "Registered tools", known)
    }

    fn encode_executor(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
        let QueueLoad { running, queued } = self.load;
        let CacheCounts {
            entries,
            bytes,
            hits,
            misses,
        } = self.cache;
        let gauges = [
            (
                "pillion_tool_calls_running",
                "Tool calls that hold a slot",
                running,
            ),
            (
                "pillion_tool_calls_queued",
                "Tool calls that wait for a slot",
                queued,
            ),
            (
                "pillion_result_cache_entries",
                "Cached tool results",
                entries,
            ),
            (
                "pillion_result_cache_bytes",
                "Size of the cached tool results, in bytes",
                bytes,
            ),
        ];
        for (name, help, value) in gauges {
            gauge(encoder, name, help, number(value))?;
        }
        let help = "Result cache lookups, by outcome";
        let mut family = counters(encoder, "pillion_result_cache_lookups", help)?;
        for (outcome, count) in [("hit", hits), ("miss", misses)] {
            counter(&mut family, &[("outcome", outcome)], count)?;
        }
        Ok(())
    }

    fn encode_http(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let requests = &self.metrics.requests;
        let mut family = counters(
            encoder,
            "pillion_http_requests",
            "HTTP requests, by method, route and status",
        )?;
        for (seen, count) in requests.all() {
            let status = seen.status.to_string();
            let labels = [
                ("method", seen.method),
                ("route", seen.route.as_str()),
                ("status", status.as_str()),
            ];
            counter(&mut family, &labels, count)?;
        }
        let mut family = encoder.encode_descriptor(
            "pillion_http_request_duration",
            "Time until the head of the response to an HTTP request",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        let sum = requests.latency.sum_seconds();
        let (count, buckets) = (requests.latency.count(), requests.latency.buckets());
        family.encode_histogram::<NoLabels>(sum, count, &buckets, None)?;

        let both = [("unix", &self.metrics.unix), ("tcp", &self.metrics.tcp)];
        let help = "Open connections, by transport";
        let mut family =
            encoder.encode_descriptor("pillion_connections", help, None, MetricType::Gauge)?;
        for (transport, connections) in both {
            let open = i64::try_from(connections.open()).unwrap_or(i64::MAX);
            family
                .encode_family(&[("transport", transport)])?
                .encode_gauge(&open)?;
        }
        let help = "Connections that were accepted, and of these refused and cut off";
        let mut family = counters(encoder, "pillion_connections_accepted", help)?;
        for (transport, connections) in both {
            for (outcome, count) in connections.totals() {
                let labels = [("transport", transport), ("outcome", outcome)];
                counter(&mut family, &labels, count)?;
            }
        }
        Ok(())
    }

    fn encode_servers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether the last tool discovery of an MCP server succeeded";
        let mut family =
            encoder.encode_descriptor("pillion_upstream_up", help, None, MetricType::Gauge)?;
        for server in self.servers.iter().filter(|server| server.was_asked) {
            let up = i64::from(server.error.is_none());
            let labels = [("server", server.label.as_str())];
            family.encode_family(&labels)?.encode_gauge(&up)?;
        }
        let help = "Tools that an MCP server offers";
        let mut family =
            encoder.encode_descriptor("pillion_upstream_tools", help, None, MetricType::Gauge)?;
        for server in &self.servers {
            let tools = i64::try_from(server.tools).unwrap_or(i64::MAX);
            let labels = [("server", server.label.as_str())];
            family.encode_family(&labels)?.encode_gauge(&tools)?;
        }
        let help = "Configuration reloads, by outcome";
        let mut family = counters(encoder, "pillion_config_reloads", help)?;
        let outcomes = [
            ("success", &self.metrics.reloads),
            ("failure", &self.metrics.failed_reloads),
        ];
        for (outcome, count) in outcomes {
            let count = count.load(Ordering::Relaxed);
            counter(&mut family, &[("outcome", outcome)], count)?;
        }
        Ok(())
    }

    /// Encodes the counters of packs. For example, the counter `llm.parse.failed` of the pack
    /// `tabletop` becomes `pillion_tabletop_llm_parse_failed_total`.
    fn encode_packs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (pack, all) in &self.packs {
            for (name, count) in all.with_prefix("") {
                let family = format!("pillion_{pack}_{}", name.replace('.', "_"));
                let help = format!("Counter {name} of the pack {pack}");
                counters(encoder, &family, &help)?.encode_counter(&count, NO_EXEMPLAR)?;
            }
        }
        Ok(())
    }

    fn encode_system(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let System {
            resident_bytes,
            virtual_bytes,
            threads,
            open_descriptors,
            max_descriptors,
            processor_time,
        } = &self.system;
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Resident memory, in bytes",
                resident_bytes,
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory, in bytes",
                virtual_bytes,
            ),
            ("process_threads", "Threads", threads),
            (
                "process_open_fds",
                "Open file descriptors",
                open_descriptors,
            ),
            (
                "process_max_fds",
                "Maximum number of open file descriptors",
                max_descriptors,
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let value = i64::try_from(*value).unwrap_or(i64::MAX);
                gauge(encoder, name, help, value)?;
            }
        }
        if let Some(time) = processor_time {
            let mut metric = counters(
                encoder,
                "process_cpu_seconds",
                "CPU time in user and kernel mode, in seconds",
            )?;
            let none = None::<&Exemplar<NoLabels, f64>>;
            metric.encode_counter(&time.as_secs_f64(), none)?;
        }
        let started = self
            .metrics
            .started_at()
            .duration_since(SystemTime::UNIX_EPOCH);
        let started = started.unwrap_or_default().as_secs_f64();
        let help = "Start time of the process, in seconds since the Unix epoch";
        let name = "process_start_time_seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&started)?;
        let help = "Records of calls that were lost in damaged files of the store";
        let mut metric = counters(encoder, "pillion_store_lost_records", help)?;
        let none = None::<&Exemplar<NoLabels, u64>>;
        metric.encode_counter(&self.lost_records, none)?;
        let help = "Version of the program";
        let mut metric =
            encoder.encode_descriptor("pillion_build", help, None, MetricType::Info)?;
        metric.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }
}

fn counters<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}

fn counter(
    family: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    count: u64,
) -> fmt::Result {
    let mut metric = family.encode_family(labels)?;
    metric.encode_counter(&count, NO_EXEMPLAR)
}

fn histogram(
    family: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    latency: &Latency,
) -> fmt::Result {
    let (sum, count) = (latency.sum_seconds(), latency.count());
    let mut metric = family.encode_family(labels)?;
    metric.encode_histogram::<NoLabels>(sum, count, &latency.buckets(), None)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> fmt::Result {
    encoder
        .encode_descriptor(name, help, None, MetricType::Gauge)?
        .encode_gauge(&value)
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
                was_asked: true,
                tools: 2,
                error: Some("no".to_owned()),
                ..ServerReport::default()
            }],
            system: System::look(),
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
