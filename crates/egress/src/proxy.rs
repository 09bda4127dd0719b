use std::collections::BTreeSet;

use url::Url;

use super::HostName;

/// The environment variables from which the HTTP client takes its proxies.
const VARIABLES: [&str; 6] = [
    "ALL_PROXY",
    "all_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
];

/// Returns the host names of the environment's proxies, whose addresses are the operator's choice.
pub(super) fn hosts() -> BTreeSet<HostName> {
    let values = VARIABLES.iter().filter_map(|name| std::env::var(name).ok());
    values.filter_map(|value| host_of(&value)).collect()
}

/// Returns the host of a proxy, which may lack a scheme and contain user and password.
fn host_of(proxy: &str) -> Option<HostName> {
    let proxy = proxy.trim();
    let url = if proxy.contains("://") {
        Url::parse(proxy)
    } else {
        Url::parse(&format!("http://{proxy}"))
    };
    Some(HostName::of(&url.ok()?.host()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_proxy_is_read_in_every_notation() {
        for proxy in [
            "http://Proxy.corp:3128",
            "http://user:hush@proxy.corp:3128/",
            "proxy.corp:3128",
            "proxy.corp",
            " https://proxy.corp. ",
        ] {
            let host = host_of(proxy).unwrap();
            assert_eq!(host.as_str(), "proxy.corp", "{proxy}");
        }
        assert_eq!(host_of(""), None);
    }
}
