//! Converts JSON Schema to the `Schema` of Gemini's function declarations.
//!
//! `Schema` is a subset of OpenAPI 3.0, and the API rejects a request with any other keyword. In
//! the output, each node therefore has one `type`, and no keywords other than `title`,
//! `description`, `default`, `nullable` and those of its type; or the node has `anyOf` and nothing
//! else (Vertex AI: "When using any_of, it must be the only field set"). The conversion works as
//! follows:
//!
//! - `$ref` within the schema and `allOf` are resolved; a recursive reference (a tree, a list)
//!   becomes an object without known properties;
//! - `type: [T, "null"]`, and a branch or value that is `null`, become `nullable`; several types
//!   and `oneOf` become `anyOf`; a union beside a `type` is dropped;
//! - `const` becomes an `enum`. An `enum` may contain only non-empty strings; any other `enum` is
//!   dropped;
//! - `exclusiveMinimum` and `exclusiveMaximum` become `minimum` and `maximum`, which for
//!   non-integers allow one value too many;
//! - a node without a type gets the type that its keywords imply, or else `string`; an array
//!   without `items` gets string items; `required` keeps only names in `properties`;
//! - everything else is dropped: `additionalProperties`, `$schema`, `patternProperties`, `not`,
//!   `multipleOf`, `uniqueItems`, `examples`, formats other than `date-time`, `float`, `double`,
//!   `int32` and `int64`, ...
//!
//! The output may allow more than the schema; the executor validates arguments against the
//! original.

mod resolve;
mod types;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use pillion_core::tool::{JsonObject, ParameterType};
use resolve::{Resolved, Resolver};
use types::{Check, declared_types};

/// Maximum nesting of nodes. Nodes beyond this depth are reduced to their type.
const MAX_DEPTH: usize = 32;

/// Returns the `parameters` of a function declaration: always an object schema with `properties`,
/// even for functions without parameters, because the API requires such a schema in the mode `ANY`.
///
/// `expansion` limits how much larger than `schema` the result may be, in nodes, keywords and units
/// of 16 bytes of text. Nodes beyond the limit are reduced to their type.
pub(super) fn parameters(schema: &Value, expansion: usize) -> Value {
    let mut conversion = Conversion {
        resolver: Resolver::new(schema, expansion),
    };
    let mut converted = conversion.convert(schema, 0);
    if converted.get("type") != Some(&json!("object")) {
        converted = bare(ParameterType::Object);
    }
    converted.entry("properties").or_insert_with(|| json!({}));
    Value::Object(converted)
}

struct Conversion<'s> {
    resolver: Resolver<'s>,
}

impl<'s> Conversion<'s> {
    fn convert(&mut self, schema: &'s Value, depth: usize) -> JsonObject {
        if depth > MAX_DEPTH || self.resolver.is_exhausted() {
            return bare(types::truncated_type(schema));
        }
        let opened = self.resolver.open_count();
        let node = self.resolver.resolve(schema);
        let converted = self.convert_resolved(node, depth);
        self.resolver.truncate_open(opened);
        converted
    }

    fn convert_resolved(&mut self, mut node: Resolved<'s>, depth: usize) -> JsonObject {
        let mut nullable = node.get("nullable") == Some(&Value::Bool(true));
        while let Some(branches) = node.take_union() {
            let (nulls, others): (Vec<_>, Vec<_>) = branches.iter().partition(|b| is_null(b));
            nullable |= !nulls.is_empty();
            if node.has_type() {
                // A union cannot be combined with a type, and says less than the type.
                continue;
            }
            match others[..] {
                [] => {}
                [only] => self.resolver.merge(only, &mut node),
                _ => return self.union_of(&others, &node, nullable, depth),
            }
        }
        let (kinds, has_null) = declared_types(&node);
        nullable |= has_null;
        match kinds[..] {
            [] => self.typed(&node, types::implied_type(&node), nullable, depth),
            [kind] => self.typed(&node, kind, nullable, depth),
            _ => {
                let branches = kinds.iter().enumerate().map(|(index, kind)| {
                    // The keywords of the node are copied to each branch of the union.
                    if index == 0 || self.resolver.spend_budget_again(&node) {
                        self.typed(&node, *kind, nullable, depth)
                    } else {
                        bare(*kind)
                    }
                });
                any_of(branches.collect())
            }
        }
    }

