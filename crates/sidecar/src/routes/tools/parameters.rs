use pillion_wire::Parameter;
use serde_json::Value;

/// Returns the parameters that tool lists show, from the input schema.
pub(super) fn from_schema(schema: &Value) -> Vec<Parameter> {
    let Some(properties) = schema["properties"].as_object() else {
        return Vec::new();
    };
    let required_names = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let is_required = |name: &str| {
        required_names
            .iter()
            .any(|required_name| required_name == name)
    };
    properties
        .iter()
        .map(|(name, property)| Parameter {
            name: name.clone(),
            kind: read_type_name(property),
            description: property["description"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            required: is_required(name),
            default: property["default"].clone(),
            allowed: property["enum"].as_array().cloned().unwrap_or_default(),
        })
        .collect()
}

/// Returns the type name in capitals; of several types, the first that is not `null`.
fn read_type_name(property: &Value) -> String {
    let kind = match &property["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null"),
        kind => Some(kind),
    };
    let name = kind.and_then(Value::as_str).unwrap_or("any");
    name.to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn i1_parameters_are_derived_from_any_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "expression": {"type": "string", "description": "What to compute"},
                "limit": {"type": ["null", "integer"], "default": 0},
                "mode": {"enum": ["a", 1]},
                "odd": true,
            },
            "required": ["expression"],
        });
        let parameters = serde_json::to_value(from_schema(&schema)).unwrap();
        assert_eq!(
            parameters,
            json!([
                {"name": "expression", "type": "STRING", "description": "What to compute", "required": true, "default": null},
                {"name": "limit", "type": "INTEGER", "description": "", "required": false, "default": 0},
                {"name": "mode", "type": "ANY", "description": "", "required": false, "default": null, "enum": ["a", 1]},
                {"name": "odd", "type": "ANY", "description": "", "required": false, "default": null},
            ])
        );
        assert!(from_schema(&json!({"type": "object"})).is_empty());
        assert!(from_schema(&json!(true)).is_empty());
    }
}
