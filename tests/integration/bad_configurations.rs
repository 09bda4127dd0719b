//! A configuration that cannot be read or is invalid never opens anything: the sidecar refuses to
//! start, or keeps the configuration in effect. Each kind of bad configuration is tried with each way
//! in which Pillion reads one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use nix::sys::stat::Mode;
use nix::unistd::{Pid, geteuid, mkfifo};
use tempfile::TempDir;

use crate::approvals::request_approval;
use crate::prelude::*;

/// A configuration under which every call needs approval.
const CLOSED: &str = "\
# Version 1.
[approvals]
policy = \"always-ask\"
max_pending = 100000
max_waiting = 5000
[tools.calculator]
require_approval = \"always\"
timeout_ms = 20000
";

/// A tokens file with a token that has few permissions.
const TOKENS: &str = "\
# Version 1.
ci execute sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 user=alice \
tools=get_time,far_*
";

/// A models file with a model that may use few tools.
const MODELS: &str = "\
# Version 1.
[[models]]
id = \"a\"
tools = { enabled_tools = [\"get_time\"] }
[[models]]
id = \"b\"
label = \"b\"
";

/// An OpenAPI document whose last line restricts a parameter.
const DOCUMENT: &str = "\
# Version 1.
openapi: 3.1.0
info: {title: bank, version: '1'}
servers: [{url: 'http://127.0.0.1:1'}]
paths:
  /pay:
    get:
      operationId: pay
      parameters:
        - name: amount
          in: query
          schema:
            type: integer
            maximum: 100
";

/// Creates a file or another object at the path of the configuration file.
type Make = fn(&Path);

/// What a test case creates at the path of the configuration file.
enum Bad {
    /// A configuration file with this text.
    Text(String),
    Bytes(Vec<u8>),
    /// Another object, which this function creates.
    Made(Make),
}

/// Returns the kinds of bad configuration, each with its name. Files that they refer to are created
/// in `directory`.
fn bad_files(directory: &Path) -> Vec<(String, Bad)> {
    let mut kinds: Vec<(String, Bad)> = Vec::new();
    let made: [(&str, Make); 10] = [
        ("missing", |_| {}),
        ("directory", |path| fs::create_dir(path).unwrap()),
        ("FIFO", |path| mkfifo(path, Mode::S_IRWXU).unwrap()),
        ("link to a FIFO", |path| {
            let pipe = path.with_file_name("pipe");
            let _ = mkfifo(&pipe, Mode::S_IRWXU);
            symlink(pipe, path).unwrap();
        }),
        ("dangling link", |path| symlink("/nowhere", path).unwrap()),
        ("link to itself", |path| symlink(path, path).unwrap()),
        ("socket", |path| drop(UnixListener::bind(path).unwrap())),
        ("null device", |path| symlink("/dev/null", path).unwrap()),
        ("endless device", |path| symlink("/dev/zero", path).unwrap()),
        ("huge", |path| {
            let file = fs::File::create(path).unwrap();
            file.set_len(1 << 33).unwrap();
        }),
    ];
    kinds.extend(made.map(|(name, make)| (name.to_owned(), Bad::Made(make))));
    if !geteuid().is_root() {
        let unreadable: Make = |path| {
            fs::write(path, CLOSED).unwrap();
            fs::set_permissions(path, PermissionsExt::from_mode(0o000)).unwrap();
        };
        kinds.push(("unreadable".to_owned(), Bad::Made(unreadable)));
    }
    for text in ["", "\n\n", "\u{feff}", " \t\n"] {
        kinds.push((format!("blank: {text:?}"), Bad::Text(text.to_owned())));
    }
    let utf16 = CLOSED.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, bytes) in [
        ("invalid UTF-8", [CLOSED.as_bytes(), b"# \xff\n"].concat()),
        ("NUL bytes", vec![0; 4096]),
        ("UTF-16", utf16),
    ] {
        kinds.push((name.to_owned(), Bad::Bytes(bytes)));
    }
    // Each of these invalid settings follows valid settings of the same file.
    let directory_path = directory.display();
    let lines = [
        "[approvals",
        "[aprovals]\npolicy = \"always-ask\"",
        "policy = \"always-ask\"",
        "[approvals]\npolicy = \"always-ask\"",
        "[tools.x]\nrequire_aproval = \"always\"",
        "[tools.x]\nrequire_approval = \"allways\"",
        "[tools.x]\nrequire_approval = true",
        "[tools.x]\nrequire_approval = \"\"",
        "[tools]\ncalculator = \"always\"",
        "[socket]\nallow_users = [\"no such user\"]",
        "[socket]\nallow_users = \"root\"",
        "[socket]\nallow_groups = [\"no such group\"]",
        "[socket]\nmode = \"0777\"",
        "[socket]\nmode = \"0666\"",
        "[tcp]\nlisten = \"127.0.0.1:0\"",
        "[tcp]\nlisten = \"0.0.0.0:0\"\ntokens_store = true",
        "[tcp]\nlisten = \"127.0.0.1:0\"\ntokens_env = \"NOT_SET\"",
        "[tcp]\nlisten = \"127.0.0.1:0\"\ntokens_file = \"@/none\"",
        "[tcp]\nlisten = \"127.0.0.1:0\"\ntokens_file = \"@/empty\"",
        "[tcp]\nlisten = \"127.0.0.1:0\"\ntokens_file = \"@/folder\"",
        "[tcp]\nlisten = \"127.0.0.1:0\"\ntokens_file = \"@/fifo\"",
        "[tcp]\nlisten = \"127.0.0.1:0\"\ntokens_file = \"@/plain\"",
        "[tcp]\nlisten = \"127.0.0.1:0\"\ntokens_file = \"@/cut_off\"",
        "[socket]\npath = \"\"",
        "[results]\ndirectory = \"\"",
        "[results]\ndirectory = \"@/empty\"",
        "[wasm_tools]\nfolder = \"\"",
        "[vault]\nkey_file = \" \"",
        "[vault]\nkey_file = \"@/none\"",
        "[vault]\nkey_file = \"@/empty\"",
        "[vault]\nkey_file = \"@/fifo\"",
        "[vault]\nkey_file = \"@/folder\"",
        "[vault]\nkey_file = \"@/exposed\"",
        "[vault]\nkey_env = \"NOT_SET\"",
        "[[openapi]]\nname = \"x\"\noperations = [\"a\"]\ndocument = \"@/none\"",
        "[[openapi]]\nname = \"x\"\noperations = [\"a\"]\ndocument = \"@/empty\"",
        "[[openapi]]\nname = \"x\"\noperations = [\"a\"]\ndocument = \"@/folder\"",
        "[[openapi]]\nname = \"x\"\noperations = [\"a\"]\ndocument = \"@/fifo\"",
        "[[mcp_servers]]\nlabel = \"x\"\nurl = \"http://127.0.0.1:1/\"\npin = \"blok\"",
        "[[mcp_servers]]\nlabel = \"x\"\nurl = \"http://127.0.0.1:1/\"\nrequire_aproval = \"always\"",
        "[[mcp_servers]]\nlabel = \"x\"\nurl = \"http://127.0.0.1:1/\"\n\
         authentication = { type = \"bearer\", token_env = \"NOT_SET\" }",
        "[[mcp_servers]]\nlabel = \"x\"\nurl = \"http://127.0.0.1:1/\"\negress = { alow_private = false }",
        "[[mcp_servers]]\nlabel = \"x\"\nurl = \"http://127.0.0.1:1/\"\n\
         authentication = { type = \"bearer\", token = \"\" }",
        "[[http_tools]]\nname = \"x\"\ndescription = \"x\"\nurl = \"http://127.0.0.1:1/\"\n\
         authentication = { type = \"api-key\", key = \" \" }",
        "[servers]\negress = { deny_networks = [\"10.0.0.0/99\"] }",
        "[mcp]\ntools = \"calculator\"",
        "[mcp]\ntools = [\"\"]",
    ];
    for line in lines {
        let line = line.replace('@', &directory_path.to_string());
        kinds.push((line.clone(), Bad::Text(format!("{CLOSED}{line}\n"))));
    }
    // A top-level key has to precede the sections.
    for name in ["none", "folder", "fifo", "broken.toml", "empty"] {
        let key = format!("models_file = \"{directory_path}/{name}\"\n");
        kinds.push((key.clone(), Bad::Text(format!("{key}{CLOSED}"))));
    }
    // The file ends within a line, as after an interrupted write.
    for (end, _) in CLOSED.match_indices('\n') {
        let text = &CLOSED[..end - 1];
        if toml_is_invalid(text) {
            kinds.push((format!("cut off: {text:?}"), Bad::Text(text.to_owned())));
        }
    }
    kinds
}

fn toml_is_invalid(text: &str) -> bool {
    pillion_config::Config::parse(text, "pillion.toml").is_err()
}

/// Environment variables, each of which makes the configuration invalid.
const BAD_VARIABLES: [(&str, &str); 23] = [
    ("PILLION__APPROVALS__POLICY", ""),
    ("PILLION__APPROVALS__POLICY", "alwais-ask"),
    ("PILLION__APPROVALS__POLICY", "1"),
    ("PILLION__APPROVALS", "always-ask"),
    ("PILLION__APROVALS__POLICY", "always-ask"),
    ("PILLION__POLICY", "always-ask"),
    ("PILLION_APPROVALS__POLICY", "always-ask"),
    ("pillion__approvals__policy", "always-ask"),
    ("PILLION__TOKENS", ""),
    ("PILLION__TCP__LISTEN", "127.0.0.1:0"),
    ("PILLION__SOCKET__ALLOW_USERS", "root"),
    ("PILLION__MODELS_FILE", ""),
    ("PILLION_APPROVALS_POLICY", "always-ask"),
    ("PILLION_TOOLS_ROLL_DICE_REQUIRE_APPROVAL", "always"),
    ("PILLION_CONFIG_FILE", "/etc/pillion/pillion.toml"),
    ("pillion_config", "/etc/pillion/pillion.toml"),
    ("http_proxy", "http://127.0.0.1:1 "),
    ("http_proxy", "http//127.0.0.1:1"),
    ("HTTP_PROXY", "htp://127.0.0.1:1"),
    ("https_proxy", "http://us er:p@127.0.0.1:1"),
    ("HTTPS_PROXY", "http://proxy:port/"),
    ("ALL_PROXY", "socks5://127.0.0.1:1"),
    ("all_proxy", "http://"),
];

/// The directory of the configuration and of the files to which bad configurations refer.
struct Files {
    directory: TempDir,
}

impl Files {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("empty"), "").unwrap();
        fs::write(at("plain"), "ci execute not-a-hash-but-a-plain-token\n").unwrap();
        fs::write(at("cut_off"), TOKENS.trim_end()).unwrap();
        fs::write(at("broken.toml"), "[[models]]\nid = 7\n").unwrap();
        fs::write(at("exposed"), [7; 32]).unwrap();
        fs::set_permissions(at("exposed"), PermissionsExt::from_mode(0o644)).unwrap();
        fs::create_dir(at("folder")).unwrap();
        mkfifo(&at("fifo"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        Self { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Puts a bad configuration at the path, in place of whatever is there.
fn put(path: &Path, bad: &Bad) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
    match bad {
        Bad::Text(text) => fs::write(path, text).unwrap(),
        Bad::Bytes(bytes) => fs::write(path, bytes).unwrap(),
        Bad::Made(make) => make(path),
    }
}

/// Runs a command that must fail. A command that keeps running is ended, and fails the test.
fn rejected(what: &str, command: &mut Command) -> Output {
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let (sender, receiver) = std::sync::mpsc::sync_channel(1_000);
    let waiting = std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = receiver.recv_timeout(Duration::from_secs(20));
    if output.is_err() {
        let _ = nix::sys::signal::kill(id, Signal::SIGKILL);
    }
    waiting.join().unwrap().ok();
    let output = output
        .unwrap_or_else(|_| panic!("{what}: was accepted"))
        .unwrap();
    let error = stderr(&output);
    assert!(!output.status.success(), "{what}: {error}");
    let is_reported = error.contains("pillion: ") || error.starts_with("error: ");
    assert!(is_reported, "{what}: {error}");
    assert!(!error.contains("Listening on"), "{what}: {error}");
    output
}

/// Commands that read a configuration, each with its arguments.
const READERS: [&[&str]; 4] = [
    &["check"],
    &["serve"],
    &["serve", "--take-over"],
    &["mcp-stdio", "--standalone"],
];

/// Returns a command that would use its own socket and store.
fn reader(arguments: &[&str], config: &Path, home: &Path) -> Command {
    reader_at(arguments, config, home, &home.join("own.sock"))
}

/// Returns a command that would use this socket.
fn reader_at(arguments: &[&str], config: &Path, home: &Path, socket: &Path) -> Command {
    let mut command = pillion(arguments);
    command.arg("--config").arg(config);
    if arguments[0] != "check" {
        command.arg("--socket").arg(socket);
    }
    command
        .env("XDG_STATE_HOME", home)
        .env("PILLION__STORE__LOCATION", home.join("own.db"))
        .stdin(Stdio::null());
    command
}

#[test]
fn no_command_starts_with_a_bad_configuration() {
    let files = Files::new();
    let config = files.path().join("pillion.toml");
    for (name, bad) in bad_files(files.path()) {
        put(&config, &bad);
        for arguments in READERS {
            let what = format!("{arguments:?} {name}");
            // Settings of `[tcp]` and `allow` are errors only for an interface that has tokens and
            // users.
            let is_of_access = name.contains("[tcp]") || name.contains("[socket]\nallow");
            if arguments[0] == "mcp-stdio" && is_of_access {
                continue;
            }
            rejected(&what, &mut reader(arguments, &config, files.path()));
        }
    }
}

#[test]
fn no_command_starts_with_a_bad_variable() {
    let files = Files::new();
    let config = files.path().join("pillion.toml");
    fs::write(&config, "[log]\n").unwrap();
    for (variable, value) in BAD_VARIABLES {
        for arguments in READERS {
            let mut command = reader(arguments, &config, files.path());
            let what = format!("{arguments:?} {variable}={value}");
            let output = rejected(&what, command.env(variable, value));
            assert!(stderr(&output).contains(variable), "{what}");
        }
    }
}

#[test]
fn no_command_starts_with_a_configuration_that_cannot_be_read_again() {
    let files = Files::new();
    for arguments in READERS {
        // The shell's `<(...)` and `|` create such pipes.
        for path in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
            let mut command = reader(arguments, Path::new(path), files.path());
            let (input, mut output) = std::io::pipe().unwrap();
            output.write_all(CLOSED.as_bytes()).unwrap();
            drop(output);
            rejected(&format!("{arguments:?} {path}"), command.stdin(input));
        }
    }
    let empty = |arguments: &[&str]| {
        let what = format!("{arguments:?} with an empty path");
        rejected(&what, &mut reader(arguments, Path::new(""), files.path()));
        let mut command = pillion(arguments);
        command.env("PILLION_CONFIG", "").stdin(Stdio::null());
        rejected(&what, &mut command);
        let config = files.path().join("good.toml");
        fs::write(&config, CLOSED).unwrap();
        let mut twice = reader(arguments, &config, files.path());
        twice.arg("--config").arg(&config);
        rejected(&format!("{arguments:?} twice"), &mut twice);
    };
    READERS.into_iter().for_each(empty);
}

/// A sidecar under which every call needs approval.
struct ClosedSidecar {
    daemon: Daemon,
    config: PathBuf,
}

impl ClosedSidecar {
    fn start() -> Self {
        let daemon = Daemon::with_config(CLOSED);
        let config = daemon.config_path();
        Self { daemon, config }
    }

    /// Sends SIGHUP, and waits until the sidecar has read the configuration.
    fn reload(&self) -> usize {
        let rejected = || self.daemon.count_logged("Rejected the new configuration");
        let applied = || self.daemon.count_logged("Reloaded the configuration");
        let before = rejected() + applied();
        self.daemon.signal(Signal::SIGHUP);
        let is_read = || rejected() + applied() > before;
        eventually("the sidecar has read the file", is_read);
        applied()
    }

    fn check_is_closed(&self) {
        request_approval(&self.daemon.socket, "alice", "6 * 7");
    }
}

#[test]
fn no_bad_configuration_replaces_the_one_in_effect() {
    let files = Files::new();
    let sidecar = ClosedSidecar::start();
    let mut bad = bad_files(files.path());
    for (end, _) in CLOSED.char_indices().filter(|(end, _)| *end > 0) {
        if !CLOSED[..end].ends_with('\n') {
            let text = CLOSED[..end].to_owned();
            bad.push((format!("cut off: {text:?}"), Bad::Text(text)));
        }
    }
    for (name, bad) in bad {
        put(&sidecar.config, &bad);
        let applied = sidecar.reload();
        assert_eq!(applied, 0, "{name}: {}", sidecar.daemon.log());
        sidecar.check_is_closed();
    }
    // After a bad file, a good file is applied again.
    put(&sidecar.config, &Bad::Text(format!("{CLOSED}[log]\n")));
    assert_eq!(sidecar.reload(), 1, "{}", sidecar.daemon.log());
    sidecar.check_is_closed();
}

/// Returns the texts that an interrupted write of `whole` can leave, with the first line unchanged
/// or changed.
fn unfinished_writes(whole: &str) -> Vec<String> {
    let first = whole.find('\n').unwrap() + 1;
    let mut texts = Vec::new();
    for text in [whole.to_owned(), whole.replacen("1", "2", 1)] {
        let ends = (0..whole.len())
            .filter(|end| *end % 3 == 0 || whole[*end..].starts_with('\n'))
            .chain(whole.match_indices('\n').map(|(end, _)| end + 1));
        // The whole text and the changed first line alone are excluded, because the operator may
        // have written them.
        let unfinished = ends.filter(|end| *end != whole.len() && (*end != first || text == whole));
        texts.extend(unfinished.map(|end| text[..end].to_owned()));
    }
    texts
}

#[test]
fn no_unfinished_write_of_any_file_replaces_the_file_in_effect() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (name, text) in [
        ("models", MODELS),
        ("tokens", TOKENS),
        ("document", DOCUMENT),
    ] {
        fs::write(at(name), text).unwrap();
    }
    let path = directory.path().display();
    let whole = format!(
        "# Version 1.\nmodels_file = \"{path}/models\"\n[tcp]\nlisten = \"127.0.0.1:0\"\n\
         tokens_file = \"{path}/tokens\"\n[[openapi]]\nname = \"bank\"\noperations = [\"pay\"]\n\
         document = \"{path}/document\"\negress = {{ allow_loopback = true }}\n\
         [approvals]\npolicy = \"always-ask\"\nmax_pending = 90000\n"
    );
    let sidecar = ClosedSidecar::start();
    fs::write(&sidecar.config, &whole).unwrap();
    let mut applied = sidecar.reload();
    assert_eq!(applied, 1, "{}", sidecar.daemon.log());
    for (file, whole) in [
        (at("tokens"), TOKENS),
        (at("models"), MODELS),
        (at("document"), DOCUMENT),
        (sidecar.config.clone(), &whole),
    ] {
        for text in unfinished_writes(whole) {
            fs::write(&file, &text).unwrap();
            let now = sidecar.reload();
            assert_eq!(now, applied, "{}: {text:?}", file.display());
        }
        fs::write(&file, whole).unwrap();
        applied += 1;
        assert_eq!(sidecar.reload(), applied, "{}", sidecar.daemon.log());
    }
    sidecar.check_is_closed();
}

#[test]
fn a_sidecar_does_not_take_over_with_an_unfinished_write() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let models = format!("models_file = \"{}\"\n{CLOSED}", at("models").display());
    let sidecar = ClosedSidecar::start();
    let refuses = |text: &str| {
        fs::write(at("pillion.toml"), text).unwrap();
        let socket = &sidecar.daemon.socket;
        let config = at("pillion.toml");
        let arguments = ["serve", "--take-over"];
        let mut command = reader_at(&arguments, &config, directory.path(), socket);
        rejected(&format!("{text:?}"), &mut command);
    };
    for (end, _) in CLOSED.match_indices('\n') {
        refuses(&CLOSED[..end]);
    }
    for (end, _) in MODELS.match_indices('\n') {
        fs::write(at("models"), &MODELS[..end]).unwrap();
        refuses(&models);
    }
    sidecar.check_is_closed();
}

