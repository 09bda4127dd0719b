use pillion_config::Config;
use pillion_testkit::checkout;

fn example() -> String {
    let path = checkout().join("docs/pillion.example.toml");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_example_loads() {
    Config::parse(&example(), "pillion.example.toml").unwrap();
}

/// Returns the example with every setting uncommented.
#[test]
fn the_example_loads_with_every_setting_uncommented() {
    let text = example();
    let settings = text
        .lines()
        .filter_map(|line| line.strip_prefix("#: "))
        .count();
    assert!(settings > 30, "{settings}");
    let uncommented = text
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n");

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pillion.toml");
    let shop = directory.path().join("shop.yaml");
    let document = "openapi: 3.1.0\npaths: {/orders: {get: {operationId: getOrder}}}\n";
    std::fs::write(&shop, document).unwrap();
    let uncommented = uncommented.replace("/etc/pillion/shop.yaml", shop.to_str().unwrap());
    std::fs::write(&path, uncommented).unwrap();
    let secrets = [
        ("DICE_TOKEN", "t"),
        ("DICE_EXTRA_KEY", "k"),
        ("DICE_TOKEN_FOR_PROVIDERS", "t"),
        ("NOTES_API_KEY", "k"),
        ("SHOP_TENANT", "t"),
        ("SHOP_TOKEN", "t"),
    ];
    let variables = secrets.map(|(name, value)| (name.into(), value.into()));
    let config = Config::load(Some(&path), variables).unwrap();
    assert_eq!(config.mcp_servers[0].tool_prefix(), "dice_");
    assert_eq!(config.declared.composed.len(), 1);
    assert_eq!(config.declared.http.len(), 2);
    assert_eq!(config.mcp_servers[1].server.display_url(), "stdio:npx");
}
