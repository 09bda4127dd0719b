//! `--oauth`: the command requests an authorization, and a browser returns the response.

mod clients;
mod command_line;
mod login;
mod peers;
mod responses;
mod unrelated_requests;

use std::process::Child;
use std::thread::JoinHandle;

use nix::sys::signal::kill;
use nix::unistd::Pid;
use pillion_testkit::FakeOAuth;
use reqwest::{Client, Response, Url, redirect};

use super::*;

/// The prefix of every secret that [`FakeOAuth`] issues.
const SECRET: &str = "hush-";

/// A command that runs until it exits, and is killed if the test ends earlier.
struct Running {
    child: Option<Child>,
    reported: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

/// The stream on which the command shows the authorization URL.
#[derive(Clone, Copy)]
enum Shown {
    OnStderr,
    /// The URL appears on standard output, because a terminal combines both streams.
    OnStdout,
}

impl Running {
    /// Starts `pillion mcp ...` with these environment variables.
    fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = pillion(&["mcp"]);
        Self::spawn(command.args(arguments), variables, Shown::OnStderr)
    }

    fn spawn(command: &mut Command, variables: &[(&str, &str)], shown: Shown) -> Self {
        let mut child = command
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let reported = Arc::<Mutex<Vec<u8>>>::default();
        let output: Box<dyn Read + Send> = match shown {
            Shown::OnStderr => Box::new(child.stderr.take().unwrap()),
            Shown::OnStdout => Box::new(child.stdout.take().unwrap()),
        };
        let reader = read_all(output, Arc::clone(&reported));
        Self {
            child: Some(child),
            reported,
            reader: Some(reader),
        }
    }

    /// Returns what the command has written to standard error.
    fn reported(&self) -> String {
        String::from_utf8_lossy(&self.reported.lock().unwrap()).into_owned()
    }

    /// Waits for the URL of the page that the user should open.
    fn page(&self) -> Url {
        self.page_number(0)
    }

    /// Waits for the URL of the page with this number.
    fn page_number(&self, number: usize) -> Url {
        let mut page = None;
        eventually("there is a page to open", || {
            let reported = self.reported();
            let whole = reported.rsplit_once('\n').map_or("", |(lines, _)| lines);
            let mut pages = whole.lines().filter(|line| line.starts_with("  http"));
            page = pages
                .nth(number)
                .map(|line| Url::parse(line.trim()).unwrap());
            page.is_some()
        });
        page.unwrap()
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.as_ref().unwrap().id();
        kill(Pid::from_raw(id.cast_signed()), signal).unwrap();
    }

    /// Waits for the command's exit, and returns its output.
    fn output(mut self) -> Output {
        eventually("the command has ended", || {
            let child = self.child.as_mut().unwrap();
            child.try_wait().unwrap().is_some()
        });
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let stderr = self.reported.lock().unwrap().clone();
        Output { stderr, ..output }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn read_all(mut from: impl Read + Send + 'static, reported: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            reported.lock().unwrap().extend_from_slice(&bytes[..count]);
        }
    })
}

/// Returns a browser that follows redirects, or stops at the first.
fn browser(follows: bool) -> Client {
    let redirects = if follows {
        redirect::Policy::default()
    } else {
        redirect::Policy::none()
    };
    // The client requires an installed TLS provider; another test may have installed one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let browser = Client::builder().no_proxy().redirect(redirects);
    browser.build().unwrap()
}

/// Opens a page and follows all redirects.
async fn open(page: Url) -> Response {
    browser(true).get(page).send().await.unwrap()
}

/// Returns the URL that the authorization server redirects the browser to.
async fn way_back(page: Url) -> Url {
    let response = browser(false).get(page).send().await.unwrap();
    let location = response.headers()["location"].to_str().unwrap();
    Url::parse(location).unwrap()
}

fn parameter(url: &Url, key: &str) -> String {
    let mut pairs = url.query_pairs();
    let value = pairs.find_map(|(name, value)| (name == key).then(|| value.into_owned()));
    value.unwrap_or_default()
}

/// Runs `pillion mcp WORDS... URL --oauth` with a browser that follows all redirects.
async fn with_browser(server: &FakeOAuth, words: &[&str]) -> Output {
    let command = words[0];
    let arguments = [&[command, &server.url, "--oauth"], &words[1..]].concat();
    let running = Running::start(&arguments, &[]);
    open(running.page()).await;
    running.output()
}
