use serde_json::{Value, json};

/// The fields of a call that are streamed as pieces.
const STREAMED_FIELDS: [&str; 3] = ["id", "type", "function"];

/// Tracks the pieces of tool calls that were streamed to the client. OpenAI streams one call after
/// the other, and its clients treat a call as complete when a piece of another call arrives. Other
/// providers interleave calls, omit fields or send no pieces. Therefore only the first call is
/// streamed as its pieces arrive; all other calls are sent at the end.
#[derive(Debug, Default)]
pub(super) struct CallPieces {
    first_call: Option<FirstCall>,
}

#[derive(Debug)]
struct FirstCall {
    /// The provider's index of the call.
    index: usize,
    id: String,
    name: String,
    /// The arguments received so far, held back until they have content; `None` once the first
    /// piece was sent. If a call without content were sent and then cut off, the call would look
    /// like a call without arguments.
    unsent_arguments: Option<String>,
}

impl CallPieces {
    /// Returns the chunk to send to the client for a delta of a call from the provider, or `None`
    /// if nothing is to be sent.
    pub(super) fn next_piece(
        &mut self,
        index: usize,
        id: Option<String>,
        name: Option<String>,
        arguments: &str,
    ) -> Option<Value> {
        let first_call = match &mut self.first_call {
            Some(first_call) if first_call.index != index => return None,
            Some(first_call) => first_call,
            first_call => {
                let (id, name) = id.zip(name)?;
                first_call.insert(FirstCall {
                    index,
                    id,
                    name,
                    unsent_arguments: Some(String::new()),
                })
            }
        };
        let Some(unsent_arguments) = &mut first_call.unsent_arguments else {
            return (!arguments.is_empty()).then(|| arguments_piece(arguments));
        };
        unsent_arguments.push_str(arguments);
        if has_no_arguments(unsent_arguments) {
            return None;
        }
        let function = json!({"name": first_call.name, "arguments": unsent_arguments});
        first_call.unsent_arguments = None;
        Some(json!({"index": 0, "id": first_call.id, "type": "function", "function": function}))
    }

    /// Returns the pieces that were not sent yet, given all calls of the complete response.
    pub(super) fn remaining_pieces(&self, calls: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let mut streamed_call = self
            .first_call
            .as_ref()
            .filter(|call| call.unsent_arguments.is_none());
        let next_index = usize::from(streamed_call.is_some());
        let (mut pieces, mut other_calls) = (Vec::new(), Vec::new());
        for mut call in calls {
            // Some providers give two calls the same ID. The first call with the ID is the call
            // that was streamed.
            if streamed_call
                .take_if(|first_call| call["id"] == first_call.id)
                .is_some()
            {
                pieces.extend(unstreamed_fields(call));
            } else {
                call["index"] = json!(next_index + other_calls.len());
                other_calls.push(call);
            }
        }
        pieces.extend(other_calls);
        pieces
    }
}

/// Returns the fields of the first call that were not streamed, if any.
fn unstreamed_fields(call: Value) -> Option<Value> {
    let Value::Object(mut piece) = call else {
        return None;
    };
    piece.retain(|name, _| !STREAMED_FIELDS.contains(&name.as_str()));
    let has_unstreamed_fields = !piece.is_empty();
    piece.insert("index".to_owned(), json!(0));
    has_unstreamed_fields.then_some(Value::Object(piece))
}

/// Returns whether partially received arguments contain no argument yet: nothing, `{` or `{}`.
fn has_no_arguments(arguments: &str) -> bool {
    let mut characters = arguments.chars().filter(|c| !c.is_whitespace());
    matches!(
        (characters.next(), characters.next(), characters.next()),
        (None | Some('{'), None, _) | (Some('{'), Some('}'), None)
    )
}

/// Returns a piece with further arguments of the first call.
fn arguments_piece(arguments: &str) -> Value {
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
        assert_eq!(calls.next_piece(3, text("a"), text("tool"), ""), None);
        assert_eq!(calls.next_piece(5, text("b"), text("tool"), "{\"x\""), None);
        assert_eq!(calls.next_piece(3, None, None, "{"), None);
        let first = calls.next_piece(3, None, None, "\"y\":");
        assert_eq!(first, Some(sent(0, "a", "{\"y\":")));
        assert_eq!(
            calls.next_piece(3, None, None, "2}"),
            Some(arguments_piece("2}"))
        );
        assert_eq!(calls.next_piece(3, None, None, ""), None);
        assert_eq!(calls.next_piece(5, None, None, ":1}"), None);
        let rest = calls.remaining_pieces([whole("a", "{\"y\":2}"), whole("b", "{\"x\":1}")]);
        assert_eq!(rest, [sent(1, "b", "{\"x\":1}")]);
    }

    #[test]
    fn h6_two_calls_with_one_id_stay_separate() {
        let mut calls = CallPieces::default();
        let arguments = "{\"x\":1}";
        assert!(
            calls
                .next_piece(0, text("a"), text("tool"), arguments)
                .is_some()
        );
        assert_eq!(
            calls.next_piece(1, text("a"), text("tool"), arguments),
            None
        );
        let rest = calls.remaining_pieces([whole("a", arguments), whole("a", arguments)]);
        assert_eq!(rest, [sent(1, "a", arguments)]);
    }

    #[test]
    fn h6_omitted_deltas_are_sent_at_the_end() {
        let mut calls = CallPieces::default();
        assert_eq!(calls.next_piece(0, None, text("tool"), "{}"), None);
        assert_eq!(calls.next_piece(1, text("b"), text("tool"), ""), None);
        assert_eq!(calls.next_piece(1, None, text("tool"), ""), None);
        let rest = calls.remaining_pieces([whole("a", "{}"), whole("b", "{}")]);
        assert_eq!(rest, [sent(0, "a", "{}"), sent(1, "b", "{}")]);
        // A call of which no piece was streamed is sent at the end.
        let rest = CallPieces::default().remaining_pieces([whole("c", "{\"x\":1}")]);
        assert_eq!(rest, [sent(0, "c", "{\"x\":1}")]);
    }

    #[test]
    fn h6_a_call_without_arguments_is_not_sent_if_the_stream_breaks_off() {
        for pieces in [&["", " ", "{"][..], &["{}"], &["{", "\n"]] {
            let mut calls = CallPieces::default();
            for piece in pieces {
                assert_eq!(calls.next_piece(0, text("a"), text("tool"), piece), None);
            }
            // If the answer was cut off within the arguments, the call is not sent.
            assert_eq!(calls.remaining_pieces([]), Vec::<Value>::new());
            // If the arguments are complete, the whole call is sent.
            assert_eq!(
                calls.remaining_pieces([whole("a", "{}")]),
                [sent(0, "a", "{}")]
            );
        }
    }

    #[test]
    fn h5_provider_data_is_sent_at_the_end() {
        let mut calls = CallPieces::default();
        let arguments = "{\"x\":1}";
        assert!(
            calls
                .next_piece(0, text("b"), text("tool"), arguments)
                .is_some()
        );
        let signed = |id: &str| {
            let mut call = whole(id, arguments);
            call["extra_content"] = json!({"google": {"thought_signature": id}});
            call
        };
        let rest = calls.remaining_pieces([signed("a"), signed("b"), whole("c", arguments)]);
        let mut other = signed("a");
        other["index"] = json!(1);
        let first = json!({"index": 0, "extra_content": {"google": {"thought_signature": "b"}}});
        assert_eq!(rest, [first, other, sent(2, "c", arguments)]);
    }
}
