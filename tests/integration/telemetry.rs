//! Traces (M): the spans that a collector receives for a request, its call, and the server.

use std::collections::BTreeMap;
use std::net::TcpStream;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;

use crate::mcp_server::read_request;
use crate::prelude::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const EXECUTE: &str = "/api/v1/tools/execute/";

/// A collector that accepts OTLP over HTTP.
struct Collector {
    url: String,
    got: Arc<Mutex<Got>>,
}

#[derive(Default)]
struct Got {
    spans: Vec<Span>,
    services: Vec<String>,
    headers: Vec<String>,
}

/// The parts of a span that the tests check.
#[derive(Debug, Clone)]
struct Span {
    name: String,
    kind: SpanKind,
    trace: String,
    id: String,
    parent: String,
    links: Vec<String>,
    attributes: BTreeMap<String, String>,
    failed: bool,
}

impl Collector {
    fn start() -> Self {
        let got = Arc::<Mutex<Got>>::default();
        let shared = Arc::clone(&got);
        let address = http::serve(move |stream| {
            // Serving ends when the peer has closed the connection.
            let _: Option<()> = serve(stream, &shared);
        });
        let url = format!("http://{address}");
        Self { url, got }
    }

    fn spans(&self) -> Vec<Span> {
        self.got.lock().unwrap().spans.clone()
    }

    /// Waits for the span of that name.
    fn span(&self, name: &str) -> Span {
        eventually_some(&format!("there is a span `{name}`"), || {
            self.spans().into_iter().find(|span| span.name == name)
        })
    }
}

fn serve(stream: TcpStream, got: &Mutex<Got>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let (_, headers, body) = read_request(&mut reader)?;
        let request = ExportTraceServiceRequest::decode(&*body).unwrap();
        {
            let mut got = got.lock().unwrap();
            got.headers.extend(headers);
            for resource in request.resource_spans {
                let about = attributes(resource.resource.unwrap().attributes);
                got.services.push(about["service.name"].clone());
                let spans = resource.scope_spans.into_iter().flat_map(|it| it.spans);
                got.spans.extend(spans.map(Span::from));
            }
        }
        write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    }
}

impl From<opentelemetry_proto::tonic::trace::v1::Span> for Span {
    fn from(span: opentelemetry_proto::tonic::trace::v1::Span) -> Self {
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        Self {
            kind: span.kind(),
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
            failed: span.status.is_some_and(|status| status.code == 2),
            attributes: attributes(span.attributes),
            name: span.name,
        }
    }
}

