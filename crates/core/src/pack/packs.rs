use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::{Counters, EventStream, Pack, Reader, Resource, ResourceProvider, ResourceTemplate};
use crate::registry::{RegistryError, ToolRegistry};

/// What several packs have, together.
#[derive(Default)]
pub struct Packs {
    names: HashSet<String>,
    providers: Vec<Arc<dyn ResourceProvider>>,
    streams: Vec<Arc<EventStream>>,
    counters: Vec<(String, Arc<Counters>)>,
}

/// Why a pack is not added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// Its name is no name.
    #[error("'{0}' is no name for a pack: small letters, digits and _ after a letter")]
    BadName(String),
    /// There is a pack of that name.
    #[error("There is a pack '{0}' already")]
    NameTaken(String),
    /// A tool of its cannot be registered.
    #[error("The pack '{pack}': {source}")]
    Tool {
        /// The pack.
        pack: String,
        /// What is wrong with the tool.
        #[source]
        source: RegistryError,
    },
    /// A stream of its has the name of another.
    #[error("The pack '{pack}': there is a stream '{stream}' already")]
    StreamTaken {
        /// The pack.
        pack: String,
        /// The stream.
        stream: String,
    },
}

impl Packs {
    /// Registers a pack's tools and adds all else that it has; all of it or nothing.
    ///
    /// # Errors
    /// [`PackError`].
    pub fn add(&mut self, pack: &dyn Pack, registry: &ToolRegistry) -> Result<(), PackError> {
        let name = pack.name().to_owned();
        if !is_name(&name) {
            return Err(PackError::BadName(name));
        }
        if self.names.contains(&name) {
            return Err(PackError::NameTaken(name));
        }
        let streams = pack.streams();
        let mut taken: HashSet<&str> = self.streams.iter().map(|stream| stream.name()).collect();
        if let Some(stream) = streams.iter().find(|stream| !taken.insert(stream.name())) {
            let stream = stream.name().to_owned();
            return Err(PackError::StreamTaken { pack: name, stream });
        }
        let mut added: Vec<String> = Vec::new();
        for tool in pack.tools() {
            let tool_name = tool.definition().name().clone();
            if let Err(source) = registry.register(tool) {
                for tool in &added {
                    registry.unregister(tool);
                }
                return Err(PackError::Tool { pack: name, source });
            }
            added.push(tool_name.as_str().to_owned());
        }
        self.providers.extend(pack.resources());
        let as_resources = streams.iter().map(|stream| Arc::clone(stream) as _);
        self.providers.extend(as_resources);
        self.streams.extend(streams);
        let counters = pack.counters();
        self.counters
            .extend(counters.map(|counters| (name.clone(), counters)));
        self.names.insert(name);
        Ok(())
    }

    /// Whatever has resources.
    #[must_use]
    pub fn providers(&self) -> &[Arc<dyn ResourceProvider>] {
        &self.providers
    }

    /// The one whose resource a URI is.
    #[must_use]
    pub fn provider_of(&self, uri: &str) -> Option<&Arc<dyn ResourceProvider>> {
        self.providers.iter().find(|provider| provider.owns(uri))
    }

    /// Every resource. What one of the providers cannot list is left out.
    pub async fn resources(&self, reader: Reader<'_>) -> Vec<Resource> {
        let mut resources = Vec::new();
        for provider in &self.providers {
            match provider.list(reader).await {
                Ok(list) => resources.extend(list),
                Err(error) => tracing::warn!(%error, "Resources of a pack are not listed"),
            }
        }
        resources
    }

    /// Every kind of resources.
    #[must_use]
    pub fn templates(&self) -> Vec<ResourceTemplate> {
        let providers = self.providers.iter();
        providers
            .flat_map(|provider| provider.templates())
            .collect()
    }

    /// Every stream, in the order in which they came.
    #[must_use]
    pub fn streams(&self) -> &[Arc<EventStream>] {
        &self.streams
    }

    /// The stream of that name.
    #[must_use]
    pub fn stream(&self, name: &str) -> Option<&Arc<EventStream>> {
        self.streams.iter().find(|stream| stream.name() == name)
    }

    /// What the packs count, by their names.
    #[must_use]
    pub fn counters(&self) -> &[(String, Arc<Counters>)] {
        &self.counters
    }
}

impl fmt::Debug for Packs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Packs").field(&self.names).finish()
    }
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_lowercase());
    let rest = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    begins && name.bytes().all(rest) && name.len() <= 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{FnTool, Tool, ToolDefinition, ToolOutput};

    struct Named {
        name: &'static str,
        tools: Vec<&'static str>,
        stream: &'static str,
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
    }

    #[test]
    fn a_pack_is_added_whole_or_not_at_all() {
        let registry = ToolRegistry::new();
        let mut packs = Packs::default();
        let pack = |name, tools: &[&'static str], stream| Named {
            name,
            tools: tools.to_vec(),
            stream,
        };
        packs.add(&pack("a", &["one"], "s"), &registry).unwrap();
        let mut refused = |pack: Named| {
            let error = packs.add(&pack, &registry).unwrap_err().to_string();
            assert!(!registry.contains("two"));
            error
        };
        let error = refused(pack("a", &["two"], "t"));
        assert_eq!(error, "There is a pack 'a' already");
        let error = refused(pack("b", &["two"], "s"));
        assert_eq!(error, "The pack 'b': there is a stream 's' already");
        let error = refused(pack("b", &["two", "one"], "t"));
        assert_eq!(error, "The pack 'b': Tool 'one' already registered");
        let error = refused(pack("B b", &["two"], "t"));
        assert!(error.starts_with("'B b' is no name"), "{error}");
        packs.add(&pack("b", &["two"], "t"), &registry).unwrap();
        assert_eq!(packs.streams().len(), 2);
        assert!(packs.provider_of("events://t?x=1").is_some());
        assert!(packs.provider_of("events://u").is_none());
    }
}
