use std::num::NonZeroU64;
use std::time::Duration;

use pillion_chat::{HttpModelConfig, parameters};
use pillion_egress::EgressPolicy;
use pillion_providers::Provider;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use url::Url;

use super::millis;

/// One entry of `[[providers]]`: a provider of language models.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSection {
    /// The provider's name, which `provider` of `[[models]]` refers to.
    #[serde(deserialize_with = "read_name")]
    pub name: String,
    /// The API that the provider speaks: `openai`, `openai-responses`, `anthropic` or `google`.
    /// Default: the API of that name if `name` is one of these, else `openai`, which most servers
    /// imitate.
    #[serde(default, deserialize_with = "read_api")]
    api: Option<Provider>,
    /// The base URL of the API's endpoints, such as `http://127.0.0.1:11434/v1`. Default: the
    /// public URL of the API that `name` or `api` names.
    #[serde(default, deserialize_with = "read_base_url")]
    base_url: Option<Url>,
    /// The environment variable with the API key. Default: the key that `pillion providers set-key`
    /// put into the vault, or no key.
    #[serde(default)]
    pub key_env: Option<String>,
    /// Maximum time for one response. Default: 300,000 ms.
    #[serde(default = "default_timeout", rename = "timeout_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    pub timeout: Duration,
    /// Maximum number of retries of a request if the provider is unreachable, unavailable or limits
    /// the rate of requests. Default: 2.
    #[serde(default = "default_max_retries")]
    pub max_retries: u32,
    /// Maximum size of a response, in bytes. Default: 32 MiB.
    #[serde(default = "default_max_response_bytes")]
    pub max_answer_bytes: NonZeroU64,
    /// Parameters of requests to the OpenAI- and Anthropic-compatible APIs that are forwarded to
    /// the provider, in addition to the parameters that Pillion knows. Some parameters make a
    /// provider run tools without approval. Default: none.
    #[serde(default, deserialize_with = "read_extra_parameters")]
    pub extra_parameters: Vec<String>,
    /// Where requests may go. Plain HTTP is allowed only to the host of `base_url`.
    #[serde(default)]
    pub egress: EgressPolicy,
}

impl ProviderSection {
    /// Returns the API that the provider speaks.
    #[must_use]
    pub fn api(&self) -> Provider {
        let api_of_name = || self.name.parse().unwrap_or(Provider::OpenAiChat);
        self.api.unwrap_or_else(api_of_name)
    }

    /// Returns whether the provider's URL is unknown.
    pub(super) fn has_no_url(&self) -> bool {
        let is_known = self.api.is_some() || self.name.parse::<Provider>().is_ok();
        self.base_url.is_none() && !is_known
    }

    /// Returns the settings of the provider's model `name`, without the API key.
    pub fn model(&self, name: &str) -> HttpModelConfig {
        let api = self.api();
        let base_url = self.base_url.clone().unwrap_or_else(|| default_url(api));
        let mut config = HttpModelConfig::new(api, base_url, name);
        config.provider_name = Some(self.name.clone());
        config.egress = self.egress.clone();
        config.timeout = self.timeout;
        config.max_retries = self.max_retries;
        config.max_response_bytes =
            usize::try_from(self.max_answer_bytes.get()).unwrap_or(usize::MAX);
        config
    }

    /// Returns the host name of the provider.
    pub fn host(&self) -> String {
        let api = self.api();
        let url = self.base_url.clone().unwrap_or_else(|| default_url(api));
        url.host_str().unwrap_or_default().to_owned()
    }
}

/// Returns the public URL of an API.
fn default_url(api: Provider) -> Url {
    #[expect(clippy::expect_used, reason = "constants, each of which a test reads")]
    Url::parse(api.api().base_url()).expect("a URL")
}

fn read_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.trim().is_empty() || name.len() > 100 {
        return Err(D::Error::custom(format!(
            "a provider's name must have 1 to 100 bytes and must not be blank, but has {} bytes",
            name.len()
        )));
    }
    Ok(name)
}

fn read_api<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Provider>, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map(Some).map_err(D::Error::custom)
}

fn read_base_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let text = String::deserialize(deserializer)?;
    // The error does not repeat the text, which may contain a key.
    let url = Url::parse(&text).map_err(|_| D::Error::custom("not a valid URL"))?;
    match url.scheme() {
        "http" | "https" if url.username().is_empty() && url.password().is_none() => Ok(Some(url)),
        "http" | "https" => Err(D::Error::custom(
            "the URL must not contain a user or password: set key_env to the environment \
            variable with the API key",
        )),
        _ => Err(D::Error::custom(
            "only https:// and http:// URLs are allowed",
        )),
    }
}

fn read_extra_parameters<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    match names.iter().find(|name| parameters::is_reserved(name)) {
        Some(name) => Err(D::Error::custom(format!(
            "'{name}' cannot be forwarded: Pillion sets this parameter, or the parameter would \
             make the provider use other models or run its own tools"
        ))),
        None => Ok(names),
    }
}

fn default_timeout() -> Duration {
    Duration::from_secs(300)
}

fn default_max_retries() -> u32 {
    2
}

fn default_max_response_bytes() -> NonZeroU64 {
    NonZeroU64::MIN.saturating_add((32 << 20) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn read(text: &str) -> Result<ProviderSection, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn h1_the_name_of_a_known_provider_is_enough() {
        for provider in Provider::ALL {
            let section = read(&format!("name = '{provider}'")).unwrap();
            assert_eq!(section.api(), provider);
            assert_eq!(section.model("m").base_url.scheme(), "https");
        }
        let other_provider = read("name = 'gwdg'\nbase_url = 'http://llm.internal/v1'").unwrap();
        assert_eq!(other_provider.api(), Provider::OpenAiChat);
        assert_eq!(other_provider.host(), "llm.internal");
    }

    #[test]
    fn h1_the_entry_decides_where_requests_go() {
        let missing_url = "[[providers]]\nname = 'openai'\n[[providers]]\nname = 'ollama'\n";
        let error = Config::parse(missing_url, "pillion.toml").unwrap_err();
        assert_eq!(
            error.to_string(),
            "pillion.toml:4: providers[1].name: 'ollama' is not the name of a built-in provider \
            (anthropic, google, openai, openai-responses): set base_url"
        );
        for setting in ["api = 'openai'", "base_url = 'http://127.0.0.1:11434/v1'"] {
            let config = Config::parse(&format!("{missing_url}{setting}"), "pillion.toml");
            assert_eq!(config.unwrap().providers.len(), 2);
        }
    }

    #[test]
    fn a_parameter_that_pillion_sets_cannot_be_forwarded() {
        let read_with =
            |name: &str| read(&format!("name = 'openai'\nextra_parameters = ['{name}']"));
        let section = read_with("search_settings").unwrap();
        assert_eq!(section.extra_parameters, ["search_settings"]);
        for name in [
            "model",
            "models",
            "tools",
            "mcp_servers",
            "messages",
            "function_call",
        ] {
            let error = read_with(name).unwrap_err().to_string();
            let expected = format!("'{name}' cannot be forwarded");
            assert!(error.contains(&expected), "{error}");
        }
        let section = read("name = 'openai'").unwrap();
        assert!(section.extra_parameters.is_empty());
    }

    #[test]
    fn l1_a_key_in_the_url_is_rejected_and_not_quoted() {
        let error = read("name = 'x'\nbase_url = 'https://u:s3cret@x.example/'").unwrap_err();
        assert!(error.message().contains("key_env"), "{error}");
        assert!(!error.message().contains("s3cret"), "{error}");
    }
}
