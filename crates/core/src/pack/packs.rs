use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::{
    Counters, EventStream, Pack, Resource, ResourceProvider, ResourceReader, ResourceTemplate,
    StoredItems,
};
use crate::registry::{RegistryError, ToolRegistry};
use crate::tool::{Tool, ToolName};

/// The contents of several packs. Cheap to clone.
#[derive(Clone, Default)]
pub struct Packs(Vec<Arc<PackContents>>);

/// The contents of one pack at the time at which the pack was added.
pub struct PackContents {
    name: String,
    tools: Vec<ToolName>,
    providers: Vec<Arc<dyn ResourceProvider>>,
    streams: Vec<Arc<EventStream>>,
    counters: Option<Arc<Counters>>,
    stored_items: Vec<Arc<dyn StoredItems>>,
}

/// Why a pack cannot be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The name of the pack is empty or too long, does not begin with a letter, or contains a
    /// character other than lowercase letters, digits and `_`.
    #[error(
        "invalid pack name '{0}': use lowercase letters, digits and '_', starting with a letter"
    )]
    BadName(String),
    /// A pack with this name was already added.
    #[error("A pack named '{0}' already exists")]
    NameTaken(String),
    /// A tool of the pack cannot be registered.
    #[error("Pack '{pack}': {source}")]
    Tool {
        /// The name of the pack that cannot be added.
        pack: String,
        /// Why the tool cannot be registered.
        #[source]
        source: RegistryError,
    },
    /// A stream of the pack has the name of another stream.
    #[error("Pack '{pack}': a stream named '{stream}' already exists")]
    StreamTaken {
        /// The name of the pack that cannot be added.
        pack: String,
        /// The name of the stream, which another stream already has.
        stream: String,
    },
    /// A kind of stored items has an invalid or duplicate name.
    #[error(
        "Pack '{pack}': the kind of stored items '{kind}' is invalid or declared twice: use lowercase \
         letters, digits and '_', starting with a letter, and a different name for each kind"
    )]
    BadKind {
        /// The name of the pack that cannot be added.
        pack: String,
        /// The invalid or duplicate name of the kind.
        kind: String,
    },
}

impl PackContents {
    /// Returns the pack's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names of the tools.
    #[must_use]
    pub fn tools(&self) -> &[ToolName] {
        &self.tools
    }

    /// Returns the resource templates.
    #[must_use]
    pub fn templates(&self) -> Vec<ResourceTemplate> {
        let templates = self.providers.iter().map(|provider| provider.templates());
        templates.flatten().collect()
    }

    /// Returns the event streams.
    #[must_use]
    pub fn streams(&self) -> &[Arc<EventStream>] {
        &self.streams
    }

    /// Returns the kinds of stored items.
    #[must_use]
    pub fn stored_items(&self) -> &[Arc<dyn StoredItems>] {
        &self.stored_items
    }

    /// Returns the stored items of one kind.
    #[must_use]
    pub fn stored_items_of(&self, kind: &str) -> Option<&Arc<dyn StoredItems>> {
        self.stored_items.iter().find(|items| items.kind() == kind)
    }
}

impl Packs {
    /// Adds a pack and registers its tools. On failure, nothing is added.
    ///
    /// # Errors
    /// A name of the pack is invalid or taken, or a tool cannot be registered.
    pub fn add(&mut self, pack: &dyn Pack, registry: &ToolRegistry) -> Result<(), PackError> {
        let mut added_names: Vec<ToolName> = Vec::new();
        for tool in self.add_without_tools(pack)? {
            let tool_name = tool.definition().name().clone();
            if let Err(source) = registry.register(tool) {
                for tool in &added_names {
                    registry.unregister(tool.as_str());
                }
                self.0.pop();
                let pack = pack.name().to_owned();
                return Err(PackError::Tool { pack, source });
            }
            added_names.push(tool_name);
        }
        Ok(())
    }

