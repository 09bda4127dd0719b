use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;

use pillion_config::{ConfigError, ConfigFile, TcpSection, ends_within_line};
use pillion_core::variable;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{AccessGrant, AllowedTools, GrantHolder, Scope, Users};

/// Minimum length of a plain token in an environment variable, in bytes, so that tokens cannot be
/// guessed.
const MIN_TOKEN_BYTES: usize = 20;

/// The prefix of a hashed token.
const HASH_PREFIX: &str = "sha256:";

/// The tokens of the configuration. Each entry is `NAME SCOPE sha256:HEX`, optionally followed by
/// `user=NAME` or `any-user` (see [`Users`]) and `tools=NAME,PREFIX*` (see [`AllowedTools`]); `#`
/// starts a comment. In a file, each line is one entry, and tokens must be hashed. In an
/// environment variable, entries may be separated by `;`, and tokens may be in plain text.
///
/// ```
/// use pillion_gateway::access::{Scope, TokenList, TokenCheck};
/// let list = TokenList::from_variable("ci execute correct-horse-battery-staple", "TOKENS")?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let grant = list.check("correct-horse-battery-staple").await.unwrap().unwrap();
/// assert_eq!((grant.name.as_str(), grant.scope), ("ci", Scope::Execute));
/// assert_eq!(list.check("another").await.unwrap(), None);
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TokenList {
    entries: Vec<TokenEntry>,
}

#[derive(Clone)]
struct TokenEntry {
    hash: [u8; 32],
    grant: AccessGrant,
}

/// Why the tokens cannot be read. Never contains the content of an entry.
#[derive(Debug, thiserror::Error)]
pub enum TokenListError {
    /// TCP is enabled, but the configuration names no source of tokens.
    #[error("tcp.listen needs tokens: set tcp.tokens_env or tcp.tokens_file, or tcp.tokens_store")]
    NoSource,
    /// The environment variable is not set.
    #[error("tcp.tokens_env: {} is not set", variable::describe(.0))]
    VariableNotSet(String),
    /// The file cannot be read.
    #[error("tcp.tokens_file: {0}")]
    FileUnreadable(#[source] ConfigError),
    /// The last line of the file has no line break.
    #[error(
        "{position}: the line has no line break at its end, so the words that restrict its token may \
         be missing: if the line is complete, end it with a line break"
    )]
    NoLineBreak {
        /// The file and the line.
        position: String,
    },
    /// An entry does not have the format `NAME SCOPE TOKEN`.
    #[error("{position}: expected NAME SCOPE TOKEN: {reason}")]
    Entry {
        /// The position of the entry: a file and a line, or a variable and the entry's number.
        position: String,
        /// What is wrong with the entry.
        reason: &'static str,
    },
    /// Two entries have the same token, so that it would be unclear what the token grants.
    #[error("the entries '{0}' and '{1}' have the same token")]
    SameToken(String, String),
    /// The source contains no entries.
    #[error("{0} contains no token")]
    NoEntries(String),
}

impl TokenList {
    /// Reads the file in `tcp.tokens_file`, if it is set.
    ///
    /// # Errors
    /// [`TokenListError::FileUnreadable`]: the file cannot be read.
    pub fn read_file(tcp: &TcpSection) -> Result<Option<ConfigFile>, TokenListError> {
        let file = tcp.tokens_file.as_deref().map(ConfigFile::read);
        file.transpose().map_err(TokenListError::FileUnreadable)
    }

    /// Parses the tokens of the configuration, from the environment variable and `file`, which
    /// [`read_file`](Self::read_file) has read.
    ///
    /// # Errors
    /// An entry is invalid, or a variable is not set.
    pub fn parse(
        tcp: &TcpSection,
        file: Option<&ConfigFile>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TokenListError> {
        let mut entries = Vec::new();
        if let Some(name) = &tcp.tokens_env {
            let value = variable(name)
                .filter(|value| !value.trim().is_empty())
                .ok_or_else(|| TokenListError::VariableNotSet(name.clone()))?;
            entries.extend(Self::from_variable(&value, name)?.entries);
        }
        if let Some(file) = file {
            let name = file.path().display().to_string();
            entries.extend(Self::from_file(file.text(), &name)?.entries);
        }
        if tcp.tokens_env.is_none() && tcp.tokens_file.is_none() && !tcp.tokens_store {
            return Err(TokenListError::NoSource);
        }
        Self { entries }.with_distinct_tokens()
    }

    fn with_distinct_tokens(self) -> Result<Self, TokenListError> {
        let mut names = HashMap::new();
        for TokenEntry { hash, grant } in &self.entries {
            if let Some(other) = names.insert(hash, &grant.name) {
                return Err(TokenListError::SameToken(other.clone(), grant.name.clone()));
            }
        }
        Ok(self)
    }

    /// Parses the tokens of an environment variable; `name` is the variable's name in errors.
    ///
    /// # Errors
    /// [`TokenListError`]: an entry is invalid, or there are no entries.
    pub fn from_variable(value: &str, name: &str) -> Result<Self, TokenListError> {
        let parts = value.split([';', '\n']).enumerate();
        let entries = parts.map(|(index, part)| (format!("{name} (entry {})", index + 1), part));
        parse_entries(entries, name, true)
    }

    /// Parses the tokens of a file; `name` is the file's name in errors.
    ///
    /// # Errors
    /// The same errors as [`from_variable`](Self::from_variable), and
    /// [`TokenListError::NoLineBreak`]: a truncated last line may lack the words that restrict its
    /// token.
    pub fn from_file(text: &str, name: &str) -> Result<Self, TokenListError> {
        if ends_within_line(text) {
            let position = format!("{name}:{}", text.lines().count());
            return Err(TokenListError::NoLineBreak { position });
        }
        let lines = text.lines().enumerate();
        let entries = lines.map(|(index, line)| (format!("{name}:{}", index + 1), line));
        parse_entries(entries, name, false)
    }

    /// Returns the permission of each token, in the order of the configuration.
    #[must_use]
    pub fn grants(&self) -> Vec<AccessGrant> {
        let grants = self.entries.iter().map(|entry| &entry.grant);
        grants.cloned().collect()
    }

    fn find(&self, token: &str) -> Option<AccessGrant> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let mut grant = None;
        // All entries are compared, so that the duration does not reveal which entry matches.
        for entry in &self.entries {
            if bool::from(entry.hash.ct_eq(&hash)) {
                grant = Some(&entry.grant);
            }
        }
        grant.cloned()
    }
}

