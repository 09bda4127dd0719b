//! A call as a command and as code, to copy.

use std::path::Path;

use maud::{Markup, html};
use pillion_core::tool::JsonObject;
use pillion_gateway::pins::visible_json;
use pillion_wire::USER_HEADER;
use pillion_wire::route::EXECUTE_TOOL;
use serde_json::Value;

use crate::quote::{has_hidden_characters, quote_php, quote_shell};
use crate::ui::copyable;

/// Maximum size of the arguments that are shown as code, as JSON, in bytes.
const MAX_ARGUMENT_BYTES: usize = 8 * 1024;

/// Maximum size of a call as PHP, in bytes. The indentation of deeply nested arguments is much
/// longer than the arguments.
const MAX_PHP_BYTES: usize = 16 * 1024;

/// A call that is shown as code.
pub(super) struct Snippets<'a> {
    /// The path of the sidecar's Unix socket.
    pub(super) socket: &'a Path,
    pub(super) tool: &'a str,
    /// The arguments, without secrets.
    pub(super) arguments: &'a JsonObject,
    pub(super) user: Option<&'a str>,
}

impl Snippets<'_> {
    pub(super) fn render(&self) -> Markup {
        let json = visible_json(&Value::Object(self.arguments.clone()).to_string());
        let php = if json.len() > MAX_ARGUMENT_BYTES {
            None
        } else {
            Some(self.php()).filter(|php| php.len() <= MAX_PHP_BYTES)
        };
        let Some(php) = php else {
            return html! { p .muted { "The arguments are too long to be shown as code." } };
        };
        html! {
            p .muted.small { "Secret values are replaced: fill them in before you use the code." }
            @match self.user.filter(|user| has_hidden_characters(user)) {
                // In a shell, such characters cannot be written visibly.
                Some(_) => p .muted { "The name of the user has hidden characters, so there are no commands for a shell." },
                None => {
                    h3 { "curl" }
                    (copyable("snippet-curl", &self.curl(&json)))
                    h3 { "Command line" }
                    (copyable("snippet-cli", &self.command_line(&json)))
                }
            }
            h3 { "PHP" }
            (copyable("snippet-php", &php))
        }
    }

    fn curl(&self, json: &str) -> String {
        let path = EXECUTE_TOOL.path_with([self.tool]);
        let socket = quote_shell(&self.socket.to_string_lossy());
        let url = quote_shell(&format!("http://pillion{path}"));
        let mut command = format!("curl --unix-socket {socket} {url} \\\n");
        if let Some(user) = self.user {
            let header = quote_shell(&format!("{USER_HEADER}: {user}"));
            command += &format!("  -H {header} \\\n");
        }
        command + &format!("  -d {}", quote_shell(json))
    }

    fn command_line(&self, json: &str) -> String {
        let (tool, json) = (quote_shell(self.tool), quote_shell(json));
        let mut command = format!("pillion tools call {tool} {json}");
        if let Some(user) = self.user {
            command += &format!(" --user={}", quote_shell(user));
        }
        let socket = quote_shell(&self.socket.to_string_lossy());
        format!("{command} --socket {socket}")
    }

    fn php(&self) -> String {
        let socket = quote_php(&self.socket.to_string_lossy());
        let tool = quote_php(self.tool);
        let arguments = php_array(self.arguments, 0);
        let context = match self.user {
            Some(user) => format!(", ['user' => {}]", quote_php(user)),
            None => String::new(),
        };
        format!(
            "use Pillion\\Sidecar;\n\n$sidecar = new Sidecar({socket});\n\
             $result = $sidecar->callTool({tool}, {arguments}{context});"
        )
    }
}

/// Returns an array literal of PHP with the members of an object. `depth` is the depth of the
/// object in the arguments.
fn php_array(members: &JsonObject, depth: usize) -> String {
    let entries = members
        .iter()
        .map(|(name, value)| format!("{} => {}", quote_php(name), php_value(value, depth + 1)));
    php_list(entries, depth)
}

fn php_value(value: &Value, depth: usize) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(is_true) => is_true.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quote_php(text),
        Value::Array(items) => php_list(items.iter().map(|item| php_value(item, depth + 1)), depth),
        // PHP would convert an empty array, and an array whose keys are numbers, to a JSON array.
        Value::Object(members) if members.keys().all(|name| name.parse::<i64>().is_ok()) => {
            format!("(object) {}", php_array(members, depth))
        }
        Value::Object(members) => php_array(members, depth),
    }
}

