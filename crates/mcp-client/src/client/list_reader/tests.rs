use super::*;

const KINDS: [ListKind; 4] = [
    ListKind::TOOLS,
    ListKind::RESOURCES,
    ListKind::RESOURCE_TEMPLATES,
    ListKind::PROMPTS,
];

async fn read(kind: ListKind, pages: &[String]) -> (Vec<Box<RawValue>>, usize) {
    let mut reader = ListReader::new(kind, "far", 100, usize::MAX);
    let mut read = 0;
    while let Some(_params) = reader.next_page().unwrap() {
        let page = RawValue::from_string(pages[read].clone()).unwrap();
        reader = reader.read(page).await.unwrap();
        read += 1;
    }
    (reader.into_entries(), read)
}

fn page(kind: ListKind, entries: &[String], cursor: Option<&str>) -> String {
    let entries = entries.join(",");
    let cursor = cursor.map(|cursor| format!(r#","nextCursor":"{cursor}""#));
    format!(
        r#"{{"more":[{{}}],"{}":[{entries}]{}}}"#,
        kind.key,
        cursor.unwrap_or_default()
    )
}

#[tokio::test]
async fn the_number_of_entries_of_every_list_is_limited() {
    for kind in KINDS {
        let entries: Vec<_> = (0..kind.max_entries * 2)
            .map(|nth| nth.to_string())
            .collect();
        let half = kind.max_entries / 2;
        let pages = [
            page(kind, &entries[..half], Some("1")),
            page(kind, &entries[half..], Some("2")),
        ];
        let (kept, pages) = read(kind, &pages).await;
        assert_eq!((kept.len(), pages), (kind.max_entries, 2), "{}", kind.key);
        let kept = kept.iter().map(|entry| entry.get());
        assert!(kept.eq(entries.iter().take(kind.max_entries)));
    }
}

#[tokio::test]
async fn the_size_of_the_entries_of_every_list_is_limited() {
    for kind in KINDS {
        let large = format!("\"{}\"", "x".repeat(MAX_ENTRY_BYTES));
        let fits = format!("\"{}\"", "x".repeat(MAX_ENTRY_BYTES - 2));
        let entries = [
            large.clone(),
            "1".to_owned(),
            fits.clone(),
            large,
            "2".to_owned(),
        ];
        let (kept, _) = read(kind, &[page(kind, &entries, None)]).await;
        let kept: Vec<_> = kept.iter().map(|entry| entry.get()).collect();
        assert!(kept == ["1", &*fits, "2"], "{}", kind.key);

        let many = vec![fits; 20];
        let (kept, pages) = read(kind, &[page(kind, &many, Some("more"))]).await;
        assert_eq!((kept.len(), pages), (16, 1), "{}", kind.key);
    }
}

#[tokio::test]
async fn the_number_of_values_of_the_entries_of_every_list_is_limited() {
    for kind in KINDS {
        for (value, values) in [("0", 1), ("[]", 2), ("[0]", 2), (r#"{"":[]}"#, 3)] {
            let of = |number: usize| format!("[{}]", vec![value; number].join(","));
            let fits = of((MAX_ENTRY_VALUES - 1) / values);
            let entries = [
                of(MAX_ENTRY_VALUES / values + 1),
                "1".to_owned(),
                fits.clone(),
            ];
            let (kept, _) = read(kind, &[page(kind, &entries, None)]).await;
            let kept: Vec<_> = kept.iter().map(|entry| entry.get()).collect();
            assert!(kept == ["1", &*fits], "{}", kind.key);

            let pages = [
                page(kind, &vec![fits.clone(); 8], Some("1")),
                page(kind, &vec![fits; 8], Some("2")),
            ];
            let (kept, pages) = read(kind, &pages).await;
            assert_eq!((kept.len(), pages), (10, 2), "{}", kind.key);
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
    let (kept, pages) = read(kind, &pages).await;
    assert_eq!((kept.len(), pages), (2, 2));
}

#[tokio::test]
async fn every_list_may_be_an_object() {
    for kind in KINDS {
        let (kept, _) = read(
            kind,
            &[format!(r#"{{"{}":{{"0":{{"a":1}},"2":7}}}}"#, kind.key)],
        )
        .await;
        let kept: Vec<_> = kept.iter().map(|entry| entry.get()).collect();
        assert_eq!(kept, [r#"{"a":1}"#, "7"]);

        let identifier = kind.identifier;
        let page = format!(
            r#"{{"{}":{{"a":{{"{identifier}":"b","x":1}},"c":{{"x":{{"y":[1.50]}}}},"d":7}}}}"#,
            kind.key
        );
        let (kept, _) = read(kind, &[page]).await;
        let kept: Vec<_> = kept.iter().map(|entry| entry.get()).collect();
        let named = format!(r#"{{"{identifier}":"b","x":1}}"#);
        let unnamed = format!(r#"{{"{identifier}":"c","x":{{"y":[1.50]}}}}"#);
        assert_eq!(kept, [&*named, &*unnamed, "7"]);

        let entries = (0..kind.max_entries + 5).map(|nth| format!(r#""{nth}":{nth}"#));
        let many = entries.collect::<Vec<_>>().join(",");
        let (kept, _) = read(kind, &[format!(r#"{{"{}":{{{many}}}}}"#, kind.key)]).await;
        assert_eq!(kept.len(), kind.max_entries);
    }
}

#[tokio::test]
async fn a_cursor_is_sent_back_as_it_came() {
    for kind in KINDS {
        for cursor in ["\"a\\u0062\"", "7", "-1", "1.50"] {
            let mut reader = ListReader::new(kind, "far", 100, usize::MAX);
            reader.next_page().unwrap();
            let page = format!(r#"{{"{}":[1],"nextCursor":{cursor}}}"#, kind.key);
            reader = reader
                .read(RawValue::from_string(page).unwrap())
                .await
                .unwrap();
            let params = reader.next_page().unwrap().unwrap();
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
        for (pages, kept, requests) in [
            // The same page with the same cursor.
            (pages(&[(&a, "x"), (&a, "x")]), &["1"][..], 2),
            // A cycle.
            (pages(&[(&a, "x"), (&b, "y"), (&a, "x")]), &["1", "2"], 3),
            // The same page with another cursor each time.
            (pages(&[(&a, "x"), (&a, "y"), (&a, "z")]), &["1"], 3),
            // Other entries with an old cursor are kept.
            (pages(&[(&a, "x"), (&b, "x")]), &["1", "2"], 2),
            // Empty pages are no copies.
            (
                pages(&[(&[], "x"), (&[], "y"), (&[], "z"), (&a, "z")]),
                &["1"],
                4,
            ),
        ] {
            let (entries, read) = read(kind, &pages).await;
            let entries: Vec<_> = entries.iter().map(|entry| entry.get()).collect();
            assert_eq!((&*entries, read), (kept, requests), "{pages:?}");
        }
    }
}
