use std::time::{Instant, SystemTime};

use opentelemetry::trace::{
    Link, Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
    TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue, Value};
use pillion_core::executor::{CallSpan, Tracer};
use pillion_core::tool::{
    CallContext, ErrorCode, ToolCall, ToolFailure, ToolOrigin, ToolResult, TraceContext,
};
use pillion_mcp_client::{RpcError, ServerConfig};

use super::Telemetry;
use crate::client_text::truncate_input;
use crate::metrics::known_method;

/// An OpenTelemetry span, which ends when this value is dropped.
pub struct Span {
    span: opentelemetry_sdk::trace::Span,
    started_at: SystemTime,
    /// The start on the monotonic clock, because the system clock may be changed while the span
    /// runs.
    start_instant: Instant,
}

impl Telemetry {
    /// Starts a span as a child of `parent`, or as the root of a new trace.
    pub(crate) fn start_span(
        &self,
        name: String,
        kind: SpanKind,
        parent: Option<&TraceContext>,
        attributes: Vec<KeyValue>,
    ) -> Span {
        self.start_linked_span(name, kind, parent, None, attributes)
    }

    /// Starts a span like [`start_span`](Self::start_span), with a link to a related span.
    pub(crate) fn start_linked_span(
        &self,
        name: String,
        kind: SpanKind,
        parent: Option<&TraceContext>,
        link: Option<&TraceContext>,
        attributes: Vec<KeyValue>,
    ) -> Span {
        let remote_context = parent.and_then(span_context);
        let parent_context = remote_context.map_or_else(Context::new, |remote_context| {
            Context::new().with_remote_span_context(remote_context)
        });
        let started_at = SystemTime::now();
        let mut builder = self.tracer.span_builder(name).with_kind(kind);
        builder = builder.with_start_time(started_at);
        builder = builder.with_attributes(attributes);
        if let Some(link) = link.and_then(span_context) {
            builder = builder.with_links(vec![Link::with_context(link)]);
        }
        Span {
            span: self.tracer.build_with_context(builder, &parent_context),
            started_at,
            start_instant: Instant::now(),
        }
    }
}

impl Span {
    /// Returns the span's trace context, for its children.
    pub fn context(&self) -> Option<TraceContext> {
        let context = self.span.span_context();
        let (trace, id) = (context.trace_id(), context.span_id());
        let flags = context.trace_flags().to_u8();
        let traceparent = format!("00-{trace}-{id}-{flags:02x}");
        let state = context.trace_state().header();
        TraceContext::parse(&traceparent, Some(&state))
    }

    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.span.set_attribute(KeyValue::new(key, value));
    }

    /// Marks the span as failed with an error of the kind `kind`. The error message is not
    /// exported.
    pub(crate) fn fail(&mut self, kind: impl Into<Value>) {
        self.set("error.type", kind);
        self.span.set_status(Status::error(""));
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let ended_at = self.started_at.checked_add(self.start_instant.elapsed());
        self.span
            .end_with_timestamp(ended_at.unwrap_or(self.started_at));
    }
}

fn span_context(trace: &TraceContext) -> Option<SpanContext> {
    let mut parts = trace.traceparent().split('-').skip(1);
    let trace_id = TraceId::from_hex(parts.next()?).ok()?;
    let span_id = SpanId::from_hex(parts.next()?).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    let parsed_state = trace.tracestate().and_then(|state| state.parse().ok());
    let state = parsed_state.unwrap_or(TraceState::NONE);
    Some(SpanContext::new(trace_id, span_id, flags, true, state))
}

/// The MCP methods that spans are named after. Other methods are not used in names, because they
/// are arbitrary text of a client.
const MCP_METHODS: [&str; 13] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "logging/setLevel",
    "subscriptions/listen",
];

