use pillion_wire::PinChange;
use serde_json::Value;

/// Maximum length of a path whose members are compared, in bytes. The length is limited, because
/// each difference repeats its path, and a name may be long.
const MAX_PATH_BYTES: usize = 1_000;

/// Returns the differences between two definitions, by path.
pub fn find_differences(old: &str, new: &str) -> Vec<PinChange> {
    let parse = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
    let mut changes = Vec::new();
    compare("", Some(&parse(old)), Some(&parse(new)), &mut changes);
    changes
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, changes: &mut Vec<PinChange>) {
    if old == new {
        return;
    }
    if let (Some(Value::Object(old_members)), Some(Value::Object(new_members))) = (old, new)
        && path.len() <= MAX_PATH_BYTES
    {
        let added_keys = new_members
            .keys()
            .filter(|key| !old_members.contains_key(*key));
        for key in old_members.keys().chain(added_keys) {
            let member_path = match path {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            let (old, new) = (old_members.get(key), new_members.get(key));
            compare(&member_path, old, new, changes);
        }
        return;
    }
    changes.push(PinChange {
        path: path.to_owned(),
        before: old.cloned(),
        after: new.cloned(),
    });
}
#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_difference_is_named() {
        let before = json!({"description": "a", "inputSchema": {"type": "object", "gone": 1}});
        let after = json!({"description": "b", "inputSchema": {"type": "object", "new": [2]}});
        let changes = find_differences(&before.to_string(), &after.to_string());
        let found: Vec<_> = changes
            .iter()
            .map(|change| (change.path.as_str(), &change.before, &change.after))
            .collect();
        assert_eq!(
            found,
            [
                ("description", &Some(json!("a")), &Some(json!("b"))),
                ("inputSchema.gone", &Some(json!(1)), &None),
                ("inputSchema.new", &None, &Some(json!([2]))),
            ]
        );
        assert!(find_differences("{}", "{}").is_empty());
        let name = "n".repeat(500_000);
        let many = |value: u32| {
            let members = (0..5_000).map(|nth| (nth.to_string(), json!(value)));
            json!({(name.clone()): Value::Object(members.collect())}).to_string()
        };
        assert_eq!(find_differences(&many(1), &many(2)).len(), 1);
    }
}
