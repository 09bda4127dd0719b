//! The parameters of model providers' APIs that Pillion forwards from a client's request.
//!
//! Providers add parameters all the time, and some parameters let the provider run tools, without
//! approval and without an entry in the call log. Therefore Pillion forwards only parameters that
//! are known to run no tools
//! ([`forwarded_parameters`](pillion_providers::ProviderApi::forwarded_parameters)), or that an
//! operator allows.

/// Parameters that Pillion never forwards: those that Pillion sets itself, and those that would
/// change the model, add messages or let the provider run tools. No configuration allows these
/// parameters.
const RESERVED_PARAMETERS: [&str; 18] = [
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

/// Returns whether Pillion never forwards the parameter, whatever the configuration allows.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED_PARAMETERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use pillion_providers::Provider;

    use super::*;

    #[test]
    fn no_reserved_parameter_is_forwarded() {
        for provider in Provider::ALL {
            let mut forwarded = provider.api().forwarded_parameters().iter();
            assert!(!forwarded.any(|name| is_reserved(name)), "{provider}");
        }
    }
}
