use std::fmt;

use crate::saying;

/// Why a file of the folder is no tool, as a word that stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultCode {
    /// The folder is not there, cannot be read, or others may write it.
    Folder,
    /// A file cannot be read.
    Unreadable,
    /// A file that others may write, or that is none: a symbolic link, a directory.
    UnsafeFile,
    /// The file is longer than it may be.
    TooLarge,
    /// The file's name is no tool's name.
    BadName,
    /// The file has no WebAssembly in it.
    NotWasm,
    /// It is a core module, and no component.
    CoreModule,
    /// The component takes longer to compile than others wait.
    TooSlow,
    /// The component is broken, or uses what is not switched on.
    InvalidComponent,
    /// The component wants from its surroundings what there is not.
    UnknownImport,
    /// The component lacks `describe` or `call`, or they are of another type.
    MissingExport,
    /// `describe` failed, or went past a limit.
    DescribeFailed,
    /// What `describe` says is no tool's definition.
    BadDefinition,
    /// The manifest cannot be read.
    BadManifest,
    /// The manifest asks for what the operator has not granted.
    NotGranted,
    /// The file is another one than the one that the grants are for.
    OtherFile,
    /// Another tool has the name.
    NameTaken,
}

/// Why a file of the folder is no tool. No text has a value of a variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct WasmToolError {
    /// The reason, from the fixed set.
    pub code: FaultCode,
    /// The reason in words: one line of about 1 kB at most, without control characters, since a
    /// component has a say in it.
    pub what: String,
}

impl FaultCode {
    /// The code as it stands in JSON: lower case with underscores.
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
    pub(crate) fn new(code: FaultCode, what: impl AsRef<str>) -> Self {
        Self {
            code,
            what: saying::line(what.as_ref()),
        }
    }
}
