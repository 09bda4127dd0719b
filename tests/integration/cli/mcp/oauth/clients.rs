//! Which OAuth client the command uses.

use pillion_testkit::OAuthRules;
use tempfile::NamedTempFile;

use super::*;

const VARIABLES: [(&str, &str); 1] = [("CLIENT_SECRET", "hush-mine")];

#[tokio::test(flavor = "multi_thread")]
async fn e8_a_registered_client_sends_its_secret_only_to_the_token_endpoint() {
    let server = FakeOAuth::start(OAuthRules::default());
    let line = format!(
        "call {} roll --oauth --client-id me --client-secret-env CLIENT_SECRET --scope read \
         --scope write --verbose",
        server.url
    );
    let arguments: Vec<_> = line.split(' ').collect();
    let running = Running::start(&arguments, &VARIABLES);
    let page = running.page();
    assert_eq!(parameter(&page, "client_id"), "me");
    assert_eq!(parameter(&page, "scope"), "read write");
    assert!(!page.as_str().contains(SECRET), "{page}");
    open(page).await;
    let output = running.output();
    assert_eq!(stdout(&output), "15\n", "{}", stderr(&output));
    assert_lacks!(stderr(&output), SECRET);
    assert!(server.requests_to("/register").is_empty());
    let token = &server.requests_to("/token")[0];
    // The header is the Base64 of `me:hush-mine`.
    assert_eq!(token.header("authorization"), "Basic bWU6aHVzaC1taW5l");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_be_identified_by_a_metadata_document() {
    let server = FakeOAuth::start(OAuthRules {
        metadata: json!({"client_id_metadata_document_supported": true}),
        ..OAuthRules::default()
    });
    let document = "https://app.example/client.json";
    let arguments = ["call", &server.url, "roll", "--oauth"];
    let options = ["--client-metadata-url", document];
    let running = Running::start(&[&arguments[..], &options].concat(), &[]);
    let page = running.page();
    assert_eq!(parameter(&page, "client_id"), document);
    open(page).await;
    assert!(running.output().status.success());
    assert!(server.requests_to("/register").is_empty());
}

/// Writes a file with the server `dice`.
fn configuration(server: &FakeOAuth) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    writeln!(
        file,
        "[[mcp_servers]]\nlabel = \"dice\"\nurl = \"{}\"\nauthentication = {{ type = \"oauth\", \
         client_id = \"me\", client_secret_env = \"CLIENT_SECRET\" }}",
        server.url
    )
    .unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_of_a_server_may_contain_its_client() {
    let server = FakeOAuth::start(OAuthRules::default());
    let file = configuration(&server);
    let path = file.path().to_str().unwrap();
    let arguments = ["call", "--server", "dice", "roll", "--config", path];
    // If standard error is not a terminal, no authorization starts without `--oauth`.
    let output = mcp_with(&arguments, &VARIABLES);
    let reported = failure(&output, 1);
    let expected = "; pass --oauth to authorize in a browser (denied)\n";
    assert_ends_with!(reported, expected);

    let running = Running::start(&[&arguments[..], &["--oauth"]].concat(), &VARIABLES);
    let page = running.page();
    assert_eq!(parameter(&page, "client_id"), "me");
    open(page).await;
    let output = running.output();
    assert_eq!(stdout(&output), "15\n", "{}", stderr(&output));
    let token = &server.requests_to("/token")[0];
    assert_eq!(token.header("authorization"), "Basic bWU6aHVzaC1taW5l");
}

/// The terminal is `script` of util-linux.
#[tokio::test(flavor = "multi_thread")]
async fn at_a_terminal_the_configuration_is_enough() {
    let server = FakeOAuth::start(OAuthRules::default());
    let file = configuration(&server);
    let program = pillion(&[]);
    let line = format!(
        "{} mcp call --server dice roll --config {}",
        program.get_program().display(),
        file.path().display()
    );
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    let script = Running::spawn(&mut script, &VARIABLES, Shown::OnStdout);
    open(script.page()).await;
    let output = script.output();
    let shown = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert_contains!(shown, "15\r\n");
}