    /// Adds a pack without its tools, and returns the tools for the caller to register.
    ///
    /// # Errors
    /// A name of the pack, of a stream or of a kind of stored items is invalid or taken; nothing is
    /// added then.
    pub fn add_without_tools(&mut self, pack: &dyn Pack) -> Result<Vec<Arc<dyn Tool>>, PackError> {
        let name = pack.name().to_owned();
        if !is_valid_name(&name) {
            return Err(PackError::BadName(name));
        }
        if self.0.iter().any(|member| member.name == name) {
            return Err(PackError::NameTaken(name));
        }
        let streams = pack.streams();
        let mut taken_names: HashSet<&str> = self.streams().map(|stream| stream.name()).collect();
        if let Some(stream) = streams
            .iter()
            .find(|stream| !taken_names.insert(stream.name()))
        {
            let stream = stream.name().to_owned();
            return Err(PackError::StreamTaken { pack: name, stream });
        }
        let stored_items = pack.stored_items();
        if let Some(kind) = find_invalid_kind(&stored_items) {
            return Err(PackError::BadKind { pack: name, kind });
        }
        let tools = pack.tools();
        let mut providers = pack.resources();
        providers.extend(streams.iter().map(|stream| Arc::clone(stream) as _));
        let names = tools.iter().map(|tool| tool.definition().name().clone());
        self.0.push(Arc::new(PackContents {
            name,
            tools: names.collect(),
            providers,
            streams,
            counters: pack.counters(),
            stored_items,
        }));
        Ok(tools)
    }

    /// Returns the packs that a caller may see: those with at least one tool for which `admits`
    /// returns `true`, and those without tools.
    #[must_use]
    pub fn filter_by_tool(&self, admits: impl Fn(&ToolName) -> bool) -> Self {
        let is_admitted =
            |pack: &&Arc<PackContents>| pack.tools.is_empty() || pack.tools.iter().any(&admits);
        Self(self.0.iter().filter(is_admitted).cloned().collect())
    }

    /// Iterates over the packs in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &PackContents> {
        self.0.iter().map(|member| &**member)
    }

    /// Returns the pack with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&PackContents> {
        self.iter().find(|member| member.name == name)
    }

    /// Iterates over the names of the packs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(PackContents::name)
    }

    /// Iterates over the resource providers of all packs.
    pub fn providers(&self) -> impl Iterator<Item = &Arc<dyn ResourceProvider>> {
        self.0.iter().flat_map(|member| &member.providers)
    }

    /// Returns the provider that owns this URI.
    #[must_use]
    pub fn provider_of(&self, uri: &str) -> Option<&Arc<dyn ResourceProvider>> {
        self.providers().find(|provider| provider.owns(uri))
    }

    /// Lists all resources. Skips providers whose listing fails.
    pub async fn resources(&self, reader: ResourceReader<'_>) -> Vec<Resource> {
        let mut resources = Vec::new();
        for provider in self.0.iter().flat_map(|member| &member.providers) {
            match provider.list(reader).await {
                Ok(list) => resources.extend(list),
                Err(error) => tracing::warn!(%error, "Cannot list the resources of a pack"),
            }
        }
        resources
    }

    /// Returns the resource templates of all packs.
    #[must_use]
    pub fn templates(&self) -> Vec<ResourceTemplate> {
        self.iter().flat_map(PackContents::templates).collect()
    }

    /// Iterates over the streams of all packs, in the order in which they were added.
    pub fn streams(&self) -> impl Iterator<Item = &Arc<EventStream>> {
        self.0.iter().flat_map(|member| &member.streams)
    }

    /// Returns the stream with this name.
    #[must_use]
    pub fn stream(&self, name: &str) -> Option<&Arc<EventStream>> {
        self.streams().find(|stream| stream.name() == name)
    }

    /// Returns the counters of the packs, with the packs' names.
    #[must_use]
    pub fn counters(&self) -> Vec<(String, Arc<Counters>)> {
        self.0
            .iter()
            .filter_map(|pack| Some((pack.name.clone(), Arc::clone(pack.counters.as_ref()?))))
            .collect()
    }
}

impl fmt::Debug for PackContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackContents")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Packs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Returns the first kind with an invalid or duplicate name.
fn find_invalid_kind(stored_items: &[Arc<dyn StoredItems>]) -> Option<String> {
    let mut kinds = HashSet::new();
    stored_items
        .iter()
        .map(|items| items.kind())
        .find(|kind| !is_valid_name(kind) || !kinds.insert(*kind))
        .map(str::to_owned)
}

