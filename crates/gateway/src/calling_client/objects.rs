//! Accepts `[]` and `null` where MCP requires an object: `[]` is read as `{}`, and `null` as a
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
const CLIENT_INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";

/// The shape of an object in a message: which of its members must be objects as well.
struct ObjectShape {
    members: &'static [ObjectMember],
    /// The shape of the members that are not in `members`; `None` if they need not be objects.
    others: Option<&'static Self>,
}

struct ObjectMember {
    name: &'static str,
    shape: &'static ObjectShape,
    /// If set, the member must be an object only if its parent object also has a member with this
    /// name.
    sibling: Option<&'static str>,
}

const fn member(name: &'static str, shape: &'static ObjectShape) -> ObjectMember {
    ObjectMember {
        name,
        shape,
        sibling: None,
    }
}

static OBJECT_SHAPE: ObjectShape = ObjectShape::new(&[], None);

static OBJECT_MAP_SHAPE: ObjectShape = ObjectShape::new(&[], Some(&OBJECT_SHAPE));

/// `ClientCapabilities`: every capability is an object. The members of `elicitation`, `sampling`
/// and `tasks`, and the capabilities in `experimental` and `extensions`, are objects as well.
static CAPABILITIES_SHAPE: ObjectShape = ObjectShape {
    members: &[
        member("elicitation", &OBJECT_MAP_SHAPE),
        member("experimental", &OBJECT_MAP_SHAPE),
        member("extensions", &OBJECT_MAP_SHAPE),
        member("sampling", &OBJECT_MAP_SHAPE),
        member("tasks", &TASKS_SHAPE),
    ],
    others: Some(&OBJECT_SHAPE),
};

static TASKS_SHAPE: ObjectShape = ObjectShape {
    members: &[member("requests", &TASK_REQUESTS_SHAPE)],
    others: Some(&OBJECT_SHAPE),
};

static TASK_REQUESTS_SHAPE: ObjectShape = ObjectShape::new(&[], Some(&OBJECT_MAP_SHAPE));

static META_SHAPE: ObjectShape = ObjectShape {
    members: &[
        member(CLIENT_CAPABILITIES, &CAPABILITIES_SHAPE),
        member(CLIENT_INFO_KEY, &OBJECT_SHAPE),
    ],
    others: None,
};

/// The parameters of all requests and notifications. One shape fits all methods, because no two
/// methods use one member name differently.
static PARAMS_SHAPE: ObjectShape = ObjectShape {
    members: &[
        member("_meta", &META_SHAPE),
        member("argument", &OBJECT_SHAPE),
        member("arguments", &OBJECT_SHAPE),
        member("capabilities", &CAPABILITIES_SHAPE),
        member("clientInfo", &OBJECT_SHAPE),
        member("context", &COMPLETION_CONTEXT_SHAPE),
        member("inputResponses", &RESULT_MAP_SHAPE),
        member("notifications", &OBJECT_SHAPE),
        member("ref", &OBJECT_SHAPE),
        member("task", &OBJECT_SHAPE),
    ],
    others: None,
};

static COMPLETION_CONTEXT_SHAPE: ObjectShape =
    ObjectShape::new(&[member("arguments", &OBJECT_SHAPE)], None);

static RESULT_MAP_SHAPE: ObjectShape = ObjectShape::new(&[], Some(&RESULT_SHAPE));

/// The shape of the client's result for a request of the sidecar. `content` is an object in the
/// result of an elicitation, which also has the member `action`. In the result of sampling,
/// `content` may be a list.
static RESULT_SHAPE: ObjectShape = ObjectShape {
    members: &[
        member("_meta", &OBJECT_SHAPE),
        ObjectMember {
            name: "content",
            shape: &OBJECT_SHAPE,
            sibling: Some("action"),
        },
    ],
    others: None,
};

impl ObjectShape {
    const fn new(members: &'static [ObjectMember], others: Option<&'static Self>) -> Self {
        Self { members, others }
    }

    fn member_shape(&self, name: &str, siblings: &Members) -> Option<&'static Self> {
        let mut members = self.members.iter();
        match members.find(|member| member.name == name) {
            Some(member) => {
                let has_sibling = member
                    .sibling
                    .is_none_or(|name| siblings.contains_key(name));
                has_sibling.then_some(member.shape)
            }
            None => self.others,
        }
    }

    fn has_objects(&self) -> bool {
        !self.members.is_empty() || self.others.is_some()
    }

    /// Returns the JSON text with `{}` in place of `[]` and without `null` where this shape
    /// requires an object; `None` if `text` needs no change.
    fn normalize(&self, text: &RawValue) -> Option<Box<RawValue>> {
        let text = text.get();
        if is_empty_list(text) {
            return RawValue::from_string("{}".to_owned()).ok();
        }
        // The text is searched first, because most messages contain neither `[` nor `null` and need
        // not be parsed here.
        if !self.has_objects() || !(text.contains('[') || text.contains("null")) {
            return None;
        }
        let mut members: Members = serde_json::from_str(text).ok()?;
        let is_changed = self.normalize_members(&mut members);
        is_changed.then(|| raw(&members).ok()).flatten()
    }

    /// Normalizes the members of an object. Returns whether a member has changed.
    fn normalize_members(&self, members: &mut Members) -> bool {
        let mut changes = Vec::new();
        for (name, value) in members.iter() {
            let Some(shape) = self.member_shape(name, members) else {
                continue;
            };
            if value.get() == "null" {
                changes.push((name.clone(), None));
            } else if let Some(replacement) = shape.normalize(value) {
                changes.push((name.clone(), Some(replacement)));
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
    PARAMS_SHAPE.normalize_members(&mut members);
    Some(members)
}

/// Reads the client's result for a request of the sidecar.
///
/// # Errors
/// The result has a value that cannot be read, such as `1e999`.
pub(super) fn read_result(result: &RawValue) -> serde_json::Result<Value> {
    let normalized = RESULT_SHAPE.normalize(result);
    serde_json::from_str(normalized.as_deref().unwrap_or(result).get())
}

/// Returns whether the text of a JSON value is a list without items.
fn is_empty_list(text: &str) -> bool {
    text.strip_prefix('[')
        .is_some_and(|rest| rest.trim_start() == "]")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn read(params: &Value) -> Value {
        let mut members: Members = serde_json::from_value(params.clone()).unwrap();
        PARAMS_SHAPE.normalize_members(&mut members);
        serde_json::from_str(&serde_json::to_string(&members).unwrap()).unwrap()
    }

    /// Returns `value` as PHP writes it: each empty object for which `next` returns `true` is a
    /// list.
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
                        CLIENT_CAPABILITIES: meta_capabilities, CLIENT_INFO_KEY: info,
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
