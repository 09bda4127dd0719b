use proptest::prelude::*;

use super::*;

fn decode(bytes: &[u8]) -> Result<Vec<SseEvent>, SseError> {
    decode_in_chunks(bytes, bytes.len().max(1))
}

fn decode_in_chunks(bytes: &[u8], size: usize) -> Result<Vec<SseEvent>, SseError> {
    let mut decoder = SseDecoder::new(4096);
    for chunk in bytes.chunks(size) {
        decoder.feed(chunk)?;
    }
    decoder.finish()?;
    Ok(ready(&mut decoder))
}

fn ready(decoder: &mut SseDecoder) -> Vec<SseEvent> {
    std::iter::from_fn(|| decoder.next_event()).collect()
}

fn data(bytes: &[u8]) -> Vec<String> {
    decode(bytes)
        .unwrap()
        .into_iter()
        .map(|event| event.data)
        .collect()
}

#[test]
fn e2_every_form_of_an_event_is_decoded() {
    assert_eq!(data(b"data: a\n\n"), ["a"]);
    assert_eq!(data(b"data:a\n\n"), ["a"]);
    assert_eq!(data(b"data:  a\n\n"), [" a"]);
    assert_eq!(data(b"data: a\r\n\r\n"), ["a"]);
    assert_eq!(data(b"data: a\r\rdata: b\r\r"), ["a", "b"]);
    assert_eq!(data(b"data: a\ndata: b\n\n"), ["a\nb"]);
    assert_eq!(data(b": comment\n\n: x\ndata: a\nfoo: bar\n\n"), ["a"]);
    assert_eq!(data(b"\xef\xbb\xbfdata: a\n\n"), ["a"]);
    assert_eq!(data(b"data\n\n"), [""]);
    assert_eq!(data(b"event: x\n\n"), Vec::<String>::new());
    assert_eq!(
        data(b"data: no blank line at the end"),
        ["no blank line at the end"]
    );
}

#[test]
fn the_event_type_and_the_last_id_are_kept() {
    let events = decode(b"event: endpoint\nid: 7\ndata: /m\n\ndata: b\n\n").unwrap();
    assert_eq!(events[0].event, "endpoint");
    assert_eq!(
        (&*events[1].event, events[1].id.as_deref()),
        ("message", Some("7"))
    );
}

#[test]
fn limits_hold_while_reading() {
    let mut decoder = SseDecoder::new(100);
    let mut fed = 0;
    let error = loop {
        match decoder.feed(b"0123456789") {
            Ok(()) => fed += 10,
            Err(error) => break error,
        }
    };
    assert_eq!(error, SseError::EventTooLarge { limit: 100 });
    assert_eq!(fed, 100);
    let mut decoder = SseDecoder::new(100);
    let many_lines = "data: 0123456789\n".repeat(100);
    assert!(decoder.feed(many_lines.as_bytes()).is_err());
}

#[test]
fn invalid_utf8_is_an_error_and_events_before_it_are_kept() {
    let mut decoder = SseDecoder::new(100);
    assert_eq!(
        decoder.feed(b"data: a\n\ndata: \xff\n\n"),
        Err(SseError::InvalidUtf8)
    );
    assert_eq!(decoder.next_event().unwrap().data, "a");
}

#[test]
fn the_last_event_id_changes_at_a_blank_line() {
    let mut decoder = SseDecoder::new(100);
    let mut after = |bytes: &[u8]| {
        decoder.feed(bytes).unwrap();
        decoder.last_event_id().map(str::to_owned)
    };
    assert_eq!(after(b"data: a\n\n"), None);
    assert_eq!(after(b"id: 1\n"), None, "the event may still be cut");
    assert_eq!(after(b"\n").as_deref(), Some("1"), "an id alone counts");
    assert_eq!(after(b"id: 2\ndata:\n\n").as_deref(), Some("2"), "primed");
    assert_eq!(after(b"data: b\n\n").as_deref(), Some("2"), "it lasts");
    assert_eq!(after(b"id: 3\0\ndata: c\n\n").as_deref(), Some("2"), "NUL");
    assert_eq!(after(b"id: 4\nid: 5\n\n").as_deref(), Some("5"));
    assert_eq!(after(b"id: 6\r\n\r\n").as_deref(), Some("6"));
    assert_eq!(after(b"id\n\n"), None, "an empty id takes it back");
}

#[test]
fn a_truncated_event_is_returned_but_not_confirmed() {
    let mut decoder = SseDecoder::new(100);
    decoder.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b").unwrap();
    decoder.finish().unwrap();
    assert_eq!(decoder.last_event_id(), Some("1"));
    let events = ready(&mut decoder);
    let ids: Vec<_> = events.iter().map(|event| event.id.as_deref()).collect();
    assert_eq!(ids, [Some("1"), Some("2")]);
}

