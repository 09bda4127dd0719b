//! P: a malicious component cannot harm the process that runs it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::text::{ECHO, OWN, Parts, component, returns};
use common::{Folder, assert_fault, call, limit_of};
use pillion_core::tool::{ErrorCode, Tool};
use pillion_wasm_tools::WasmFolder;
use serde_json::json;

/// The body of a `call` that never ends.
const SPIN: &str = "(loop $again (br $again)) unreachable";

#[tokio::test(flavor = "multi_thread")]
async fn p_a_call_returns_its_result_and_resource_usage() {
    let folder = Folder::with("echo.wasm", component(ECHO));
    let tool = folder.tool("");
    let output = call(&tool, json!({"a": "ü"})).await.unwrap();
    assert_eq!(output.result, json!({"a": "ü"}));
    assert_eq!(output.metadata["memory_bytes"], 131_072);
    assert!(output.metadata["fuel"].as_u64().unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn p_an_endless_loop_ends_when_its_fuel_is_used_up() {
    let folder = Folder::with("spin.wasm", component(SPIN));
    let tool = folder.tool("[limits]\nmax_fuel = 1000000\ntimeout_ms = 3600000");
    let (limit, failure) = limit_of(&tool).await;
    assert_eq!(limit, "fuel");
    assert_eq!(failure.code, ErrorCode::InternalError);
    assert_eq!(
        failure.message,
        "Tool 'spin' exceeded its fuel limit of 1000000"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p_an_endless_loop_with_fuel_left_ends_at_the_deadline() {
    // Each iteration is one long instruction, which cannot be interrupted.
    let call = "(loop $again (memory.fill (i32.const 0) (i32.const 0) (i32.const 1048576)) (br $again)) unreachable";
    let slow = Parts {
        call,
        pages: 17,
        ..Parts::default()
    };
    let folder = Folder::with("slow.wasm", slow.build());
    let limits = format!("[limits]\ntimeout_ms = 200\nmax_fuel = {}", 1_u64 << 62);
    let tool = folder.tool(&limits);
    let (limit, failure) = limit_of(&tool).await;
    assert_eq!(limit, "time");
    assert_eq!(failure.code, ErrorCode::Timeout);
    assert_eq!(failure.message, "Tool 'slow' timed out after 0.2s");
}

#[test]
fn p_a_cancelled_call_ends_and_frees_its_thread() {
    // The runtime has a single thread for blocking work.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let folder = Folder::new();
    folder
        .put("echo.wasm", component(ECHO))
        .put("spin.wasm", component(SPIN));
    let limits = format!("[limits]\ntimeout_ms = 600000\nmax_fuel = {}", 1_u64 << 62);
    let mut opened = WasmFolder::new(folder.settings(&limits)).unwrap();
    {
        let _inside = runtime.enter();
        opened.refresh();
    }
    let [echo, spin] = <[_; 2]>::try_from(opened.tools()).unwrap();
    let run = |tool| runtime.spawn(async move { call(&tool, json!({})).await });
    runtime.block_on(async {
        let spinning = run(spin);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut waiting = run(echo);
        let ended = tokio::time::timeout(Duration::from_millis(300), &mut waiting).await;
        assert!(ended.is_err(), "the thread is busy");
        spinning.abort();
        waiting.await.unwrap().unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn p_memory_grows_to_its_limit_and_no_further() {
    let grow = "
        (loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
        unreachable";
    let folder = Folder::with("grow.wasm", component(grow));
    let tool = folder.tool("[limits]\nmax_memory_bytes = 8388608");
    let (limit, failure) = limit_of(&tool).await;
    assert_eq!(limit, "memory");
    assert_eq!(
        failure.message,
        "Tool 'grow' exceeded its memory limit of 8388608 bytes"
    );
    // A component whose initial memory exceeds the limit is rejected.
    let large = Parts {
        pages: 200,
        ..Parts::default()
    };
    let folder = Folder::with("large.wasm", large.build());
    let fault = folder.fault("[limits]\nmax_memory_bytes = 8388608");
    assert_fault(&fault, "describe_failed", "memory limit of 8388608 bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn p_deep_recursion_ends_only_its_call() {
    let deep = Parts {
        module: "(func $down (param i32) (result i32)
            (i32.add (call $down (i32.add (local.get 0) (i32.const 1))) (local.get 0)))",
        call: "(call $down (i32.const 0))",
        ..Parts::default()
    };
    let folder = Folder::with("deep.wasm", deep.build());
    let (limit, failure) = limit_of(&folder.tool("")).await;
    assert_eq!(
        (limit, failure.code),
        (json!("stack"), ErrorCode::InternalError)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p_a_huge_output_is_rejected_before_it_is_copied() {
    let large = returns(false, 0, 1_500_000);
    let parts = Parts {
        call: &large,
        pages: 32,
        ..Parts::default()
    };
    let folder = Folder::with("large.wasm", parts.build());
    let (limit, failure) = limit_of(&folder.tool("")).await;
    assert_eq!(limit, "output", "{failure}");
    assert_eq!(
        failure.message,
        "Tool 'large' passed more than 1048576 bytes at once to the host"
    );
    // The component returns an address outside its memory.
    let folder = Folder::with("liar.wasm", component(&returns(false, 1_000_000, 1000)));
    let (limit, failure) = limit_of(&folder.tool("")).await;
    assert_eq!(
        (limit, failure.code),
        (json!(null), ErrorCode::InternalError)
    );
    assert!(
        failure.message.starts_with("Tool 'liar' failed: "),
        "{failure}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p_an_output_that_is_not_utf8_or_not_json_fails_its_call() {
    let invalid = Parts {
        call: "(i32.store8 (i32.const 4096) (i32.const 255))
            (i32.store8 (i32.const 64) (i32.const 0)) (i32.store8 (i32.const 68) (i32.const 0))
            (i32.store (i32.const 72) (i32.const 4096)) (i32.store (i32.const 76) (i32.const 1))
            (i32.const 64)",
        ..Parts::default()
    };
    let folder = Folder::with("bytes.wasm", invalid.build());
    let failure = call(&folder.tool(""), json!({})).await.unwrap_err();
    assert_eq!(
        failure.message,
        "Tool 'bytes' returned a string that is not valid UTF-8"
    );

    let own = "{\"a\": ";
    let broken = returns(true, OWN, 6);
    let parts = Parts {
        call: &broken,
        own,
        ..Parts::default()
    };
    let folder = Folder::with("json.wasm", parts.build());
    let failure = call(&folder.tool(""), json!({})).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::InternalError);
    assert!(
        failure
            .message
            .starts_with("Tool 'json' returned invalid JSON: "),
        "{failure}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p_a_trap_ends_its_call_and_the_next_call_starts_fresh() {
    // The component counts its calls in its memory, and traps if it counts a second one.
    let counting = format!(
        "(i32.store8 (i32.const 8) (i32.add (i32.load8_u (i32.const 8)) (i32.const 1)))
        (if (i32.eq (i32.load8_u (i32.const 8)) (i32.const 2)) (then unreachable))
        (if (i32.eq (local.get $length) (i32.const 9)) (then unreachable))
        {ECHO}"
    );
    let folder = Folder::with("once.wasm", component(&counting));
    let tool = folder.tool("");
    for _ in 0..3 {
        call(&tool, json!({})).await.unwrap();
    }
    let failure = call(&tool, json!({"trap": 1})).await;
    assert!(failure.is_ok(), "ten bytes: {failure:?}");
    let failure = call(&tool, json!({"trp": 1})).await.unwrap_err();
    assert!(failure.message.contains("unreachable"), "{failure}");
    call(&tool, json!({})).await.unwrap();
}

/// Returns a function that calls itself 5000 times and has a name of 100 kB; `bottom` is what the
/// innermost call runs.
fn deep(bottom: &str) -> String {
    let name = "n".repeat(100_000);
    format!(
        "(func ${name} (param i32) (result i32)
            (if (i32.eq (local.get 0) (i32.const 5000)) (then {bottom}))
            (i32.add (call ${name} (i32.add (local.get 0) (i32.const 1))) (local.get 0)))
        (func $deep (result i32) (call ${name} (i32.const 0)))"
    )
}

/// Returns the peak memory of this process, in kB.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = peak.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn p_long_function_names_do_not_make_failures_expensive() {
    let overflows = deep("");
    let overflow = Parts {
        module: &overflows.replace("i32.const 5000", "i32.const -1"),
        call: "(call $deep)",
        ..Parts::default()
    };
    let folder = Folder::with("deep.wasm", overflow.build());
    let (limit, failure) = limit_of(&folder.tool("")).await;
    assert_eq!(limit, "stack", "{failure}");

    let drops = deep("(call $drop (i32.const 12345))");
    let module = format!("(import \"host\" \"drop\" (func $drop (param i32))) {drops}");
    let bad_handle = Parts {
        imports: "(import \"wasi:io/error@0.2.0\" (instance $errors
                (export \"error\" (type (sub resource)))))
            (alias export $errors \"error\" (type $error))
            (core func $drop (canon resource.drop $error))
            (core instance $host (export \"drop\" (func $drop)))",
        with: "(with \"host\" (instance $host))",
        module: &module,
        call: "(call $deep)",
        ..Parts::default()
    };
    let folder = Folder::with("deep.wasm", bad_handle.build());
    let (_, failure) = limit_of(&folder.tool("")).await;
    let message = failure.message;
    assert!(
        message.starts_with("Tool 'deep' failed: "),
        "{message:.200}"
    );
    assert!(message.contains("12345"), "{message:.200}");
    assert!(message.len() < 1200, "{} bytes", message.len());
    assert!(peak_kb() < 400_000, "{} kB", peak_kb());
}

#[tokio::test(flavor = "multi_thread")]
async fn p_tables_count_as_memory() {
    let table = Parts {
        module: "(table $t 1000 funcref)",
        ..Parts::default()
    };
    let folder = Folder::with("table.wasm", table.build());
    let output = call(&folder.tool(""), json!({})).await.unwrap();
    assert_eq!(output.metadata["memory_bytes"], 131_072 + 8000);

    let grow = Parts {
        call: "(loop $again
            (br_if $again (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))
            unreachable",
        ..table
    };
    let folder = Folder::with("grow.wasm", grow.build());
    let tool = folder.tool("[limits]\nmax_memory_bytes = 1048576");
    assert_eq!(limit_of(&tool).await.0, "memory");

    let large = Parts {
        module: "(table $t 9000000 funcref)",
        ..Parts::default()
    };
    let folder = Folder::with("large.wasm", large.build());
    let fault = folder.fault("");
    assert_eq!(fault.error.code.as_str(), "describe_failed");
    assert!(
        fault.error.message.contains("exceeded its memory limit"),
        "{fault:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn p_the_number_of_instances_of_a_component_is_limited() {
    let instances = "(core instance (instantiate $empty))".repeat(32);
    let many = Parts {
        imports: &format!("(core module $empty) {instances}"),
        ..Parts::default()
    };
    let folder = Folder::with("many.wasm", many.build());
    let fault = folder.fault("");
    assert_eq!(fault.error.code.as_str(), "describe_failed");
    assert!(fault.error.message.contains("instance count"), "{fault:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p_the_length_of_an_error_is_limited() {
    let fails =
        "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store8 (i32.const 68) (i32.const 5))
        (memory.fill (i32.const 4096) (i32.const 120) (i32.const 20000))
        (i32.store (i32.const 72) (i32.const 4096)) (i32.store (i32.const 76) (i32.const 20000))
        (i32.const 64)";
    let folder = Folder::with("fails.wasm", component(fails));
    let failure = call(&folder.tool(""), json!({})).await.unwrap_err();
    assert_eq!(failure.message, format!("{}...", "x".repeat(16_384)));
}

#[tokio::test(flavor = "multi_thread")]
async fn p_a_tool_whose_folder_is_full_is_not_called() {
    let folder = Folder::new();
    let notes = folder.create_sibling("notes");
    let texts = folder.create_sibling("texts");
    let manifest = "[permissions.files]\n\"/notes\" = \"read-write\"\n\"/texts\" = \"read\"\n\
                    [limits]\nmax_folder_bytes = 8192\n";
    folder
        .put("echo.wasm", component(ECHO))
        .put("echo.toml", manifest);
    let tool = folder.tool(&format!(
        "[grants.echo.files]\n\"/notes\" = {{ path = \"{}\", access = \"read-write\" }}\n\
         \"/texts\" = {{ path = \"{}\" }}",
        notes.display(),
        texts.display()
    ));
    std::fs::write(texts.join("long"), vec![0; 100_000]).unwrap();
    std::fs::write(notes.join("a"), vec![0; 8192]).unwrap();
    call(&tool, json!({})).await.unwrap();
    std::fs::write(notes.join("b"), "").unwrap();
    let (limit, failure) = limit_of(&tool).await;
    assert_eq!(limit, "folder");
    assert_eq!(failure.code, ErrorCode::Unavailable);
    assert_eq!(
        failure.message,
        "Tool 'echo' cannot be called: its folder '/notes' contains more than 8192 bytes"
    );
    std::fs::remove_file(notes.join("b")).unwrap();
    call(&tool, json!({})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn p_a_slow_compilation_delays_no_other_file() {
    let folder = Folder::new();
    folder
        .put("a.wasm", component(ECHO))
        .put("b.wasm", component(ECHO));
    let settings = folder.settings("[limits]\ncompile_timeout_ms = 1500");
    let mut opened = WasmFolder::new(settings).unwrap();
    let search = opened.search();
    opened.apply_search(search.run());
    let late = opened.next_file().unwrap();
    assert_eq!(late.name(), "a");
    assert_eq!(late.load_timeout(), Duration::from_millis(1500));
    opened.mark_slow("a");
    let fault = opened.faults().pop().unwrap();
    assert_eq!(fault.error.code.as_str(), "too_slow");
    assert_eq!(
        fault.error.message,
        "compiling the component takes longer than 1.5s"
    );

    let names = |opened: &WasmFolder| {
        let tools = opened.tools();
        let names = tools
            .iter()
            .map(|tool| tool.definition().name().to_string());
        names.collect::<Vec<_>>()
    };
    let other = opened.next_file().unwrap();
    assert!(opened.next_file().is_none());
    opened.apply_loaded(tokio::task::block_in_place(|| other.load()));
    assert_eq!(names(&opened), ["b"]);
    opened.apply_loaded(tokio::task::block_in_place(|| late.load()));
    assert_eq!(names(&opened), ["a", "b"]);
    assert!(opened.faults().is_empty());
}
