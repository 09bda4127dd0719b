use std::fmt;

use crate::bounded_text;

/// The reason why a file in the folder is not offered as a tool, as a stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultCode {
    /// The folder does not exist, cannot be read, or is writable by an untrusted user.
    Folder,
    /// A file cannot be read.
    Unreadable,
    /// A file is writable by an untrusted user, or is not a regular file (for example, a symbolic
    /// link or a directory).
    UnsafeFile,
    /// The component's file or its manifest is larger than the maximum size.
    TooLarge,
    /// The file name is not a valid tool name.
    BadName,
    /// The file does not contain WebAssembly.
    NotWasm,
    /// The file is a core module rather than a component.
    CoreModule,
    /// Compiling the component takes longer than `compile_timeout_ms`, so other files no longer
    /// wait.
    TooSlow,
    /// The component is invalid, or uses a disabled WebAssembly feature.
    InvalidComponent,
    /// The component has an import that is not available.
    UnknownImport,
    /// The component does not export `describe` or `call` with the expected type.
    MissingExport,
    /// `describe` failed or exceeded a limit.
    DescribeFailed,
    /// The result of `describe` is not a valid tool definition.
    BadDefinition,
    /// The manifest, `NAME.toml`, is not valid TOML or has an unknown key.
    BadManifest,
    /// The manifest requests permissions that the operator has not granted.
    NotGranted,
    /// The SHA-256 of the file differs from the SHA-256 in the grant.
    OtherFile,
    /// Another tool already has the name of the file.
    NameTaken,
}

/// The reason why a file in the folder is not offered as a tool. Messages contain no values of
/// environment variables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WasmToolError {
    /// The stable code of the error.
    pub code: FaultCode,
    /// The error message: one line of at most about 1 kB, without control characters, because a
    /// component can influence it.
    pub message: String,
}

impl FaultCode {
    /// Returns the code's name in JSON, in snake case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Unreadable => "unreadable",
            Self::UnsafeFile => "unsafe_file",
            Self::TooLarge => "too_large",
            Self::BadName => "bad_name",
            Self::NotWasm => "not_wasm",
            Self::CoreModule => "core_module",
            Self::TooSlow => "too_slow",
            Self::InvalidComponent => "invalid_component",
            Self::UnknownImport => "unknown_import",
            Self::MissingExport => "missing_export",
            Self::DescribeFailed => "describe_failed",
            Self::BadDefinition => "bad_definition",
            Self::BadManifest => "bad_manifest",
            Self::NotGranted => "not_granted",
            Self::OtherFile => "other_file",
            Self::NameTaken => "name_taken",
        }
    }
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl WasmToolError {
    pub(crate) fn new(code: FaultCode, message: impl AsRef<str>) -> Self {
        Self {
            code,
            message: bounded_text::to_single_line(message.as_ref()),
        }
    }
}
