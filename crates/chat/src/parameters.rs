//! The parameters of model providers' APIs that Pillion forwards from a client's request.
//!
//! Providers add parameters all the time, and some let the provider run tools, without approval and
//! without an entry in the call log. Therefore only parameters are forwarded that are known to do no
//! such thing, or that an operator allows.

use pillion_core::provider::Provider;

/// Sampling, output and service parameters of OpenAI's chat completions, and those that servers with
/// this API have in common: <https://platform.openai.com/docs/api-reference/chat/create>,
/// <https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html>.
const OPENAI_CHAT: [&str; 28] = [
    "audio",
    "enable_thinking",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "metadata",
    "min_p",
    "min_tokens",
    "modalities",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "reasoning_effort",
    "reasoning_format",
    "repetition_penalty",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "store",
    "thinking",
    "top_a",
    "top_k",
    "top_logprobs",
    "typical_p",
    "verbosity",
];

/// Parameters of Anthropic's messages: <https://docs.anthropic.com/en/api/messages>.
const ANTHROPIC: [&str; 7] = [
    "cache_control",
    "inference_geo",
    "output_config",
    "output_format",
    "service_tier",
    "thinking",
    "top_k",
];

/// Parameters that Pillion sets itself, or with which a provider would use other models, other
/// messages or its own tools. No configuration allows them.
const RESERVED: [&str; 18] = [
    "betas",
    "container",
    "extra_body",
    "fallbacks",
    "function_call",
    "functions",
    "input",
    "mcp_servers",
    "messages",
    "model",
    "models",
    "prompt",
    "route",
    "stream",
    "stream_options",
    "system",
    "tool_choice",
    "tools",
];

/// Returns the parameters that are forwarded to a provider with this API.
#[must_use]
pub fn known(api: Provider) -> &'static [&'static str] {
    match api {
        Provider::OpenAiChat => &OPENAI_CHAT,
        Provider::Anthropic => &ANTHROPIC,
        _ => &[],
    }
}

/// Returns whether no configuration may forward the parameter.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_reserved_parameter_is_forwarded() {
        for api in Provider::ALL {
            assert!(!known(api).iter().any(|name| is_reserved(name)), "{api}");
        }
    }
}
