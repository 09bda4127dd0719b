//! The tool registry: tools by name, in the order of registration.

mod entry;
mod repaired_names;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use parking_lot::RwLock;

use crate::tool::{Tool, ToolName, ToolOrigin};
pub use entry::{RegisteredTool, SchemaCheckTime};
use pillion_schema::SchemaError;
pub use repaired_names::repaired_names;

/// The registered tools by name, in insertion order. Lookup takes constant time; the registry can
/// be shared between threads.
///
/// MCP tools and native tools share one map; their [`ToolOrigin`] distinguishes them. A tool that
/// is [not offered](Tool::is_offered) can be found by name but is in no list. If an offered tool
/// with the same name replaces it, the replaced tool goes on standby: it is registered again when
/// the name becomes free.
///
/// ```
/// use std::sync::Arc;
/// use pillion_core::registry::ToolRegistry;
/// use pillion_core::tool::{FnTool, ToolDefinition, ToolOutput};
/// let registry = ToolRegistry::new();
/// let ping = ToolDefinition::builder("ping", "Says pong").build()?;
/// registry.register(Arc::new(FnTool::new(ping, |_, _| async { Ok(ToolOutput::text("pong")) })))?;
/// assert!(registry.contains("ping"));
/// assert_eq!(registry.categories(), ["general"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ToolRegistry {
    state: RwLock<RegistryState>,
}

#[derive(Debug, Default)]
struct RegistryState {
    tools: IndexMap<ToolName, Arc<RegisteredTool>>,
    /// Tools that are registered when their name becomes free.
    standby: HashMap<ToolName, Arc<RegisteredTool>>,
    aliases: HashMap<String, ToolName>,
}

/// Why a tool or an alias cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name is taken. Use [`ToolRegistry::replace`] to replace the tool.
    #[error("Tool '{0}' already registered")]
    AlreadyRegistered(ToolName),
    /// The tool's schema is not a valid JSON Schema.
    #[error("Tool '{name}': {source}")]
    InvalidSchema {
        /// The name of the tool that was to be registered.
        name: ToolName,
        /// What is wrong with the schema.
        #[source]
        source: SchemaError,
    },
    /// The target of the alias is not the name of a registered tool.
    #[error("Tool '{0}' is not registered")]
    UnknownAliasTarget(String),
    /// The alias is the name of a registered tool, which the alias would hide.
    #[error("The alias '{0}' is already the name of a registered tool")]
    AliasIsTool(String),
}

/// The result of [`ToolRegistry::put`].
#[derive(Debug, Clone)]
pub struct PutResult {
    /// The tool that was passed to `put`, with its checked schema.
    pub entry: Arc<RegisteredTool>,
    /// Whether the new tool is registered or on standby.
    pub outcome: RegistrationState,
    /// The tool that the new tool replaced: the registered tool, or the standby tool if the new
    /// tool is on standby.
    pub replaced_tool: Option<Arc<RegisteredTool>>,
}

/// The state of a tool after [`ToolRegistry::put`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationState {
    /// The tool is registered; the name was free.
    Added,
    /// The tool is registered and replaced another tool.
    Replaced,
    /// The tool is on standby, because another tool has its name.
    OnStandby,
}

impl RegistryState {
    /// Registers a tool, and returns the tool that it replaces. If an offered tool replaces a tool
    /// that is not offered, the replaced tool goes on standby.
    fn insert(&mut self, entry: Arc<RegisteredTool>) -> Option<Arc<RegisteredTool>> {
        let name = entry.name().clone();
        let is_offered = entry.is_offered();
        let replaced_tool = self.tools.insert(name.clone(), entry)?;
        if is_offered && !replaced_tool.is_offered() {
            let standby = self.standby.entry(name);
            standby.or_insert_with(|| Arc::clone(&replaced_tool));
        }
        Some(replaced_tool)
    }

    /// Removes the tool with this name. A tool on standby is then registered under the name.
    fn remove(&mut self, name: &str) -> bool {
        if let Some((name, standby_tool)) = self.standby.remove_entry(name) {
            return self.tools.insert(name, standby_tool).is_some();
        }
        let is_removed = self.tools.shift_remove(name).is_some();
        if is_removed {
            self.aliases.retain(|_, target| target.as_str() != name);
        }
        is_removed
    }
}

