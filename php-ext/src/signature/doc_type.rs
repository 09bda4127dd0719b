//! Conversion of simple PHPStan types in doc comments to JSON Schema.

use serde_json::{Map, Value, json};

/// Maximum nesting depth of types.
const MAX_DEPTH: usize = 16;

/// Returns the JSON Schema of a type; `None` if the type is not supported.
pub(super) fn parse_schema(text: &str) -> Option<Value> {
    let mut parser = DocTypeParser {
        unparsed_text: text,
        depth: 0,
    };
    let schema = parser.parse_union()?;
    parser.skip_space();
    parser.unparsed_text.is_empty().then_some(schema)
}

/// Returns the JSON Schema of a union of types. Schemas that differ only in `type` are merged, and
/// so are lists of values.
pub(super) fn create_union_schema(mut schemas: Vec<Value>) -> Value {
    schemas.dedup();
    if schemas.len() == 1 {
        return schemas.swap_remove(0);
    }
    let plain_type = |schema: &Value| match schema.as_object() {
        Some(keys) if keys.len() == 1 => keys.get("type").and_then(Value::as_str).map(Value::from),
        _ => None,
    };
    let types: Option<Vec<_>> = schemas.iter().map(plain_type).collect();
    if let Some(types) = types {
        return json!({ "type": types });
    }
    let type_and_values =
        |schema: &Value| Some((schema.get("type")?.clone(), schema.get("enum")?.clone()));
    let enums: Option<Vec<_>> = schemas.iter().map(type_and_values).collect();
    match enums {
        Some(enums) if enums.iter().all(|(kind, _)| *kind == enums[0].0) => {
            let values: Vec<_> = enums
                .iter()
                .filter_map(|(_, values)| values.as_array())
                .flatten()
                .collect();
            json!({"type": enums[0].0, "enum": values})
        }
        _ => json!({ "anyOf": schemas }),
    }
}

struct DocTypeParser<'a> {
    unparsed_text: &'a str,
    depth: usize,
}

impl<'a> DocTypeParser<'a> {
    fn skip_space(&mut self) {
        self.unparsed_text = self.unparsed_text.trim_start();
    }

    fn take_token(&mut self, token: &str) -> bool {
        self.skip_space();
        match self.unparsed_text.strip_prefix(token) {
            Some(unparsed_text) => {
                self.unparsed_text = unparsed_text;
                true
            }
            None => false,
        }
    }