#[test]
fn a_configuration_without_a_last_line_break_is_reported_at_a_start() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("pillion.toml");
    fs::write(&config, CLOSED.trim_end()).unwrap();
    let mut check = reader(&["check"], &config, directory.path());
    let output = check.output().unwrap();
    assert!(output.status.success());
    let warning = "pillion.toml: the last line has no line break";
    assert_contains!(stderr(&output), warning);
}

#[test]
fn a_file_that_is_emptied_or_removed_is_reported_without_a_signal() {
    let sidecar = ClosedSidecar::start();
    fs::write(&sidecar.config, "").unwrap();
    let reported = |what: &str| eventually(what, || sidecar.daemon.log().contains(what));
    reported("the file is empty, but was not empty before");
    fs::remove_file(&sidecar.config).unwrap();
    reported("No such file or directory");
    sidecar.check_is_closed();
}

#[test]
fn a_sidecar_with_a_bad_configuration_does_not_take_over() {
    let files = Files::new();
    let sidecar = ClosedSidecar::start();
    for (name, bad) in bad_files(files.path()) {
        let config = files.path().join("pillion.toml");
        put(&config, &bad);
        let socket = &sidecar.daemon.socket;
        let mut command = reader_at(&["serve", "--take-over"], &config, files.path(), socket);
        rejected(&name, &mut command);
    }
    sidecar.check_is_closed();
}

