use std::fmt;
use std::path::Path;
use std::time::Duration;

use pillion_egress::EgressPolicy;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use url::Url;

use super::millis;

/// `[registry]`: the MCP registry whose servers the page
/// [Registry](../how-to/use-the-console.md#install-servers-of-the-registry) of the console lists
/// and installs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySection {
    /// Whether the console has the registry. Pillion sends requests to the registry only when a
    /// user searches the registry or opens one of its servers.
    pub enabled: bool,
    /// The base URL of a registry with the API `/v0.1` of the official MCP registry: `https`, or
    /// `http` to this machine. Default: `https://registry.modelcontextprotocol.io`.
    #[cfg_attr(test, schemars(with = "String"))]
    pub url: RegistryUrl,
    /// Time for which a response of the registry is used without a new request. An older response
    /// is used if the registry cannot be reached.
    #[serde(rename = "mirror_ttl_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub mirror_ttl: Duration,
    /// The package runners that may be started on this host for servers of the registry: `npx` for
    /// packages of npm, `uvx` for packages of PyPI, or the absolute path of one of them. Clients
    /// with the scope `admin` can then install such packages in the console, and test and enable
    /// stored servers with these commands. A package can do everything that the sidecar's user can
    /// do.
    pub allowed_commands: Vec<String>,
}

impl Default for RegistrySection {
    fn default() -> Self {
        Self {
            enabled: true,
            url: RegistryUrl::default(),
            mirror_ttl: Duration::from_secs(60 * 60),
            allowed_commands: Vec::new(),
        }
    }
}

impl RegistrySection {
    /// Returns the entry of `allowed_commands` for a package runner such as `npx`: its name, or an
    /// absolute path that ends with its name. `None` if the runner is not allowed.
    #[must_use]
    pub fn allowed_command(&self, runner: &str) -> Option<&str> {
        let is_runner = |command: &&String| {
            let path = Path::new(command);
            command.as_str() == runner
                || (path.is_absolute() && path.file_name().is_some_and(|name| name == runner))
        };
        self.allowed_commands
            .iter()
            .find(is_runner)
            .map(String::as_str)
    }
}

/// The base URL of a registry. `Debug` shows only the host.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryUrl(pub Url);

impl Default for RegistryUrl {
    #[expect(clippy::expect_used, reason = "the URL is a constant")]
    fn default() -> Self {
        let url = Url::parse("https://registry.modelcontextprotocol.io");
        Self(url.expect("the default URL of the registry is valid"))
    }
}

impl fmt::Debug for RegistryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegistryUrl")
            .field(&self.0.host_str())
            .finish()
    }
}

impl<'de> Deserialize<'de> for RegistryUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let url = Url::parse(&text)
            .map_err(|_| D::Error::custom("expected the https:// URL of a registry"))?;
        EgressPolicy::default()
            .check_url(&url)
            .map_err(D::Error::custom)?;
        let has_credential = !url.username().is_empty() || url.password().is_some();
        if has_credential || url.query().is_some() || url.fragment().is_some() {
            return Err(D::Error::custom(
                "expected a URL without user, password, query and fragment",
            ));
        }
        Ok(Self(url))
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn only_urls_that_requests_may_reach_are_accepted() {
        let parse = |url: &str| Config::parse(&format!("[registry]\nurl = \"{url}\""), "t.toml");
        for valid_url in ["https://mcp.example/registry", "http://127.0.0.1:8080"] {
            assert!(parse(valid_url).is_ok(), "{valid_url}");
        }
        for invalid_url in [
            "mcp.example",
            "javascript:alert(1)",
            "http://mcp.example",
            "https://169.254.169.254",
            "https://me:hush@mcp.example",
            "https://mcp.example/?a=b",
        ] {
            let error = parse(invalid_url).unwrap_err().to_string();
            assert!(error.starts_with("t.toml:2: registry.url: "), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_runner_is_allowed_by_its_name_or_by_an_absolute_path() {
        let text = "[registry]\nallowed_commands = [\"/opt/node/bin/npx\", \"bin/uvx\"]";
        let section = Config::parse(text, "t.toml").unwrap().registry;
        assert_eq!(section.allowed_command("npx"), Some("/opt/node/bin/npx"));
        assert_eq!(section.allowed_command("uvx"), None);
        assert_eq!(section.allowed_command("px"), None);
    }
}
