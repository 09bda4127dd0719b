//! P: WebAssembly components in a folder as tools of a real sidecar: the example of `wasm-examples`
//! and the probe of `tests/wasm`, both built from source.

use pillion_testkit::wasm_component;
use tempfile::TempDir;

use crate::approvals::approval_id;
use crate::prelude::*;

/// A sidecar with a folder of tools.
struct Host {
    daemon: Daemon,
    directory: TempDir,
}

impl Host {
    /// Starts a sidecar with `files` in the folder, and more configuration.
    fn start(files: &[(&str, &Path)], more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, from) in files {
            let component = std::fs::read(from).unwrap();
            std::fs::write(directory.path().join(name), component).unwrap();
        }
        let daemon = Daemon::with_config(&toml(directory.path(), more));
        let host = Self { daemon, directory };
        for (name, _) in files {
            let name = name.trim_end_matches(".wasm");
            patiently(&format!("{name} is compiled"), || host.lists(name));
        }
        host
    }

    /// Writes a file of the folder atomically.
    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let new = self.path(&format!(".{name}"));
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(new, self.path(name)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn tools(&self, arguments: &[&str]) -> Output {
        self.daemon.run(&[&["tools"], arguments].concat())
    }

    fn lists(&self, name: &str) -> bool {
        let listed = stdout(&self.tools(&["list"]));
        listed.lines().any(|line| line.starts_with(name))
    }

    fn execute(&self, tool: &str, arguments: &Value) -> Value {
        self.daemon.execute(tool, arguments)["result"].clone()
    }

    /// Returns the faults of the folder from the list of tools.
    fn faults(&self) -> Value {
        let list = self.daemon.get("/api/v1/tools/").json();
        list["invalid_tools"].clone()
    }
}

