use serde_json::json;

use super::*;

fn policy(value: serde_json::Value) -> EgressPolicy {
    serde_json::from_value(value).unwrap()
}

fn check(policy: &EgressPolicy, url: &str) -> Result<(), EgressError> {
    policy.check_url(&url.parse().unwrap())
}

fn denied_class(policy: &EgressPolicy, url: &str) -> Option<AddressClass> {
    match check(policy, url) {
        Err(EgressError::Address { class, .. }) => Some(class),
        Ok(()) => None,
        Err(other) => panic!("{url}: {other}"),
    }
}

#[test]
fn every_class_of_addresses_follows_the_policy() {
    use AddressClass::*;
    for (class, addresses) in [
        (
            Public,
            "1.1.1.1 9.255.255.255 11.0.0.0 100.63.0.1 100.128.0.1 172.15.0.1 172.32.0.1 169.253.0.1 192.167.1.1 223.1.1.1 2606:4700::1111 2a00::1",
        ),
        (
            Private,
            "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.255.255 198.18.0.1 198.19.9.9 192.0.0.8 240.0.0.1 255.255.255.254 fc00::1 fd12::1 fec0::1 ::ffff:10.0.0.1",
        ),
        (Loopback, "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1"),
        (
            LinkLocal,
            "169.254.0.1 169.254.169.254 fe80::1 febf::1 ::ffff:169.254.169.254",
        ),
        (
            Metadata,
            "100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd20:ce::254 ::ffff:100.100.100.200",
        ),
        (Unspecified, "0.0.0.0 0.1.2.3 :: ::ffff:0.0.0.0"),
        (Multicast, "224.0.0.1 239.255.255.250 ff02::1"),
        (Broadcast, "255.255.255.255"),
    ] {
        for address in addresses.split(' ') {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(AddressClass::from_ip(address), class, "{address}");
        }
    }
}

#[test]
fn an_address_that_embeds_a_denied_address_is_denied() {
    let policy = EgressPolicy::default();
    for (form, address) in [
        ("mapped", "::ffff:169.254.169.254"),
        ("compatible", "::169.254.169.254"),
        ("translated", "::ffff:0:169.254.169.254"),
        ("NAT64", "64:ff9b::169.254.169.254"),
        ("local NAT64 of 96 bits", "64:ff9b:1::169.254.169.254"),
        ("local NAT64 of 48 bits", "64:ff9b:1:a9fe:a9:fe00::"),
        ("6to4", "2002:a9fe:a9fe::1"),
        ("Teredo's server", "2001:0:a9fe:a9fe::"),
        ("Teredo's client", "2001:0:101:101:0:0:5601:5601"),
        ("ISATAP", "2a00::5efe:a9fe:a9fe"),
        ("ISATAP, global", "2a00::200:5efe:a9fe:a9fe"),
    ] {
        let checked = policy.check_address(address.parse().unwrap());
        assert_eq!(checked, Err(AddressClass::LinkLocal), "{form}");
    }
    for fine in ["64:ff9b::1.1.1.1", "2002:101:101::1", "2606:4700::1111"] {
        let checked = policy.check_address(fine.parse().unwrap());
        assert_eq!(checked, Ok(()), "{fine}");
    }
    let strict = policy_without_private();
    let wrapped = "64:ff9b::10.0.0.1".parse().unwrap();
    assert_eq!(policy.check_address(wrapped), Ok(()));
    assert_eq!(strict.check_address(wrapped), Err(AddressClass::Private));
}

fn policy_without_private() -> EgressPolicy {
    policy(json!({"allow_private": false, "allow_loopback": false}))
}

#[test]
fn addresses_in_urls_are_recognized_in_every_notation() {
    for url in [
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::1]/",
        "http://localhost:1/",
        "http://LOCALHOST./",
        "http://a.localhost/",
    ] {
        assert_eq!(check(&EgressPolicy::default(), url), Ok(()), "{url}");
        if !url.to_lowercase().contains("localhost") {
            let class = denied_class(&policy_without_private(), url);
            assert_eq!(class, Some(AddressClass::Loopback), "{url}");
        }
    }
    let policy = EgressPolicy::default();
    for url in [
        "https://169.254.169.254/",
        "https://2852039166/",
        "https://0xa9fea9fe/",
        "https://0251.0376.0251.0376/",
        "https://169.254.43518/",
        "https://[::ffff:169.254.169.254]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://[fe80::1]/",
        "https://１６９.254.169.254/",
    ] {
        let class = denied_class(&policy, url);
        assert_eq!(class, Some(AddressClass::LinkLocal), "{url}");
    }
    let class = denied_class(&policy, "https://0/");
    assert_eq!(class, Some(AddressClass::Unspecified));
    assert_eq!(denied_class(&policy, "https://10.0.0.1/"), None);
}

