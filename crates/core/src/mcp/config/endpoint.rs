use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use url::Url;

use super::TransportKind;

/// Where a server is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Endpoint {
    /// Behind a URL: `http`, `https`, `ws` or `wss`, without user and password.
    Url(Url),
    /// A program that is started here and spoken to over its standard streams.
    Command(StdioCommand),
}

impl Endpoint {
    /// The only transport that it can be spoken to by; `Auto` where there are several.
    pub(super) fn transport(&self) -> TransportKind {
        match self {
            Self::Url(url) if matches!(url.scheme(), "ws" | "wss") => TransportKind::WebSocket,
            Self::Url(_) => TransportKind::Auto,
            Self::Command(_) => TransportKind::Stdio,
        }
    }
}

/// A program that is an MCP server over its standard streams.
///
/// It is started without a shell, in a process group of its own. Of our environment it
/// sees what [`inherit_env`](Self::inherit_env) names and nothing else. `Debug` shows
/// neither arguments nor values of the environment: both may hold secrets.
#[derive(Clone)]
#[non_exhaustive]
pub struct StdioCommand {
    /// The program: a path, or a name that is looked up in the `PATH` of
    /// [`env`](Self::env) or
    /// [`inherit_env`](Self::inherit_env).
    pub program: PathBuf,
    /// Its arguments, each as it is: no shell splits or expands them.
    pub args: Vec<String>,
    /// Its environment. Without a `PATH` here or in
    /// [`inherit_env`](Self::inherit_env) it is [`DEFAULT_PATH`](Self::DEFAULT_PATH);
    /// nothing else has a default, `HOME` neither.
    pub env: BTreeMap<String, SecretString>,
    /// Names of variables of our own environment that it sees too, where they are set;
    /// [`env`](Self::env) wins.
    pub inherit_env: Vec<String>,
    /// The directory it is started in. Default: ours.
    pub cwd: Option<PathBuf>,
}

impl StdioCommand {
    /// The `PATH` of a server for which none is configured.
    pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

    /// A program without arguments, with the environment's default.
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

    /// The program's name without its directory.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Whether a process can be given these strings at all: none holds a NUL, no name is
    /// empty or holds a `=`.
    pub(super) fn is_possible(&self) -> bool {
        use secrecy::ExposeSecret;
        let plain = |text: &str| !text.contains('\0');
        let name = |name: &String| !name.is_empty() && plain(name) && !name.contains('=');
        let path = |path: &Path| {
            !path.as_os_str().is_empty() && !path.as_os_str().as_encoded_bytes().contains(&0)
        };
        path(&self.program)
            && self.cwd.as_deref().is_none_or(path)
            && self.args.iter().all(|argument| plain(argument))
            && self.env.keys().all(name)
            && self.env.values().all(|value| plain(value.expose_secret()))
            && self.inherit_env.iter().all(name)
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