/// Waits until a condition holds, like [`eventually`] but longer, because debug builds compile
/// slowly.
fn patiently(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(180);
    while !is_so() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn toml(folder: &Path, more: &str) -> String {
    format!("[wasm_tools]\nfolder = \"{}\"\n{more}\n", folder.display())
}

#[test]
fn p_slow_components_are_offered_once_they_are_compiled() {
    let [facts, probe] = ["text_facts", "probe"].map(wasm_component);
    let host = Host::start(
        &[("text_facts.wasm", &facts), ("probe.wasm", &probe)],
        "[wasm_tools.limits]\ncompile_timeout_ms = 1",
    );
    patiently("nothing is wrong", || host.faults().is_null());
    let counted = host.execute("text_facts", &json!({"text": "To be"}));
    assert_json!(counted["data"]["words"], 2);
}

#[test]
fn p_a_component_in_the_folder_is_a_tool_in_every_interface() {
    let file = wasm_component("text_facts");
    let texts = tempfile::tempdir().unwrap();
    std::fs::write(texts.path().join("a.txt"), "One two. Two three!\n").unwrap();
    let host = Host::start(
        &[("text_facts.wasm", &file)],
        "[tools.text_facts]\nrate_limit = { per_minute = 5 }",
    );
    let called = host.tools(&["call", "text_facts", r#"{"text": "To be, or not to be."}"#]);
    assert!(called.status.success(), "{}", stderr(&called));
    let facts = stdout_json(&called);
    assert_json!(facts["words"], 6);
    assert_eq!(facts["most_frequent"][0], json!(["be", 2]));
    let expected = "category    text\n";
    assert_contains!(stdout(&host.tools(&["show", "text_facts"])), expected);

    let listed = ask(&host.daemon.socket, "tools/list", json!({}))["result"]["tools"].clone();
    let tool = listed
        .items()
        .iter()
        .find(|tool| tool["name"] == "text_facts");
    assert_eq!(tool.unwrap()["annotations"]["readOnlyHint"], true);
    let arguments = json!({"name": "text_facts", "arguments": {"text": "a b"}});
    let response = ask(&host.daemon.socket, "tools/call", arguments);
    assert_contains!(
        response["result"]["content"][0]["text"].text(),
        "\"words\":2"
    );

    let bad = host.execute("text_facts", &json!({"text": 7}));
    assert_json!(bad["error_code"], "invalid_input");
    let neither = host.execute("text_facts", &json!({}));
    assert_eq!(neither["error"], "Say either text or file");
    let file_of = json!({"file": "a.txt"});
    let denied = host.execute("text_facts", &file_of);
    assert_eq!(denied["success"], false, "no folder is granted: {denied}");
    assert!(host.daemon.recorded("?tool=text_facts").len() >= 4);
    host.execute("text_facts", &json!({"text": ""}));
    let limited = host.execute("text_facts", &json!({"text": ""}));
    assert_json!(limited["error_code"], "rate_limited");

    // The tool has access as soon as its manifest's request is granted, and not before.
    host.put(
        "text_facts.toml",
        "[permissions.files]\n\"/texts\" = \"read\"\n",
    );
    patiently("the manifest asks for too much", || {
        host.faults()[0]["code"] == "not_granted"
    });
    let grant = format!(
        "[wasm_tools.grants.text_facts.files]\n\"/texts\" = {{ path = \"{}\" }}\n",
        texts.path().display()
    );
    reload(&host.daemon, &toml(host.directory.path(), &grant));
    patiently("it is granted", || host.faults().is_null());
    let granted = host.execute("text_facts", &file_of);
    assert_json!(granted["data"]["sentences"], 2);
    for file in ["b.txt", "..", "../secret"] {
        let failed = host.execute("text_facts", &json!({"file": file}));
        assert_eq!(failed["success"], false, "{file}: {failed}");
    }
    // Without the grant, the tool that requires it is removed.
    reload(&host.daemon, &toml(host.directory.path(), ""));
    eventually("the tool is removed", || !host.lists("text_facts"));
    let target = "/api/v1/tools/execute/text_facts";
    let lost = host.daemon.post(target, file_of.to_string()).json();
    assert_json!(lost["error_code"], "not_found");
    // Without the folder there are no tools and no errors.
    reload(&host.daemon, "# No settings.\n");
    eventually("nothing is wrong", || host.faults().is_null());
}

#[test]
fn p_added_changed_and_removed_files_take_effect_without_a_restart() {
    let file = wasm_component("text_facts");
    let component = std::fs::read(file).unwrap();
    let host = Host::start(&[], "");
    assert!(!host.lists("text_facts"));
    host.put("text_facts.wasm", &component);
    patiently("it is there", || host.lists("text_facts"));
    let words =
        |text: &str| host.execute("text_facts", &json!({"text": text}))["data"]["words"].clone();
    assert_eq!(words("a"), 1);

    // A broken file removes the tool, and the list reports the error.
    host.put("text_facts.wasm", &component[..component.len() / 2]);
    patiently("it is broken", || {
        host.faults()[0]["previous_version_offered"] == true
    });
    assert_eq!(words("a b"), 2);
    let reported = stderr(&host.tools(&["list"]));
    let reason = "(invalid_component); the previous version stays available";
    assert_contains!(reported, "WebAssembly tool 'text_facts': ", reason);
    assert_contains!(stdout(&host.daemon.run(&["status"])), "(invalid_component)");
    assert_contains!(host.daemon.log(), "invalid_component");

    // Names in use are kept: the file does not replace the built-in tool.
    host.put("calculator.wasm", &component);
    host.put("text_facts.wasm", &component);
    patiently("the name is taken", || {
        host.faults()[0]["code"] == "name_taken"
    });
    let sum = host.execute("calculator", &json!({"expression": "6 * 7"}));
    assert_json!(sum["text"], "42");
    std::fs::remove_file(host.path("calculator.wasm")).unwrap();
    std::fs::remove_file(host.path("text_facts.wasm")).unwrap();
    eventually("the tool is removed", || !host.lists("text_facts"));
    assert!(host.lists("calculator"));
    eventually("nothing is wrong", || host.faults().is_null());
}

#[test]
fn p_a_running_call_finishes_with_its_original_component() {
    let file = wasm_component("probe");
    let approvals = "[tools.probe]\nrequire_approval = \"never\"";
    let host = Host::start(&[("probe.wasm", &file)], approvals);
    let client = Client::new(&host.daemon.socket);
    let sleeping = std::thread::spawn(move || {
        let arguments = json!({"do": "sleep", "seconds": 5});
        client
            .execute("probe", &arguments, &Caller::default())
            .unwrap()
    });
    eventually("it sleeps", || {
        let status = host.daemon.get("/api/v1/status").json();
        status["calls"]["running"] == 1
    });
    std::fs::remove_file(host.path("probe.wasm")).unwrap();
    eventually("the tool is removed", || !host.lists("probe"));
    let slept = sleeping.join().unwrap();
    assert!(slept.is_success(), "{slept:?}");
}

#[test]
fn p_an_approval_is_valid_only_for_the_same_file() {
    let file = wasm_component("probe");
    let policy = "[tools.probe]\nrequire_approval = \"always\"";
    let host = Host::start(&[("probe.wasm", &file)], policy);
    let ask = || approval_id(&host.execute("probe", &json!({"do": "count"})));
    let id = ask();
    assert_eq!(ask(), id);
    // The file has one more byte: an empty custom section.
    let mut other = std::fs::read(&file).unwrap();
    other.extend_from_slice(&[0, 2, 1, b'x']);
    host.put("probe.wasm", other);
    patiently("it is another one", || ask() != id);
}
