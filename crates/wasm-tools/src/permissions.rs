use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use url::Url;

use crate::manifest::ManifestFile;
use crate::settings::Grant;
use crate::{FaultCode, WasmToolError};

/// What a tool may do in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Access {
    /// Read and list files.
    #[default]
    #[serde(rename = "read")]
    Read,
    /// Read, list, write, create and remove files.
    #[serde(rename = "read-write")]
    ReadWrite,
}

/// Scheme, host and port of a URL, such as `https://api.example.com`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Origin(url::Origin, String);

/// The permissions of a tool: those that its manifest requests, which are all granted.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Permissions {
    pub(crate) folders: Vec<Folder>,
    /// Names and values.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) origins: Vec<Origin>,
}

/// A folder that a tool may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Folder {
    /// The path on this machine.
    pub(crate) host: PathBuf,
    /// The path inside the sandbox.
    pub(crate) guest: String,
    pub(crate) access: Access,
}

impl Permissions {
    /// Returns the requested permissions, if all are granted.
    ///
    /// # Errors
    /// [`FaultCode::NotGranted`] with all requested permissions that are not granted.
    pub(crate) fn of(asked: &ManifestFile, grant: &Grant) -> Result<Self, WasmToolError> {
        let mut missing = Vec::new();
        let mut permissions = Self::default();
        for (guest, access) in &asked.files {
            match grant.files.get(guest) {
                Some(granted) if granted.access >= *access => permissions.folders.push(Folder {
                    host: granted.path.clone(),
                    guest: guest.clone(),
                    access: *access,
                }),
                _ => missing.push(format!("files '{guest}' ({access})")),
            }
        }
        for name in &asked.environment {
            match std::env::var(name) {
                _ if !grant.environment.contains(name) => {
                    missing.push(format!("environment '{name}'"));
                }
                Ok(value) => permissions.environment.push((name.clone(), value)),
                // An unset variable is also unset for the tool.
                Err(_) => {}
            }
        }
        for origin in &asked.http {
            match grant.http.contains(origin) {
                true => permissions.origins.push(origin.clone()),
                false => missing.push(format!("http '{origin}'")),
            }
        }
        if missing.is_empty() {
            return Ok(permissions);
        }
        let what = format!(
            "the manifest requests permissions that are not granted: {}",
            missing.join(", ")
        );
        Err(WasmToolError::new(FaultCode::NotGranted, what))
    }

    /// Returns the folders that the tool may write.
    pub(crate) fn writable(&self) -> impl Iterator<Item = &Folder> {
        let folders = self.folders.iter();
        folders.filter(|folder| folder.access == Access::ReadWrite)
    }

    /// Returns whether the tool can change anything.
    pub(crate) fn can_change_something(&self) -> bool {
        !self.origins.is_empty() || self.writable().next().is_some()
    }

    /// Returns whether the tool can send requests.
    pub(crate) fn reaches_out(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Returns all permissions without the values of variables.
    pub(crate) fn summary(&self) -> serde_json::Value {
        let names: Vec<_> = self.environment.iter().map(|(name, _)| name).collect();
        serde_json::json!([self.folders, names, self.origins])
    }
}

impl Origin {
    pub(crate) fn is_of(&self, url: &Url) -> bool {
        self.0 == url.origin()
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not an origin, such as https://api.example.com");
        let url: Url = text.parse().map_err(|_| wrong())?;
        let is_bare = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        match url.scheme() {
            "http" | "https" if is_bare => {
                let origin = url.origin();
                let text = origin.ascii_serialization();
                Ok(Self(origin, text))
            }
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Origin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.1)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::ReadWrite => "read-write",
        })
    }
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        &self.host
    }
}

/// Hides the values of variables, which may be credentials.
impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permissions({})", self.summary())
    }
}
