//! Conversion of simple PHPStan types in doc comments to JSON Schema.

use serde_json::{Map, Value, json};

/// Maximum nesting depth of types.
const MAX_DEPTH: usize = 16;

/// Returns the JSON Schema of a type; `None` if the type is not supported.
pub(super) fn schema_of(text: &str) -> Option<Value> {
    let mut parser = DocTypeParser {
        rest: text,
        depth: 0,
    };
    let schema = parser.union()?;
    parser.skip_space();
    parser.rest.is_empty().then_some(schema)
}

/// Returns the JSON Schema of a union of types. Schemas that differ only in `type` are merged, and
/// so are lists of values.
pub(super) fn one_of(mut schemas: Vec<Value>) -> Value {
    schemas.dedup();
    if schemas.len() == 1 {
        return schemas.swap_remove(0);
    }
    let plain = |schema: &Value| match schema.as_object() {
        Some(keys) if keys.len() == 1 => keys.get("type").and_then(Value::as_str).map(Value::from),
        _ => None,
    };
    let types: Option<Vec<_>> = schemas.iter().map(plain).collect();
    if let Some(types) = types {
        return json!({ "type": types });
    }
    let values = |schema: &Value| Some((schema.get("type")?.clone(), schema.get("enum")?.clone()));
    let listed: Option<Vec<_>> = schemas.iter().map(values).collect();
    match listed {
        Some(listed) if listed.iter().all(|(kind, _)| *kind == listed[0].0) => {
            let values: Vec<_> = listed
                .iter()
                .filter_map(|(_, values)| values.as_array())
                .flatten()
                .collect();
            json!({"type": listed[0].0, "enum": values})
        }
        _ => json!({ "anyOf": schemas }),
    }
}

