//! Compares this crate's reader of event streams with the crate `eventsource-stream` (ADR 0001).
//!
//! `cargo bench -p pillion-sse --bench sse`
//!
//! Both readers get the same chunks, of the size that a socket delivers, and must find the same
//! events.

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use eventsource_stream::Eventsource;
use futures_util::{FutureExt, StreamExt, stream};
use pillion_sse::{SseDecoder, SseError};

const CHUNK: usize = 16 * 1024;
const LIMIT: usize = 16 * 1024 * 1024;

fn one_large_event() -> String {
    format!(
        "event: message\ndata: {{\"text\":\"{}\"}}\n\n",
        "x".repeat(4 * 1024 * 1024)
    )
}

fn many_small_events() -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for id in 0..10_000 {
        write!(
            text,
            "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"progress\",\"id\":{id}}}\n\n"
        )?;
    }
    Ok(text)
}

fn chunks(text: String) -> Vec<Bytes> {
    let mut rest = Bytes::from(text);
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        chunks.push(rest.split_to(CHUNK.min(rest.len())));
    }
    chunks
}

/// The number of events, and the number of bytes of their data.
type EventTotals = (usize, usize);

fn ours(chunks: &[Bytes]) -> Result<EventTotals, SseError> {
    let mut decoder = SseDecoder::new(LIMIT);
    let mut found = (0, 0);
    for chunk in chunks {
        decoder.feed(chunk)?;
        while let Some(event) = decoder.next_event() {
            found.0 += 1;
            found.1 += black_box(event).data.len();
        }
    }
    Ok(found)
}

fn theirs(chunks: &[Bytes]) -> Option<EventTotals> {
    let events = stream::iter(chunks).map(Ok::<_, Infallible>).eventsource();
    let count = |found: EventTotals, event: Result<eventsource_stream::Event, _>| {
        let bytes = event.map_or(0, |event| black_box(event).data.len());
        async move { (found.0 + 1, found.1 + bytes) }
    };
    // The stream is always ready, so one poll reads it to the end.
    events.fold((0, 0), count).now_or_never()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    for (name, text) in [
        ("one_event_of_4_MiB", one_large_event()),
        ("10000_small_events", many_small_events()?),
    ] {
        let bytes = text.len();
        let chunks = chunks(text);
        if Some(ours(&chunks)?) != theirs(&chunks) {
            return Err("the two readers found different events".into());
        }
        let mut group = criterion.benchmark_group(format!("sse/{name}"));
        group.throughput(Throughput::Bytes(u64::try_from(bytes)?));
        group.bench_function("pillion", |bencher| bencher.iter(|| ours(&chunks)));
        group.bench_function("eventsource-stream", |bencher| {
            bencher.iter(|| theirs(&chunks));
        });
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}