impl Telemetry {
    /// Starts the span of an incoming HTTP request.
    pub fn start_http_span(
        &self,
        method: &str,
        route: &str,
        id: &str,
        parent: Option<&TraceContext>,
    ) -> Span {
        let method = known_method(method).unwrap_or("_OTHER");
        let attributes = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.route", route.to_owned()),
            KeyValue::new("pillion.request_id", id.to_owned()),
        ];
        let name = format!("{method} {route}");
        self.start_span(name, SpanKind::Server, parent, attributes)
    }

    /// Starts the span of an incoming MCP request, as a child of `meta_trace`, the span in the
    /// request's `_meta`, or else of `http_trace`, the HTTP request's span. `tool` must be an
    /// existing tool.
    pub fn start_mcp_span(
        &self,
        method: &str,
        tool: Option<&str>,
        version: &'static str,
        meta_trace: Option<&TraceContext>,
        http_trace: Option<&TraceContext>,
    ) -> Span {
        let known_method = MCP_METHODS.iter().find(|name| **name == method);
        let method = *known_method.unwrap_or(&"other");
        let mut attributes = vec![
            KeyValue::new("mcp.method.name", method),
            KeyValue::new("mcp.protocol.version", version),
        ];
        let mut name = method.to_owned();
        if let Some(tool) = tool {
            name = format!("{method} {tool}");
            attributes.push(KeyValue::new("gen_ai.tool.name", tool.to_owned()));
        }
        let link = meta_trace.and(http_trace);
        let parent = meta_trace.or(http_trace);
        self.start_linked_span(name, SpanKind::Server, parent, link, attributes)
    }

    /// Starts the span of a request to an MCP server. `tool` is the tool's name on the server.
    pub(crate) fn start_upstream_span(
        &self,
        server: &ServerConfig,
        method: &str,
        tool: Option<&str>,
        parent: Option<&TraceContext>,
    ) -> Span {
        let mut attributes = vec![
            KeyValue::new("mcp.method.name", method.to_owned()),
            KeyValue::new("pillion.server", server.label.clone()),
        ];
        match server.url() {
            Some(url) => {
                let host = url.host_str().unwrap_or_default().to_owned();
                attributes.push(KeyValue::new("network.transport", "tcp"));
                attributes.push(KeyValue::new("server.address", host));
                if let Some(port) = url.port_or_known_default() {
                    attributes.push(KeyValue::new("server.port", i64::from(port)));
                }
            }
            None => attributes.push(KeyValue::new("network.transport", "pipe")),
        }
        let mut name = method.to_owned();
        if let Some(tool) = tool {
            name = format!("{method} {tool}");
            attributes.push(KeyValue::new("gen_ai.operation.name", "execute_tool"));
            attributes.push(KeyValue::new("gen_ai.tool.name", tool.to_owned()));
        }
        self.start_span(name, SpanKind::Client, parent, attributes)
    }
}

impl Span {
    /// Records the response status of an HTTP request.
    pub fn set_http_status(&mut self, status: u16) {
        self.set("http.response.status_code", i64::from(status));
        if status >= 500 {
            self.fail(status.to_string());
        }
    }

    /// Ends the span of a call to a server's tool, as failed if `outcome` is an error.
    pub(crate) fn end_tool_span<T>(mut self, outcome: &Result<T, ToolFailure>) {
        if let Err(failure) = outcome {
            self.fail(failure.code.as_str());
        }
    }

    /// Ends the span of a request, as failed if `outcome` is an error.
    pub fn end_request_span<T>(mut self, outcome: &Result<T, RpcError>) {
        if let Err(error) = outcome {
            self.set("rpc.response.status_code", error.code.to_string());
            self.fail(error.code.to_string());
        }
    }
}

impl Tracer for Telemetry {
    fn start(
        &self,
        call: &ToolCall,
        origin: Option<&ToolOrigin>,
        context: &CallContext,
    ) -> Box<dyn CallSpan> {
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.type", "function"),
            KeyValue::new("gen_ai.tool.call.id", truncate_input(&call.id)),
        ];
        // A span name contains only names of existing tools, because other names are arbitrary text
        // of the caller.
        let mut name = "execute_tool".to_owned();
        if let Some(origin) = origin {
            name = format!("execute_tool {}", call.name);
            attributes.push(KeyValue::new("gen_ai.tool.name", call.name.clone()));
            if let ToolOrigin::Mcp { server_label, .. } = origin {
                attributes.push(KeyValue::new("pillion.server", server_label.clone()));
            }
        }
        let parent = context.trace.as_ref();
        let span = self.start_span(name, SpanKind::Internal, parent, attributes);
        Box::new(RunningCallSpan(Some(span)))
    }
}

/// The span of a running call.
struct RunningCallSpan(Option<Span>);

impl CallSpan for RunningCallSpan {
    fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().and_then(Span::context)
    }

    fn end(mut self: Box<Self>, result: &ToolResult) {
        if let (Some(mut span), false) = (self.0.take(), result.success) {
            span.fail(result.error_code.map_or("error", ErrorCode::as_str));
        }
    }
}

impl Drop for RunningCallSpan {
    fn drop(&mut self) {
        if let Some(span) = &mut self.0 {
            span.fail(ErrorCode::Cancelled.as_str());
        }
    }
}
