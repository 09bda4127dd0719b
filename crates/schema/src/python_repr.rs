use serde_json::Value;

/// Formats `value` like Python's `repr`, the format of allowed values in error messages.
pub(super) fn python_repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(python_repr).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", quote(key), python_repr(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// Quotes a string by Python's rule: single quotes, unless the text contains single but no double
/// quotes.
fn quote(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push(quote);
    for character in text.chars() {
        match character {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c == quote => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if c.is_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push(quote);
    quoted
}

#[cfg(test)]
mod tests {
    use super::python_repr;
    use serde_json::json;

    #[test]
    fn c3_lists_are_formatted_like_in_python() {
        let list = json!(["full", "it's", 1, 2.5, true, null, {"a": "b\n"}]);
        assert_eq!(
            python_repr(&list),
            r#"['full', "it's", 1, 2.5, True, None, {'a': 'b\n'}]"#
        );
    }
}
