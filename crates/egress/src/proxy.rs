use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use reqwest::{ClientBuilder, NoProxy, Proxy};
use url::{Host, Url};

use super::{HostName, is_local_host};

/// The variables that name the proxy for `http` URLs, in the order of precedence.
const HTTP_VARIABLES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
const HTTPS_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// The variables that list the hosts that are reached without a proxy, in the order of precedence.
const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The proxies that environment variables name. This type parses the variables for the HTTP
/// clients, because an HTTP client that parsed them itself would ignore an invalid variable and
/// send requests directly.
#[derive(Clone, Default)]
pub struct Proxies {
    http: Option<Url>,
    https: Option<Url>,
    exceptions: String,
}

/// The value of an environment variable does not name a valid proxy. The message does not contain
/// the value, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "environment variable {variable}: {reason}: expected http://HOST:PORT, https://HOST:PORT or \
     HOST:PORT, optionally with a percent-encoded USER:PASSWORD@ before HOST"
)]
pub struct InvalidProxy {
    variable: &'static str,
    reason: &'static str,
}

impl Proxies {
    /// Returns the proxies that the environment of this process names.
    ///
    /// # Errors
    /// The same errors as [`from_variables`](Self::from_variables).
    pub fn from_environment() -> Result<Self, InvalidProxy> {
        Self::from_variables(|name| {
            let value = std::env::var_os(name)?;
            Some(value.into_string().map_err(drop))
        })
    }

    /// Returns the proxies that environment variables name. `variable` returns the value of a
    /// variable, or `Err` if the value is not UTF-8. An empty variable counts as unset.
    ///
    /// ```
    /// use pillion_egress::Proxies;
    /// let variables = |value: &'static str| {
    ///     move |name: &str| (name == "http_proxy").then(|| Ok(value.to_owned()))
    /// };
    /// assert!(Proxies::from_variables(variables("http://proxy.corp:3128")).is_ok());
    /// assert!(Proxies::from_variables(variables("http//proxy.corp:3128")).is_err());
    /// ```
    ///
    /// # Errors
    /// [`InvalidProxy`] if, for a scheme, the first variable that is not empty does not name a
    /// valid proxy.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<Result<String, ()>>,
    ) -> Result<Self, InvalidProxy> {
        // `HTTP_PROXY` is ignored in a CGI process, because there, the web server's client can set
        // the variable by sending a header `Proxy`.
        let is_cgi = variable("REQUEST_METHOD").is_some();
        let find_proxy = |names: [&'static str; 4]| {
            let names = names.into_iter();
            for name in names.filter(|name| !(is_cgi && *name == "HTTP_PROXY")) {
                let invalid_proxy = |reason| InvalidProxy {
                    variable: name,
                    reason,
                };
                match variable(name) {
                    None => {}
                    Some(Err(())) => return Err(invalid_proxy("the value is not valid UTF-8")),
                    Some(Ok(value)) if value.is_empty() => {}
                    Some(Ok(value)) => return parse_proxy(&value).map(Some).map_err(invalid_proxy),
                }
            }
            Ok(None)
        };
        let mut exception_names = NO_PROXY_VARIABLES.iter();
        let exceptions = exception_names.find_map(|name| variable(name)?.ok());
        Ok(Self {
            http: find_proxy(HTTP_VARIABLES)?,
            https: find_proxy(HTTPS_VARIABLES)?,
            exceptions: exceptions.unwrap_or_default(),
        })
    }

    /// Returns whether the variables name no proxy.
    pub(super) fn is_empty(&self) -> bool {
        self.http.is_none() && self.https.is_none()
    }

    /// Returns whether an HTTP client sends requests for this URL through a proxy.
    #[must_use]
    pub fn are_used_for(&self, url: &Url) -> bool {
        let proxy = match url.scheme() {
            "https" => &self.https,
            _ => &self.http,
        };
        let Some(host) = url.host().filter(|_| proxy.is_some()) else {
            return false;
        };
        !is_local_host(&host) && !self.is_exception(&host)
    }

    /// Returns whether `NO_PROXY` contains a host: `*`, the host's name, a domain of the host, its
    /// address, or a network of its address.
    fn is_exception(&self, host: &Host<&str>) -> bool {
        let mut entries = self.exceptions.split(',').map(str::trim);
        entries.any(|entry| match host {
            _ if entry == "*" => true,
            Host::Domain(name) => is_in_domain(name, entry),
            Host::Ipv4(address) => is_in_network(IpAddr::from(*address), entry),
            Host::Ipv6(address) => is_in_network(IpAddr::from(*address), entry),
        })
    }

    /// Returns the host names of the proxies. Their addresses are not checked, because the operator
    /// has chosen the proxies.
    pub(super) fn hosts(&self) -> BTreeSet<HostName> {
        let urls = self.http.iter().chain(&self.https);
        urls.filter_map(|url| Some(HostName::from_host(&url.host()?)))
            .collect()
    }

    /// Configures a client to use only these proxies.
    pub(super) fn configure_client(
        &self,
        builder: ClientBuilder,
    ) -> Result<ClientBuilder, reqwest::Error> {
        let mut builder = builder.no_proxy();
        let http = self.http.clone().map(Proxy::http);
        let https = self.https.clone().map(Proxy::https);
        for proxy in [http, https].into_iter().flatten() {
            let exceptions = NoProxy::from_string(&self.exceptions);
            builder = builder.proxy(proxy?.no_proxy(exceptions));
        }
        Ok(builder)
    }
}

