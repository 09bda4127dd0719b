use serde_json::{Value, json};

/// The fields of a call that are streamed as pieces.
const STREAMED_FIELDS: [&str; 3] = ["id", "type", "function"];

/// Tracks the pieces of tool calls that were streamed to the client. OpenAI streams one call after
/// the other, and its clients treat a call as complete when a piece of another call arrives. Other
/// providers interleave calls, omit fields or send no pieces. So only the first call is streamed as
/// its pieces arrive; all others are sent at the end.
#[derive(Debug, Default)]
pub(super) struct CallPieces {
    first: Option<FirstCall>,
}

#[derive(Debug)]
struct FirstCall {
    /// The provider's index of the call.
    index: usize,
    id: String,
    name: String,
    /// The arguments so far, held back until they have content; `None` once the first piece was
    /// sent. If a call without content were sent and then cut off, it would look like a call
    /// without arguments.
    unsent: Option<String>,
}

impl CallPieces {
    /// Returns the piece to send for this part of a call, if any.
    pub(super) fn piece(
        &mut self,
        index: usize,
        id: Option<String>,
        name: Option<String>,
        arguments: &str,
    ) -> Option<Value> {
        let first = match &mut self.first {
            Some(first) if first.index != index => return None,
            Some(first) => first,
            first => {
                let (id, name) = id.zip(name)?;
                first.insert(FirstCall {
                    index,
                    id,
                    name,
                    unsent: Some(String::new()),
                })
            }
        };
        let Some(unsent) = &mut first.unsent else {
            return (!arguments.is_empty()).then(|| more(arguments));
        };
        unsent.push_str(arguments);
        if has_no_arguments(unsent) {
            return None;
        }
        let function = json!({"name": first.name, "arguments": unsent});
        first.unsent = None;
        Some(json!({"index": 0, "id": first.id, "type": "function", "function": function}))
    }

    /// Returns the pieces that were not sent yet, given all calls of the complete answer.
    pub(super) fn rest(&self, calls: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let mut begun = self.first.as_ref().filter(|first| first.unsent.is_none());
        let next = usize::from(begun.is_some());
        let (mut pieces, mut others) = (Vec::new(), Vec::new());
        for mut call in calls {
            // Some providers give two calls the same ID. The first call with the ID is the streamed
            // one.
            if begun.take_if(|first| call["id"] == first.id).is_some() {
                pieces.extend(unstreamed_fields(call));
            } else {
                call["index"] = json!(next + others.len());
                others.push(call);
            }
        }
        pieces.extend(others);
        pieces
    }
}

/// Returns the fields of the first call that were not streamed, if any.
fn unstreamed_fields(call: Value) -> Option<Value> {
    let Value::Object(mut piece) = call else {
        return None;
    };
    piece.retain(|name, _| !STREAMED_FIELDS.contains(&name.as_str()));
    let has_some = !piece.is_empty();
    piece.insert("index".to_owned(), json!(0));
    has_some.then_some(Value::Object(piece))
}

/// Returns whether the arguments have no content so far.
fn has_no_arguments(arguments: &str) -> bool {
    let mut words = arguments.chars().filter(|c| !c.is_whitespace());
    matches!(
        (words.next(), words.next(), words.next()),
        (None | Some('{'), None, _) | (Some('{'), Some('}'), None)
    )
}

/// Returns a piece with further arguments of the first call.
fn more(arguments: &str) -> Value {
    json!({"index": 0, "function": {"arguments": arguments}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn whole(id: &str, arguments: &str) -> Value {
        json!({"id": id, "type": "function", "function": {"name": "tool", "arguments": arguments}})
    }

    fn sent(index: u64, id: &str, arguments: &str) -> Value {
        json!({"index": index, "id": id, "type": "function",
            "function": {"name": "tool", "arguments": arguments}})
    }

    #[test]
    fn h6_interleaved_deltas_are_sent_one_call_after_the_other() {
        let mut calls = CallPieces::default();
        assert_eq!(calls.piece(3, text("a"), text("tool"), ""), None);
        assert_eq!(calls.piece(5, text("b"), text("tool"), "{\"x\""), None);
        assert_eq!(calls.piece(3, None, None, "{"), None);
        let first = calls.piece(3, None, None, "\"y\":");
        assert_eq!(first, Some(sent(0, "a", "{\"y\":")));
        assert_eq!(calls.piece(3, None, None, "2}"), Some(more("2}")));
        assert_eq!(calls.piece(3, None, None, ""), None);
        assert_eq!(calls.piece(5, None, None, ":1}"), None);
        let rest = calls.rest([whole("a", "{\"y\":2}"), whole("b", "{\"x\":1}")]);
        assert_eq!(rest, [sent(1, "b", "{\"x\":1}")]);
    }

    #[test]
    fn h6_two_calls_with_one_id_stay_separate() {
        let mut calls = CallPieces::default();
        let arguments = "{\"x\":1}";
        assert!(calls.piece(0, text("a"), text("tool"), arguments).is_some());
        assert_eq!(calls.piece(1, text("a"), text("tool"), arguments), None);
        let rest = calls.rest([whole("a", arguments), whole("a", arguments)]);
        assert_eq!(rest, [sent(1, "a", arguments)]);
    }

    #[test]
    fn h6_omitted_deltas_are_sent_at_the_end() {
        let mut calls = CallPieces::default();
        assert_eq!(calls.piece(0, None, text("tool"), "{}"), None);
        assert_eq!(calls.piece(1, text("b"), text("tool"), ""), None);
        assert_eq!(calls.piece(1, None, text("tool"), ""), None);
        let rest = calls.rest([whole("a", "{}"), whole("b", "{}")]);
        assert_eq!(rest, [sent(0, "a", "{}"), sent(1, "b", "{}")]);
        // A call of which no piece was streamed is sent at the end.
        let rest = CallPieces::default().rest([whole("c", "{\"x\":1}")]);
        assert_eq!(rest, [sent(0, "c", "{\"x\":1}")]);
    }

    #[test]
    fn h6_a_call_without_arguments_is_not_sent_if_the_stream_breaks_off() {
        for pieces in [&["", " ", "{"][..], &["{}"], &["{", "\n"]] {
            let mut calls = CallPieces::default();
            for piece in pieces {
                assert_eq!(calls.piece(0, text("a"), text("tool"), piece), None);
            }
            // If the answer was cut off within the arguments, the call is not sent.
            assert_eq!(calls.rest([]), Vec::<Value>::new());
            // If the arguments are complete, the whole call is sent.
            assert_eq!(calls.rest([whole("a", "{}")]), [sent(0, "a", "{}")]);
        }
    }

    #[test]
    fn h5_provider_data_is_sent_at_the_end() {
        let mut calls = CallPieces::default();
        let arguments = "{\"x\":1}";
        assert!(calls.piece(0, text("b"), text("tool"), arguments).is_some());
        let signed = |id: &str| {
            let mut call = whole(id, arguments);
            call["extra_content"] = json!({"google": {"thought_signature": id}});
            call
        };
        let rest = calls.rest([signed("a"), signed("b"), whole("c", arguments)]);
        let mut other = signed("a");
        other["index"] = json!(1);
        let first = json!({"index": 0, "extra_content": {"google": {"thought_signature": "b"}}});
        assert_eq!(rest, [first, other, sent(2, "c", arguments)]);
    }
}
