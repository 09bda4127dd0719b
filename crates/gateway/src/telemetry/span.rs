use std::time::{Instant, SystemTime};

use opentelemetry::trace::{
    Link, Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
    TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue, Value};
use pillion_core::tool::TraceContext;

use super::Telemetry;

/// A span that ends when dropped.
pub struct Span {
    span: opentelemetry_sdk::trace::Span,
    began: SystemTime,
    /// Measures the duration, because the system clock may be set in the meantime.
    started: Instant,
}

impl Telemetry {
    /// Starts a span as a child of `parent`, or as the root of a new trace.
    pub(crate) fn span(
        &self,
        name: String,
        kind: SpanKind,
        parent: Option<&TraceContext>,
        attributes: Vec<KeyValue>,
    ) -> Span {
        self.linked_span(name, kind, parent, None, attributes)
    }

    /// Like [`span`](Self::span), with a link to a related span.
    pub(crate) fn linked_span(
        &self,
        name: String,
        kind: SpanKind,
        parent: Option<&TraceContext>,
        link: Option<&TraceContext>,
        attributes: Vec<KeyValue>,
    ) -> Span {
        let remote = parent.and_then(span_context);
        let parent = remote.map_or_else(Context::new, |remote| {
            Context::new().with_remote_span_context(remote)
        });
        let began = SystemTime::now();
        let mut builder = self.tracer.span_builder(name);
        builder = builder
            .with_kind(kind)
            .with_start_time(began)
            .with_attributes(attributes);
        if let Some(link) = link.and_then(span_context) {
            builder = builder.with_links(vec![Link::with_context(link)]);
        }
        Span {
            span: self.tracer.build_with_context(builder, &parent),
            began,
            started: Instant::now(),
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

    /// Marks the span as failed with this kind of error. The error message is not exported.
    pub(crate) fn fail(&mut self, kind: impl Into<Value>) {
        self.set("error.type", kind);
        self.span.set_status(Status::error(""));
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let end = self.began.checked_add(self.started.elapsed());
        self.span.end_with_timestamp(end.unwrap_or(self.began));
    }
}

fn span_context(trace: &TraceContext) -> Option<SpanContext> {
    let mut parts = trace.traceparent().split('-').skip(1);
    let trace_id = TraceId::from_hex(parts.next()?).ok()?;
    let span_id = SpanId::from_hex(parts.next()?).ok()?;
    let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
    let state = trace.tracestate().and_then(|state| state.parse().ok());
    Some(SpanContext::new(
        trace_id,
        span_id,
        TraceFlags::new(flags),
        true,
        state.unwrap_or(TraceState::NONE),
    ))
}
