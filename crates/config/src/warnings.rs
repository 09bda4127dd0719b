use std::fmt;

use pillion_builtins::get_weather::WeatherService;
use pillion_core::variable;
use pillion_mcp_client::Endpoint;
use pillion_providers::Provider;

use super::{Config, IncompleteFile, KeyPath, KeyStep, network_tools};

/// Maximum edit distance up to which an unknown tool name is regarded as a typo of a known name.
const MAX_TYPO_DISTANCE: usize = 1;

/// A warning about a setting that is valid but probably a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigWarning {
    /// What the warning is about: a key, an environment variable, or a configuration file.
    subject: String,
    message: String,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.message)
    }
}

impl Config {
    /// Returns warnings about settings that are probably mistakes. `variable` returns the value of
    /// an environment variable.
    pub fn warnings(&self, variable: impl Fn(&str) -> Option<String>) -> Vec<ConfigWarning> {
        let mut warnings = Vec::new();
        for file in self.files() {
            if file.ends_within_line() {
                let subject = file.path().display().to_string();
                let message = IncompleteFile::NoLineBreak.to_string();
                warnings.push(ConfigWarning { subject, message });
            }
        }
        for name in &self.unknown_variables {
            let subject = format!("environment variable {name}");
            let message = "unknown variable, which has no effect".to_owned();
            warnings.push(ConfigWarning { subject, message });
        }
        let mut warn = |key: KeyPath, message| {
            let subject = key.to_string();
            warnings.push(ConfigWarning { subject, message });
        };
        for (index, provider) in self.providers.iter().enumerate() {
            let is_unset = |name: &&str| variable(name).is_none_or(|key| key.trim().is_empty());
            if let Some(name) = provider.key_env.as_deref().filter(is_unset) {
                let key = build_entry_path("providers", index).join_name("key_env");
                warn(key, format!("{} is not set", variable::describe(name)));
            }
        }
        for (index, model) in self.models.iter().enumerate() {
            let Some(name) = &model.config.provider else {
                continue;
            };
            let is_configured = self.providers.iter().any(|provider| provider.name == *name);
            // If there is no `[[providers]]` entry, a model may name a built-in provider without a
            // warning, because the configuration may list the models only for their flags.
            let is_built_in = self.providers.is_empty() && name.parse::<Provider>().is_ok();
            if !is_configured && !is_built_in {
                let message = format!(
                    "there is no [[providers]] entry named '{name}': the model cannot be used"
                );
                let key = build_entry_path("models", index).join_name("provider");
                warn(key, message);
            }
        }
        let weather = self.builtins.get_weather.as_ref();
        if weather.is_some_and(|weather| {
            let has_provider = !matches!(weather.service, WeatherService::Unset);
            !has_provider && (weather.base_url.is_some() || weather.geocoding_url.is_some())
        }) {
            let key = KeyPath::from_names(["tools", "get_weather", "provider"]);
            let message =
                "get_weather has no provider and returns an error until a provider is set";
            warn(key, message.to_owned());
        }
        let sections = self.mcp_servers.iter().enumerate();
        // The servers of the store, which are no part of the configuration, have IDs.
        for (index, section) in sections.filter(|(_, section)| section.id.is_none()) {
            let Endpoint::Command(command) = &section.server.endpoint else {
                continue;
            };
            let program = command.program.to_string_lossy();
            if program.contains(' ') && !command.program.exists() {
                let key = build_entry_path("mcp_servers", index).join_name("command");
                let message = "the program's name contains a space: arguments belong in 'args'";
                warn(key, message.to_owned());
            }
        }
        self.warn_about_tabletop(&mut warn);
        self.warn_about_tools(&mut warn);
        warnings
    }

    fn warn_about_tabletop(&self, warn: &mut impl FnMut(KeyPath, String)) {
        let message = match &self.tabletop.model {
            _ if !self.tabletop.enabled => return,
            None if self.features.llm => {
                "orchestrate_action has no model: set tabletop.model".to_owned()
            }
            Some(id) if !self.models.iter().any(|model| model.config.id == *id) => {
                format!("there is no [[models]] entry named '{id}'")
            }
            Some(_) if !self.features.llm => {
                "the model is not used unless features.llm is true".to_owned()
            }
            _ => return,
        };
        warn(KeyPath::from_names(["tabletop", "model"]), message);
    }