#[test]
fn a_variable_restricts_a_tool_whose_name_has_capital_letters() {
    let server = McpServer::start(json!([
        {"name": "deleteUserById", "inputSchema": {"type": "object"}},
        {"name": "getAll", "inputSchema": {"type": "object"}},
    ]));
    let url = &server.url;
    // The second server cannot be reached, so the sidecar never knows all tools.
    let toml = format!(
        "[[mcp_servers]]\nlabel = \"crm\"\nurl = \"{url}\"\n\
         [[mcp_servers]]\nlabel = \"down\"\nurl = \"http://127.0.0.1:1/\"\n\
         [tools.crm_getall]\nrequire_approval = \"always\"\n\
         [tools.crm_missing]\nrequire_approval = \"always\"\n"
    );
    let name = "PILLION__TOOLS__CRM_DELETEUSERBYID__REQUIRE_APPROVAL";
    let daemon = Daemon::with_variables(&toml, &[(name, "always")]);
    let target = "/api/v1/tools/execute/crm_deleteUserById";
    let response = daemon.post(target, "{}").json();
    assert_json!(response["result"]["error_code"], "approval_required");
    eventually("the misspelled sections are reported", || {
        let log = daemon.log();
        log.contains("[tools.crm_getall], but the tool is called 'crm_getAll'")
            && log.contains("[tools.crm_missing], but the MCP server 'crm' has no tool")
    });
    assert_lacks!(daemon.log(), "crm_deleteuserbyid], but");
}

