//! A terminal for `pillion`, made with `script` of util-linux.

use std::process::{Child, ChildStdin};
use std::thread::JoinHandle;

use crate::prelude::*;
use crate::program::pillion_path;

/// `pillion` at a terminal.
pub struct Terminal {
    script: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Runs `pillion` at a terminal, with arguments in shell syntax.
    pub fn run(arguments: &str) -> Self {
        let line = format!("stty -echo; {} {arguments}", pillion_path().display());
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                seen.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self {
            script,
            keys,
            shown,
            reader,
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until the terminal has shown this text.
    pub fn shows(&self, what: &str) {
        eventually(what, || self.text().contains(what));
    }

    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Returns whether the program succeeded, and everything that the terminal showed.
    pub fn end(mut self) -> (bool, String) {
        let ended = self.script.wait().unwrap();
        self.reader.join().unwrap();
        let text = String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned();
        (ended.success(), text)
    }
}