/// Returns whether `domain`, which may begin with a dot, is the name of a host or a parent domain.
fn is_in_domain(host: &str, domain: &str) -> bool {
    let lowercase_host = host.to_ascii_lowercase();
    let lowercase_domain = domain.trim_start_matches('.').to_ascii_lowercase();
    let prefix = lowercase_host.strip_suffix(&lowercase_domain);
    !lowercase_domain.is_empty()
        && prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
}

/// Returns whether `entry` is an address or a network that contains it.
fn is_in_network(address: IpAddr, entry: &str) -> bool {
    let is_same = entry
        .parse()
        .is_ok_and(|entry_address: IpAddr| entry_address == address);
    let contains = |network: IpNet| network.contains(&address);
    is_same || entry.parse().is_ok_and(contains)
}

/// Parses the URL of a proxy; the scheme may be missing. Accepts only the URL forms that the HTTP
/// client supports.
fn parse_proxy(value: &str) -> Result<Url, &'static str> {
    if value.contains(|character: char| character.is_whitespace() || character.is_control()) {
        return Err("the proxy contains white space or a control character");
    }
    let url = match value.split_once("://") {
        Some((scheme, _)) if scheme.to_ascii_lowercase().starts_with("socks") => {
            return Err("SOCKS proxies are not supported");
        }
        Some(_) => Url::parse(value),
        None => Url::parse(&format!("http://{value}")),
    }
    .map_err(|_| "the proxy is not a valid URL")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("the scheme of the proxy is neither http nor https");
    }
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let uri: Option<http::Uri> = url.as_str().parse().ok();
    if !is_bare || uri.is_none_or(|uri| uri.host().is_none_or(str::is_empty)) {
        return Err("the proxy has no host, or has a path, a query or a fragment");
    }
    Ok(url)
}

impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Debug output omits the URLs, which may contain passwords.
        f.debug_struct("Proxies")
            .field("hosts", &self.hosts())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Result<Proxies, InvalidProxy> {
        Proxies::from_variables(|name| {
            let mut variables = variables.iter();
            let &(_, value) = variables.find(|(variable_name, _)| *variable_name == name)?;
            Some(Ok(value.to_owned()))
        })
    }

    /// Returns the hosts of the proxies for http and https.
    fn hosts(variables: &[(&str, &str)]) -> [Option<String>; 2] {
        let proxies = proxies(variables).unwrap();
        let host = |url: Option<Url>| Some(url?.host_str()?.to_owned());
        [host(proxies.http), host(proxies.https)]
    }

    #[test]
    fn the_host_of_a_proxy_is_read_in_every_notation() {
        for proxy in [
            "http://Proxy.corp:3128",
            "http://user:hush@proxy.corp:3128/",
            "proxy.corp:3128",
            "user:h%75sh@proxy.corp:3128",
            "proxy.corp",
            "https://proxy.corp.",
        ] {
            let proxies = proxies(&[("all_proxy", proxy)]).unwrap();
            let hosts = proxies.hosts();
            assert_eq!(hosts.first().unwrap().as_str(), "proxy.corp", "{proxy}");
            assert!(!format!("{proxies:?}").contains("hush"));
        }
        assert!(proxies(&[("ALL_PROXY", "")]).unwrap().is_empty());
    }

    #[test]
    fn l2_a_proxy_that_the_client_would_ignore_is_an_error_without_its_value() {
        for proxy in [
            "http://127.0.0.1:1 ",
            " http://127.0.0.1:1",
            "http//127.0.0.1:1",
            "http:/127.0.0.1:1/x",
            "htp://127.0.0.1:1",
            "://127.0.0.1:1",
            "http://",
            "http://:3128",
            "http://hush@",
            "http://us er:hush@127.0.0.1:1",
            "http://us\ner:hush@127.0.0.1:1",
            "http://hush@proxy:port/",
            "http://proxy:99999",
            "http://proxy/hush",
            "http://proxy/?hush",
            "http://[::1",
            "proxy corp",
            "ftp://proxy",
            "socks5://127.0.0.1:1",
            "SOCKS5h://127.0.0.1:1",
            "/run/proxy",
            ":",
            "\u{0}",
        ] {
            for variable in HTTP_VARIABLES.iter().chain(&HTTPS_VARIABLES) {
                let error = proxies(&[(variable, proxy)]).unwrap_err().to_string();
                let expected = format!("environment variable {variable}: ");
                assert!(error.starts_with(&expected), "{proxy}: {error}");
                assert!(!error.contains("hush"), "{error}");
            }
        }
        let error = Proxies::from_variables(|name| (name == "all_proxy").then_some(Err(())));
        assert!(error.unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn a_proxy_applies_to_hosts_of_its_scheme_that_are_no_exceptions() {
        let exceptions = "corp.example, .dev.example,10.0.0.7,fd12::/16,10.1.0.0/16";
        let variables = [("https_proxy", "http://proxy:1"), ("no_proxy", exceptions)];
        let parsed_proxies = proxies(&variables).unwrap();
        let applies = |url: &str| parsed_proxies.are_used_for(&url.parse().unwrap());
        for url in [
            "https://mcp.example/",
            "https://mycorp.example/",
            "https://10.0.0.8/",
            "https://[fd13::1]/",
        ] {
            assert!(applies(url), "{url}");
        }
        for url in [
            "http://mcp.example/",
            "https://localhost/",
            "https://127.0.0.1/",
            "https://corp.example/",
            "https://A.Corp.example/",
            "https://a.dev.example/",
            "https://10.0.0.7/",
            "https://10.1.2.3/",
            "https://[fd12::1]/",
        ] {
            assert!(!applies(url), "{url}");
        }
    }

    #[test]
    fn the_variables_of_a_scheme_precede_those_of_all_schemes() {
        let all = ("ALL_PROXY", "http://all:1");
        let some = |host: &str| Some(host.to_owned());
        assert_eq!(hosts(&[all]), [some("all"), some("all")]);
        let https = ("https_proxy", "http://tls:1");
        assert_eq!(hosts(&[all, https]), [some("all"), some("tls")]);
        // An empty variable does not hide a variable of lower precedence.
        let empty = ("HTTPS_PROXY", "");
        assert_eq!(hosts(&[all, https, empty]), [some("all"), some("tls")]);
        // In a CGI process, clients of the web server choose HTTP_PROXY.
        let cgi = [("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "not valid")];
        assert_eq!(hosts(&cgi), [None, None]);
        assert_eq!(hosts(&[cgi[0], cgi[1], https]), [None, some("tls")]);
        // An invalid variable that no scheme uses is ignored.
        let socks = ("ALL_PROXY", "socks5://proxy:1");
        let http = ("HTTP_PROXY", "http://plain:1");
        assert_eq!(hosts(&[socks, http, https]), [some("plain"), some("tls")]);
    }
}