#[test]
fn a_priming_event_is_an_event_without_data() {
    let events = decode(b"id: 1\nretry: 500\ndata: \n\n").unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(
        (events[0].data.as_str(), events[0].id.as_deref()),
        ("", Some("1"))
    );
    assert_eq!(decode(b"id: 1\nretry: 500\n\n").unwrap(), []);
}

#[test]
fn the_retry_field_is_digits_only() {
    let retry = |bytes: &[u8]| {
        let mut decoder = SseDecoder::new(100);
        decoder.feed(bytes).unwrap();
        decoder.retry()
    };
    let ms = |ms| Some(Duration::from_millis(ms));
    assert_eq!(retry(b"data: a\n\n"), None);
    assert_eq!(retry(b"retry: 1500\n"), ms(1500), "no blank line is needed");
    assert_eq!(retry(b"retry:0\r"), ms(0));
    assert_eq!(retry(b"retry: 1\nretry: 2\n"), ms(2));
    for bad in [
        "", " ", "-1", "+1", "1.5", "1e3", "0x10", "5 ", "ten", "\u{0665}",
    ] {
        assert_eq!(retry(format!("retry: {bad}\n").as_bytes()), None, "{bad:?}");
        let repeated = format!("retry: 7\nretry: {bad}\n");
        assert_eq!(retry(repeated.as_bytes()), ms(7), "{bad:?}");
    }
    assert_eq!(retry(b"retry: 99999999999999999999999\n"), ms(u64::MAX));
}

#[test]
fn many_events_share_one_long_id() {
    let mut decoder = SseDecoder::new(4096);
    let id = "x".repeat(4000);
    decoder.feed(format!("id: {id}\n").as_bytes()).unwrap();
    decoder.feed("data\n\n".repeat(100).as_bytes()).unwrap();
    let events = ready(&mut decoder);
    assert_eq!(events.len(), 100);
    let first = events[0].id.as_ref().unwrap();
    let is_shared = |event: &SseEvent| Arc::ptr_eq(event.id.as_ref().unwrap(), first);
    assert!(events.iter().all(is_shared));
}

proptest! {
    #[test]
    fn chunk_sizes_do_not_change_the_events(
        bytes in proptest::collection::vec(prop_oneof![
            Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' '), Just(b'd'), any::<u8>()
        ], 0..300),
        size in 1usize..20,
    ) {
        let mut text = b"data: x".to_vec();
        text.extend(bytes);
        prop_assert_eq!(decode(&text), decode_in_chunks(&text, size));
    }

    /// The streams consist of whole fields, and are split anywhere, including inside CRLF, the byte
    /// order mark, and a multi-byte character. Each line affects the events, the ID or the time.
    #[test]
    fn chunk_boundaries_do_not_change_the_events(
        mark in any::<bool>(),
        lines in proptest::collection::vec((
            prop_oneof![
                Just("id: 1\u{e9}"), Just("id"), Just("id: a\0b"), Just("retry: 1500"),
                Just("retry: 1x"), Just("event: \u{20ac}"), Just("data: \u{1f3b2}\u{feff}"),
                Just("data:"), Just(": \u{e9}"), Just("\u{feff}data: x"), Just(""), Just(""),
            ],
            prop_oneof![Just("\n"), Just("\r"), Just("\r\n")],
        ), 0..30),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
        ends in any::<bool>(),
    ) {
        let mut text = if mark { "\u{feff}".to_owned() } else { String::new() };
        text.extend(lines.iter().flat_map(|(line, end)| [*line, *end]));
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.sort_unstable();
        let read = |cuts: &[usize]| {
            let mut decoder = SseDecoder::new(4096);
            let mut from = 0;
            for to in cuts.iter().copied().chain([text.len()]) {
                decoder.feed(&text.as_bytes()[from..to]).unwrap();
                from = to;
            }
            if ends {
                decoder.finish().unwrap();
            }
            let events = ready(&mut decoder);
            (events, decoder.last_event_id().map(str::to_owned), decoder.retry())
        };
        let whole = read(&[]);
        prop_assert_eq!(&whole, &read(&cuts));
        let every_byte: Vec<_> = (0..text.len()).collect();
        prop_assert_eq!(&whole, &read(&every_byte));
    }

    #[test]
    fn text_is_decoded_unchanged(lines in proptest::collection::vec("[^\r\n]{0,40}", 1..5)) {
        let encoded: String = lines.iter().map(|line| format!("data: {line}\n")).collect();
        prop_assert_eq!(data(format!("{encoded}\n").as_bytes()), [lines.join("\n")]);
    }
}

#[test]
fn decoding_continues_after_a_truncated_event() {
    let mut decoder = SseDecoder::new(1000);
    decoder
        .feed(b"id: 1\ndata: one\n\nid: 2\ndata: ha")
        .unwrap();
    decoder.resume();
    decoder.feed(b"\xef\xbb\xbfid: 2\ndata: two\n\n").unwrap();
    assert_eq!(decoder.next_event().unwrap().data, "one");
    assert_eq!(decoder.next_event().unwrap().data, "two");
    assert_eq!(decoder.last_event_id(), Some("2"));
}