fn is_valid_name(name: &str) -> bool {
    let starts_with_letter = name.starts_with(|first: char| first.is_ascii_lowercase());
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    starts_with_letter && name.bytes().all(is_allowed) && name.len() <= 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::StoredItem;
    use crate::store::StoreError;
    use crate::tool::{FnTool, ToolDefinition, ToolOutput};
    use async_trait::async_trait;

    struct Named {
        name: &'static str,
        tools: Vec<&'static str>,
        stream: &'static str,
        kinds: Vec<&'static str>,
    }

    struct Kind(&'static str);

    #[async_trait]
    impl StoredItems for Kind {
        fn kind(&self) -> &str {
            self.0
        }

        async fn count(&self) -> Result<u64, StoreError> {
            Ok(0)
        }

        async fn list(
            &self,
            _after: Option<&str>,
            _limit: u32,
        ) -> Result<Vec<StoredItem>, StoreError> {
            Ok(Vec::new())
        }

        async fn remove(&self, _name: &str) -> Result<bool, StoreError> {
            Ok(false)
        }
    }

    impl Pack for Named {
        fn name(&self) -> &str {
            self.name
        }

        fn tools(&self) -> Vec<Arc<dyn Tool>> {
            let tools = self.tools.iter().map(|name| {
                let definition = ToolDefinition::builder(*name, "A tool").build();
                let function = |_, _| async { Ok(ToolOutput::default()) };
                Arc::new(FnTool::new(definition.unwrap(), function)) as _
            });
            tools.collect()
        }

        fn streams(&self) -> Vec<Arc<EventStream>> {
            let uri = format!("events://{}", self.stream);
            vec![Arc::new(EventStream::new(self.stream, uri, "d"))]
        }

        fn stored_items(&self) -> Vec<Arc<dyn StoredItems>> {
            let kinds = self.kinds.iter();
            kinds.map(|&kind| Arc::new(Kind(kind)) as _).collect()
        }
    }

    #[test]
    fn a_pack_is_added_completely_or_not_at_all() {
        let registry = ToolRegistry::new();
        let mut packs = Packs::default();
        let pack = |name, tools: &[&'static str], stream| Named {
            name,
            tools: tools.to_vec(),
            stream,
            kinds: vec!["scenes"],
        };
        packs.add(&pack("a", &["one"], "s"), &registry).unwrap();
        let mut add_error = |pack: Named| {
            let error = packs.add(&pack, &registry).unwrap_err().to_string();
            assert!(!registry.contains("two"));
            error
        };
        let error = add_error(pack("a", &["two"], "t"));
        assert_eq!(error, "A pack named 'a' already exists");
        let error = add_error(pack("b", &["two"], "s"));
        assert_eq!(error, "Pack 'b': a stream named 's' already exists");
        let error = add_error(pack("b", &["two", "one"], "t"));
        assert_eq!(error, "Pack 'b': Tool 'one' already registered");
        let error = add_error(pack("B b", &["two"], "t"));
        assert!(error.starts_with("invalid pack name 'B b'"), "{error}");
        for kinds in [vec!["scenes", "scenes"], vec!["a/b"]] {
            let error = add_error(Named {
                kinds,
                ..pack("b", &["two"], "t")
            });
            assert!(error.contains("is invalid or declared twice"), "{error}");
        }
        packs.add(&pack("b", &["two"], "t"), &registry).unwrap();
        let kinds = |pack: &str| packs.get(pack).map(|pack| pack.stored_items().len());
        let counts = [kinds("a"), kinds("b"), kinds("c")];
        assert_eq!(counts, [Some(1), Some(1), None]);
        let pack = packs.get("b").unwrap();
        assert!(pack.stored_items_of("scenes").is_some());
        assert!(pack.stored_items_of("other").is_none());
        assert_eq!(packs.streams().count(), 2);
        assert!(packs.provider_of("events://t?x=1").is_some());
        assert!(packs.provider_of("events://u").is_none());
    }
    #[test]
    fn l3_a_pack_is_visible_to_callers_of_one_of_its_tools() {
        let mut packs = Packs::default();
        let packs_of = |packs: &Packs, few: &[&str]| {
            let seen = packs.filter_by_tool(|name| few.contains(&name.as_str()));
            let names = seen.streams().map(|stream| stream.name().to_owned());
            names.collect::<Vec<_>>()
        };
        for (name, tools) in [
            ("a", vec!["one", "two"]),
            ("b", vec!["three"]),
            ("c", vec![]),
        ] {
            let stream = name;
            let tools = packs.add_without_tools(&Named {
                name,
                tools,
                stream,
                kinds: Vec::new(),
            });
            assert_eq!(tools.unwrap().is_empty(), name == "c");
        }
        assert_eq!(packs_of(&packs, &["two", "three"]), ["a", "b", "c"]);
        assert_eq!(packs_of(&packs, &["three", "other"]), ["b", "c"]);
        assert_eq!(packs_of(&packs, &[]), ["c"]);
    }
}