#[test]
fn plain_http_is_allowed_only_for_loopback_and_listed_hosts() {
    let named = policy(json!({"allow_http": ["MCP.internal", "10.0.0.7", "fd12::1"]}));
    for url in [
        "http://mcp.internal/",
        "http://MCP.internal.:8000/x",
        "http://10.0.0.7/",
        "http://0xa000007/",
        "http://[fd12::1]:80/",
        "http://localhost/",
        "https://other.example/",
    ] {
        assert_eq!(check(&named, url), Ok(()), "{url}");
    }
    for url in [
        "http://other.internal/",
        "http://a.mcp.internal/",
        "http://mcp.internal.evil.example/",
        "http://10.0.0.8/",
        "http://localhost.evil.example/",
        "http://127.0.0.1.evil.example/",
        "http://notlocalhost/",
        "http://[64:ff9b::127.0.0.1]/",
    ] {
        let checked = check(&named, url).unwrap_err();
        assert!(matches!(checked, EgressError::PlainHttp { .. }), "{url}");
    }
    for url in [
        "ftp://localhost/",
        "file:///etc/passwd",
        "data:text/plain,x",
    ] {
        assert_eq!(check(&named, url), Err(EgressError::Scheme), "{url}");
    }
    let metadata = policy(json!({"allow_http": ["169.254.169.254"]}));
    let checked = check(&metadata, "http://169.254.169.254/").unwrap_err();
    let expected = "connections to the link-local address 169.254.169.254 are not allowed";
    assert_eq!(checked.to_string(), expected);
}

#[test]
fn the_most_specific_network_decides() {
    let policy = policy(json!({
        "allow_private": false,
        "allow_networks": ["10.1.0.0/16", "10.1.2.3", "fd12::/16", "169.254.0.0/16", "10.9.0.0/16"],
        "deny_networks": ["10.1.2.0/24", "0.0.0.0/0", "10.9.0.0/16", "2a00::/16"],
    }));
    for (address, allowed) in [
        ("10.1.0.1", true),
        ("10.1.2.1", false),
        ("10.1.2.3", true),
        ("::ffff:10.1.0.1", true),
        ("64:ff9b::10.1.2.1", false),
        ("10.2.0.1", false),
        ("10.9.0.1", false),
        ("1.1.1.1", false),
        ("fd12::1", true),
        ("fd13::1", false),
        ("2a00::1", false),
        ("2a01::1", true),
        ("127.0.0.1", false),
        ("169.254.169.254", false),
    ] {
        let outcome = policy.check_address(address.parse().unwrap());
        assert_eq!(outcome.is_ok(), allowed, "{address}");
    }
}

#[test]
fn a_setting_without_effect_is_an_error() {
    for (value, part) in [
        (json!({"allow_http": ["http://x"]}), "without scheme"),
        (json!({"allow_http": ["x:80"]}), "without scheme"),
        (json!({"allow_http": [""]}), "without scheme"),
        (json!({"deny_networks": ["10.0.0.0/33"]}), "10.1.0.0/16"),
        (json!({"deny_networks": ["x"]}), "10.1.0.0/16"),
        (json!({"deny_networks": ["::ffff:10.0.0.0/104"]}), "in IPv4"),
        (json!({"allow_privat": true}), "allow_privat"),
    ] {
        let error = serde_json::from_value::<EgressPolicy>(value).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn errors_contain_only_the_host_of_a_url() {
    let long = format!("http://{}.example/", "a".repeat(5000));
    for url in [
        "http://x.example/hush?token=hush",
        "https://u:hush@169.254.1.1/hush",
        &long,
    ] {
        let error = check(&EgressPolicy::default(), url).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hush") && text.len() < 1000, "{text}");
    }
}