#[test]
fn an_empty_state_directory_is_not_the_working_directory() {
    let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(home.path().join("pillion")).unwrap();
    for state in ["", "state", ":", "a:b"] {
        let output = pillion(&["tokens", "list"])
            .env("STATE_DIRECTORY", state)
            .env("XDG_STATE_HOME", home.path())
            .current_dir(work.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{state:?}: {}", stderr(&output));
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0, "{state:?}");
    }
    assert!(home.path().join("pillion/pillion.db").exists());
}

#[test]
fn an_unusable_new_key_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["key", "key.new"] {
        let content: &[u8] = if name == "key" { &[7; 32] } else { b"" };
        fs::write(at(name), content).unwrap();
        fs::set_permissions(at(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let path = directory.path().display();
    let toml = format!("[store]\nlocation = \"{path}/p.db\"\n[vault]\nkey_file = \"{path}/key\"\n");
    let config = at("pillion.toml");
    fs::write(&config, toml).unwrap();
    let mut command = pillion(&["vault", "rotate", "--socket"]);
    command.arg(at("none")).arg("--config").arg(config);
    let error = stderr(&rejected("an empty key.new", &mut command));
    let named = at("key.new").display().to_string();
    assert_contains!(error, &named, "remove the file");
}

#[test]
fn a_bad_configuration_is_rejected_at_once() {
    // A FIFO without a writer must not block the reload of later files.
    let sidecar = ClosedSidecar::start();
    let pipe = Bad::Made(|path| mkfifo(path, Mode::S_IRWXU).unwrap());
    put(&sidecar.config, &pipe);
    let since = Instant::now();
    assert_eq!(sidecar.reload(), 0);
    assert!(since.elapsed() < Duration::from_secs(10));
}
