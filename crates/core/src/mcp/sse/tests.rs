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
    Ok(std::iter::from_fn(|| decoder.next_event()).collect())
}

fn data(bytes: &[u8]) -> Vec<String> {
    decode(bytes)
        .unwrap()
        .into_iter()
        .map(|event| event.data)
        .collect()
}

#[test]
fn e2_every_form_of_an_event() {
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
        (events[1].event.as_str(), events[1].id.as_deref()),
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

proptest! {
    #[test]
    fn how_the_bytes_are_cut_changes_nothing(
        bytes in proptest::collection::vec(prop_oneof![
            Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' '), Just(b'd'), any::<u8>()
        ], 0..300),
        size in 1usize..20,
    ) {
        let mut text = b"data: x".to_vec();
        text.extend(bytes);
        prop_assert_eq!(decode(&text), decode_in_chunks(&text, size));
    }

    #[test]
    fn text_survives_the_way(lines in proptest::collection::vec("[^\r\n]{0,40}", 1..5)) {
        let encoded: String = lines.iter().map(|line| format!("data: {line}\n")).collect();
        prop_assert_eq!(data(format!("{encoded}\n").as_bytes()), [lines.join("\n")]);
    }
}