    /// Returns a union. A union cannot have a description and `nullable`, so the branches get both.
    fn union_of(
        &mut self,
        branches: &[&'s Value],
        node: &Resolved<'s>,
        nullable: bool,
        depth: usize,
    ) -> JsonObject {
        let description = node.get("description").filter(|text| text.is_string());
        let mut converted = Vec::with_capacity(branches.len());
        for branch in branches {
            let mut branch = self.convert(branch, depth + 1);
            let is_union = branch.contains_key("anyOf");
            if !is_union && nullable {
                branch.insert("nullable".to_owned(), json!(true));
            }
            if let Some(text) =
                description.filter(|text| !is_union && self.resolver.spend_budget(text))
            {
                branch
                    .entry("description")
                    .or_insert_with(|| (*text).clone());
            }
            converted.push(branch);
        }
        any_of(converted)
    }

    /// Returns the node as a node of type `kind`.
    fn typed(
        &mut self,
        node: &Resolved<'s>,
        kind: ParameterType,
        nullable: bool,
        depth: usize,
    ) -> JsonObject {
        let mut out = bare(kind);
        let texts: [(&str, Check); 2] = [
            ("title", Value::is_string),
            ("description", Value::is_string),
        ];
        for (key, fits) in texts.iter().chain(types::keywords(kind)) {
            if let Some(value) = node.get(key).filter(|value| fits(value)) {
                out.insert((*key).to_owned(), value.clone());
            }
        }
        if nullable || (kind == ParameterType::String && node.allows_null()) {
            out.insert("nullable".to_owned(), json!(true));
        }
        match kind {
            ParameterType::String => {
                if let Some(values) = node.string_values() {
                    out.insert("enum".to_owned(), json!(values));
                }
            }
            ParameterType::Integer | ParameterType::Number => {
                types::inclusive_bounds(node, kind, &mut out);
            }
            ParameterType::Boolean => {}
            ParameterType::Array => {
                if let Some(items) = node.items() {
                    out.insert("items".to_owned(), self.convert(items, depth + 1).into());
                }
            }
            ParameterType::Object => self.members(node, depth, &mut out),
        }
        out
    }

    fn members(&mut self, node: &Resolved<'s>, depth: usize, out: &mut JsonObject) {
        let properties: JsonObject = node
            .properties()
            .map(|(name, property)| (name.to_owned(), self.convert(property, depth + 1).into()))
            .collect();
        if properties.is_empty() {
            return;
        }
        for (key, names) in [
            ("required", node.required()),
            ("propertyOrdering", node.ordering()),
        ] {
            let known: Vec<_> = names
                .into_iter()
                .filter(|name| properties.contains_key(*name))
                .collect();
            if !known.is_empty() {
                out.insert(key.to_owned(), json!(known));
            }
        }
        out.insert("properties".to_owned(), properties.into());
    }
}

/// Returns a node of this type without optional keywords.
fn bare(kind: ParameterType) -> JsonObject {
    let mut node = Map::from_iter([("type".to_owned(), json!(kind.as_str()))]);
    if kind == ParameterType::Array {
        node.insert("items".to_owned(), json!({"type": "string"}));
    }
    node
}

fn any_of(branches: Vec<JsonObject>) -> JsonObject {
    Map::from_iter([("anyOf".to_owned(), Value::from(branches))])
}

fn is_null(branch: &Value) -> bool {
    branch.get("type") == Some(&json!("null"))
        || branch.get("const") == Some(&Value::Null)
        || branch.get("enum") == Some(&json!([null]))
}
