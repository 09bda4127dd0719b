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
use resolve::{ResolvedNode, SchemaResolver};
use types::{ValueCheck, declared_types};

/// Maximum nesting of nodes. Nodes beyond this depth are reduced to their type.
const MAX_DEPTH: usize = 32;

/// Returns the `parameters` of a function declaration, which are always an object schema with
/// `properties`, even for functions without parameters, because the API requires such a schema in
/// the mode `ANY`.
///
/// `max_schema_growth` is the number of units by which the result may be larger than `schema`. A node,
/// a keyword and 16 bytes of text are one unit each. Nodes beyond the limit are reduced to their
/// type.
pub(super) fn convert_parameters(schema: &Value, max_schema_growth: usize) -> Value {
    let mut conversion = SchemaConversion {
        resolver: SchemaResolver::new(schema, max_schema_growth),
    };
    let mut root_node = conversion.convert(schema, 0);
    if root_node.get("type") != Some(&json!("object")) {
        root_node = create_minimal_node(ParameterType::Object);
    }
    root_node.entry("properties").or_insert_with(|| json!({}));
    Value::Object(root_node)
}

struct SchemaConversion<'s> {
    resolver: SchemaResolver<'s>,
}

impl<'s> SchemaConversion<'s> {
    fn convert(&mut self, schema: &'s Value, depth: usize) -> JsonObject {
        if depth > MAX_DEPTH || self.resolver.is_exhausted() {
            return create_minimal_node(types::find_truncated_type(schema));
        }
        let open_target_count = self.resolver.open_target_count();
        let node = self.resolver.resolve(schema);
        let converted_node = self.convert_resolved(node, depth);
        self.resolver.truncate_open_targets(open_target_count);
        converted_node
    }

    fn convert_resolved(&mut self, mut node: ResolvedNode<'s>, depth: usize) -> JsonObject {
        let mut is_nullable = node.get("nullable") == Some(&Value::Bool(true));
        while let Some(branches) = node.take_union() {
            let (null_branches, other_branches): (Vec<_>, Vec<_>) =
                branches.iter().partition(|branch| is_null(branch));
            is_nullable |= !null_branches.is_empty();
            if node.has_type() {
                // Drops the union: Gemini does not allow a union beside a type, and the union is
                // less specific.
                continue;
            }
            match other_branches[..] {
                [] => {}
                [only_branch] => self.resolver.merge(only_branch, &mut node),
                _ => return self.convert_union(&other_branches, &node, is_nullable, depth),
            }
        }
        let (node_types, has_null) = declared_types(&node);
        is_nullable |= has_null;
        match node_types[..] {
            [] => self.convert_typed(&node, types::infer_type(&node), is_nullable, depth),
            [kind] => self.convert_typed(&node, kind, is_nullable, depth),
            _ => {
                let branches = node_types.iter().enumerate().map(|(index, kind)| {
                    // Subtracts the node from the budget again for each further branch, because
                    // every branch of the union gets a copy of the node's keywords.
                    if index == 0 || self.resolver.spend_budget_again(&node) {
                        self.convert_typed(&node, *kind, is_nullable, depth)
                    } else {
                        create_minimal_node(*kind)
                    }
                });
                create_any_of(branches.collect())
            }
        }
    }

    /// Returns a union. A union cannot have a description or `nullable`, so each branch gets the
    /// description and `nullable`.
    fn convert_union(
        &mut self,
        branches: &[&'s Value],
        node: &ResolvedNode<'s>,
        is_nullable: bool,
        depth: usize,
    ) -> JsonObject {
        let description = node.get("description").filter(|text| text.is_string());
        let mut converted_branches = Vec::with_capacity(branches.len());
        for branch in branches {
            let mut output = self.convert(branch, depth + 1);
            let is_union = output.contains_key("anyOf");
            if !is_union && is_nullable {
                output.insert("nullable".to_owned(), json!(true));
            }
            if let Some(text) =
                description.filter(|text| !is_union && self.resolver.spend_budget(text))
            {
                output.entry("description").or_insert_with(|| text.clone());
            }
            converted_branches.push(output);
        }
        create_any_of(converted_branches)
    }

    /// Converts a resolved node to a node of the type `kind`.
    fn convert_typed(
        &mut self,
        node: &ResolvedNode<'s>,
        kind: ParameterType,
        is_nullable: bool,
        depth: usize,
    ) -> JsonObject {
        let mut output = create_minimal_node(kind);
        let text_keywords: [(&str, ValueCheck); 2] = [
            ("title", Value::is_string),
            ("description", Value::is_string),
        ];
        for (key, is_valid) in text_keywords.iter().chain(types::keywords(kind)) {
            if let Some(value) = node.get(key).filter(|value| is_valid(value)) {
                output.insert((*key).to_owned(), value.clone());
            }
        }
        if is_nullable || (kind == ParameterType::String && node.allows_null()) {
            output.insert("nullable".to_owned(), json!(true));
        }
        match kind {
            ParameterType::String => {
                if let Some(values) = node.string_values() {
                    output.insert("enum".to_owned(), json!(values));
                }
            }
            ParameterType::Integer | ParameterType::Number => {
                types::add_inclusive_bounds(node, kind, &mut output);
            }
            ParameterType::Boolean => {}
            ParameterType::Array => {
                if let Some(items) = node.items() {
                    output.insert("items".to_owned(), self.convert(items, depth + 1).into());
                }
            }
            ParameterType::Object => self.add_members(node, depth, &mut output),
        }
        output
    }

    fn add_members(&mut self, node: &ResolvedNode<'s>, depth: usize, output: &mut JsonObject) {
        let properties: JsonObject = node
            .properties()
            .map(|(name, property)| (name.to_owned(), self.convert(property, depth + 1).into()))
            .collect();
        if properties.is_empty() {
            return;
        }
        for (key, mut names) in [
            ("required", node.required()),
            ("propertyOrdering", node.ordering()),
        ] {
            names.retain(|name| properties.contains_key(*name));
            if !names.is_empty() {
                output.insert(key.to_owned(), json!(names));
            }
        }
        output.insert("properties".to_owned(), properties.into());
    }
}

/// Returns a node of the given type without optional keywords.
fn create_minimal_node(kind: ParameterType) -> JsonObject {
    let mut node = Map::from_iter([("type".to_owned(), json!(kind.as_str()))]);
    if kind == ParameterType::Array {
        node.insert("items".to_owned(), json!({"type": "string"}));
    }
    node
}

fn create_any_of(branches: Vec<JsonObject>) -> JsonObject {
    Map::from_iter([("anyOf".to_owned(), Value::from(branches))])
}

fn is_null(branch: &Value) -> bool {
    branch.get("type") == Some(&json!("null"))
        || branch.get("const") == Some(&Value::Null)
        || branch.get("enum") == Some(&json!([null]))
}
