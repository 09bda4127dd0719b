//! Decodes any bytes as an event stream: chunk boundaries do not change the events or the error,
//! and no event exceeds the limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pillion_sse::{SseDecoder, SseError, SseEvent};

/// The limit is small, so that the fuzzer reaches it.
const LIMIT: usize = 256;

type Read = (Vec<SseEvent>, Result<(), SseError>);

fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut decoder = SseDecoder::new(LIMIT);
    let mut events = Vec::new();
    let feed_all = || {
        for chunk in chunks {
            let fed = decoder.feed(chunk);
            events.extend(std::iter::from_fn(|| decoder.next_event()));
            fed?;
        }
        let finished = decoder.finish();
        events.extend(std::iter::from_fn(|| decoder.next_event()));
        finished
    };
    let outcome = feed_all();
    (events, outcome)
}

/// Splits `bytes` into chunks of the sizes in `lengths`, repeatedly; zero is an empty chunk.
fn cut<'a>(mut bytes: &'a [u8], lengths: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let all_zero = lengths.iter().all(|length| *length == 0);
    let mut lengths = lengths.iter().copied().cycle();
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let length = match lengths.next() {
            Some(length) if !all_zero => usize::from(length).min(bytes.len()),
            _ => bytes.len(),
        };
        let (chunk, rest) = bytes.split_at(length);
        bytes = rest;
        Some(chunk)
    })
}

fuzz_target!(|bytes: &[u8]| {
    // The last bytes are part of the stream and also the chunk sizes, so that seeds are plain
    // streams.
    let lengths = &bytes[bytes.len().saturating_sub(4)..];
    let whole = read([bytes]);
    assert_eq!(whole, read(bytes.chunks(1)), "byte by byte");
    assert_eq!(whole, read(cut(bytes, lengths)), "cut by {lengths:?}");
    for event in &whole.0 {
        assert!(event.data.len() <= LIMIT);
        assert!(event.event.len() <= LIMIT);
    }
});
