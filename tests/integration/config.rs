use std::path::Path;

use pillion::config::Config;

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pillion.example.toml");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_example_loads() {
    Config::parse(&example(), "pillion.example.toml").unwrap();
}

/// Every setting of the example stands there with its default, as a comment.
#[test]
fn the_example_loads_with_every_comment_taken_away() {
    let text = example();
    let uncommented = text
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line));
    let uncommented = uncommented.collect::<Vec<_>>().join("\n");
    assert_ne!(uncommented, text.trim_end());
    Config::parse(&uncommented, "pillion.example.toml").unwrap();
}