struct DocTypeParser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> DocTypeParser<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn parse_word(&mut self) -> &'a str {
        self.skip_space();
        let of_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '\\');
        let end = self.rest.find(|letter| !of_word(letter));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn union(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut schemas = vec![self.suffixed()?];
        while self.take("|") {
            schemas.push(self.suffixed()?);
        }
        self.depth -= 1;
        Some(one_of(schemas))
    }

    /// Parses a type with its prefix or suffix: `T`, `?T` or `T[]`.
    fn suffixed(&mut self) -> Option<Value> {
        if self.take("?") {
            let schema = self.suffixed()?;
            return Some(one_of(vec![schema, json!({"type": "null"})]));
        }
        let mut schema = if self.take("(") {
            let schema = self.union()?;
            self.take(")").then_some(schema)?
        } else {
            self.single()?
        };
        while self.take("[]") {
            schema = list_of(Some(schema));
        }
        Some(schema)
    }

    fn single(&mut self) -> Option<Value> {
        self.skip_space();
        if let Some(quote @ ('\'' | '"')) = self.rest.chars().next() {
            return self.text_literal(quote);
        }
        let word = self.parse_word();
        let plain = |kind: &str| Some(json!({ "type": kind }));
        match word.to_ascii_lowercase().as_str() {
            "int" | "integer" if self.take("<") => self.range(),
            "int" | "integer" => plain("integer"),
            "positive-int" => Some(json!({"type": "integer", "minimum": 1})),
            "negative-int" => Some(json!({"type": "integer", "maximum": -1})),
            "non-negative-int" => Some(json!({"type": "integer", "minimum": 0})),
            "non-positive-int" => Some(json!({"type": "integer", "maximum": 0})),
            "float" | "double" => plain("number"),
            "string" | "class-string" | "numeric-string" => plain("string"),
            "non-empty-string" | "non-falsy-string" => {
                Some(json!({"type": "string", "minLength": 1}))
            }
            "bool" | "boolean" | "true" | "false" => plain("boolean"),
            "scalar" => Some(json!({"type": ["string", "number", "boolean"]})),
            "mixed" => Some(any_schema()),
            "null" => plain("null"),
            "list" => self.list(false),
            "non-empty-list" => self.list(true),
            "array" | "iterable" => self.array(false),
            "non-empty-array" => self.array(true),
            "object" if self.take("{") => self.parse_shape(),
            _ => number_literal(word, self),
        }
    }

    fn text_literal(&mut self, quote: char) -> Option<Value> {
        let inner = self.rest.strip_prefix(quote)?;
        let (text, rest) = inner.split_once(quote)?;
        self.rest = rest;
        // A literal with an escape sequence is not supported, because its meaning depends on the
        // quotes.
        (!text.contains('\\')).then(|| json!({"type": "string", "enum": [text]}))
    }

    /// Parses the rest of a type such as `int<min, max>`.
    fn range(&mut self) -> Option<Value> {
        let mut schema = json!({"type": "integer"});
        for (keyword, open, end) in [("minimum", "min", ","), ("maximum", "max", ">")] {
            let bound = self.parse_word();
            if bound != open {
                schema[keyword] = bound.parse::<i64>().ok()?.into();
            }
            self.take(end).then_some(())?;
        }
        Some(schema)
    }

    fn list(&mut self, not_empty: bool) -> Option<Value> {
        let item = if self.take("<") {
            let item = self.union()?;
            self.take(">").then_some(Some(item))?
        } else {
            None
        };
        let mut schema = list_of(item);
        if not_empty {
            schema["minItems"] = 1.into();
        }
        Some(schema)
    }

    fn array(&mut self, not_empty: bool) -> Option<Value> {
        if self.take("{") {
            return self.parse_shape();
        }
        let (list, map) = if not_empty {
            ("minItems", "minProperties")
        } else {
            ("", "")
        };
        let bounded = |mut schema: Value, keyword: &str| {
            if !keyword.is_empty() {
                schema[keyword] = 1.into();
            }
            schema
        };
        if !self.take("<") {
            return Some(bounded(json!({"type": "array"}), list));
        }
        let first = self.union()?;
        if self.take(">") {
            return Some(bounded(list_of(Some(first)), list));
        }
        self.take(",").then_some(())?;
        let value = self.union()?;
        self.take(">").then_some(())?;
        Some(match first.get("type").and_then(Value::as_str) {
            Some("string") => {
                let map_of = json!({"type": "object", "additionalProperties": value});
                bounded(map_of, map)
            }
            _ => bounded(list_of(Some(value)), list),
        })
    }

    /// Parses the rest of a type such as `array{a: int, b?: string, ...}`.
    fn parse_shape(&mut self) -> Option<Value> {
        let mut properties = Map::new();
        let mut required = Vec::new();
        while !self.take("}") {
            if self.take("...") {
                self.take("}").then_some(())?;
                break;
            }
            let quote = ['\'', '"'].into_iter().find(|quote| {
                self.skip_space();
                self.rest.starts_with(*quote)
            });
            let key = match quote {
                Some(quote) => self.text_literal(quote)?["enum"][0].as_str()?.to_owned(),
                None => self.parse_word().to_owned(),
            };
            if key.is_empty() {
                return None;
            }
            if !self.take("?") {
                required.push(Value::from(key.as_str()));
            }
            self.take(":").then_some(())?;
            properties.insert(key, self.union()?);
            if !self.take(",") {
                self.take("}").then_some(())?;
                break;
            }
        }
        // A shape without keys matches any value.
        (!properties.is_empty())
            .then(|| json!({"type": "object", "properties": properties, "required": required}))
    }
}

/// Returns a JSON Schema for any value. An empty schema would be lost in the conversion to a PHP
/// array.
pub(super) fn any_schema() -> Value {
    json!({"type": ["string", "number", "boolean", "object", "array", "null"]})
}

fn number_literal(word: &str, parser: &mut DocTypeParser<'_>) -> Option<Value> {
    let whole: i64 = word.parse().ok()?;
    if parser.rest.starts_with('.') {
        return None;
    }
    Some(json!({"type": "integer", "enum": [whole]}))
}

fn list_of(item: Option<Value>) -> Value {
    let mut schema = json!({"type": "array"});
    if let Some(item) = item {
        schema["items"] = item;
    }
    schema
}
