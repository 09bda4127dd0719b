//! P: each invalid file is reported with an error, and affects no other file.

mod common;

use std::os::unix::fs::{PermissionsExt, symlink};

use common::text::{ECHO, OWN, Parts, component};
use common::{Folder, assert_fault};
use serde_json::json;

/// Loads a file and returns the code and the message of its error.
fn fault_of(bytes: &[u8]) -> (String, String) {
    let fault = Folder::with("tool.wasm", bytes).fault("");
    assert_eq!(fault.tool.as_deref(), Some("tool"));
    assert!(!fault.previous_version_offered);
    (fault.error.code.to_string(), fault.error.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn p_an_invalid_component_is_rejected_with_its_error_code() {
    let good = component(ECHO);
    let module = wat::parse_str("(module (func (export \"call\")))").unwrap();
    for (bytes, code) in [
        (&b"not WebAssembly"[..], "not_wasm"),
        (b"", "not_wasm"),
        (b"(component)", "not_wasm"),
        (b"\x7fELF\x02\x01\x01", "not_wasm"),
        (b"\0asm", "invalid_component"),
        (&module, "core_module"),
        (&good[..good.len() / 2], "invalid_component"),
        (&good[..good.len() - 1], "invalid_component"),
        (&[&good[..], b"more"].concat(), "invalid_component"),
    ] {
        let (found, what) = fault_of(bytes);
        assert_eq!(found, code, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_every_truncated_component_is_rejected() {
    let folder = Folder::new();
    let good = component(ECHO);
    let mut opened = folder.open("");
    for length in (0..good.len()).step_by(97) {
        folder.put("tool.wasm", &good[..length]);
        common::load_settled(&mut opened);
        assert!(opened.tools().is_empty(), "{length} bytes");
        assert_eq!(opened.faults().len(), 1, "{length} bytes");
    }
    folder.put("tool.wasm", &good);
    common::load_settled(&mut opened);
    assert_eq!(opened.tools().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn p_a_component_of_another_kind_is_rejected() {
    let empty = wat::parse_str("(component)").unwrap();
    assert_eq!(fault_of(&empty).0, "missing_export");
    let other_name = Parts {
        call_name: "run",
        ..Parts::default()
    };
    let (code, what) = fault_of(&other_name.build());
    assert_eq!(code, "missing_export");
    assert!(what.contains("`call`"), "{what}");
    let other_type = wat::parse_str(
        "(component
            (core module $m (func (export \"f\")))
            (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i \"f\")))
            (export \"describe\" (func $f)) (export \"call\" (func $f)))",
    );
    assert_eq!(fault_of(&other_type.unwrap()).0, "missing_export");
    let more = Parts {
        imports: "(import \"other:host/everything@1.0.0\" (instance (export \"go\" (func))))",
        ..Parts::default()
    };
    let (code, what) = fault_of(&more.build());
    assert_eq!(code, "unknown_import");
    assert!(what.contains("other:host/everything"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p_limits_apply_to_describe() {
    for (describe, expected) in [
        ("unreachable", "failed: "),
        ("(loop $again (br $again)) unreachable", "exceeded its fuel"),
        ("(i32.const 9999999)", "failed: "),
    ] {
        let parts = Parts {
            describe: describe.to_owned(),
            ..Parts::default()
        };
        let folder = Folder::with("tool.wasm", parts.build());
        let fault = folder.fault("[limits]\nmax_fuel = 100000");
        assert_eq!(fault.error.code.as_str(), "describe_failed");
        assert!(fault.error.message.contains(expected), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_an_invalid_definition_is_rejected() {
    let long = "{\"type\": \"object\", \"title\": \"x\"}".replace('x', &"x".repeat(300_000));
    let own_schema = Parts {
        // The description's address and length are those of the test's own text.
        describe: format!(
            "(i32.store (i32.const 24) (i32.const {OWN})) (i32.store (i32.const 28) (i32.const {})) (i32.const 16)",
            long.len()
        ),
        own: &long,
        pages: 8,
        ..Parts::default()
    };
    let (code, what) = fault_of(&own_schema.build());
    assert_eq!(code, "bad_definition", "{what}");
    assert_eq!(what, "input-schema is longer than 262144 bytes");
    for (description, schema) in [
        (" ", "{\"type\": \"object\"}"),
        ("Fine", "{\"type\": "),
        ("Fine", "[]"),
        ("Fine", "{\"type\": \"string\"}"),
        (
            "Fine",
            "{\"type\": \"object\", \"properties\": {\"a\": {\"pattern\": \"(\"}}}",
        ),
    ] {
        let parts = Parts {
            description,
            schema,
            ..Parts::default()
        };
        let (code, what) = fault_of(&parts.build());
        assert_eq!(code, "bad_definition", "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_a_file_writable_by_others_or_a_symlink_is_rejected() {
    let folder = Folder::new();
    let path = folder.path().join("tool.wasm");
    folder.put("tool.wasm", component(ECHO));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    let chmod = "writable by all users: remove this permission with chmod o-w";
    assert_fault(&folder.fault(""), "unsafe_file", chmod);

    std::fs::remove_file(&path).unwrap();
    let elsewhere = folder.create_sibling("elsewhere").join("real.wasm");
    std::fs::write(&elsewhere, component(ECHO)).unwrap();
    symlink(&elsewhere, &path).unwrap();
    let link = "tool.wasm: the file is a symbolic link";
    assert_fault(&folder.fault(""), "unsafe_file", link);

    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let directory = "tool.wasm: not a regular file";
    assert_fault(&folder.fault(""), "unsafe_file", directory);

    std::fs::remove_dir(&path).unwrap();
    folder
        .put("tool.wasm", component(ECHO))
        .put("tool.toml", "");
    let manifest = folder.path().join("tool.toml");
    std::fs::set_permissions(&manifest, PermissionsExt::from_mode(0o602)).unwrap();
    assert_eq!(folder.fault("").error.code.as_str(), "unsafe_file");
    std::fs::set_permissions(&manifest, PermissionsExt::from_mode(0o600)).unwrap();
    folder.tool("");
}

#[tokio::test(flavor = "multi_thread")]
async fn p_a_world_writable_or_missing_folder_has_no_tools() {
    let folder = Folder::with("tool.wasm", component(ECHO));
    let mut opened = folder.open("");
    assert_eq!(opened.tools().len(), 1);
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    let fault = folder.fault("");
    assert_eq!(fault.tool, None);
    let chmod = "writable by all users: remove this permission with chmod o-w";
    assert_fault(&fault, "folder", chmod);
    // A component that was loaded stays when the folder becomes writable by others.
    folder.put("other.wasm", component(ECHO));
    common::load_settled(&mut opened);
    assert_eq!(opened.tools().len(), 1);
    assert!(opened.faults()[0].previous_version_offered);
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    common::load_settled(&mut opened);
    assert_eq!(opened.tools().len(), 2);
    assert!(opened.faults().is_empty());

    std::fs::remove_dir_all(folder.path()).unwrap();
    assert_fault(&folder.fault(""), "folder", "");
    std::fs::write(folder.path(), "a file").unwrap();
    assert_fault(&folder.fault(""), "folder", "not a folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn p_names_sizes_and_manifests_are_checked() {
    let folder = Folder::with("9 lives.wasm", component(ECHO));
    assert_fault(&folder.fault(""), "bad_name", "");

    let folder = Folder::with("tool.wasm", component(ECHO));
    let fault = folder.fault("[limits]\nmax_file_bytes = 100");
    let too_large = "tool.wasm: the file is larger than 100 bytes";
    assert_fault(&fault, "too_large", too_large);
    for (manifest, expected) in [
        ("permisions = 1", "line 1: unknown field"),
        (
            "\n[permissions]\nhttp = [\"https://a.example/path\"]",
            "is not an origin",
        ),
        (
            "[permissions]\nhttp = [\"ftp://a.example\"]",
            "is not an origin",
        ),
        ("[permissions.files]\ntexts = \"read\"", "must begin with /"),
        (
            "[permissions.files]\n\"/texts\" = \"write\"",
            "line 2: unknown variant",
        ),
        ("[limits]\nmax_memory_bytes = -1", "line 2: "),
        ("[", "line 1: "),
    ] {
        folder.put("tool.toml", manifest);
        let fault = folder.fault("");
        assert_eq!(fault.error.code.as_str(), "bad_manifest");
        assert!(
            fault.error.message.contains(expected),
            "{manifest}: {fault:?}"
        );
    }
    folder.put("tool.toml", b"\xff\xfe");
    let not_utf8 = "the manifest is not valid UTF-8";
    assert_fault(&folder.fault(""), "bad_manifest", not_utf8);
    folder.put("tool.toml", "[limits]\ntimeout_ms = 100");
    let tool = folder.tool("");
    assert!(common::call(&tool, json!({})).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn p_a_module_with_large_instances_without_memory_is_rejected() {
    let module = "(global i32 (i32.const 0))".repeat(140_000);
    let within = format!("(component (core module {module}))");
    let at_the_top = Parts {
        module: &module,
        ..Parts::default()
    };
    let nested = Parts {
        imports: &within,
        ..Parts::default()
    };
    for parts in [at_the_top, nested] {
        let (code, what) = fault_of(&parts.build());
        assert_eq!(code, "invalid_component");
        assert!(what.contains("need more than 2097152 bytes"), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_an_error_is_one_short_line_without_control_characters() {
    for name in [
        "\\1b]0;title\\07\\n\\c2\\9b2J".to_owned(),
        "n".repeat(50_000),
    ] {
        let imports = format!(
            "(core module $wants (import \"{name}\" \"f\" (func)))
            (core instance (instantiate $wants))"
        );
        let parts = Parts {
            imports: &imports,
            ..Parts::default()
        };
        // The sandbox has to detect an invalid value, because the text format cannot express one.
        let (code, what) = fault_of(&parts.build());
        assert_eq!(code, "invalid_component", "{what}");
        assert!(!what.contains(char::is_control), "{what:?}");
        assert!(what.len() < 1200, "{} bytes", what.len());
    }
}
