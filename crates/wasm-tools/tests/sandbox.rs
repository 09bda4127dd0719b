//! P: a component written in Rust can access only what it requests and is granted. The component
//! `tests/wasm/probe` tries the accesses that its arguments name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::HeaderMap;
use axum::response::Redirect;
use axum::routing::{any, get};
use common::{Folder, assert_fault, call, call_as, load, load_settled};
use pillion_core::tool::{CallContext, ErrorCode, Tool, ToolFailure};
use pillion_wasm_tools::{PendingFile, WasmFolder, WasmTool};
use serde_json::{Value, json};

/// Returns a folder with the component `probe`.
fn folder() -> Folder {
    let component = pillion_testkit::wasm_component("probe");
    Folder::with("probe.wasm", std::fs::read(component).unwrap())
}

async fn does(tool: &Arc<WasmTool>, arguments: Value) -> Value {
    let output = call(tool, arguments.clone()).await;
    output
        .unwrap_or_else(|failure| unreachable!("{arguments}: {failure}"))
        .result
}

async fn fails(tool: &Arc<WasmTool>, arguments: Value) -> ToolFailure {
    match call(tool, arguments.clone()).await {
        Ok(output) => unreachable!("{arguments}: {output:?}"),
        Err(failure) => failure,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_without_a_manifest_there_are_no_files_no_variables_and_no_network() {
    let folder = folder();
    let secret = folder.create_sibling("secret");
    std::fs::write(secret.join("key"), "s3cret").unwrap();
    // Granted permissions that the manifest does not request are not available either.
    let grants = format!(
        "[grants.probe]\nenvironment = [\"PATH\"]\nhttp = [\"http://127.0.0.1:1\"]\nfiles = {{ \"/secret\" = {{ path = \"{}\" }} }}",
        secret.display()
    );
    let tool = folder.tool(&grants);
    assert_eq!(does(&tool, json!({"do": "environment"})).await, json!([]));
    assert_eq!(does(&tool, json!({"do": "arguments"})).await, json!([]));
    let key = secret.join("key").display().to_string();
    for path in [
        "/etc/passwd",
        "/secret/key",
        "secret/key",
        "../../etc/passwd",
        &key,
    ] {
        let failure = fails(&tool, json!({"do": "read", "path": path})).await;
        assert_eq!(failure.code, ErrorCode::Denied, "{path}: {failure}");
    }
    fails(&tool, json!({"do": "write", "path": "/tmp/x", "text": "x"})).await;
    fails(&tool, json!({"do": "list", "path": "/"})).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    fails(&tool, json!({"do": "connect", "to": address})).await;
    fails(&tool, json!({"do": "connect", "to": "localhost:80"})).await;
    let failure = fails(&tool, json!({"do": "send", "url": "http://127.0.0.1:1/"})).await;
    assert_eq!(
        failure.message,
        "denied: the origin of '127.0.0.1' is not granted to this tool"
    );
    assert_eq!(failure.metadata["retry_after"], 7);
    // Harmless functions that reveal no secrets are available.
    let now = does(&tool, json!({"do": "time"})).await.as_u64().unwrap();
    assert!(now > 1_700_000_000);
    // The component describes itself as destructive, but has no permission to change anything.
    let annotations = tool.definition().annotations();
    assert_eq!(annotations["readOnlyHint"], true);
    assert_eq!(annotations["destructiveHint"], false);
    assert_eq!(annotations["openWorldHint"], false);
    assert_eq!(tool.definition().category(), "sandboxed");
}

#[tokio::test(flavor = "multi_thread")]
async fn p_a_call_sees_its_caller_and_no_state_of_earlier_calls() {
    let folder = folder();
    let tool = folder.tool("");
    let context = |user: Option<&str>, is_user_verified| CallContext {
        call_id: "c1".to_owned(),
        user: user.map(str::to_owned),
        is_user_verified,
        channel: Some("general".to_owned()),
        ..CallContext::default()
    };
    let shown = |user: Option<&str>, is_verified: bool| json!(["c1", user, is_verified, "general"]);
    for (user, is_verified, expected) in [
        (Some("alice"), false, shown(Some("alice"), false)),
        (Some("alice"), true, shown(Some("alice"), true)),
        (None, true, shown(None, false)),
    ] {
        let output = call_as(&tool, json!({"do": "context"}), context(user, is_verified));
        assert_eq!(output.await.unwrap().result, expected);
    }
    for _ in 0..3 {
        assert_eq!(does(&tool, json!({"do": "count"})).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_only_granted_folders_are_accessible() {
    let folder = folder();
    let texts = folder.create_sibling("texts");
    let notes = folder.create_sibling("notes");
    std::fs::write(texts.join("a.txt"), "hello").unwrap();
    std::fs::write(folder.create_sibling("outside").join("key"), "s3cret").unwrap();
    symlink("../outside/key", texts.join("link")).unwrap();
    symlink("/etc/passwd", texts.join("absolute")).unwrap();
    folder.put(
        "probe.toml",
        "[permissions.files]\n\"/texts\" = \"read\"\n\"/notes\" = \"read-write\"\n",
    );
    let grants = |access: &str| {
        format!(
            "[grants.probe.files]\n\"/texts\" = {{ path = \"{}\", access = \"read-write\" }}\n\"/notes\" = {{ path = \"{}\", access = \"{access}\" }}",
            texts.display(),
            notes.display()
        )
    };
    let (fault, tool) = folder.fault_and_tool(&grants("read"), &grants("read-write"));
    let not_granted = "not granted: files '/notes' (read-write)";
    assert_fault(&fault, "not_granted", not_granted);

    assert_eq!(tool.definition().annotations()["destructiveHint"], true);
    let read = json!({"do": "read", "path": "/texts/a.txt"});
    assert_eq!(does(&tool, read).await, "hello");
    let names = does(&tool, json!({"do": "list", "path": "/texts"})).await;
    assert_eq!(names, json!(["a.txt", "absolute", "link"]));
    for path in [
        "/texts/link",
        "/texts/absolute",
        "/texts/../outside/key",
        "/outside/key",
    ] {
        fails(&tool, json!({"do": "read", "path": path})).await;
    }
    // The manifest requests read access, so further granted access has no effect.
    for path in ["/texts/new.txt", "/texts/a.txt"] {
        let write = json!({"do": "write", "path": path, "text": "changed"});
        fails(&tool, write).await;
    }
    fails(&tool, json!({"do": "remove", "path": "/texts/a.txt"})).await;
    let text = std::fs::read_to_string(texts.join("a.txt")).unwrap();
    assert_eq!(text, "hello");
    let write = json!({"do": "write", "path": "/notes/n.txt", "text": "noted"});
    does(&tool, write).await;
    let note = std::fs::read_to_string(notes.join("n.txt")).unwrap();
    assert_eq!(note, "noted");
    does(&tool, json!({"do": "remove", "path": "/notes/n.txt"})).await;
    // A granted folder that disappears fails calls, but not the process.
    std::fs::remove_dir(&notes).unwrap();
    let failure = fails(&tool, json!({"do": "time"})).await;
    assert_eq!(failure.code, ErrorCode::Unavailable);
    let message = &failure.message;
    assert!(message.contains("the folder for '/notes'"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p_only_granted_variables_are_visible() {
    let folder = folder();
    folder.put(
        "probe.toml",
        "[permissions]\nenvironment = [\"CARGO_PKG_NAME\", \"NOT_SET_ANYWHERE\"]",
    );
    let (fault, tool) = folder.fault_and_tool(
        "[grants.probe]\nenvironment = [\"NOT_SET_ANYWHERE\"]",
        "[grants.probe]\nenvironment = [\"NOT_SET_ANYWHERE\", \"CARGO_PKG_NAME\", \"PATH\"]",
    );
    let not_granted = "not granted: environment 'CARGO_PKG_NAME'";
    assert_fault(&fault, "not_granted", not_granted);
    let variables = does(&tool, json!({"do": "environment"})).await;
    assert_eq!(variables, json!([["CARGO_PKG_NAME", "pillion-wasm-tools"]]));
    assert!(!format!("{tool:?}").contains("pillion-wasm-tools"));
}

/// A server that echoes requests, redirects to `elsewhere`, and sends long responses.
async fn server(elsewhere: &str) -> String {
    let elsewhere = elsewhere.to_owned();
    let echo = |headers: HeaderMap, body: String| async move {
        let key = headers.get("x-key").and_then(|key| key.to_str().ok());
        format!("{} {body}", key.unwrap_or("?"))
    };
    let router = Router::new()
        .route("/echo", any(echo))
        .route("/long", get(|| async { "x".repeat(4096) }))
        .route(
            "/away",
            get(|| async move { Redirect::temporary(&elsewhere) }),
        )
        .route(
            "/never",
            get(|| async { std::future::pending::<String>().await }),
        );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn p_requests_go_to_granted_origins_under_the_egress_rules() {
    let folder = folder();
    let other = server("/").await;
    let url = server(&format!("{other}/echo")).await;
    let link_local = "http://169.254.169.254";
    folder.put(
        "probe.toml",
        format!("[permissions]\nhttp = [\"{url}\", \"{link_local}\"]"),
    );
    let (fault, tool) = folder.fault_and_tool(
        &format!("[grants.probe]\nhttp = [\"{link_local}\", \"{other}\"]"),
        &format!(
            "[limits]\nmax_answer_bytes = 1024\ntimeout_ms = 20000\n[grants.probe]\nhttp = [\"{url}/\", \"{link_local}\", \"{other}\"]"
        ),
    );
    let not_granted = format!("not granted: http '{url}'");
    assert_fault(&fault, "not_granted", &not_granted);
    assert_eq!(tool.definition().annotations()["openWorldHint"], true);
    let sent = json!({"do": "send", "method": "POST", "url": format!("{url}/echo"), "headers": {"x-key": "k"}, "body": "ü"});
    assert_eq!(does(&tool, sent).await, json!([200, "k ü"]));
    let lost = json!({"do": "send", "url": format!("{url}/lost")});
    assert_eq!(does(&tool, lost).await[0], 404);
    for (target, expected) in [
        (
            format!("{other}/echo"),
            "denied: the origin of '127.0.0.1' is not granted",
        ),
        (
            url.replace("127.0.0.1", "localhost"),
            "denied: the origin of 'localhost' is not granted",
        ),
        (url.replace("http:", "https:"), "denied: "),
        (format!("{link_local}/latest/meta-data"), "denied: "),
        (
            url.replace("http://", "http://user:secret@"),
            "invalid: the URL must not contain credentials",
        ),
        ("no URL".to_owned(), "invalid: the URL is invalid"),
        (format!("{url}/long"), "too long"),
    ] {
        let failure = fails(&tool, json!({"do": "send", "url": target})).await;
        assert!(failure.message.starts_with(expected), "{target}: {failure}");
    }
    let host = json!({"do": "send", "url": format!("{url}/echo"), "headers": {"Host": "x"}});
    let message = fails(&tool, host).await.message;
    assert!(
        message.starts_with("invalid: the header 'Host'"),
        "{message}"
    );
    let away = fails(&tool, json!({"do": "send", "url": format!("{url}/away")})).await;
    let not_followed =
        "redirects to another origin or too many times: Pillion does not follow the redirect";
    assert!(away.message.contains(not_followed), "{away}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p_endless_waiting_ends_at_the_deadline() {
    let folder = folder();
    let url = server("/").await;
    folder.put(
        "probe.toml",
        format!("[permissions]\nhttp = [\"{url}\"]\n[limits]\ntimeout_ms = 300"),
    );
    let tool = folder.tool(&format!("[grants.probe]\nhttp = [\"{url}\"]"));
    for arguments in [
        json!({"do": "sleep"}),
        json!({"do": "spin"}),
        json!({"do": "send", "url": format!("{url}/never")}),
    ] {
        let begun = Instant::now();
        let failure = fails(&tool, arguments).await;
        assert_eq!(failure.message, "Tool 'probe' timed out after 0.3s");
        assert_eq!(failure.code, ErrorCode::Timeout);
        assert!(begun.elapsed().as_secs() < 30);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_panics_exits_and_memory_exhaustion_end_one_call() {
    let folder = folder();
    let tool = folder.tool("[limits]\nmax_memory_bytes = 16777216");
    let panicked = fails(&tool, json!({"do": "panic"})).await.message;
    assert!(panicked.starts_with("Tool 'probe' failed: "), "{panicked}");
    assert!(!panicked.contains("as it was told"), "{panicked}");
    let exited = fails(&tool, json!({"do": "exit"})).await.message;
    assert_eq!(exited, "Tool 'probe' failed: exited with status 1");
    let too_much = fails(&tool, json!({"do": "allocate", "bytes": 20_000_000})).await;
    assert_eq!(too_much.metadata["limit"], "memory");
    let allocated = does(&tool, json!({"do": "allocate", "bytes": 1_000_000})).await;
    assert_eq!(allocated, 1_000_000);
    let too_long = fails(&tool, json!({"do": "output", "bytes": 2_000_000})).await;
    assert_eq!(too_long.metadata["limit"], "output");
    assert_eq!(does(&tool, json!({"do": "chatter"})).await, "said");
}

#[tokio::test(flavor = "multi_thread")]
async fn p_grants_are_valid_for_one_file_until_they_are_withdrawn() {
    let folder = folder();
    let texts = folder.create_sibling("texts");
    std::fs::write(texts.join("a.txt"), "hello").unwrap();
    folder.put("probe.toml", "[permissions.files]\n\"/texts\" = \"read\"");
    let grants = |sha256: &str| {
        format!(
            "[grants.probe]\nsha256 = \"{sha256}\"\nfiles = {{ \"/texts\" = {{ path = \"{}\" }} }}",
            texts.display()
        )
    };
    let mut opened = folder.open(&grants(&"0".repeat(64)));
    let fault = opened.faults().pop().unwrap();
    assert_eq!(fault.error.code.as_str(), "other_file");
    let sha256 = fault.error.message.rsplit(' ').next().unwrap().to_owned();
    assert!(opened.reconfigure(folder.settings(&grants(&sha256))));
    load(&mut opened);
    let [granted] = <[_; 1]>::try_from(opened.tools()).unwrap();

    // Without the grant, the tool disappears before the next search.
    assert!(opened.reconfigure(folder.settings("")));
    assert!(opened.tools().is_empty());
    assert_eq!(opened.faults()[0].error.code.as_str(), "not_granted");
    load(&mut opened);
    assert!(opened.tools().is_empty());
    // A running call keeps its permissions.
    let read = json!({"do": "read", "path": "/texts/a.txt"});
    assert_eq!(does(&granted, read).await, "hello");

    assert!(opened.reconfigure(folder.settings(&grants(&sha256))));
    load(&mut opened);
    let [again] = <[_; 1]>::try_from(opened.tools()).unwrap();
    assert_eq!(again.digest(), granted.digest());
    // Smaller requests in the manifest make the same file another tool.
    folder.put("probe.toml", "");
    load_settled(&mut opened);
    let [unprivileged] = <[_; 1]>::try_from(opened.tools()).unwrap();
    assert_ne!(unprivileged.digest(), granted.digest());
    // A grant for one file does not apply to a new version of the file; the tool of the old version
    // stays.
    folder.put("probe.wasm", common::text::component(common::text::ECHO));
    load_settled(&mut opened);
    let [fault] = <[_; 1]>::try_from(opened.faults()).unwrap();
    assert_eq!(fault.error.code.as_str(), "other_file");
    assert!(fault.previous_version_offered);
    assert_eq!(opened.tools()[0].digest(), unprivileged.digest());
}

#[tokio::test(flavor = "multi_thread")]
async fn p_added_replaced_and_removed_files_are_noticed() {
    use common::text::{ECHO, Parts, component};
    let folder = Folder::new();
    let mut opened = folder.open("");
    assert!(opened.tools().is_empty() && opened.faults().is_empty());
    folder
        .put("echo.wasm", component(ECHO))
        .put(".new.wasm", "half")
        .put("notes.txt", "");
    load(&mut opened);
    // A new file is not loaded yet, because it may still be being written.
    assert!(opened.tools().is_empty());
    load(&mut opened);
    let [first] = <[_; 1]>::try_from(opened.tools()).unwrap();
    // Writing an identical file does not replace the tool.
    folder.put("echo.wasm", component(ECHO));
    load_settled(&mut opened);
    assert!(Arc::ptr_eq(&first, &opened.tools()[0]));
    // An invalid file leaves the tool unchanged; a valid file replaces the tool.
    folder.put("echo.wasm", "broken");
    load_settled(&mut opened);
    assert!(Arc::ptr_eq(&first, &opened.tools()[0]));
    assert!(opened.faults()[0].previous_version_offered);
    let other = Parts {
        description: "Another one",
        ..Parts::default()
    };
    folder.put("echo.wasm", other.build());
    load_settled(&mut opened);
    assert!(opened.faults().is_empty());
    let [second] = <[_; 1]>::try_from(opened.tools()).unwrap();
    assert_eq!(second.definition().description(), "Another one");
    assert_ne!(second.digest(), first.digest());
    // Callers that hold the old tool can still call it.
    call(&first, json!({})).await.unwrap();
    let path = folder.path().join("echo.wasm");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
    load_settled(&mut opened);
    assert_eq!(opened.faults()[0].error.code.as_str(), "unsafe_file");
    std::fs::remove_file(&path).unwrap();
    load(&mut opened);
    assert!(opened.tools().is_empty() && opened.faults().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn p_withdrawn_and_removed_files_are_unloaded_while_others_load() {
    use common::text::{ECHO, component};
    let load_file = |file: PendingFile| tokio::task::block_in_place(|| file.load());
    let asks = "[permissions]\nenvironment = [\"PATH\"]";
    let granted = "[grants.asks]\nenvironment = [\"PATH\"]";
    let folder = Folder::new();
    folder
        .put("asks.wasm", component(ECHO))
        .put("asks.toml", asks)
        .put("late.wasm", component(ECHO));
    let mut opened = WasmFolder::new(folder.settings(granted)).unwrap();
    opened.apply_search(opened.search().run());
    let first = opened.next_file().unwrap();
    assert_eq!(first.name(), "asks");
    opened.apply_loaded(load_file(first));
    assert_eq!(opened.tools().len(), 1);

    // Loading the second file takes longer.
    let late = opened.next_file().unwrap();
    assert!(opened.next_file().is_none());
    assert!(opened.reconfigure(folder.settings("")));
    assert!(opened.tools().is_empty(), "the grant is withdrawn");
    std::fs::remove_file(folder.path().join("late.wasm")).unwrap();
    opened.apply_search(opened.search().run());
    opened.apply_loaded(load_file(late));
    assert!(opened.tools().is_empty(), "{:?}", opened.tools());

    // A grant that was withdrawn after the file was read has no effect.
    assert!(opened.reconfigure(folder.settings(granted)));
    opened.apply_search(opened.search().run());
    let pending = opened.next_file().unwrap();
    let loaded = load_file(pending);
    assert!(opened.reconfigure(folder.settings("")));
    opened.apply_loaded(loaded);
    assert!(opened.tools().is_empty(), "{:?}", opened.tools());
    load(&mut opened);
    let [fault] = <[_; 1]>::try_from(opened.faults()).unwrap();
    assert_eq!(fault.error.code.as_str(), "not_granted");
}