static GLOBAL_REGISTRY: LazyLock<Arc<ToolRegistry>> = LazyLock::new(Arc::default);

impl ToolRegistry {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the registry of this process. Use the global registry only where a registry cannot
    /// be passed as an argument.
    #[must_use]
    pub fn global() -> Arc<Self> {
        Arc::clone(&GLOBAL_REGISTRY)
    }

    /// Adds a tool at the end, or replaces a tool of the same name that is not offered.
    ///
    /// # Errors
    /// [`RegistryError::AlreadyRegistered`] if the name is taken; [`RegistryError::InvalidSchema`]
    /// if the schema of a native tool cannot be compiled. (An MCP tool with such a schema is
    /// registered, because its server validates the arguments.)
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        self.register_preferred(tool, |_| false).map(drop)
    }

    /// Adds a tool like [`register`](Self::register), or replaces a tool of the same name if
    /// `may_replace` returns `true` for that tool. Returns the replaced tool. The check and the
    /// replacement are atomic.
    ///
    /// # Errors
    /// The same errors as [`register`](Self::register).
    pub fn register_preferred(
        &self,
        tool: Arc<dyn Tool>,
        may_replace: impl FnOnce(&RegisteredTool) -> bool,
    ) -> Result<Option<Arc<RegisteredTool>>, RegistryError> {
        self.register_checked(Arc::new(RegisteredTool::new(tool)?), may_replace)
    }

    /// Adds a tool like [`register_preferred`](Self::register_preferred), without checking its
    /// schema again.
    ///
    /// # Errors
    /// [`RegistryError::AlreadyRegistered`]: the name is taken, and `may_replace` returned `false`.
    pub fn register_checked(
        &self,
        entry: Arc<RegisteredTool>,
        may_replace: impl FnOnce(&RegisteredTool) -> bool,
    ) -> Result<Option<Arc<RegisteredTool>>, RegistryError> {
        let mut state = self.state.write();
        let holder = state.tools.get(entry.name());
        let existing_tool = holder.filter(|holder| holder.is_offered() || !entry.is_offered());
        if existing_tool.is_some_and(|existing_tool| !may_replace(existing_tool)) {
            return Err(RegistryError::AlreadyRegistered(entry.name().clone()));
        }
        Ok(state.insert(entry))
    }

    /// Adds a tool, replacing and returning any tool of the same name. Running calls continue with
    /// the replaced tool.
    ///
    /// # Errors
    /// [`RegistryError::InvalidSchema`]: the schema of a native tool cannot be compiled.
    pub fn replace(
        &self,
        tool: Arc<dyn Tool>,
    ) -> Result<Option<Arc<RegisteredTool>>, RegistryError> {
        Ok(self.replace_checked(Arc::new(RegisteredTool::new(tool)?)))
    }

    /// Adds a tool like [`replace`](Self::replace), without checking its schema again.
    pub fn replace_checked(&self, entry: Arc<RegisteredTool>) -> Option<Arc<RegisteredTool>> {
        self.state.write().insert(entry)
    }

    /// Adds a tool. If its name is taken, replaces the registered tool if `may_replace` returns
    /// `true` for the registered tool. Otherwise puts the new tool on standby, in place of any
    /// other standby tool of the same name. A standby tool is registered when its name becomes
    /// free. [`withdraw`](Self::withdraw) removes the tool, whether registered or on standby. The
    /// check and the replacement are atomic.
    ///
    /// # Errors
    /// [`RegistryError::InvalidSchema`]: the schema of a native tool cannot be compiled.
    pub fn put(
        &self,
        tool: Arc<dyn Tool>,
        may_replace: impl FnOnce(&Arc<RegisteredTool>) -> bool,
    ) -> Result<PutResult, RegistryError> {
        let entry = Arc::new(RegisteredTool::new(tool)?);
        let mut state = self.state.write();
        let existing_tool = state.tools.get(entry.name());
        let outcome = match existing_tool.map(may_replace) {
            None => RegistrationState::Added,
            Some(true) => RegistrationState::Replaced,
            Some(false) => RegistrationState::OnStandby,
        };
        let (name, tool) = (entry.name().clone(), Arc::clone(&entry));
        let replaced_tool = match outcome {
            RegistrationState::OnStandby => state.standby.insert(name, tool),
            RegistrationState::Added | RegistrationState::Replaced => {
                state.tools.insert(name, tool)
            }
        };
        Ok(PutResult {
            entry,
            outcome,
            replaced_tool,
        })
    }

    /// Removes exactly this tool, registered or on standby. Returns whether the tool was
    /// registered.
    pub fn withdraw(&self, tool: &Arc<RegisteredTool>) -> bool {
        let mut state = self.state.write();
        let name = tool.name().as_str();
        let is_this_tool = |holder: Option<&Arc<RegisteredTool>>| {
            holder.is_some_and(|holder_tool| Arc::ptr_eq(holder_tool, tool))
        };
        if is_this_tool(state.standby.get(name)) {
            state.standby.remove(name);
        }
        is_this_tool(state.tools.get(name)) && state.remove(name)
    }

    /// Adds the tools whose names are free, and returns the added names. Can be called repeatedly,
    /// for example by start-up code that runs twice.
    ///
    /// # Errors
    /// [`RegistryError::InvalidSchema`]; the tools before the failing tool stay registered.
    pub fn register_missing(
        &self,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Result<Vec<ToolName>, RegistryError> {
        let mut added_names = Vec::new();
        for tool in tools {
            let name = tool.definition().name().clone();
            match self.register(tool) {
                Ok(()) => added_names.push(name),
                Err(RegistryError::AlreadyRegistered(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(added_names)
    }

    /// Makes `alias` another name for `target` in calls. Setting an existing alias changes its
    /// target.
    ///
    /// # Errors
    /// [`RegistryError::UnknownAliasTarget`]: `target` is not the name of a registered tool.
    /// [`RegistryError::AliasIsTool`]: `alias` is the name of a registered tool.
    pub fn set_alias(&self, alias: &str, target: &str) -> Result<(), RegistryError> {
        let mut state = self.state.write();
        if state.tools.contains_key(alias) {
            return Err(RegistryError::AliasIsTool(alias.to_owned()));
        }
        let Some((name, _)) = state.tools.get_key_value(target) else {
            return Err(RegistryError::UnknownAliasTarget(target.to_owned()));
        };
        let target_name = name.clone();
        state.aliases.insert(alias.to_owned(), target_name);
        Ok(())
    }

    /// Returns the number of aliases.
    pub fn alias_count(&self) -> usize {
        self.state.read().aliases.len()
    }

    /// Removes a tool and its aliases. Returns whether the tool was registered. A tool on standby
    /// is then registered under the name.
    pub fn unregister(&self, name: &str) -> bool {
        self.state.write().remove(name)
    }

    /// Removes tools and their aliases, like [`unregister`](Self::unregister), in a time
    /// proportional to the number of registered tools, however many tools are removed.
    pub fn unregister_all<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut state = self.state.write();
        let mut removed_names = HashSet::new();
        for name in names {
            match state.standby.remove_entry(name) {
                Some((name, standby_tool)) => drop(state.tools.insert(name, standby_tool)),
                None => drop(removed_names.insert(name)),
            }
        }
        if !removed_names.is_empty() {
            let is_removed = |name: &ToolName| removed_names.contains(name.as_str());
            state.tools.retain(|name, _| !is_removed(name));
            state.aliases.retain(|_, target| !is_removed(target));
        }
    }

    /// Removes all tools and aliases.
    pub fn clear(&self) {
        let mut state = self.state.write();
        state.tools.clear();
        state.standby.clear();
        state.aliases.clear();
    }

    /// Returns the tool with this name, alias or [short name](ToolName::short). A tool's name takes
    /// precedence over aliases and short names.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        let state = self.state.read();
        let find_by_alias = || state.tools.get(state.aliases.get(name)?);
        let exact_match = state.tools.get(name).or_else(find_by_alias);
        exact_match
            .or_else(|| find_by_short_name(&state.tools, name))
            .cloned()
    }

    /// Returns whether `name` is the name or an alias of this tool.
    #[must_use]
    pub fn resolves_to(&self, name: &str, tool: &RegisteredTool) -> bool {
        name == tool.name().as_str() || {
            let state = self.state.read();
            !state.tools.contains_key(name) && state.aliases.get(name) == Some(tool.name())
        }
    }

    /// Returns whether `name` is the name or an alias of this tool, ignoring case.
    #[must_use]
    pub fn resolves_to_in_any_case(&self, name: &str, tool: &RegisteredTool) -> bool {
        name.eq_ignore_ascii_case(tool.name().as_str()) || {
            let state = self.state.read();
            let mut aliases = state.aliases.iter();
            aliases.any(|(alias, target)| target == tool.name() && name.eq_ignore_ascii_case(alias))
        }
    }

    /// Returns whether a tool with this name or alias is registered, ignoring case.
    #[must_use]
    pub fn contains_in_any_case(&self, name: &str) -> bool {
        let state = self.state.read();
        let aliases = state.aliases.keys().map(String::as_str);
        let mut names = state.tools.keys().map(ToolName::as_str).chain(aliases);
        names.any(|registered_name| name.eq_ignore_ascii_case(registered_name))
    }

    /// Returns whether a tool with this name or alias is registered.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns whether an offered tool has this name or alias.
    #[must_use]
    pub fn is_taken(&self, name: &str) -> bool {
        self.get(name).is_some_and(|tool| tool.is_offered())
    }

    /// Returns the number of offered tools, without aliases.
    #[must_use]
    pub fn len(&self) -> usize {
        self.with_offered_tools(|tools| tools.count())
    }

    /// Returns whether no tool is offered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the offered tools in order of registration: all, or those of one category.
    #[must_use]
    pub fn tools(&self, category: Option<&str>) -> Vec<Arc<RegisteredTool>> {
        self.filter_offered_tools(|entry| {
            category.is_none_or(|selected| entry.definition().category() == selected)
        })
    }

    /// Returns the offered tools of MCP servers.
    #[must_use]
    pub fn mcp_tools(&self) -> Vec<Arc<RegisteredTool>> {
        self.filter_offered_tools(|entry| entry.origin().is_mcp())
    }

    /// Returns the offered tools that do not come from MCP servers.
    #[must_use]
    pub fn native_tools(&self) -> Vec<Arc<RegisteredTool>> {
        self.filter_offered_tools(|entry| matches!(entry.origin(), ToolOrigin::Native))
    }

    /// Returns the names of the offered tools.
    #[must_use]
    pub fn names(&self) -> Vec<ToolName> {
        self.with_offered_tools(|tools| tools.map(|entry| entry.name().clone()).collect())
    }

    /// Returns the distinct categories of the offered tools, in order of each category's first
    /// tool.
    #[must_use]
    pub fn categories(&self) -> Vec<String> {
        let mut categories = Vec::new();
        self.with_offered_tools(|tools| {
            for entry in tools {
                let category = entry.definition().category();
                if !categories.iter().any(|listed| listed == category) {
                    categories.push(category.to_owned());
                }
            }
        });
        categories
    }

    fn filter_offered_tools(
        &self,
        is_selected: impl Fn(&RegisteredTool) -> bool,
    ) -> Vec<Arc<RegisteredTool>> {
        self.with_offered_tools(|tools| tools.filter(|entry| is_selected(entry)).cloned().collect())
    }

    fn with_offered_tools<T>(
        &self,
        read: impl FnOnce(&mut dyn Iterator<Item = &Arc<RegisteredTool>>) -> T,
    ) -> T {
        let state = self.state.read();
        read(&mut state.tools.values().filter(|entry| entry.is_offered()))
    }
}

/// Returns the tool with this name or [short name](ToolName::short).
pub(crate) fn find_by_any_name<'a>(
    tools: &'a IndexMap<ToolName, Arc<RegisteredTool>>,
    name: &str,
) -> Option<&'a Arc<RegisteredTool>> {
    tools.get(name).or_else(|| find_by_short_name(tools, name))
}

fn find_by_short_name<'a>(
    tools: &'a IndexMap<ToolName, Arc<RegisteredTool>>,
    name: &str,
) -> Option<&'a Arc<RegisteredTool>> {
    if name.len() != ToolName::MAX_SHORT_LENGTH {
        return None;
    }
    tools.values().find(|tool| tool.name().has_short_name(name))
}

#[cfg(test)]
mod tests;
