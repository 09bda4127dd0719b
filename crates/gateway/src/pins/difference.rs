use pillion_wire::PinChange;
use serde_json::Value;

/// Maximum length of a path whose members are compared, in bytes. Each difference has its own path,
/// and a name may be long.
const MAX_PATH_BYTES: usize = 1_000;

/// Returns the differences between two definitions, by path.
pub fn between(before: &str, after: &str) -> Vec<PinChange> {
    let parse = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
    let mut changes = Vec::new();
    compare("", Some(&parse(before)), Some(&parse(after)), &mut changes);
    changes
}

fn compare(
    path: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<PinChange>,
) {
    if before == after {
        return;
    }
    if let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, after)
        && path.len() <= MAX_PATH_BYTES
    {
        let fresh = new.keys().filter(|key| !old.contains_key(*key));
        for key in old.keys().chain(fresh) {
            let path = match path {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            compare(&path, old.get(key), new.get(key), changes);
        }
        return;
    }
    changes.push(PinChange {
        path: path.to_owned(),
        before: before.cloned(),
        after: after.cloned(),
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
        let changes = between(&before.to_string(), &after.to_string());
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
        assert!(between("{}", "{}").is_empty());
        let name = "n".repeat(500_000);
        let many = |value: u32| {
            let members: serde_json::Map<_, _> = (0..5_000)
                .map(|nth| (nth.to_string(), json!(value)))
                .collect();
            json!({(name.clone()): members}).to_string()
        };
        assert_eq!(between(&many(1), &many(2)).len(), 1);
    }
}
