use std::sync::LazyLock;

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use pillion_core::tool::JsonObject;

static OBJECT_TYPE: LazyLock<Value> = LazyLock::new(|| Value::from("object"));

/// Resolves `$ref` and `allOf`, and detects recursion.
pub(super) struct SchemaResolver<'s> {
    root: &'s Value,
    /// Addresses of the reference targets on the path from the root to the current node. A repeated
    /// address means that the schema is recursive.
    open_targets: IndexSet<*const Value>,
    budget: usize,
}

/// A node merged with its references and `allOf`. If a keyword has several values, the value
/// nearest to the node wins; properties and required names are combined.
#[derive(Default)]
pub(super) struct ResolvedNode<'s> {
    keywords: IndexMap<&'s str, &'s Value>,
    properties: IndexMap<&'s str, &'s Value>,
    required: IndexSet<&'s str>,
}

impl<'s> SchemaResolver<'s> {
    /// Creates a resolver. `max_schema_growth` is the number of units ([`measure_weight`]) by which the
    /// resolved schema may be larger than the schema as written. The limit is needed, because
    /// references can make a small schema arbitrarily large.
    pub(super) fn new(root: &'s Value, max_schema_growth: usize) -> Self {
        Self {
            root,
            open_targets: IndexSet::from([std::ptr::from_ref(root)]),
            budget: measure_unresolved_weight(root).saturating_add(max_schema_growth),
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.budget == 0
    }

    /// Subtracts the estimated size of a value from the budget. Returns `false` if the value
    /// exceeds the budget; no further value is then processed.
    pub(super) fn spend_budget(&mut self, value: &Value) -> bool {
        let cost = measure_weight(value);
        let is_affordable = cost <= self.budget;
        self.budget = self.budget.saturating_sub(cost);
        is_affordable
    }

    /// Subtracts the estimated size of a resolved node from the budget once more, because the
    /// node's keywords are copied.
    pub(super) fn spend_budget_again(&mut self, node: &ResolvedNode<'s>) -> bool {
        let keywords = node.keywords.values();
        keywords.copied().all(|value| self.spend_budget(value))
    }

    pub(super) fn open_target_count(&self) -> usize {
        self.open_targets.len()
    }

    pub(super) fn truncate_open_targets(&mut self, count: usize) {
        self.open_targets.truncate(count);
    }

    pub(super) fn resolve(&mut self, schema: &'s Value) -> ResolvedNode<'s> {
        let mut node = ResolvedNode::default();
        self.merge(schema, &mut node);
        node
    }

    /// Merges `schema` into `node`, including the targets of references in `schema`. These targets
    /// stay in `open_targets` until the caller calls
    /// [`truncate_open_targets`](Self::truncate_open_targets).
    pub(super) fn merge(&mut self, schema: &'s Value, node: &mut ResolvedNode<'s>) {
        // Uses a loop instead of recursion, because a chain of references can be as long as the
        // schema.
        let mut pending_schemas = vec![schema];
        while let Some(schema) = pending_schemas.pop() {
            if !self.spend_budget(schema) {
                return;
            }
            let Value::Object(keywords) = schema else {
                continue;
            };
            if !keywords.values().all(|value| self.spend_budget(value)) {
                return;
            }
            node.add(keywords);
            if let Some(Value::Array(subschemas)) = keywords.get("allOf") {
                pending_schemas.extend(subschemas.iter().rev());
            }
            match keywords.get("$ref").map(|target| self.find_target(target)) {
                None => {}
                Some(Some(target)) if self.open_targets.insert(target) => {
                    pending_schemas.push(target);
                }
                Some(Some(target)) => node.add_outline(target),
                Some(None) => node.add_default("type", &OBJECT_TYPE),
            }
        }
    }

    /// Returns the target of a reference within the schema: `#` or `#/$defs/Name`.
    fn find_target(&self, target: &Value) -> Option<&'s Value> {
        let pointer = target.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }
}

/// Estimates the serialized size of a value without nested values, in units of 16 bytes of text.
fn measure_weight(value: &Value) -> usize {
    let text_weight = |text: &str| 1 + text.len() / 16;
    match value {
        Value::String(string) => text_weight(string),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map_or(1, text_weight))
            .sum::<usize>()
            .max(1),
        Value::Object(members) => members
            .keys()
            .map(|key| text_weight(key))
            .sum::<usize>()
            .max(1),
        _ => 1,
    }
}

