use proptest::prelude::*;

use super::*;

/// The size of an expression that no schema may have.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

fn states(pattern: &str) -> u64 {
    PatternSizes::default().compiled_bytes(pattern).unwrap() / BYTES_PER_STATE
}

#[test]
fn repetitions_multiply_and_alternatives_add() {
    for (pattern, min, max) in [
        ("^[a-z]+$", 2, 40),
        ("a{1000}", 1_000, 4_100),
        ("(a{10}){1,100}", 1_000, 5_000),
        ("((a{100}){100}){100}", 1_000_000, 5_000_000),
        ("a{1000}|b{1000}", 2_000, 8_100),
        ("(?i)[a-z]{1000}", 1_000, 40_000),
        ("\\p{L}{10}", 1_000, 15_000),
        ("[^a]{1000}", 5_000, 40_000),
        ("[a{1000}]", 1, 40),
        ("\\{1000\\}", 1, 40),
    ] {
        let states = states(pattern);
        assert!((min..=max).contains(&states), "{pattern}: {states}");
    }
    assert!(translation_work("^\\d{4}-\\d{2}$") < 200);
    assert!(translation_work(&"\\d".repeat(1_000)) > 1_000_000);
}

#[test]
fn comments_classes_and_quotes_hide_no_repetition() {
    let large = "(a{1,100}b{1,100}){1,50}";
    for prefix in [
        "(?x)#[\n",
        "(?x)#(?-x)[\n",
        "(?x) # \\Q [^] (( \n",
        "(?#[)",
        "(?x:#[\n)",
        "[\\]]",
        "[]]",
        "[^]]",
        "[[:alpha:]]",
        "[a[b]",
        "\\[",
        "\\x5b",
        "\\Q[\\E",
        "(?=[[])",
        "(?<n>[\\[])",
        "(?i)[[]",
        "\\u005b",
        "\\x{5b}",
        "\\c[",
        "(?x)[#]\\#\\ #[\n",
    ] {
        let pattern = format!("{prefix}{large}");
        let is_valid = is_compiled(&pattern, 64 * 1024 * 1024);
        let bytes = PatternSizes::default().compiled_bytes(&pattern);
        assert!(
            !is_valid || bytes.is_ok_and(|bytes| bytes > 1_000_000),
            "{pattern}: {bytes:?}"
        );
    }
}

#[test]
fn constructs_that_multiply_are_rejected() {
    for pattern in [
        // The translator does not read the expression beside a look-around.
        "(?=x)(?<a>x{1,100}\\g<a>?\\g<a>?)",
        "(?=x)(x\\g<1>?\\g<1>?)",
        "(?=x)(a)?(?(1)b|c)",
        "(?=x)(?~abc)",
        "(?<=((a{1,100}){1,100}){1,100})x",
        "(?x)#[\n(?<!(\\p{L}{1,100}){1,100}|a)x",
    ] {
        assert!(to_rust_regex(pattern).is_ok(), "{pattern}");
        let bytes = PatternSizes::default().compiled_bytes(pattern);
        assert_eq!(bytes, Err(Unbounded), "{pattern}");
    }
}

#[test]
fn a_schema_of_many_classes_is_read_in_little_time() {
    let mut sizes = PatternSizes::default();
    let started_at = std::time::Instant::now();
    for nth in 0..20_000 {
        let class = format!("(?i)[\\p{{L}}\\x{{{nth:x}}}]");
        assert!(sizes.compiled_bytes(&class).unwrap() > 0);
    }
    assert!(sizes.class_work <= MAX_CLASS_WORK + 20_000 * 3 * UNICODE_CLASS_WORK);
    assert!(sizes.classes.len() <= 100, "{}", sizes.classes.len());
    let long: String = ('\u{4e00}'..'\u{9000}').step_by(2).collect();
    assert!(states(&format!("[{long}]")) > MAX_CLASS_STATES);
    assert!(started_at.elapsed() < std::time::Duration::from_secs(20));
}