/// Returns an array literal, on one line if it is short.
fn php_list(entries: impl Iterator<Item = String>, depth: usize) -> String {
    const MAX_LINE_CHARS: usize = 80;
    let entries: Vec<_> = entries.collect();
    let line = entries.join(", ");
    if line.len() <= MAX_LINE_CHARS && !line.contains('\n') {
        return format!("[{line}]");
    }
    let indent = "    ".repeat(depth);
    let lines = entries
        .iter()
        .map(|entry| format!("{indent}    {entry},\n"));
    format!("[\n{}{indent}]", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snippets<'a>(arguments: &'a JsonObject, user: Option<&'a str>) -> Snippets<'a> {
        Snippets {
            socket: Path::new("/run/pillion/pillion.sock"),
            tool: "calculator",
            arguments,
            user,
        }
    }

    fn object(value: &Value) -> JsonObject {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        let arguments = object(&json!({"expression": "it's $HOME `x` \"y\"\n\\ ü\u{202e}"}));
        let json = visible_json(&Value::Object(arguments.clone()).to_string());
        let snippets = snippets(&arguments, Some("o'hara"));
        let quoted_json = r#"'{"expression":"it'\''s $HOME `x` \"y\"\n\\ ü\u202e"}'"#;
        let curl = format!(
            "curl --unix-socket /run/pillion/pillion.sock http://pillion/api/v1/tools/execute/calculator \\\n  \
             -H 'x-pillion-user: o'\\''hara' \\\n  -d {quoted_json}"
        );
        assert_eq!(snippets.curl(&json), curl);
        let command_line = format!(
            "pillion tools call calculator {quoted_json} --user='o'\\''hara' \
             --socket /run/pillion/pillion.sock"
        );
        assert_eq!(snippets.command_line(&json), command_line);
    }

    #[test]
    fn arguments_are_quoted_for_php() {
        let arguments = object(&json!({
            "text": "it's $x \\ ü", "hidden": "$a\n\"\u{202e}", "list": [1, -2.5, null, true],
            "empty": {}, "numbered": {"0": "a"}, "nested": {"a'b": []},
        }));
        let expected = [
            ("text", r"'it\'s $x \\ ü'"),
            ("hidden", r#""\$a\n\"\u{202e}""#),
            ("list", "[1, -2.5, null, true]"),
            ("empty", "(object) []"),
            ("numbered", "(object) ['0' => 'a']"),
            ("nested", r"['a\'b' => []]"),
        ];
        for (name, literal) in expected {
            assert_eq!(php_value(&arguments[name], 1), literal, "{name}");
        }
        let php = snippets(&object(&json!({"a": 1})), Some("ada")).php();
        let call = "$result = $sidecar->callTool('calculator', ['a' => 1], ['user' => 'ada']);";
        assert!(php.ends_with(call), "{php}");
        assert!(php.starts_with("use Pillion\\Sidecar;\n"), "{php}");
    }

    #[test]
    fn deeply_nested_arguments_give_no_long_code() {
        let mut nested = json!(vec![0; 3_000]);
        for _ in 0..100 {
            nested = json!([nested]);
        }
        let arguments = object(&json!({"a": nested}));
        let page = snippets(&arguments, None).render().into_string();
        assert!(page.contains("too long"), "{}", page.len());
    }

    #[test]
    fn a_user_with_hidden_characters_gets_no_shell_commands() {
        let arguments = JsonObject::new();
        let page = snippets(&arguments, Some("ada\u{200b}\n"))
            .render()
            .into_string();
        assert!(
            !page.contains("snippet-curl") && !page.contains('\u{200b}'),
            "{page}"
        );
        assert!(page.contains(r"\u{200b}\n"), "{page}");
    }

    #[test]
    fn a_long_array_has_one_entry_per_line() {
        let arguments = object(&json!({"text": "x".repeat(90), "flag": true}));
        let literal = php_array(&arguments, 0);
        assert!(
            literal.starts_with("[\n    '") && literal.ends_with(",\n]"),
            "{literal}"
        );
    }
}
