use std::fmt;
use std::str::FromStr;

/// The API of a model provider. Compatible servers have the same format: vLLM, Ollama and GWDG's
/// Chat AI are compatible with `OpenAiChat`.
///
/// ```
/// use pillion_providers::Provider;
/// assert_eq!("openai".parse(), Ok(Provider::OpenAiChat));
/// assert_eq!("Gemini".parse(), Ok(Provider::Google));
/// assert_eq!(Provider::Google.to_string(), "google");
/// assert!("hal9000".parse::<Provider>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI's chat completions: `openai` or `openai-chat`.
    OpenAiChat,
    /// OpenAI's Responses API: `openai-responses`.
    OpenAiResponses,
    /// Anthropic's Messages API: `anthropic`.
    Anthropic,
    /// Google's `generateContent`: `google` or `gemini`.
    Google,
}

/// Error for a provider name that [`Provider`] does not know. Contains the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Unknown provider '{0}': use openai, openai-responses, anthropic or google")]
pub struct UnknownProvider(pub String);

impl Provider {
    /// All providers.
    pub const ALL: [Self; 4] = [
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Anthropic,
        Self::Google,
    ];

    /// Returns the name of the provider, which [`FromStr`] accepts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Google => "google",
        }
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    /// Parses the names in the comments of the variants, case-insensitively.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.to_ascii_lowercase().as_str() {
            "openai" | "openai-chat" => Ok(Self::OpenAiChat),
            "openai-responses" => Ok(Self::OpenAiResponses),
            "anthropic" => Ok(Self::Anthropic),
            "google" | "gemini" => Ok(Self::Google),
            _ => Err(UnknownProvider(name.to_owned())),
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_each_name_is_read_back() {
        for provider in Provider::ALL {
            assert_eq!(provider.as_str().parse(), Ok(provider));
            assert_eq!(provider.api().provider(), provider);
        }
        assert_eq!("openai-chat".parse(), Ok(Provider::OpenAiChat));
        assert_eq!(
            "x".parse::<Provider>().unwrap_err().to_string(),
            "Unknown provider 'x': use openai, openai-responses, anthropic or google"
        );
    }
}