/// Returns whether the validator's engine compiles the pattern within the limit.
fn is_compiled(pattern: &str, limit: usize) -> bool {
    to_rust_regex(pattern).is_ok_and(|translated| {
        fancy_regex::RegexBuilder::new(&translated)
            .delegate_size_limit(limit)
            .build()
            .is_ok()
    })
}

/// Generates expressions with all constructs that regex engines support; most expressions are
/// valid.
fn patterns() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        6 => "[a-zA-Z0-9 _/-]{1,12}",
        2 => "\\[[a-z]-[z]\\]|\\[\\^[a-z&~#-]{1,6}\\]|\\[\\[:\\^?(alpha|digit|word|space):\\]\\]",
        1 => "\\[[a-zäöü€😀\\[#]{1,40}\\]",
        3 => proptest::sample::select(vec![
            "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\b", "\\B", "\\pL", "\\p{Lu}", "\\PN",
            "\\p{Han}", "[\\p{L}\\p{N}_.-]", "[^\\p{Cyrillic}]", ".", "^", "$", "\\t", "\\x41",
            "\\x{1F600}", "\\u0041", "\\cA", "\\cJ", "\\.", "\\\\", "\\[", "\\]", "\\{", "\\}",
            "\\#", "\\Q[\\E", "\\K", "\\G", "\\R", "\\h", "\\H", "\\A", "\\z", "\\Z", "\\e", "\\0",
            "\\1", "\\k<n>", "\\g<1>", "\\X", "[]", "[^]", "[]a]", "[^]a]", "[a-", "[[a]&&[b]]",
            "[\\w--a]", "[a&&b]", "[\\d-z]", "[[]", "(?i)", "(?-i)", "(?x)", "(?s)", "(?m)",
            "(?U)", "(?u)", "(?R)", "(?xi)", "(?#[)", "#[\n", " # (\n", "ſ", "K", "ß", "İ", "€",
            "😀", "{2", "}", "{,3}", "|",
        ]).prop_map(str::to_owned),
    ];
    atom.prop_recursive(5, 40, 6, |inner| {
        let list = |separator: &'static str| {
            proptest::collection::vec(inner.clone(), 1..6)
                .prop_map(move |parts| parts.join(separator))
        };
        let open = proptest::sample::select(vec![
            "(", "(?:", "(?i:", "(?x:", "(?-x:", "(?s:", "(?<n>", "(?P<m>", "(?=", "(?!", "(?<=",
            "(?<!", "(?>", "(?~", "( ?:", "(?x: # [\n",
        ]);
        let counts = proptest::sample::select(vec![
            "*", "+", "?", "*?", "++", "?+", "{2}", "{0}", "{1,9}", "{3,}", "{0,40}", "{1,200}",
            "{1,9}?", "{2}+", "{ 2 , 5 }", "{,7}", "{0,0}", "{500}",
        ]);
        prop_oneof![
            4 => list(""),
            2 => list("|"),
            3 => (open, inner.clone()).prop_map(|(open, inner)| format!("{open}{inner})")),
            3 => (inner.clone(), counts.clone()).prop_map(|(inner, count)| format!("(?:{inner}){count}")),
            1 => (inner, counts).prop_map(|(inner, count)| format!("{inner}{count}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// The engine compiles each pattern within the estimate, if it compiles the pattern at all.
    #[test]
    fn the_estimate_is_an_upper_bound_of_the_compiled_size(pattern in patterns()) {
        prop_assume!(translation_work(&pattern) < 100_000);
        let Ok(bytes) = PatternSizes::default().compiled_bytes(&pattern) else {
            return Ok(());
        };
        if bytes > MAX_BYTES {
            return Ok(());
        }
        let limit = usize::try_from(bytes).unwrap();
        if is_compiled(&pattern, limit) {
            return Ok(());
        }
        prop_assert!(!is_compiled(&pattern, 256 * 1024 * 1024), "{pattern:?}: {bytes}");
    }
}