impl TokenCheck for TokenList {
    fn check<'a>(&'a self, token: &'a str) -> CheckFuture<'a> {
        let grant = self.find(token);
        Box::pin(async { Ok(grant) })
    }

    fn configured_grants(&self) -> Vec<AccessGrant> {
        self.grants()
    }
}

impl fmt::Debug for TokenList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grants = self.entries.iter().map(|entry| &entry.grant);
        f.debug_list().entries(grants).finish()
    }
}

fn parse_entries<'a>(
    parts: impl Iterator<Item = (String, &'a str)>,
    name: &str,
    allows_plain: bool,
) -> Result<TokenList, TokenListError> {
    let mut entries = Vec::new();
    for (position, part) in parts {
        let text = strip_comment(part);
        if text.trim().is_empty() {
            continue;
        }
        let entry = parse_entry(text, allows_plain);
        entries.push(entry.map_err(|reason| TokenListError::Entry { position, reason })?);
    }
    if entries.is_empty() {
        return Err(TokenListError::NoEntries(name.to_owned()));
    }
    TokenList { entries }.with_distinct_tokens()
}

/// Removes the comment from an entry. A comment begins with a `#` at the start of the text or after
/// white space; any other `#` may be part of a user's name.
fn strip_comment(text: &str) -> &str {
    let mut previous_character = ' ';
    for (index, character) in text.char_indices() {
        if character == '#' && previous_character.is_whitespace() {
            return &text[..index];
        }
        previous_character = character;
    }
    text
}

fn parse_entry(text: &str, allows_plain: bool) -> Result<TokenEntry, &'static str> {
    let words: Vec<_> = text.split_whitespace().collect();
    let [name, scope, token, ref options @ ..] = words[..] else {
        return Err("the entry has fewer than three words");
    };
    let (mut users, mut tools) = (None, None);
    for word in options {
        let is_first = match (Users::parse(word), AllowedTools::parse(word)) {
            (Some(parsed_users), _) => users.replace(parsed_users).is_none(),
            (None, Some(result)) => {
                let allowed_tools = result.map_err(|_| {
                    "tools= needs tool names, or prefixes of tool names followed by '*', separated \
                     by commas without spaces"
                })?;
                tools.replace(allowed_tools).is_none()
            }
            (None, None) => {
                return Err(
                    "only user=NAME or any-user, and tools=NAME,PREFIX*, may follow the token",
                );
            }
        };
        if !is_first {
            return Err("user=NAME or any-user, and tools=, may appear only once");
        }
    }
    let scope = Scope::parse(scope).ok_or("the scope must be read, execute, approve or admin")?;
    let hash = match token.strip_prefix(HASH_PREFIX) {
        Some(hex) => parse_hash(hex).ok_or("the SHA-256 must have 64 hexadecimal digits")?,
        None if !allows_plain => {
            return Err("a token in a file must be sha256: followed by its SHA-256");
        }
        None if token.len() < MIN_TOKEN_BYTES => {
            return Err("the token must have at least 20 characters");
        }
        None => Sha256::digest(token.as_bytes()).into(),
    };
    let grant = AccessGrant {
        name: name.to_owned(),
        holder: GrantHolder::ConfiguredToken,
        scope,
        users: users.unwrap_or_default(),
        tools: tools.unwrap_or_default(),
    };
    Ok(TokenEntry { hash, grant })
}

fn parse_hash(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(hash)
}

/// The future of [`TokenCheck::check`], whose output is the grant of a valid token.
pub type CheckFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<AccessGrant>, TokenCheckError>> + Send + 'a>>;

