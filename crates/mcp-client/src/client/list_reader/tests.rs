use super::*;

const KINDS: [ListKind; 4] = [
    ListKind::TOOLS,
    ListKind::RESOURCES,
    ListKind::RESOURCE_TEMPLATES,
    ListKind::PROMPTS,
];

/// Reads a list from these pages. Returns the entries and the number of pages that were read.
async fn read(kind: ListKind, pages: &[String]) -> (Vec<String>, usize) {
    let mut reader = ListReader::new(kind, "far", 100, usize::MAX);
    let mut page_count = 0;
    while let Some(_params) = reader.next_page_params().unwrap() {
        let page = RawValue::from_string(pages[page_count].clone()).unwrap();
        reader = reader.read_page(page).await.unwrap();
        page_count += 1;
    }
    let entries = reader.into_entries();
    let texts = entries.iter().map(|entry| entry.get().to_owned());
    (texts.collect(), page_count)
}

fn page(kind: ListKind, entries: &[String], cursor: Option<&str>) -> String {
    let (key, entries) = (kind.key, entries.join(","));
    let cursor = cursor.map_or_else(String::new, |cursor| format!(r#","nextCursor":"{cursor}""#));
    format!(r#"{{"more":[{{}}],"{key}":[{entries}]{cursor}}}"#)
}

#[tokio::test]
async fn the_number_of_entries_of_every_list_is_limited() {
    for kind in KINDS {
        let (max, half) = (kind.max_entries, kind.max_entries / 2);
        let entries: Vec<_> = (0..max * 2).map(|nth| nth.to_string()).collect();
        let pages = [
            page(kind, &entries[..half], Some("1")),
            page(kind, &entries[half..], Some("2")),
        ];
        let (read, page_count) = read(kind, &pages).await;
        assert_eq!(page_count, 2, "{}", kind.key);
        assert!(read == entries[..max], "{}", kind.key);
    }
}

#[tokio::test]
async fn the_size_of_the_entries_of_every_list_is_limited() {
    for kind in KINDS {
        let large = format!("\"{}\"", "x".repeat(MAX_ENTRY_BYTES));
        let fits = format!("\"{}\"", "x".repeat(MAX_ENTRY_BYTES - 2));
        let entries = [&*large, "1", &*fits, &*large, "2"].map(str::to_owned);
        let (entries, _) = read(kind, &[page(kind, &entries, None)]).await;
        assert!(entries == ["1", &*fits, "2"], "{}", kind.key);

        let many = vec![fits; 20];
        let (entries, page_count) = read(kind, &[page(kind, &many, Some("more"))]).await;
        assert_eq!((entries.len(), page_count), (16, 1), "{}", kind.key);
    }
}

#[tokio::test]
async fn the_number_of_values_of_the_entries_of_every_list_is_limited() {
    for kind in KINDS {
        for (value, values) in [("0", 1), ("[]", 2), ("[0]", 2), (r#"{"":[]}"#, 3)] {
            let of = |number: usize| format!("[{}]", vec![value; number].join(","));
            let fits = of((MAX_ENTRY_VALUES - 1) / values);
            let large = of(MAX_ENTRY_VALUES / values + 1);
            let entries = [&*large, "1", &*fits].map(str::to_owned);
            let (entries, _) = read(kind, &[page(kind, &entries, None)]).await;
            assert!(entries == ["1", &*fits], "{}", kind.key);

            let pages = [
                page(kind, &vec![fits.clone(); 8], Some("1")),
                page(kind, &vec![fits; 8], Some("2")),
            ];
            let (entries, page_count) = read(kind, &pages).await;
            assert_eq!((entries.len(), page_count), (10, 2), "{}", kind.key);
        }
    }
}

#[tokio::test]
async fn a_long_cursor_ends_a_list() {
    let kind = ListKind::PROMPTS;
    let one = ["1".to_owned()];
    let cursor = "c".repeat(MAX_IDENTIFIER_BYTES);
    let pages = [
        page(kind, &one, Some(&cursor)),
        page(kind, &one, Some(&format!("{cursor}c"))),
    ];
    let (entries, page_count) = read(kind, &pages).await;
    assert_eq!((entries.len(), page_count), (2, 2));
}

#[tokio::test]
async fn every_list_may_be_an_object() {
    for kind in KINDS {
        let identifier = kind.identifier;
        let many = (0..kind.max_entries + 5).map(|nth| format!(r#""{nth}":{nth}"#));
        let limited = (0..kind.max_entries).map(|nth| nth.to_string());
        for (object, expected) in [
            (
                r#""0":{"a":1},"2":7"#.to_owned(),
                vec![r#"{"a":1}"#.to_owned(), "7".to_owned()],
            ),
            (
                format!(r#""a":{{"{identifier}":"b","x":1}},"c":{{"x":{{"y":[1.50]}}}},"d":7"#),
                vec![
                    format!(r#"{{"{identifier}":"b","x":1}}"#),
                    format!(r#"{{"{identifier}":"c","x":{{"y":[1.50]}}}}"#),
                    "7".to_owned(),
                ],
            ),
            (many.collect::<Vec<_>>().join(","), limited.collect()),
        ] {
            let (entries, _) = read(kind, &[format!(r#"{{"{}":{{{object}}}}}"#, kind.key)]).await;
            assert_eq!(entries, expected);
        }
    }
}

#[tokio::test]
async fn a_cursor_is_sent_back_as_it_came() {
    for kind in KINDS {
        for cursor in ["\"a\\u0062\"", "7", "-1", "1.50"] {
            let mut reader = ListReader::new(kind, "far", 100, usize::MAX);
            reader.next_page_params().unwrap();
            let text = format!(r#"{{"{}":[1],"nextCursor":{cursor}}}"#, kind.key);
            let page = RawValue::from_string(text).unwrap();
            reader = reader.read_page(page).await.unwrap();
            let params = reader.next_page_params().unwrap().unwrap();
            assert_eq!(params.get(), format!(r#"{{"cursor":{cursor}}}"#));
        }
        let page = format!(r#"{{"{}":[1],"nextCursor":true}}"#, kind.key);
        assert_eq!(read(kind, &[page]).await.0.len(), 1);
    }
}

#[tokio::test]
async fn an_ignored_cursor_ends_a_list_and_its_copies_are_dropped() {
    let (a, b) = (["1".to_owned()], ["2".to_owned()]);
    for kind in KINDS {
        let pages = |pages: &[(&[String], &str)]| {
            let pages = pages.iter();
            pages
                .map(|(entries, cursor)| page(kind, entries, Some(cursor)))
                .collect::<Vec<_>>()
        };
        for (pages, expected, requests) in [
            // The server returns the same page with the same cursor.
            (pages(&[(&a, "x"), (&a, "x")]), &["1"][..], 2),
            // The cursors form a cycle.
            (pages(&[(&a, "x"), (&b, "y"), (&a, "x")]), &["1", "2"], 3),
            // The server returns the same page with another cursor each time.
            (pages(&[(&a, "x"), (&a, "y"), (&a, "z")]), &["1"], 3),
            // The entries of a page with an old cursor are kept if they are new.
            (pages(&[(&a, "x"), (&b, "x")]), &["1", "2"], 2),
            // Empty pages do not count as repeated pages.
            (
                pages(&[(&[], "x"), (&[], "y"), (&[], "z"), (&a, "z")]),
                &["1"],
                4,
            ),
        ] {
            let (entries, page_count) = read(kind, &pages).await;
            assert_eq!(entries, expected, "{pages:?}");
            assert_eq!(page_count, requests, "{pages:?}");
        }
    }
}
