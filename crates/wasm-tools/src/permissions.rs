use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::origin::HttpOrigin;
use crate::settings::{FolderAccess, Grant};
use crate::{FaultCode, WasmToolError};

/// The permissions that a manifest requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RequestedPermissions {
    /// The requested folders, by their path inside the sandbox.
    pub(crate) files: BTreeMap<String, FolderAccess>,
    /// The names of the requested environment variables.
    pub(crate) environment: Vec<String>,
    /// The requested origins for HTTP requests.
    pub(crate) http: Vec<HttpOrigin>,
}

/// The permissions of a tool. These are all permissions that its manifest requests, because a tool
/// is only offered if the operator has granted all of them.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct ToolPermissions {
    pub(crate) folders: Vec<SandboxFolder>,
    /// The names and values of the environment variables.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) origins: Vec<HttpOrigin>,
}

/// A folder that a tool may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SandboxFolder {
    /// The folder's path on this machine.
    #[serde(rename = "host")]
    pub(crate) host_path: PathBuf,
    /// The folder's path inside the sandbox.
    #[serde(rename = "guest")]
    pub(crate) guest_path: String,
    pub(crate) access: FolderAccess,
}

impl ToolPermissions {
    /// Returns the requested permissions, if the operator has granted all of them.
    ///
    /// # Errors
    /// [`FaultCode::NotGranted`] with all requested permissions that are not granted.
    pub(crate) fn from_grant(
        requested_permissions: &RequestedPermissions,
        grant: &Grant,
    ) -> Result<Self, WasmToolError> {
        let mut missing_permissions = Vec::new();
        let mut permissions = Self::default();
        for (guest_path, access) in &requested_permissions.files {
            match grant.files.get(guest_path) {
                Some(granted_folder) if granted_folder.access >= *access => {
                    permissions.folders.push(SandboxFolder {
                        host_path: granted_folder.path.clone(),
                        guest_path: guest_path.clone(),
                        access: *access,
                    });
                }
                _ => missing_permissions.push(format!("files '{guest_path}' ({access})")),
            }
        }
        for name in &requested_permissions.environment {
            match std::env::var(name) {
                _ if !grant.environment.contains(name) => {
                    missing_permissions.push(format!("environment '{name}'"));
                }
                Ok(value) => permissions.environment.push((name.clone(), value)),
                // Skips a variable that is not set in this process, so that it is not set for the
                // tool either.
                Err(_) => {}
            }
        }
        for origin in &requested_permissions.http {
            if grant.http.contains(origin) {
                permissions.origins.push(origin.clone());
            } else {
                missing_permissions.push(format!("http '{origin}'"));
            }
        }
        if missing_permissions.is_empty() {
            return Ok(permissions);
        }
        let message = format!(
            "the manifest requests permissions that are not granted: {}",
            missing_permissions.join(", ")
        );
        Err(WasmToolError::new(FaultCode::NotGranted, message))
    }

    /// Returns the folders that the tool may write.
    pub(crate) fn writable_folders(&self) -> impl Iterator<Item = &SandboxFolder> {
        let folders = self.folders.iter();
        folders.filter(|folder| folder.access == FolderAccess::ReadWrite)
    }

    /// Returns whether the tool can change files, or data on servers to which it can send requests.
    pub(crate) fn can_change_something(&self) -> bool {
        !self.origins.is_empty() || self.writable_folders().next().is_some()
    }

    /// Returns whether the tool can send requests.
    pub(crate) fn can_send_requests(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Returns all permissions as JSON, without the values of environment variables.
    pub(crate) fn summary(&self) -> serde_json::Value {
        let names: Vec<_> = self.environment.iter().map(|(name, _)| name).collect();
        serde_json::json!([self.folders, names, self.origins])
    }
}

impl SandboxFolder {
    pub(crate) fn host_path(&self) -> &Path {
        &self.host_path
    }
}

/// Formats the permissions without the values of environment variables, which may be credentials.
impl fmt::Debug for ToolPermissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permissions({})", self.summary())
    }
}
