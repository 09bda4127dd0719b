use pillion_egress::EgressPolicy;
use pillion_providers::Provider;
use secrecy::SecretString;
use serde::Deserialize;
use toml::{Table, Value};
use url::{Host, Url};

use super::entry::{Result, Variables, entry_error, variable_value};
use super::{KeyPath, McpServerSection, ModelSection, PinPolicy, ProviderSection};

/// `native` of an entry of `[[mcp_servers]]`: the URL and the token with which model providers call
/// the server directly. Applies to models whose `tools.native_mcp` names the server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NativeSection {
    /// The URL that providers use. Default: the entry's `url`.
    pub url: Option<Url>,
    /// The bearer token that providers send to the server, from the environment variable that
    /// `token_env` names. Providers never get the entry's own credential.
    #[serde(rename = "token_env")]
    pub token: Option<SecretString>,
}

impl NativeSection {
    pub(super) fn check_url(&self, path: &KeyPath) -> Result<()> {
        if self.url.as_ref().is_none_or(is_public) {
            return Ok(());
        }
        let message = "expected a public https:// URL, because the model's provider connects to it";
        let key = path.join_name("native").join_name("url");
        Err(entry_error(key, message))
    }
}

/// Replaces the name of an environment variable in `native.token_env` by the variable's value.
pub(super) fn fill_token(
    settings: &mut Table,
    path: &KeyPath,
    variables: &Variables,
) -> Result<()> {
    const TOKEN_ENV_KEY: &str = "token_env";
    if let Some(Value::Table(native_table)) = settings.get_mut("native")
        && let Some(name) = native_table.remove(TOKEN_ENV_KEY)
    {
        let token_path = path.join_name("native").join_name(TOKEN_ENV_KEY);
        let token = variable_value(Some(name), &token_path, variables)?;
        native_table.insert(TOKEN_ENV_KEY.to_owned(), Value::String(token));
    }
    Ok(())
}

/// Returns the URL at which a provider reaches the server.
pub fn url_for_provider(server: &McpServerSection) -> Option<&Url> {
    let native = server.settings.native.as_ref();
    let native_url = native.and_then(|native| native.url.as_ref());
    native_url.or_else(|| server.server.url())
}

/// Returns why the model's provider cannot call the server with this label directly; `None` if the
/// provider can. `pin` is the pin policy that applies if the server does not set `pin`.
pub(super) fn native_call_error(
    model: &ModelSection,
    provider: Option<&ProviderSection>,
    label: &str,
    servers: &[McpServerSection],
    pin: PinPolicy,
) -> Option<String> {
    let Some(server) = servers.iter().find(|server| server.label() == label) else {
        return Some(format!(
            "there is no [[mcp_servers]] entry with the label '{label}'"
        ));
    };
    let tools = &model.config.tools;
    let api = provider.map(ProviderSection::api);
    let native = server.settings.native.as_ref();
    let reason = if !(tools.function_calling && tools.mcp) {
        "set function_calling and mcp to true in the tools of the model".to_owned()
    } else if !matches!(api, Some(Provider::OpenAiResponses | Provider::Anthropic)) {
        let model_api = match (api, model.config.provider.as_deref()) {
            (Some(api), _) => format!("uses '{api}'"),
            (None, Some(name)) => {
                format!("names the provider '{name}', which has no [[providers]] entry")
            }
            (None, None) => "has no provider".to_owned(),
        };
        format!(
            "only providers with the API 'openai-responses' or 'anthropic' can, and the model \
            {model_api}"
        )
    } else if server.server.url().is_none() {
        "the server is a local program".to_owned()
    } else if server.settings.pin.unwrap_or(pin) == PinPolicy::Block {
        "the provider reads the tool definitions from the server itself, so Pillion cannot block \
        a changed tool (pin)"
            .to_owned()
    } else if server.settings.credential.uses_user_credentials() {
        "the server uses the credentials of users, which are never sent to a provider".to_owned()
    } else if native.is_none_or(|native| native.url.is_none())
        && server.server.url().is_some_and(|url| url.query().is_some())
    {
        "the server's URL has a query, which may contain a key: set native.url to the URL for \
        the provider"
            .to_owned()
    } else if !url_for_provider(server).is_some_and(is_public) {
        "the server has no public https:// URL: set native.url to such a URL".to_owned()
    } else {
        return None;
    };
    Some(format!(
        "the model's provider cannot call MCP server '{label}' directly: {reason}"
    ))
}

