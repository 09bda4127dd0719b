//! Tolerates other values where MCP requires an object: `[]` is read as `{}`, and `null` as a
//! missing value. PHP encodes an empty map as `[]`, and many libraries write `null` for a missing
//! member.
//!
//! All other values stay unchanged, and so does everything within the arguments of a tool, whose
//! schema decides what `[]` means.

use pillion_mcp_client::CLIENT_CAPABILITIES;
use serde_json::Value;
use serde_json::value::RawValue;

use super::message::{Members, raw};

/// The key of the client's `Implementation` in `_meta` (MCP 2026-07-28).
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";

/// An object in a message, with the members that are objects as well.
struct ObjectShape {
    members: &'static [Member],
    /// The shape of every member that has no shape of its own, if each is an object.
    others: Option<&'static Self>,
}

struct Member {
    name: &'static str,
    shape: &'static ObjectShape,
    /// The name of a sibling member: only beside it is this member an object.
    sibling: Option<&'static str>,
}

const fn member(name: &'static str, shape: &'static ObjectShape) -> Member {
    Member {
        name,
        shape,
        sibling: None,
    }
}

static OBJECT: ObjectShape = ObjectShape {
    members: &[],
    others: None,
};

static OBJECTS: ObjectShape = ObjectShape {
    members: &[],
    others: Some(&OBJECT),
};

/// `ClientCapabilities`: every capability is an object. MCP's capabilities, and the named ones in
/// `experimental` and `extensions`, contain objects, too.
static CAPABILITIES: ObjectShape = ObjectShape {
    members: &[
        member("elicitation", &OBJECTS),
        member("experimental", &OBJECTS),
        member("extensions", &OBJECTS),
        member("sampling", &OBJECTS),
        member("tasks", &TASKS),
    ],
    others: Some(&OBJECT),
};

static TASKS: ObjectShape = ObjectShape {
    members: &[member("requests", &REQUESTS)],
    others: Some(&OBJECT),
};

static REQUESTS: ObjectShape = ObjectShape {
    members: &[],
    others: Some(&OBJECTS),
};

static META: ObjectShape = ObjectShape {
    members: &[
        member(CLIENT_CAPABILITIES, &CAPABILITIES),
        member(CLIENT_INFO, &OBJECT),
    ],
    others: None,
};

/// The parameters of all requests and notifications. No member name has two meanings.
static PARAMS: ObjectShape = ObjectShape {
    members: &[
        member("_meta", &META),
        member("argument", &OBJECT),
        member("arguments", &OBJECT),
        member("capabilities", &CAPABILITIES),
        member("clientInfo", &OBJECT),
        member("context", &COMPLETION_CONTEXT),
        member("inputResponses", &RESULTS),
        member("notifications", &OBJECT),
        member("ref", &OBJECT),
        member("task", &OBJECT),
    ],
    others: None,
};

static COMPLETION_CONTEXT: ObjectShape = ObjectShape {
    members: &[member("arguments", &OBJECT)],
    others: None,
};

static RESULTS: ObjectShape = ObjectShape {
    members: &[],
    others: Some(&RESULT),
};

/// The client's result of a request of the server. `content` is an object in the result of an
/// elicitation, which has an `action`, and may be a list in that of sampling.
static RESULT: ObjectShape = ObjectShape {
    members: &[
        member("_meta", &OBJECT),
        Member {
            name: "content",
            shape: &OBJECT,
            sibling: Some("action"),
        },
    ],
    others: None,
};

impl ObjectShape {
    fn member_shape(&self, name: &str, all: &Members) -> Option<&'static Self> {
        let mut known = self.members.iter();
        match known.find(|member| member.name == name) {
            Some(member) => {
                let is_there = member.sibling.is_none_or(|other| all.contains_key(other));
                is_there.then_some(member.shape)
            }
            None => self.others,
        }
    }

    fn has_objects(&self) -> bool {
        !self.members.is_empty() || self.others.is_some()
    }

    /// Returns the object that `text` is read as, or `None` if `text` needs no change.
    fn read(&self, text: &RawValue) -> Option<Box<RawValue>> {
        let text = text.get();
        if is_empty_list(text) {
            return RawValue::from_string("{}".to_owned()).ok();
        }
        // Most messages contain neither `[` nor `null`, and are not parsed here.
        if !self.has_objects() || !(text.contains('[') || text.contains("null")) {
            return None;
        }
        let mut members: Members = serde_json::from_str(text).ok()?;
        let is_changed = self.read_members(&mut members);
        is_changed.then(|| raw(&members).ok()).flatten()
    }

    /// Reads the members of an object. Returns whether a member has changed.
    fn read_members(&self, members: &mut Members) -> bool {
        let mut changes = Vec::new();
        for (name, value) in members.iter() {
            let Some(shape) = self.member_shape(name, members) else {
                continue;
            };
            if value.get() == "null" {
                changes.push((name.clone(), None));
            } else if let Some(read) = shape.read(value) {
                changes.push((name.clone(), Some(read)));
            }
        }
        let is_changed = !changes.is_empty();
        for (name, value) in changes {
            match value {
                Some(value) => drop(members.insert(name, value)),
                None => drop(members.shift_remove(&name)),
            }
        }
        is_changed
    }
}