    fn parse_word(&mut self) -> &'a str {
        self.skip_space();
        let is_word_letter =
            |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '\\');
        let word_end = self.unparsed_text.find(|letter| !is_word_letter(letter));
        let (word, unparsed_text) = self
            .unparsed_text
            .split_at(word_end.unwrap_or(self.unparsed_text.len()));
        self.unparsed_text = unparsed_text;
        word
    }

    fn parse_union(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut schemas = vec![self.parse_suffixed()?];
        while self.take_token("|") {
            schemas.push(self.parse_suffixed()?);
        }
        self.depth -= 1;
        Some(create_union_schema(schemas))
    }

    /// Parses a type with its prefix or suffix: `T`, `?T` or `T[]`.
    fn parse_suffixed(&mut self) -> Option<Value> {
        if self.take_token("?") {
            let schema = self.parse_suffixed()?;
            return Some(create_union_schema(vec![schema, json!({"type": "null"})]));
        }
        let mut schema = if self.take_token("(") {
            let schema = self.parse_union()?;
            self.take_token(")").then_some(schema)?
        } else {
            self.parse_single()?
        };
        while self.take_token("[]") {
            schema = create_list_schema(Some(schema));
        }
        Some(schema)
    }

    fn parse_single(&mut self) -> Option<Value> {
        self.skip_space();
        if let Some(quote @ ('\'' | '"')) = self.unparsed_text.chars().next() {
            return self.parse_text_literal(quote);
        }
        let word = self.parse_word();
        let plain_type = |kind: &str| Some(json!({ "type": kind }));
        match word.to_ascii_lowercase().as_str() {
            "int" | "integer" if self.take_token("<") => self.parse_range(),
            "int" | "integer" => plain_type("integer"),
            "positive-int" => Some(json!({"type": "integer", "minimum": 1})),
            "negative-int" => Some(json!({"type": "integer", "maximum": -1})),
            "non-negative-int" => Some(json!({"type": "integer", "minimum": 0})),
            "non-positive-int" => Some(json!({"type": "integer", "maximum": 0})),
            "float" | "double" => plain_type("number"),
            "string" | "class-string" | "numeric-string" => plain_type("string"),
            "non-empty-string" | "non-falsy-string" => {
                Some(json!({"type": "string", "minLength": 1}))
            }
            "bool" | "boolean" | "true" | "false" => plain_type("boolean"),
            "scalar" => Some(json!({"type": ["string", "number", "boolean"]})),
            "mixed" => Some(create_any_schema()),
            "null" => plain_type("null"),
            "list" => self.parse_list(false),
            "non-empty-list" => self.parse_list(true),
            "array" | "iterable" => self.parse_array(false),
            "non-empty-array" => self.parse_array(true),
            "object" if self.take_token("{") => self.parse_shape(),
            _ => parse_number_literal(word, self),
        }
    }

    fn parse_text_literal(&mut self, quote: char) -> Option<Value> {
        let after_quote = self.unparsed_text.strip_prefix(quote)?;
        let (text, unparsed_text) = after_quote.split_once(quote)?;
        self.unparsed_text = unparsed_text;
        // A literal with an escape sequence is not supported, because its meaning depends on the
        // quotes.
        (!text.contains('\\')).then(|| json!({"type": "string", "enum": [text]}))
    }

    /// Parses the rest of a type such as `int<min, max>`.
    fn parse_range(&mut self) -> Option<Value> {
        let mut schema = json!({"type": "integer"});
        for (keyword, unlimited_word, separator) in
            [("minimum", "min", ","), ("maximum", "max", ">")]
        {
            let limit = self.parse_word();
            if limit != unlimited_word {
                schema[keyword] = limit.parse::<i64>().ok()?.into();
            }
            self.take_token(separator).then_some(())?;
        }
        Some(schema)
    }

    fn parse_list(&mut self, is_non_empty: bool) -> Option<Value> {
        let item = if self.take_token("<") {
            let item_schema = self.parse_union()?;
            self.take_token(">").then_some(Some(item_schema))?
        } else {
            None
        };
        let mut schema = create_list_schema(item);
        if is_non_empty {
            schema["minItems"] = 1.into();
        }
        Some(schema)
    }

    fn parse_array(&mut self, is_non_empty: bool) -> Option<Value> {
        if self.take_token("{") {
            return self.parse_shape();
        }
        let (list_keyword, map_keyword) = if is_non_empty {
            ("minItems", "minProperties")
        } else {
            ("", "")
        };
        let with_minimum = |mut schema: Value, keyword: &str| {
            if !keyword.is_empty() {
                schema[keyword] = 1.into();
            }
            schema
        };
        if !self.take_token("<") {
            return Some(with_minimum(json!({"type": "array"}), list_keyword));
        }
        let first_type = self.parse_union()?;
        if self.take_token(">") {
            let list_schema = create_list_schema(Some(first_type));
            return Some(with_minimum(list_schema, list_keyword));
        }
        self.take_token(",").then_some(())?;
        let value_schema = self.parse_union()?;
        self.take_token(">").then_some(())?;
        Some(match first_type.get("type").and_then(Value::as_str) {
            Some("string") => {
                let map_schema = json!({"type": "object", "additionalProperties": value_schema});
                with_minimum(map_schema, map_keyword)
            }
            _ => with_minimum(create_list_schema(Some(value_schema)), list_keyword),
        })
    }

    /// Parses the rest of a type such as `array{a: int, b?: string, ...}`.
    fn parse_shape(&mut self) -> Option<Value> {
        let mut properties = Map::new();
        let mut required_names = Vec::new();
        while !self.take_token("}") {
            if self.take_token("...") {
                self.take_token("}").then_some(())?;
                break;
            }
            let quote = ['\'', '"'].into_iter().find(|quote| {
                self.skip_space();
                self.unparsed_text.starts_with(*quote)
            });
            let key = match quote {
                Some(quote) => self.parse_text_literal(quote)?["enum"][0]
                    .as_str()?
                    .to_owned(),
                None => self.parse_word().to_owned(),
            };
            if key.is_empty() {
                return None;
            }
            if !self.take_token("?") {
                required_names.push(Value::from(key.as_str()));
            }
            self.take_token(":").then_some(())?;
            properties.insert(key, self.parse_union()?);
            if !self.take_token(",") {
                self.take_token("}").then_some(())?;
                break;
            }
        }
        // A shape without keys becomes a schema that allows any value.
        (!properties.is_empty()).then(
            || json!({"type": "object", "properties": properties, "required": required_names}),
        )
    }
}

/// Returns a JSON Schema for any value. An empty schema would be lost in the conversion to a PHP
/// array.
pub(super) fn create_any_schema() -> Value {
    json!({"type": ["string", "number", "boolean", "object", "array", "null"]})
}

fn parse_number_literal(word: &str, parser: &mut DocTypeParser<'_>) -> Option<Value> {
    let number: i64 = word.parse().ok()?;
    if parser.unparsed_text.starts_with('.') {
        return None;
    }
    Some(json!({"type": "integer", "enum": [number]}))
}

fn create_list_schema(item: Option<Value>) -> Value {
    let mut schema = json!({"type": "array"});
    if let Some(item) = item {
        schema["items"] = item;
    }
    schema
}
