use pillion_core::tool::ToolCall;
use serde_json::{Value, json};

use super::answer;

/// The pieces of calls that have gone to the client. OpenAI's come one call after the other, and its
/// clients take a call for whole when a piece of another one comes. Other providers mix them, leave
/// something out, or send none: so the first call goes out as it comes, the others with the end.
#[derive(Debug, Default)]
pub(super) struct Calls {
    first: Option<First>,
}

#[derive(Debug)]
struct First {
    /// Which one it is to the provider.
    index: usize,
    id: String,
    has_arguments: bool,
}

impl Calls {
    /// What to send of a piece now, if anything.
    pub(super) fn piece(
        &mut self,
        index: usize,
        id: Option<String>,
        name: Option<String>,
        arguments: &str,
    ) -> Option<Value> {
        let has_arguments = !arguments.is_empty();
        let Some(first) = &mut self.first else {
            let (id, name) = id.zip(name)?;
            let function = json!({"name": name, "arguments": arguments});
            let piece = json!({"index": 0, "id": id, "type": "function", "function": function});
            self.first = Some(First {
                index,
                id,
                has_arguments,
            });
            return Some(piece);
        };
        if first.index != index || !has_arguments {
            return None;
        }
        first.has_arguments = true;
        Some(more(arguments))
    }

    /// What is missing of the calls of the whole answer.
    pub(super) fn rest(&self, calls: &[ToolCall]) -> Vec<Value> {
        let first = self.first.as_ref();
        // Some providers give two calls the same id: the first of those is the one that has begun.
        let place = first.and_then(|first| calls.iter().position(|call| call.id == first.id));
        let mut pieces = Vec::new();
        if let (Some(place), Some(false)) = (place, first.map(|first| first.has_arguments)) {
            pieces.push(more(&answer::arguments(&calls[place])));
        }
        let others = calls.iter().enumerate();
        let others = others.filter(|(other, _)| Some(*other) != place);
        let begun = usize::from(first.is_some());
        pieces.extend(others.enumerate().map(|(place, (_, call))| {
            let mut piece = answer::call(call);
            piece["index"] = json!(begun + place);
            piece
        }));
        pieces
    }
}

/// More of the first call's arguments.
fn more(arguments: &str) -> Value {
    json!({"index": 0, "function": {"arguments": arguments}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn whole(id: &str, arguments: Value) -> ToolCall {
        ToolCall::new(id, "tool", arguments)
    }

    fn sent(index: u64, id: &str, arguments: &str) -> Value {
        json!({"index": index, "id": id, "type": "function",
            "function": {"name": "tool", "arguments": arguments}})
    }

    #[test]
    fn h6_pieces_that_come_mixed_go_out_one_call_after_the_other() {
        let mut calls = Calls::default();
        let first = calls.piece(3, text("a"), text("tool"), "");
        assert_eq!(first, Some(sent(0, "a", "")));
        assert_eq!(calls.piece(5, text("b"), text("tool"), "{\"x\""), None);
        assert_eq!(calls.piece(3, None, None, "{}"), Some(more("{}")));
        assert_eq!(calls.piece(5, None, None, ":1}"), None);
        let rest = calls.rest(&[whole("a", json!("{}")), whole("b", json!("{\"x\":1}"))]);
        assert_eq!(rest, [sent(1, "b", "{\"x\":1}")]);
    }

    #[test]
    fn h6_two_calls_of_one_id_are_two() {
        let mut calls = Calls::default();
        assert!(calls.piece(0, text("a"), text("tool"), "{}").is_some());
        assert_eq!(calls.piece(1, text("a"), text("tool"), "{\"x\":1}"), None);
        let rest = calls.rest(&[whole("a", json!("{}")), whole("a", json!("{\"x\":1}"))]);
        assert_eq!(rest, [sent(1, "a", "{\"x\":1}")]);
    }

    #[test]
    fn h6_what_a_provider_leaves_out_comes_with_the_end() {
        let mut calls = Calls::default();
        assert_eq!(calls.piece(0, None, text("tool"), "{}"), None);
        assert!(calls.piece(1, text("b"), text("tool"), "").is_some());
        assert_eq!(calls.piece(1, None, text("tool"), ""), None);
        let rest = calls.rest(&[whole("a", json!("{}")), whole("b", Value::Null)]);
        assert_eq!(rest, [more("{}"), sent(1, "a", "{}")]);
        // One that was not in pieces at all.
        let rest = Calls::default().rest(&[whole("c", json!({"x": 1}))]);
        assert_eq!(rest, [sent(0, "c", "{\"x\":1}")]);
    }
}