/// Returns whether a URL looks reachable from the internet: `https`, and neither a private address
/// nor a local host name.
fn is_public(url: &Url) -> bool {
    let mut policy = EgressPolicy::default();
    policy.allow_private = false;
    policy.allow_loopback = false;
    let is_named_publicly = match url.host() {
        Some(Host::Domain(domain)) => {
            let name = domain.trim_end_matches('.');
            let top_level_domain = name.rsplit('.').next().unwrap_or_default();
            name.contains('.') && !["localhost", "local", "internal"].contains(&top_level_domain)
        }
        _ => true,
    };
    url.scheme() == "https" && is_named_publicly && policy.check_url(url).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, ConfigError};

    fn config(server: &str, model: &str) -> Result<Config, ConfigError> {
        let text = format!(
            "[[providers]]\nname = 'openai-responses'\n\
             [[providers]]\nname = 'openai'\n\
             [[mcp_servers]]\nlabel = 'dice'\n{server}\n\
             [[models]]\nid = 'm'\nprovider = 'openai-responses'\n{model}\n"
        );
        Config::parse(&text, "pillion.toml")
    }

    const NATIVE_TOOLS: &str =
        "tools = { function_calling = true, mcp = true, native_mcp = ['dice'] }";

    #[test]
    fn h1_a_server_is_native_for_models_that_list_it() {
        let config = config("url = 'https://dice.example/mcp'", NATIVE_TOOLS).unwrap();
        assert_eq!(config.models[0].native_mcp, ["dice"]);
        let server = &config.mcp_servers[0];
        let url = url_for_provider(server).unwrap();
        assert_eq!(url.as_str(), "https://dice.example/mcp");
        assert!(server.settings.native.is_none());
    }

    #[test]
    fn h1_another_url_may_be_public() {
        let server = "url = 'http://127.0.0.1/mcp'\nnative = { url = 'https://dice.example/mcp' }";
        let config = config(server, NATIVE_TOOLS).unwrap();
        let url = url_for_provider(&config.mcp_servers[0]).unwrap();
        assert_eq!(url.as_str(), "https://dice.example/mcp");
    }

    #[test]
    fn h1_a_server_that_no_provider_can_call_is_a_clear_error() {
        let public_server = "url = 'https://dice.example/mcp'";
        let bad_servers = [
            ("command = 'dice'", "the server is a local program"),
            ("url = 'http://127.0.0.1:9/mcp'", "public https:// URL"),
            ("url = 'https://10.0.0.1/mcp'", "public https:// URL"),
            ("url = 'https://dice/mcp'", "public https:// URL"),
            ("url = 'https://dice.localhost/mcp'", "public https:// URL"),
            (
                "url = 'https://dice.example/mcp'\ncredential = 'per_user'",
                "the credentials of users",
            ),
            (
                "url = 'https://dice.example/mcp'\npin = 'block'",
                "Pillion cannot block a changed tool",
            ),
            (
                "url = 'https://dice.example/mcp?key=s3cret'",
                "the server's URL has a query",
            ),
        ];
        let bad_models = [
            (
                "url = 'https://dice.example/mcp'\nnative = { url = 'http://dice.example/mcp' }",
                "",
                "pillion.toml:8: mcp_servers[0].native.url: expected a public https:// URL",
            ),
            (
                public_server,
                "tools = { function_calling = true, native_mcp = ['dice'] }",
                "set function_calling and mcp to true in the tools of the model",
            ),
            (
                public_server,
                "tools = { function_calling = true, mcp = true, native_mcp = ['cards'] }",
                "models[0].tools.native_mcp[0]: there is no [[mcp_servers]] entry with the label \
                 'cards'",
            ),
            (
                public_server,
                "[[models]]\nid = 'n'\nprovider = 'openai'\ntools = { function_calling = true, mcp = true, native_mcp = ['dice'] }",
                "pillion.toml:14: models[1].tools.native_mcp[0]: the model's provider cannot call \
                 MCP server 'dice' directly: only providers with the API 'openai-responses' or 'anthropic' can",
            ),
        ];
        let server_cases = bad_servers.map(|(server, message)| (server, NATIVE_TOOLS, message));
        for (server, model, message) in server_cases.into_iter().chain(bad_models) {
            let error = config(server, model).unwrap_err().to_string();
            assert!(error.contains(message), "{server}\n{model}\n{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