    /// Warns about settings under names that are probably typos of known tool names, because
    /// limits, approval policies and permissions under a misspelled name would silently have no
    /// effect.
    fn warn_about_tools(&self, warn: &mut impl FnMut(KeyPath, String)) {
        let builtins = pillion_builtins::all();
        let built_in_definitions = builtins.iter().map(|tool| tool.definition());
        let compositions = self.declared.composed.iter();
        let composed_definitions = compositions.map(|composition| composition.definition());
        let http_tools = self.declared.http.iter();
        let http_definitions = http_tools.map(|tool| pillion_core::tool::Tool::definition(&**tool));
        let definitions = built_in_definitions
            .chain(composed_definitions)
            .chain(http_definitions);
        let mut known_names: Vec<_> = definitions.map(|tool| tool.name().to_string()).collect();
        known_names.extend(network_tools::TOOL_NAMES.map(str::to_owned));
        let is_known = |name: &str| known_names.iter().any(|known_name| known_name == name);
        let is_known_in_any_case = |name: &String| {
            let mut names = known_names.iter();
            names.any(|known_name| known_name.eq_ignore_ascii_case(name))
        };
        let checked_tools = self
            .tools
            .iter()
            .filter(|(name, section)| !section.is_case_insensitive || !is_known_in_any_case(name));
        let sections = checked_tools.map(|(name, _)| (KeyPath::from_names(["tools", name]), name));
        let trusted_names = self.approvals.trusted_tools.iter();
        let trusted_tools =
            trusted_names.map(|name| (KeyPath::from_names(["approvals", "trusted_tools"]), name));
        let models = self.models.iter().enumerate().flat_map(|(index, model)| {
            let tools = build_entry_path("models", index).join_name("tools");
            let key = tools.join_name("enabled_tools");
            let enabled_tools = model.config.tools.enabled_tools.iter();
            enabled_tools.map(move |name| (key.clone(), name))
        });
        let indexed_compositions = self.declared.composed.iter().enumerate();
        let steps = indexed_compositions.flat_map(|(index, composition)| {
            let key = build_entry_path("composed_tools", index).join_name("steps");
            let called_tools = composition.called_tools().into_iter();
            called_tools.map(move |name| (key.clone(), name))
        });
        let settings = sections.chain(trusted_tools).chain(models);
        let references = settings.map(|(key, name)| (key, name.as_str()));
        for (key, name) in references.chain(steps).filter(|(_, name)| !is_known(name)) {
            let lower_name = name.to_ascii_lowercase();
            let edit_distance = |known_name: &String| {
                strsim::osa_distance(&lower_name, &known_name.to_ascii_lowercase())
            };
            let nearest_name = known_names.iter().min_by_key(|known| edit_distance(known));
            if let Some(similar_name) =
                nearest_name.filter(|known_name| edit_distance(known_name) <= MAX_TYPO_DISTANCE)
            {
                let message = format!(
                    "no built-in or configured tool has the name '{name}': did you mean \
                     '{similar_name}'?"
                );
                warn(key, message);
            }
        }
    }
}

fn build_entry_path(list: &str, index: usize) -> KeyPath {
    KeyPath::from_names([list]).join(KeyStep::Index(index))
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn warnings(text: &str) -> Vec<String> {
        let config = Config::parse(text, "pillion.toml").unwrap();
        let variable = |name: &str| (name == "SET").then(|| "key".to_owned());
        let warnings = config.warnings(variable);
        warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn likely_mistakes_are_warned_about() {
        for (text, expected) in [
            (
                "[tools.get_weather]\nbase_url = 'http://127.0.0.1:9'",
                "tools.get_weather.provider: get_weather has no provider and returns an error \
                 until a provider is set",
            ),
            (
                "[[providers]]\nname = 'openai'\nkey_env = 'UNSET'",
                "providers[0].key_env: the environment variable UNSET is not set",
            ),
            (
                "[[models]]\nid = 'a'\n[[models]]\nid = 'b'\nprovider = 'olama'",
                "models[1].provider: there is no [[providers]] entry named 'olama': the model \
                 cannot be used",
            ),
            (
                "[features]\nllm = true\n[tabletop]\nenabled = true\nmodel = 'nope'",
                "tabletop.model: there is no [[models]] entry named 'nope'",
            ),
            (
                "[tabletop]\nenabled = true\nmodel = 'a'\n[[models]]\nid = 'a'",
                "tabletop.model: the model is not used unless features.llm is true",
            ),
            (
                "[[mcp_servers]]\nlabel = 'a'\ncommand = 'npx -y server'",
                "mcp_servers[0].command: the program's name contains a space: arguments belong in \
                 'args'",
            ),
            (
                "[[composed_tools]]\nname = 'a'\ndescription = 'b'\n[[composed_tools.steps]]\n\
                 name = 'c'\ntool = 'calculater'",
                "composed_tools[0].steps: no built-in or configured tool has the name \
                 'calculater': did you mean 'calculator'?",
            ),
            (
                "[tools.calculater]\nrequire_approval = 'always'",
                "tools.calculater: no built-in or configured tool has the name 'calculater': did \
                 you mean 'calculator'?",
            ),
            (
                "[tools.ROLL_DICE]\nrequire_approval = 'always'",
                "tools.ROLL_DICE: no built-in or configured tool has the name 'ROLL_DICE': did \
                 you mean 'roll_dice'?",
            ),
            (
                "[approvals]\npolicy = 'trusted-only'\ntrusted_tools = ['calculater']",
                "approvals.trusted_tools: no built-in or configured tool has the name \
                 'calculater': did you mean 'calculator'?",
            ),
            (
                "[[models]]\nid = 'a'\ntools = { enabled_tools = ['get_tme'] }",
                "models[0].tools.enabled_tools: no built-in or configured tool has the name \
                 'get_tme': did you mean 'get_time'?",
            ),
        ] {
            assert_eq!(warnings(text), [expected]);
        }
    }

    #[test]
    fn plausible_settings_are_not_warned_about() {
        for text in [
            "",
            "[[providers]]\nname = 'openai'\nkey_env = 'SET'\n[[models]]\nid = 'a'\nprovider = 'openai'",
            "[[models]]\nid = 'a'\nprovider = 'openai'",
            "[tabletop]\nenabled = true\n[tools.save_character]\ntimeout_ms = 5",
            "[tools.far_echo]\ntimeout_ms = 5\n[tools.web_search]\ntimeout_ms = 5\n[tools.get_time]\ntimeout_ms = 5",
        ] {
            assert_eq!(warnings(text), Vec::<String>::new(), "{text}");
        }
    }
}