/// Estimates the size of a schema before its references are resolved, in the same unit as
/// [`measure_weight`]. Each nested value is counted twice: as the value of a keyword, and as a
/// subschema.
fn measure_unresolved_weight(value: &Value) -> usize {
    let nested_weight = match value {
        Value::Array(items) => items.iter().map(measure_unresolved_weight).sum(),
        Value::Object(members) => members.values().map(measure_unresolved_weight).sum(),
        _ => 0,
    };
    2 * measure_weight(value) + nested_weight
}

impl<'s> ResolvedNode<'s> {
    fn add(&mut self, schema: &'s JsonObject) {
        for (key, value) in schema {
            match (key.as_str(), value) {
                ("$ref" | "allOf", _) => {}
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        self.properties.entry(name).or_insert(property);
                    }
                }
                ("required", Value::Array(names)) => {
                    self.required.extend(names.iter().filter_map(Value::as_str));
                }
                (key, value) => self.add_default(key, value),
            }
        }
    }

    /// Adds the type, title and description of a recursive target, but not its other keywords.
    fn add_outline(&mut self, target: &'s Value) {
        for key in ["type", "title", "description"] {
            if let Some(value) = target.get(key) {
                self.add_default(key, value);
            }
        }
        self.add_default("type", &OBJECT_TYPE);
    }

    fn add_default(&mut self, key: &'s str, value: &'s Value) {
        self.keywords.entry(key).or_insert(value);
    }

    pub(super) fn get(&self, key: &str) -> Option<&'s Value> {
        self.keywords.get(key).copied()
    }

    pub(super) fn properties(&self) -> impl Iterator<Item = (&'s str, &'s Value)> + '_ {
        self.properties
            .iter()
            .map(|(name, property)| (*name, *property))
    }

    pub(super) fn required(&self) -> Vec<&'s str> {
        self.required.iter().copied().collect()
    }

    pub(super) fn ordering(&self) -> Vec<&'s str> {
        match self.get("propertyOrdering") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Removes and returns the branches of `anyOf` or `oneOf`.
    pub(super) fn take_union(&mut self) -> Option<&'s Vec<Value>> {
        ["anyOf", "oneOf"]
            .into_iter()
            .filter_map(|key| self.keywords.shift_remove(key))
            .find_map(Value::as_array)
    }

    pub(super) fn has_type(&self) -> bool {
        self.keywords.contains_key("type") || !self.properties.is_empty()
    }

    /// Returns the schema of the items of an array; for a tuple, the schema of the first item.
    pub(super) fn items(&self) -> Option<&'s Value> {
        match self.get("items") {
            Some(items @ Value::Object(_)) => Some(items),
            Some(Value::Array(tuple)) if !tuple.is_empty() => tuple.first(),
            _ => self.get("prefixItems")?.as_array()?.first(),
        }
    }

    /// Returns the values of `enum` or `const`.
    pub(super) fn values(&self) -> Option<Vec<&'s Value>> {
        match self.get("enum") {
            Some(Value::Array(values)) => Some(values.iter().collect()),
            _ => self.get("const").map(|value| vec![value]),
        }
    }

    pub(super) fn allows_null(&self) -> bool {
        self.values()
            .is_some_and(|values| values.iter().any(|value| value.is_null()))
    }

    /// Returns the values for a Gemini `enum`, without `null` and the empty string; `None` if any
    /// value is neither a string nor `null`.
    pub(super) fn string_values(&self) -> Option<Vec<&'s str>> {
        let string_options: Option<Vec<_>> = self
            .values()?
            .into_iter()
            .filter(|value| !value.is_null())
            .map(Value::as_str)
            .collect();
        let mut strings = string_options?;
        strings.retain(|text| !text.is_empty());
        (!strings.is_empty()).then_some(strings)
    }
}
