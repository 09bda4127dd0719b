//! The lies that an MCP server can tell about its authorization server.

use crate::{Fault, Lie};
use serde_json::json;

const METADATA: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";
const RESOURCE: &str = "/.well-known/oauth-protected-resource/sse";

impl Lie {
    /// Returns every known lie: those of RFC 9700 (sections 4.1 to 4.5), RFC 9207, RFC 8414 section
    /// 3.3 and RFC 9728 section 3.3, and of every way to write an issuer.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = Self::all_with_bad_names();
        all.extend(Self::all_with_bad_documents());
        all.extend(Self::all_with_bad_redirects());
        all.extend(Self::all_with_bad_endpoints());
        all.extend(Self::all_with_bad_sizes());
        all
    }

    /// Returns lies whose authorization server is another host, or another spelling of the honest
    /// issuer. The documents at that server claim to be the honest issuer's.
    fn all_with_bad_names() -> Vec<Self> {
        let names = [
            "{hostile}",
            "{hostile}/",
            "{hostile}/tenant",
            "{hostile}/.well-known/anything",
            "{hostile}/.well-known/oauth-authorization-server",
            "{hostile}/.well-known/openid-configuration",
            "{hostile}/tenant/.well-known/openid-configuration",
            "{hostile}/.WELL-KNOWN/anything",
            "{hostile}/%2ewell-known/anything",
            "{hostile}/a/../.well-known/anything",
            "{hostile}/.well-known/oauth-authorization-server?issuer={honest}",
            "{hostile}?issuer={honest}",
            "{hostile}#{honest}",
            "{hostile}/{honest}",
            "{honest}/",
            "{honest}//",
            "{honest}/.",
            "{honest}/a/..",
            "{honest}/%2e",
            "{honest}/.well-known/oauth-authorization-server",
            "{honest}?",
            "{honest}?a=b",
            "{honest}#",
            "{honest}#a",
            " {honest}",
            "{honest}\t",
            "{honest}\\",
            "{honest}@{hostile_host}",
            "{honest}\\@{hostile_host}",
            "http://user@127.0.0.1:{port}",
            "HTTP://127.0.0.1:{port}",
            "https://127.0.0.1:{port}",
            "http://127.1:{port}",
            "http://2130706433:{port}",
            "http://0x7f000001:{port}",
            "http://127.0.0.1.:{port}",
            "http://\u{ff11}27.0.0.1:{port}",
            "http://localhost:{port}",
            "http://LOCALHOST:{port}",
            "http://xn--lcalhost-54a.localhost:{port}",
            "http://[::ffff:127.0.0.1]:{port}",
            "http:127.0.0.1:{port}",
            "//127.0.0.1:{port}",
            "127.0.0.1:{port}",
            "/",
            "",
        ];
        names
            .map(|name| lie(&format!("names {name:?}"), &[name], |_| {}))
            .into()
    }

    /// Returns lies with documents that have the wrong content, or are at another place.
    fn all_with_bad_documents() -> Vec<Self> {
        let mut lies = Vec::new();
        for claimed in ["{honest}/", "{hostile}/", "{hostile}", "", "*"] {
            let name = format!("another host has the issuer {claimed:?}");
            lies.push(lie(&name, &["{hostile}"], |lie| {
                lie.claimed = texts(&[claimed]);
            }));
        }
        lies.push(lie(
            "the issuer in a document changes",
            &["{hostile}"],
            |lie| {
                lie.claimed = texts(&["{hostile}", "{honest}"]);
            },
        ));
        for metadata in [
            json!({"issuer": null}),
            json!({"issuer": ["{honest}"]}),
            json!({"issuer": "{hostile}"}),
            json!({"issuer": "{honest}/"}),
            json!({"issuer": "HTTP://127.0.0.1:{port}"}),
        ] {
            let name = format!("the honest host has the metadata {metadata}");
            lies.push(lie(&name, &["{honest}"], |lie| {
                lie.honest_metadata = metadata;
            }));
        }
        let hosts = ["{hostile}/.well-known/x", "{honest}"];
        lies.push(lie("another host before the honest one", &hosts, |lie| {
            lie.is_harmless = true;
        }));
        for (name, claimed) in [
            (
                "and the honest issuer in the server's own metadata",
                "{honest}",
            ),
            ("and the server's own issuer", "{server}"),
        ] {
            let name = format!("no resource metadata, {name}");
            lies.push(lie(&name, &[], |lie| lie.claimed = texts(&[claimed])));
        }
        lies.push(lie("no metadata at all", &[], |_| {}));
        for (name, address) in [
            ("resource metadata at another host", "{hostile}/resource"),
            (
                "resource metadata at a relative address",
                "/.well-known/oauth-protected-resource/x",
            ),
            (
                "resource metadata behind a user",
                "http://user@{hostile_host}/resource",
            ),
            (
                "the honest document as resource metadata",
                "{honest}/.well-known/oauth-authorization-server",
            ),
        ] {
            lies.push(lie(name, &["{hostile}"], |lie| {
                lie.resource_metadata = Some(address.to_owned());
            }));
        }
        for resource in [
            "{honest}/sse",
            "{hostile}",
            "{server}/other",
            "{server}/s",
            "",
        ] {
            let name = format!("the metadata of the resource {resource:?}");
            lies.push(lie(&name, &["{honest}"], |lie| {
                lie.resource = Some(resource.to_owned());
            }));
        }
        lies
    }

    /// Returns lies with redirects to another host, with every status that keeps or changes the
    /// method.
    fn all_with_bad_redirects() -> Vec<Self> {
        let mut lies = Vec::new();
        for status in [301, 302, 303, 307, 308] {
            let redirect = |path: &str, target: &str| {
                let fault = Fault::redirect(&format!("{status} Redirect"), target);
                (path.to_owned(), vec![fault])
            };
            for (path, target) in [
                (METADATA, "{hostile}/.well-known/x"),
                (METADATA, "http://localhost:{port}/.well-known/x"),
                ("/token", "{hostile}/token"),
                ("/token", "http://localhost:{port}/elsewhere"),
                ("/register", "{hostile}/register"),
                (METADATA, "/twice"),
            ] {
                let name = format!("the honest host redirects {path} with {status} to {target}");
                lies.push(lie(&name, &["{honest}"], |lie| {
                    lie.is_harmless = path == "/register";
                    lie.honest_faults = vec![redirect(path, target)];
                    if target == "/twice" {
                        lie.honest_faults
                            .push(redirect("/twice", "{hostile}/.well-known/x"));
                    }
                }));
            }
            let name = format!("the server redirects its metadata with {status}");
            lies.push(lie(&name, &["{honest}"], |lie| {
                lie.server_faults = vec![redirect(RESOURCE, "{hostile}/resource")];
            }));
        }
        lies
    }

    /// Returns lies with endpoints that belong to another server.
    fn all_with_bad_endpoints() -> Vec<Self> {
        let mut lies = Vec::new();
        for announced in [false, true] {
            // A mix-up attack: the user signs in at the honest host, for the hostile one.
            let name = format!("the sign-in page of the honest host, `iss`: {announced}");
            lies.push(lie(&name, &["{hostile}"], |lie| {
                lie.claimed = texts(&["{hostile}"]);
                lie.hostile_metadata = json!({
                    "authorization_endpoint": "{honest}/authorize",
                    "authorization_response_iss_parameter_supported": announced,
                });
            }));
        }
        for endpoint in [
            "http://as.example/token",
            "ftp://127.0.0.1/token",
            "http://user@127.0.0.1:{port}/token",
            "{honest}/token#a",
            "/token",
        ] {
            let name = format!("the honest host has the token endpoint {endpoint}");
            lies.push(lie(&name, &["{honest}"], |lie| {
                lie.honest_metadata = json!({"token_endpoint": endpoint});
            }));
        }
        lies
    }

    /// Returns lies with endless documents.
    fn all_with_bad_sizes() -> Vec<Self> {
        let endless = |path: &str| {
            let spaces = Fault::Forever(vec![b' '; 65536]);
            (
                path.to_owned(),
                vec![Fault::head("application/json"), spaces],
            )
        };
        let missing = |path: &str| {
            (
                path.to_owned(),
                vec![Fault::response("404 Not Found", "", "")],
            )
        };
        let honest = ["{honest}"];
        vec![
            lie("the honest host's metadata never end", &honest, |lie| {
                lie.honest_faults = vec![endless(METADATA)];
            }),
            lie("the honest host's tokens never end", &honest, |lie| {
                lie.honest_faults = vec![endless("/token")];
            }),
            lie("the server's metadata never end", &honest, |lie| {
                lie.server_faults = vec![endless(RESOURCE)];
            }),
            lie("the honest host has lost its metadata", &honest, |lie| {
                lie.honest_faults = [METADATA, OPENID].map(missing).into();
            }),
        ]
    }
}

/// Returns a lie of a server that names these authorization servers.
fn lie(name: &str, named: &[&str], change: impl FnOnce(&mut Lie)) -> Lie {
    let mut lie = Lie {
        name: name.to_owned(),
        named: texts(named),
        ..Lie::default()
    };
    change(&mut lie);
    lie
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}
