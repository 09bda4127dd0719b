use serde_json::json;

use super::*;

fn ending(word: &str) -> Option<Ending> {
    Some(match word {
        "stop" => Ending::Complete,
        "length" => Ending::Length,
        "error" => Ending::Failed,
        _ => return None,
    })
}

fn read_reason(events: &[(bool, Value)]) -> StreamedReason {
    let mut streamed = StreamedReason::default();
    for (has_content, member) in events {
        if *has_content {
            streamed.add_content();
        }
        streamed.add(ending, Some(member));
    }
    streamed
}

#[test]
fn h6_placeholders_are_no_reasons() {
    for member in [
        json!(null),
        json!(""),
        json!("  \n"),
        json!("null"),
        json!("None"),
        json!("FINISH_REASON_UNSPECIFIED"),
        json!(false),
        json!(0),
        json!([]),
        json!({}),
        json!(["stop"]),
    ] {
        assert_eq!(reason(Some(&member)), None, "{member}");
        let streamed = read_reason(&[(true, member.clone())]);
        assert!(!streamed.has_ended(), "{member}");
        let streamed = read_reason(&[
            (true, json!(null)),
            (false, json!("length")),
            (false, member),
        ]);
        assert_eq!(streamed.reason(), Some("length"));
        assert!(streamed.is_complete_if_broken());
    }
    assert_eq!(reason(None), None);
    assert_eq!(reason(Some(&json!(" stop "))), Some("stop"));
}

#[test]
fn h6_a_missing_rest_stays_missing() {
    for later in ["stop", "length", "error", "whatever", ""] {
        for first in ["length", "error"] {
            let streamed = read_reason(&[(true, json!(first)), (false, json!(later))]);
            assert_eq!(streamed.reason(), Some(first), "{later}");
            assert!(streamed.has_ended());
        }
    }
    let streamed = read_reason(&[(true, json!("stop")), (false, json!("length"))]);
    assert_eq!(streamed.reason(), Some("length"));
}

#[test]
fn h6_only_documented_reasons_end_an_answer() {
    let streamed = read_reason(&[(true, json!("bored"))]);
    assert_eq!(
        (streamed.reason(), streamed.has_ended()),
        (Some("bored"), false)
    );
    assert!(streamed.format_early_end_message().contains("'bored'"));
    for events in [["bored", "stop"], ["stop", "bored"]] {
        let streamed = read_reason(&events.map(|word| (false, json!(word))));
        assert_eq!(
            (streamed.reason(), streamed.has_ended()),
            (Some("stop"), true)
        );
    }
    assert_eq!(
        finish(Some("bored"), ending, false),
        Finish::Other("bored".to_owned())
    );
    // After an undocumented reason, the last call may have lost arguments.
    assert_eq!(finish(Some("bored"), ending, true), Finish::Length);
}

#[test]
fn h6_content_after_a_reason_withdraws_the_reason() {
    let streamed = read_reason(&[(true, json!("stop")), (true, json!(null))]);
    assert!(!streamed.has_ended());
    let streamed = read_reason(&[(true, json!("stop")), (true, json!("stop"))]);
    assert_eq!(
        (streamed.has_ended(), streamed.is_complete_if_broken()),
        (true, false)
    );
    let streamed = read_reason(&[(true, json!(null)), (true, json!("stop"))]);
    assert!(streamed.is_complete_if_broken());
}