fn attributes(all: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value| match value {
        any_value::Value::StringValue(text) => text,
        any_value::Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let all = all
        .into_iter()
        .filter_map(|it| Some((it.key, text(it.value?.value?))));
    all.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn server() -> McpServer {
    McpServer::start(json!([
        {"name": "echo", "inputSchema": {"type": "object"}},
        {"name": "broken", "inputSchema": {"type": "object"}},
    ]))
}

/// Starts a sidecar with that server, which sends spans to `collector` at once.
fn traced(server: &McpServer, collector: &str, more: &[(&str, &str)]) -> Daemon {
    let toml = format!(
        "[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\n[telemetry]\nendpoint = \"{collector}\"\n",
        server.url
    );
    let soon = [("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let variables: Vec<_> = soon.iter().chain(more).copied().collect();
    Daemon::with_variables(&toml, &variables)
}

fn call(daemon: &Daemon, tool: &str, flags: &str) -> http::Reply {
    let headers = format!("x-pillion-user: alice\r\ntraceparent: 00-{TRACE}-{CALLER}-{flags}\r\n");
    let body = br#"{"secret": "40404"}"#;
    daemon.post_with(&format!("{EXECUTE}{tool}"), &headers, body)
}

#[test]
fn m1_one_trace_goes_from_the_request_through_the_call_to_the_server() {
    let (server, collector) = (server(), Collector::start());
    let variables = [
        ("OTEL_SERVICE_NAME", "shop"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=open%20sesame"),
    ];
    let daemon = traced(&server, &collector.url, &variables);
    assert_eq!(call(&daemon, "far_echo", "01").status, 200);

    let http = collector.span("POST /api/v1/tools/execute/{tool_name}");
    let call = collector.span("execute_tool far_echo");
    let upstream = collector.span("tools/call echo");
    assert_eq!(http.parent, CALLER);
    assert_eq!(call.parent, http.id);
    assert_eq!(upstream.parent, call.id);
    for span in [&http, &call, &upstream] {
        assert_eq!(span.trace, TRACE);
        assert!(!span.failed, "{span:?}");
    }
    let kinds = [http.kind, call.kind, upstream.kind];
    assert_eq!(
        kinds,
        [SpanKind::Server, SpanKind::Internal, SpanKind::Client]
    );
    let expected = format!("00-{TRACE}-{}-01", upstream.id);
    assert_eq!(server.last_meta()["traceparent"], expected);
    assert_eq!(http.attributes["http.response.status_code"], "200");
    assert_eq!(call.attributes["gen_ai.tool.name"], "far_echo");
    assert_eq!(call.attributes["gen_ai.operation.name"], "execute_tool");
    assert_eq!(upstream.attributes["mcp.method.name"], "tools/call");
    assert_eq!(upstream.attributes["server.address"], "127.0.0.1");

    let got = collector.got.lock().unwrap();
    assert!(got.services.iter().all(|name| name == "shop"));
    assert!(got.headers.contains(&"x-key: open sesame".to_owned()));
    let reported = format!("{:?}", got.spans);
    for secret in ["40404", "alice"] {
        assert_lacks!(reported, secret);
    }
}

#[test]
fn m1_the_spans_of_steps_are_children_of_the_composed_tool() {
    let (server, collector) = (server(), Collector::start());
    let toml = format!(
        "[[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\n[telemetry]\nendpoint = \"{}\"\n\
         [[composed_tools]]\nname = \"chain\"\ndescription = \"A test\"\n\
         steps = [{{ name = \"a\", tool = \"far_echo\" }}]\n",
        server.url, collector.url
    );
    let daemon = Daemon::with_variables(&toml, &[("OTEL_BSP_SCHEDULE_DELAY", "50")]);
    assert_eq!(call(&daemon, "chain", "01").status, 200);
    let outer = collector.span("execute_tool chain");
    let inner = collector.span("execute_tool far_echo");
    assert_eq!(inner.parent, outer.id);
    assert_eq!(collector.span("tools/call echo").parent, inner.id);
    assert_eq!(outer.trace, TRACE);
}

#[test]
fn m1_an_unsampled_request_is_not_recorded() {
    let (server, collector) = (server(), Collector::start());
    let mut daemon = traced(&server, &collector.url, &[]);
    assert_eq!(call(&daemon, "far_echo", "00").status, 200);
    let sent = server.last_meta()["traceparent"].text().to_owned();
    assert_starts_with!(sent, &format!("00-{TRACE}-"));
    assert_ends_with!(sent, "-00");
    daemon.signal(Signal::SIGTERM);
    daemon.wait();
    assert!(collector.spans().is_empty());
}

#[test]
fn m1_the_span_of_a_failed_call_has_the_code_and_no_message() {
    let (server, collector) = (server(), Collector::start());
    let daemon = traced(&server, &collector.url, &[]);
    call(&daemon, "far_broken", "01");
    for name in ["execute_tool far_broken", "tools/call broken"] {
        let span = collector.span(name);
        assert!(span.failed);
        assert_eq!(span.attributes["error.type"], "internal_error");
    }
    let reported = format!("{:?}", collector.spans());
    assert_lacks!(reported, "out of paper");
}

#[test]
fn m1_an_mcp_request_has_the_parent_of_its_meta() {
    let (server, collector) = (server(), Collector::start());
    let daemon = traced(&server, &collector.url, &[]);
    let meta = json!({"traceparent": format!("00-{TRACE}-{CALLER}-01"), "of": "the client"});
    let params = json!({"name": "echo", "arguments": {"secret": 40404}, "_meta": meta});
    let (headers, body) = stateless("tools/call", params, json!({}));
    let reply = daemon.post_with("/mcp", &headers, body.to_string());
    assert_eq!(reply.status, 200);

    let http = collector.span("POST /mcp");
    let call = collector.span("execute_tool far_echo");
    let of_kind = |kind| {
        let mut spans = collector.spans().into_iter();
        spans.find(|span| span.kind == kind && span.attributes.contains_key("mcp.method.name"))
    };
    let upstream = of_kind(SpanKind::Client).unwrap();
    let request = of_kind(SpanKind::Server).unwrap();
    assert_eq!((&*request.trace, &*request.parent), (TRACE, CALLER));
    assert_eq!(request.links, [http.id]);
    assert_eq!(call.parent, request.id);
    assert_eq!(upstream.parent, call.id);
    let sent = server.last_meta();
    let expected = format!("00-{TRACE}-{}-01", upstream.id);
    assert_eq!(sent["traceparent"], expected);
    assert_eq!(sent["of"], "the client");
}

#[test]
fn m1_a_dead_collector_is_logged_once_and_delays_nothing() {
    let url = format!("http://{}", http::free_address());
    let mut daemon = traced(&server(), &url, &[("OTEL_BSP_MAX_QUEUE_SIZE", "16")]);
    for _ in 0..100 {
        assert_eq!(call(&daemon, "get_time", "01").status, 200);
    }
    daemon.wait_for_log("does not accept traces");
    let stopping = Instant::now();
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait().success());
    assert!(stopping.elapsed() < Duration::from_secs(15));
    assert_eq!(daemon.count_logged("does not accept traces"), 1);
    assert_lacks!(daemon.log(), "ERROR");
}

#[test]
fn m1_the_last_spans_are_sent_when_the_sidecar_stops() {
    let collector = Collector::start();
    // The spans are not sent before the end of the sidecar.
    let late = [("OTEL_BSP_SCHEDULE_DELAY", "600000")];
    let mut daemon = traced(&server(), &collector.url, &late);
    assert_eq!(call(&daemon, "get_time", "01").status, 200);
    assert!(collector.spans().is_empty());
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait().success());
    collector.span("execute_tool get_time");
}

#[test]
fn m1_environment_variables_configure_the_export() {
    let collector = Collector::start();
    let nowhere = "http://127.0.0.1:9";
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.url)];
    let daemon = traced(&server(), nowhere, &variables);
    call(&daemon, "get_time", "01");
    collector.span("execute_tool get_time");

    let off = [("OTEL_SDK_DISABLED", "true")];
    let daemon = traced(&server(), &collector.url, &off);
    assert_lacks!(daemon.log(), "Exporting traces to");
    let none = [("OTEL_TRACES_SAMPLER", "always_off")];
    let mut silent = traced(&server(), &collector.url, &none);
    let before = collector.spans().len();
    call(&silent, "get_time", "01");
    silent.signal(Signal::SIGTERM);
    silent.wait();
    assert_eq!(collector.spans().len(), before);
}
