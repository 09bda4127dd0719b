use std::sync::LazyLock;

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use pillion_core::tool::JsonObject;

static OBJECT: LazyLock<Value> = LazyLock::new(|| Value::from("object"));

/// Resolves `$ref` and `allOf`, and detects recursion.
pub(super) struct Resolver<'s> {
    root: &'s Value,
    /// Addresses of the reference targets on the path from the root to the current node. A repeated
    /// address means that the schema is recursive.
    open: IndexSet<*const Value>,
    budget: usize,
}

/// A node merged with its references and `allOf`. If a keyword has several values, the value
/// nearest to the node wins; properties and required names are combined.
#[derive(Default)]
pub(super) struct Resolved<'s> {
    keywords: IndexMap<&'s str, &'s Value>,
    properties: IndexMap<&'s str, &'s Value>,
    required: IndexSet<&'s str>,
}

impl<'s> Resolver<'s> {
    /// Creates a resolver. `expansion` is how much larger than written the resolved schema may be,
    /// in units of [`weight`]: with references, a small schema can be arbitrarily large when
    /// resolved.
    pub(super) fn new(root: &'s Value, expansion: usize) -> Self {
        Self {
            root,
            open: IndexSet::from([std::ptr::from_ref(root)]),
            budget: written_weight(root).saturating_add(expansion),
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.budget == 0
    }

    /// Subtracts the weight of a value from the budget. Returns `false` if the budget is exceeded;
    /// no further value is then processed.
    pub(super) fn spend_budget(&mut self, value: &Value) -> bool {
        let cost = weight(value);
        let affordable = cost <= self.budget;
        self.budget = self.budget.saturating_sub(cost);
        affordable
    }

    /// Subtracts the weight of a resolved node from the budget, because its keywords are copied.
    pub(super) fn spend_budget_again(&mut self, node: &Resolved<'s>) -> bool {
        let keywords = node.keywords.values();
        keywords.copied().all(|value| self.spend_budget(value))
    }

    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    pub(super) fn truncate_open(&mut self, count: usize) {
        self.open.truncate(count);
    }

    pub(super) fn resolve(&mut self, schema: &'s Value) -> Resolved<'s> {
        let mut node = Resolved::default();
        self.merge(schema, &mut node);
        node
    }

    /// Merges `schema` into `node`. The targets of references in `schema` stay open until the
    /// caller closes them.
    pub(super) fn merge(&mut self, schema: &'s Value, node: &mut Resolved<'s>) {
        // Iterative, because a chain of references can be as long as the schema.
        let mut pending = vec![schema];
        while let Some(schema) = pending.pop() {
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
            if let Some(Value::Array(parts)) = keywords.get("allOf") {
                pending.extend(parts.iter().rev());
            }
            match keywords.get("$ref").map(|target| self.find(target)) {
                None => {}
                Some(Some(target)) if self.open.insert(target) => pending.push(target),
                Some(Some(target)) => node.add_outline(target),
                Some(None) => node.add_default("type", &OBJECT),
            }
        }
    }

    /// Returns the target of a reference within the schema: `#` or `#/$defs/Name`.
    fn find(&self, target: &Value) -> Option<&'s Value> {
        let pointer = target.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }
}

/// Returns the approximate serialized size of a value, without nested values.
fn weight(value: &Value) -> usize {
    let text = |text: &str| 1 + text.len() / 16;
    match value {
        Value::String(string) => text(string),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map_or(1, text))
            .sum::<usize>()
            .max(1),
        Value::Object(members) => members.keys().map(|key| text(key)).sum::<usize>().max(1),
        _ => 1,
    }
}

/// Returns the weight of a schema without resolved references: each nested value counts as a
/// keyword's value and as a schema.
fn written_weight(value: &Value) -> usize {
    let nested = match value {
        Value::Array(items) => items.iter().map(written_weight).sum(),
        Value::Object(members) => members.values().map(written_weight).sum(),
        _ => 0,
    };
    2 * weight(value) + nested
}

impl<'s> Resolved<'s> {
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

    /// Adds the type, title and description of a recursive target, but not its members.
    fn add_outline(&mut self, target: &'s Value) {
        for key in ["type", "title", "description"] {
            if let Some(value) = target.get(key) {
                self.add_default(key, value);
            }
        }
        self.add_default("type", &OBJECT);
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
        let texts: Option<Vec<_>> = self
            .values()?
            .into_iter()
            .filter(|value| !value.is_null())
            .map(Value::as_str)
            .collect();
        let mut strings = texts?;
        strings.retain(|text| !text.is_empty());
        (!strings.is_empty()).then_some(strings)
    }
}
