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

    /// Another host, or another spelling of the honest issuer, as the authorization server. The
    /// documents there claim to be the honest issuer's.
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
        let lies = names.map(|name| Self {
            name: format!("names {name:?}"),
            named: vec![name.to_owned()],
            ..Self::default()
        });
        lies.into()
    }

    /// Documents with the wrong content, or at another place.
    fn all_with_bad_documents() -> Vec<Self> {
        let hostile = || vec!["{hostile}".to_owned()];
        let mut lies = Vec::new();
        let mut add = |name: &str, lie: Self| {
            let name = name.to_owned();
            lies.push(Self { name, ..lie });
        };
        for claimed in ["{honest}/", "{hostile}/", "{hostile}", "", "*"] {
            add(
                &format!("another host has the issuer {claimed:?}"),
                Self {
                    named: hostile(),
                    claimed: vec![claimed.to_owned()],
                    ..Self::default()
                },
            );
        }
        add(
            "the issuer in a document changes",
            Self {
                named: hostile(),
                claimed: vec!["{hostile}".to_owned(), "{honest}".to_owned()],
                ..Self::default()
            },
        );
        for metadata in [
            json!({"issuer": null}),
            json!({"issuer": ["{honest}"]}),
            json!({"issuer": "{hostile}"}),
            json!({"issuer": "{honest}/"}),
            json!({"issuer": "HTTP://127.0.0.1:{port}"}),
        ] {
            add(
                &format!("the honest host has the metadata {metadata}"),
                Self {
                    named: vec!["{honest}".to_owned()],
                    honest_metadata: metadata,
                    ..Self::default()
                },
            );
        }
        add(
            "another host before the honest one",
            Self {
                named: vec!["{hostile}/.well-known/x".into(), "{honest}".into()],
                is_harmless: true,
                ..Self::default()
            },
        );
        add(
            "no resource metadata, and the honest issuer in the server's own metadata",
            Self {
                claimed: vec!["{honest}".to_owned()],
                ..Self::default()
            },
        );
        add(
            "no resource metadata, and the server's own issuer",
            Self {
                claimed: vec!["{server}".to_owned()],
                ..Self::default()
            },
        );
        add("no metadata at all", Self::default());
        for (name, address) in [
            ("at another host", "{hostile}/resource"),
            (
                "at a relative address",
                "/.well-known/oauth-protected-resource/x",
            ),
            ("behind a user", "http://user@{hostile_host}/resource"),
        ] {
            add(
                &format!("resource metadata {name}"),
                Self {
                    named: hostile(),
                    resource_metadata: Some(address.to_owned()),
                    ..Self::default()
                },
            );
        }
        add(
            "the honest document as resource metadata",
            Self {
                named: hostile(),
                resource_metadata: Some("{honest}/.well-known/oauth-authorization-server".into()),
                ..Self::default()
            },
        );
        for resource in [
            "{honest}/sse",
            "{hostile}",
            "{server}/other",
            "{server}/s",
            "",
        ] {
            add(
                &format!("the metadata of the resource {resource:?}"),
                Self {
                    named: vec!["{honest}".to_owned()],
                    resource: Some(resource.to_owned()),
                    ..Self::default()
                },
            );
        }
        lies
    }

    /// Redirects to another host, with every status that keeps or changes the method.
    fn all_with_bad_redirects() -> Vec<Self> {
        let to = |status: u16, target: &str| {
            vec![Fault::redirect(&format!("{status} Redirect"), target)]
        };
        let mut lies = Vec::new();
        for status in [301, 302, 303, 307, 308] {
            let honest = |path: &str, target: &str| Self {
                name: format!("the honest host redirects {path} with {status} to {target}"),
                named: vec!["{honest}".to_owned()],
                honest_faults: vec![(path.to_owned(), to(status, target))],
                ..Self::default()
            };
            lies.push(honest(METADATA, "{hostile}/.well-known/x"));
            lies.push(honest(METADATA, "http://localhost:{port}/.well-known/x"));
            lies.push(honest("/token", "{hostile}/token"));
            lies.push(honest("/token", "http://localhost:{port}/elsewhere"));
            lies.push(Self {
                is_harmless: true,
                ..honest("/register", "{hostile}/register")
            });
            let mut twice = honest(METADATA, "/twice");
            twice
                .honest_faults
                .push(("/twice".to_owned(), to(status, "{hostile}/.well-known/x")));
            lies.push(twice);
            lies.push(Self {
                name: format!("the server redirects its metadata with {status}"),
                named: vec!["{honest}".to_owned()],
                server_faults: vec![(RESOURCE.to_owned(), to(status, "{hostile}/resource"))],
                ..Self::default()
            });
        }
        lies
    }

    /// Endpoints that belong to another server.
    fn all_with_bad_endpoints() -> Vec<Self> {
        let mut lies = Vec::new();
        for announced in [false, true] {
            // A mix-up: the user signs in at the honest host, for the hostile one.
            lies.push(Self {
                name: format!("the sign-in page of the honest host, `iss`: {announced}"),
                named: vec!["{hostile}".to_owned()],
                claimed: vec!["{hostile}".to_owned()],
                hostile_metadata: json!({
                    "authorization_endpoint": "{honest}/authorize",
                    "authorization_response_iss_parameter_supported": announced,
                }),
                ..Self::default()
            });
        }
        for endpoint in [
            "http://as.example/token",
            "ftp://127.0.0.1/token",
            "http://user@127.0.0.1:{port}/token",
            "{honest}/token#a",
            "/token",
        ] {
            lies.push(Self {
                name: format!("the honest host has the token endpoint {endpoint}"),
                named: vec!["{honest}".to_owned()],
                honest_metadata: json!({"token_endpoint": endpoint}),
                ..Self::default()
            });
        }
        lies
    }

    /// Documents without an end.
    fn all_with_bad_sizes() -> Vec<Self> {
        let endless = || {
            let spaces = Fault::Forever(vec![b' '; 65536]);
            vec![Fault::head("application/json"), spaces]
        };
        let named = || vec!["{honest}".to_owned()];
        vec![
            Self {
                name: "the honest host's metadata never end".to_owned(),
                named: named(),
                honest_faults: vec![(METADATA.to_owned(), endless())],
                ..Self::default()
            },
            Self {
                name: "the honest host's tokens never end".to_owned(),
                named: named(),
                honest_faults: vec![("/token".to_owned(), endless())],
                ..Self::default()
            },
            Self {
                name: "the server's metadata never end".to_owned(),
                named: named(),
                server_faults: vec![(RESOURCE.to_owned(), endless())],
                ..Self::default()
            },
            Self {
                name: "the honest host has lost its metadata".to_owned(),
                named: named(),
                honest_faults: [METADATA, OPENID]
                    .map(|path| {
                        (
                            path.to_owned(),
                            vec![Fault::response("404 Not Found", "", "")],
                        )
                    })
                    .into(),
                ..Self::default()
            },
        ]
    }
}
