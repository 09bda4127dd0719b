use std::collections::HashMap;
use std::ops::Index;

use serde::Deserialize;

/// Settings of individual tools, by tool name. A setting that was inserted [in any
/// case](Self::insert_in_any_case) applies to every tool whose name is equal, ignoring case.
/// Environment variables need such settings, because the name of a variable does not show which
/// letters of the tool's name are capitals.
///
/// ```
/// use pillion_core::executor::ToolSettings;
/// let mut limits = ToolSettings::from([("crm_get".to_owned(), 1)]);
/// assert_eq!(limits.get("crm_Get"), None);
/// limits.insert_in_any_case("CRM_GET", 2);
/// assert_eq!((limits.get("crm_get"), limits.get("crm_Get")), (Some(&2), Some(&2)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "HashMap<String, T>")]
pub struct ToolSettings<T> {
    exact_settings: HashMap<String, T>,
    /// Settings that apply in any case, by the tools' names in lower case.
    in_any_case: HashMap<String, T>,
}

impl<T> ToolSettings<T> {
    /// Returns the setting of a tool.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&T> {
        self.exact_settings
            .get(name)
            .or_else(|| match &self.in_any_case {
                settings if settings.is_empty() => None,
                settings => settings.get(&name.to_ascii_lowercase()),
            })
    }

    /// Returns whether no tool has a setting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exact_settings.is_empty() && self.in_any_case.is_empty()
    }

    /// Returns whether a tool has a setting.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets the setting of the tool with exactly this name.
    pub fn insert(&mut self, name: String, setting: T) {
        self.exact_settings.insert(name, setting);
    }

    /// Applies `setting` to every tool whose name equals `name`, ignoring case. Replaces the
    /// previous settings of these tools.
    pub fn insert_in_any_case(&mut self, name: &str, setting: T) {
        self.remove_in_any_case(name);
        self.in_any_case.insert(name.to_ascii_lowercase(), setting);
    }

    /// Removes all settings.
    pub fn clear(&mut self) {
        self.exact_settings.clear();
        self.in_any_case.clear();
    }

    /// Removes and returns the setting of the tool with exactly this name.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        self.exact_settings.remove(name)
    }

    /// Removes the settings of all tools whose names equal `name`, ignoring case, and returns one
    /// of these settings.
    pub fn remove_in_any_case(&mut self, name: &str) -> Option<T> {
        let is_named = |tool_name: &String, _: &mut T| tool_name.eq_ignore_ascii_case(name);
        let last_setting = self
            .exact_settings
            .extract_if(is_named)
            .map(|(_, setting)| setting)
            .last();
        last_setting.or_else(|| self.in_any_case.remove(&name.to_ascii_lowercase()))
    }

    /// Returns all settings, in no order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.exact_settings
            .values()
            .chain(self.in_any_case.values())
    }

    /// Returns the settings of the tools whose names `resolve` accepts. The arguments of `resolve`
    /// are a name, and whether its setting applies in any case.
    pub(super) fn matching(
        &self,
        resolve: impl Fn(&str, bool) -> bool,
    ) -> impl Iterator<Item = &T> {
        let exact_settings = self
            .exact_settings
            .iter()
            .map(|(name, setting)| (name, false, setting));
        let case_insensitive_settings = self.in_any_case.iter();
        let in_any_case = case_insensitive_settings.map(|(name, setting)| (name, true, setting));
        let all_settings = exact_settings.chain(in_any_case);
        all_settings
            .filter_map(move |(name, is_any, setting)| resolve(name, is_any).then_some(setting))
    }
}

impl<T> Default for ToolSettings<T> {
    fn default() -> Self {
        Self::from(HashMap::new())
    }
}

impl<T> From<HashMap<String, T>> for ToolSettings<T> {
    fn from(exact_settings: HashMap<String, T>) -> Self {
        let in_any_case = HashMap::new();
        Self {
            exact_settings,
            in_any_case,
        }
    }
}

impl<T, const N: usize> From<[(String, T); N]> for ToolSettings<T> {
    fn from(settings: [(String, T); N]) -> Self {
        Self::from(HashMap::from(settings))
    }
}

impl<T> FromIterator<(String, T)> for ToolSettings<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(settings: I) -> Self {
        Self::from(HashMap::from_iter(settings))
    }
}

impl<T> Index<&str> for ToolSettings<T> {
    type Output = T;

    #[expect(
        clippy::expect_used,
        reason = "as for a map, a missing name is a programming error"
    )]
    fn index(&self, name: &str) -> &T {
        self.get(name).expect("the tool has no such setting")
    }
}