/// Checks the tokens of requests over TCP.
///
/// An implementation stores only hashes, compares them in constant time, and never logs a token.
pub trait TokenCheck: Send + Sync + fmt::Debug + 'static {
    /// Returns the permission that the token grants, or `None` for an unknown, expired or revoked
    /// token.
    ///
    /// # Errors
    /// [`TokenCheckError`] if the tokens cannot be checked at present.
    fn check<'a>(&'a self, token: &'a str) -> CheckFuture<'a>;

    /// Returns the permission of each token of the configuration.
    fn configured_grants(&self) -> Vec<AccessGrant>;
}

/// The tokens cannot be checked at present.
#[derive(Debug, thiserror::Error)]
#[error("cannot check access tokens: {0}")]
pub struct TokenCheckError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l3_a_token_file_contains_hashes_and_debug_output_hides_them() {
        let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"; // "test"
        let text = format!("# tokens\n\nci execute sha256:{hex} # of the pipeline\n");
        let list = TokenList::from_file(&text, "tokens").unwrap();
        assert_eq!(list.find("test").unwrap().name, "ci");
        assert_eq!(list.find("Test"), None);
        assert!(!format!("{list:?}").contains("159"), "{list:?}");
    }

    #[test]
    fn l3_a_user_name_may_contain_a_hash_sign() {
        let text = format!("t execute sha256:{} user=alice#2 # hers\n", "0".repeat(64));
        let list = TokenList::from_file(&text, "tokens").unwrap();
        let users = &list.entries[0].grant.users;
        assert_eq!(*users, Users::SingleUser("alice#2".to_owned()));
    }

    #[test]
    fn l3_an_entry_may_list_the_tools_of_its_token() {
        let list = |more: &str| {
            let text = format!("t execute sha256:{}{more}\n", "0".repeat(64));
            let list = TokenList::from_file(&text, "tokens").unwrap();
            list.entries[0].grant.clone()
        };
        let few = AllowedTools::parse_list("get_time,far_*").unwrap();
        for more in [
            " user=alice tools=get_time,far_*",
            " tools=get_time,far_* user=alice # hers",
        ] {
            let grant = list(more);
            assert_eq!((&grant.tools, grant.only_user()), (&few, Some("alice")));
        }
        assert_eq!(list(" tools=get_time,far_*").users, Users::NoUser);
        assert_eq!(list("").tools, AllowedTools::default());
    }

    #[test]
    fn l3_no_prefix_of_a_token_file_grants_more_than_the_file() {
        let text = format!(
            "# tokens\na read sha256:{} tools=get_time\nb execute sha256:{} user=alice#2 \
             tools=get_time,far_* # hers\n",
            "1".repeat(64),
            "2".repeat(64)
        );
        let whole = TokenList::from_file(&text, "tokens").unwrap();
        let mut accepted = 0;
        for end in 0..text.len() {
            match TokenList::from_file(&text[..end], "tokens") {
                Ok(list) => {
                    accepted += 1;
                    let mut pairs = list.entries.iter().zip(&whole.entries);
                    assert!(pairs.all(|(cut, entry)| cut.grant == entry.grant), "{end}");
                }
                Err(error) => assert!(!error.to_string().contains("alice"), "{error}"),
            }
        }
        assert_eq!(accepted, 1, "the first two lines");
        let error = TokenList::from_file(text.trim_end(), "tokens").unwrap_err();
        let expected = "tokens:3: the line has no line break at its end";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn l3_a_bad_entry_is_named_by_its_line_and_never_quoted() {
        for (text, expected) in [
            (
                "ci execute",
                "tokens:1: expected NAME SCOPE TOKEN: the entry has fewer than three words",
            ),
            (
                "\nci all sha256:00",
                "tokens:2: expected NAME SCOPE TOKEN: the scope must be read",
            ),
            (
                "ci read secret-secret-secret",
                "a token in a file must be sha256:",
            ),
            ("ci read sha256:00", "64 hexadecimal digits"),
            ("ci read sha256:00 alice", "only user=NAME or any-user"),
            (
                "ci read sha256:00 tools=secret-tool,",
                "prefixes of tool names",
            ),
            ("ci read sha256:00 user=a any-user", "may appear only once"),
            ("ci read sha256:00 tools=a tools=b", "may appear only once"),
            ("# nothing", "tokens contains no token"),
        ] {
            let list = TokenList::from_file(&format!("{text}\n"), "tokens");
            let error = list.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("secret-"), "{error}");
        }
        let hex = "0".repeat(64);
        let twice = format!("ci read sha256:{hex} tools=get_time\nall admin sha256:{hex}\n");
        let list = TokenList::from_file(&twice, "tokens");
        let error = list.unwrap_err().to_string();
        assert_eq!(error, "the entries 'ci' and 'all' have the same token");
        let error = TokenList::from_variable("ci read short", "TOKENS").unwrap_err();
        assert!(error.to_string().contains("at least 20"), "{error}");
    }
}
