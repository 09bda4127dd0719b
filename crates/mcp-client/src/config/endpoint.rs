use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use url::Url;

use super::TransportKind;

/// The address of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Endpoint {
    /// A server reached by URL (`http`, `https`, `ws` or `wss`). The URL contains no user name and
    /// no password.
    Url(Url),
    /// A local program that the client starts, and that is an MCP server on its standard streams.
    Command(StdioCommand),
}

impl Endpoint {
    /// Returns the only transport that this endpoint supports; `Auto` if there are several.
    pub(super) fn transport(&self) -> TransportKind {
        match self {
            Self::Url(url) if matches!(url.scheme(), "ws" | "wss") => TransportKind::WebSocket,
            Self::Url(_) => TransportKind::Auto,
            Self::Command(_) => TransportKind::Stdio,
        }
    }
}

/// A program that is an MCP server on its standard streams.
///
/// The client starts the program without a shell, in a separate process group. Of the client's
/// environment, the program gets only the variables in [`inherit_env`](Self::inherit_env). `Debug`
/// hides arguments and values of the environment, because both may contain secrets.
#[derive(Clone)]
#[non_exhaustive]
pub struct StdioCommand {
    /// The program: a path, or a name to look up in the `PATH` of [`env`](Self::env) or
    /// [`inherit_env`](Self::inherit_env).
    pub program: PathBuf,
    /// The program's arguments, passed unchanged: no shell splits or expands them.
    pub args: Vec<String>,
    /// The program's environment variables. Without a `PATH` here or in
    /// [`inherit_env`](Self::inherit_env), `PATH` is [`DEFAULT_PATH`](Self::DEFAULT_PATH); no other
    /// variable has a default, not even `HOME`.
    pub env: BTreeMap<String, SecretString>,
    /// Names of environment variables that the program inherits, if they are set;
    /// [`env`](Self::env) takes precedence.
    pub inherit_env: Vec<String>,
    /// The program's working directory. Default: the client's.
    pub cwd: Option<PathBuf>,
}

impl StdioCommand {
    /// The default `PATH` of a program.
    pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

    /// Creates a command without arguments, with the default environment.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            inherit_env: Vec::new(),
            cwd: None,
        }
    }

    /// Returns the program's file name without its directory.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns why the system cannot start a process with this command, such as a NUL byte in an
    /// argument; `None` if there is no such reason.
    pub(super) fn find_problem(&self) -> Option<&'static str> {
        use secrecy::ExposeSecret;
        let has_nul = |text: &str| text.contains('\0');
        let path_has_nul = |path: &Path| path.as_os_str().as_encoded_bytes().contains(&0);
        let variable_names = || self.env.keys().chain(&self.inherit_env);
        let cwd = self.cwd.as_deref();
        let is_cwd_empty = cwd.is_some_and(|cwd| cwd.as_os_str().is_empty());
        if self.program.as_os_str().is_empty() {
            Some("the program must not be empty")
        } else if is_cwd_empty {
            Some("the working directory must not be empty")
        } else if variable_names().any(|name| name.is_empty()) {
            Some("the name of an environment variable must not be empty")
        } else if variable_names().any(|name| name.contains('=')) {
            Some("the name of an environment variable must not contain '='")
        } else if path_has_nul(&self.program) || cwd.is_some_and(path_has_nul) {
            Some("the program and the working directory must not contain a NUL byte")
        } else if self.args.iter().any(|argument| has_nul(argument)) {
            Some("an argument must not contain a NUL byte")
        } else if variable_names().any(|name| has_nul(name))
            || self.env.values().any(|text| has_nul(text.expose_secret()))
        {
            Some("an environment variable must not contain a NUL byte")
        } else {
            None
        }
    }
}

impl fmt::Debug for StdioCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioCommand")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("inherit_env", &self.inherit_env)
            .field("cwd", &self.cwd)
            .finish()
    }
}