/// Reads the parameters of a request or notification. Returns `None` for a value that is not an
/// object.
pub(super) fn read_params(params: &RawValue) -> Option<Members> {
    if params.get() == "null" || is_empty_list(params.get()) {
        return Some(Members::new());
    }
    let mut members = serde_json::from_str(params.get()).ok()?;
    PARAMS.read_members(&mut members);
    Some(members)
}

/// Reads the result of a request of the server.
///
/// # Errors
/// The result has a value that cannot be read, such as `1e999`.
pub(super) fn read_result(result: &RawValue) -> serde_json::Result<Value> {
    let read = RESULT.read(result);
    serde_json::from_str(read.as_deref().unwrap_or(result).get())
}

/// Returns whether the text of a JSON value is a list without items.
fn is_empty_list(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    inner.is_some_and(|inner| inner.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn read(params: &Value) -> Value {
        let mut members: Members = serde_json::from_value(params.clone()).unwrap();
        PARAMS.read_members(&mut members);
        serde_json::from_str(&serde_json::to_string(&members).unwrap()).unwrap()
    }

    /// Returns `value` as PHP writes it: each empty object for which `next` returns `true` is a list.
    fn written_by_php(value: &Value, next: &mut impl FnMut() -> bool) -> Value {
        match value {
            Value::Object(members) if members.is_empty() && next() => json!([]),
            Value::Object(members) => {
                let members = members.iter();
                let members =
                    members.map(|(name, value)| (name.clone(), written_by_php(value, next)));
                Value::Object(members.collect())
            }
            other => other.clone(),
        }
    }

    /// The members of messages that are objects, and lists and values that stay unchanged.
    fn params() -> impl Strategy<Value = Value> {
        let object = || prop_oneof![Just(json!({})), Just(json!({"listChanged": true}))];
        let named = |names: &'static [&'static str]| {
            let names = prop::sample::subsequence(names, 0..=names.len());
            (names, prop::collection::vec(object(), 2)).prop_map(|(names, values)| {
                let named = names.iter().map(|name| (*name).to_owned());
                Value::Object(named.zip(values).collect::<Map<_, _>>())
            })
        };
        let requests = (named(&["create"]), named(&["createMessage"])).prop_map(
            |(elicitation, sampling)| json!({"elicitation": elicitation, "sampling": sampling}),
        );
        let capabilities = (
            named(&["form", "url"]),
            named(&["context", "tools"]),
            named(&["io.example/a", "b"]),
            prop_oneof![
                Just(json!({})),
                requests.prop_map(|it| json!({"requests": it, "list": {}}))
            ],
            object(),
        )
            .prop_map(|(elicitation, sampling, experimental, tasks, roots)| {
                json!({"elicitation": elicitation, "sampling": sampling, "roots": roots,
                    "experimental": experimental, "extensions": experimental,
                    "tasks": tasks, "io.example/new": {}})
            });
        let capabilities = prop_oneof![Just(json!({})), capabilities].boxed();
        (capabilities.clone(), capabilities, named(&["a", "b"]), object(), object()).prop_map(
            |(meta_capabilities, own, arguments, info, content)| {
                json!({
                    "_meta": {
                        CLIENT_CAPABILITIES: meta_capabilities, CLIENT_INFO: info,
                        "progressToken": 1, "x": [],
                    },
                    "capabilities": own,
                    "clientInfo": info,
                    "context": {"arguments": content},
                    "ref": info, "argument": info, "task": info, "notifications": info,
                    "inputResponses": {
                        "a": {"action": "accept", "content": content, "_meta": info},
                        "b": {"role": "assistant", "content": []},
                    },
                    "name": "t", "list": [], "uri": null,
                    // `[]` within arguments stays a list.
                    "arguments": if arguments == json!({}) { json!({}) } else { json!({"list": []}) },
                })
            },
        )
    }

    proptest! {
        #[test]
        fn every_empty_object_of_a_message_may_be_written_as_a_list(
            params in params(),
            choices in prop::collection::vec(any::<bool>(), 64),
        ) {
            let mut choices = choices.into_iter().cycle();
            let written = written_by_php(&params, &mut || choices.next().unwrap_or(true));
            prop_assert_eq!(read(&written), params);
        }
    }
}
