use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use pillion_core::digest::sha256_hex;
use pillion_core::tool::ToolName;

use crate::file::{self, Stamps};
use crate::host::Door;
use crate::http;
use crate::manifest::Manifest;
use crate::sandbox::{Sandbox, chain};
use crate::settings::WasmToolsSettings;
use crate::tool::{Compiled, WasmTool};
use crate::{FaultCode, WasmToolError};

/// The longest manifest, in bytes.
const LONGEST_MANIFEST: u64 = 64 * 1024;

/// The tools of a folder, as they were at the last [`look`](Self::look).
pub struct WasmFolder {
    settings: WasmToolsSettings,
    sandbox: Sandbox,
    doors: HashMap<String, Door>,
    places: BTreeMap<String, Place>,
    /// What is wrong with the folder itself.
    fault: Option<WasmToolError>,
    has_looked: bool,
}

/// A file that is no tool, or another one than before that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The tool that it would be; none for the folder.
    pub tool: Option<String>,
    /// What is wrong.
    pub error: WasmToolError,
    /// Whether the tool is offered all the same, as its file was before.
    pub is_older_offered: bool,
}

/// A component's file.
#[derive(Default)]
struct Place {
    /// As it was at the last look.
    seen: Option<Stamps>,
    /// As it was when it was read.
    read: Option<Stamps>,
    tool: Option<Arc<WasmTool>>,
    /// The last component that could be compiled, offered or not.
    compiled: Option<Arc<Compiled>>,
    fault: Option<WasmToolError>,
}

impl WasmFolder {
    /// A folder that nobody has looked at yet. Does no I/O.
    ///
    /// # Errors
    /// Nothing can be compiled for this processor.
    pub fn new(settings: WasmToolsSettings) -> Result<Self, WasmToolError> {
        let sandbox = Sandbox::new()
            .map_err(|error| WasmToolError::new(FaultCode::InvalidComponent, chain(&error)))?;
        Ok(Self {
            settings,
            sandbox,
            doors: HashMap::new(),
            places: BTreeMap::new(),
            fault: None,
            has_looked: false,
        })
    }

    /// Puts other settings in force. What is granted no longer is gone at once, and a tool that
    /// asks for it with it; what is granted now takes the next [`look`](Self::look). Whether they
    /// are others at all.
    pub fn reconfigure(&mut self, settings: WasmToolsSettings) -> bool {
        if settings == self.settings {
            return false;
        }
        if settings.folder != self.settings.folder {
            self.places.clear();
            self.fault = None;
            self.has_looked = false;
        }
        if settings.egress != self.settings.egress {
            self.doors.clear();
        }
        self.settings = settings;
        for (name, place) in &mut self.places {
            // Whatever was wrong may be right now.
            place.read = None;
            let Some(tool) = place.tool.take() else {
                continue;
            };
            let door = door_of(&mut self.doors, &self.settings, name);
            let compiled = Arc::clone(&tool.compiled);
            let manifest = tool.manifest.clone();
            match WasmTool::new(name, compiled, manifest, &self.settings, &door) {
                Ok(now) if now.is_same(&tool) => place.tool = Some(tool),
                Ok(now) => place.tool = Some(Arc::new(now)),
                Err(error) => place.fault = Some(error),
            }
        }
        true
    }

    /// Looks for files that came, went or changed, and takes them up. A file that changes is
    /// taken up at the second look that finds it as it is, since it may be half there. One that
    /// is no tool leaves the tool as it was that was made of it before.
    ///
    /// Blocks, since compiling takes a while, and wants to be inside a runtime.
    pub fn look(&mut self) {
        let Some(folder) = self.settings.folder.clone() else {
            self.places.clear();
            return;
        };
        let found = match file::list(&folder) {
            Ok(found) => found,
            Err(error) => {
                self.fault = Some(error);
                return;
            }
        };
        self.fault = None;
        self.places.retain(|name, _| found.contains_key(name));
        for (name, stamps) in found {
            let place = self.places.entry(name.clone()).or_default();
            if place.read == Some(stamps) {
                continue;
            }
            let has_settled = place.seen == Some(stamps);
            place.seen = Some(stamps);
            if has_settled || !self.has_looked {
                place.read = Some(stamps);
                self.take_up(&folder, &name);
            }
        }
        self.has_looked = true;
    }

    fn take_up(&mut self, folder: &Path, name: &str) {
        let door = door_of(&mut self.doors, &self.settings, name);
        let place = self.places.entry(name.to_owned()).or_default();
        let taken = read(
            folder,
            name,
            &self.settings,
            place.compiled.as_ref(),
            |bytes, sha256| {
                Compiled::new(&self.sandbox, bytes, sha256, &self.settings.limits, &door)
            },
        );
        let made = taken.and_then(|(compiled, manifest)| {
            place.compiled = Some(Arc::clone(&compiled));
            WasmTool::new(name, compiled, manifest, &self.settings, &door)
        });
        match made {
            Ok(tool) => {
                place.fault = None;
                let is_same = place
                    .tool
                    .as_ref()
                    .is_some_and(|before| before.is_same(&tool));
                if !is_same {
                    place.tool = Some(Arc::new(tool));
                }
            }
            Err(error) => place.fault = Some(error),
        }
    }

    /// The tools, by their names.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<WasmTool>> {
        let places = self.places.values();
        places.filter_map(|place| place.tool.clone()).collect()
    }

    /// What is wrong, the folder's first.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let of_folder = self.fault.iter().map(|error| Fault {
            tool: None,
            error: error.clone(),
            is_older_offered: self.places.values().any(|place| place.tool.is_some()),
        });
        let of_files = self.places.iter().filter_map(|(name, place)| {
            Some(Fault {
                tool: Some(name.clone()),
                error: place.fault.clone()?,
                is_older_offered: place.tool.is_some(),
            })
        });
        of_folder.chain(of_files).collect()
    }
}

/// Where the requests of a tool go out: its own connections, as long as the rules are the same.
fn door_of(doors: &mut HashMap<String, Door>, settings: &WasmToolsSettings, name: &str) -> Door {
    let door = doors.entry(name.to_owned());
    let made = || http::Door::new(settings.egress.clone());
    Arc::clone(door.or_insert_with(made))
}

/// What a tool's files have in them; a component that was compiled is not compiled again.
fn read(
    folder: &Path,
    name: &str,
    settings: &WasmToolsSettings,
    compiled: Option<&Arc<Compiled>>,
    compile: impl FnOnce(&[u8], String) -> Result<Compiled, WasmToolError>,
) -> Result<(Arc<Compiled>, Manifest), WasmToolError> {
    ToolName::new(name)
        .map_err(|error| WasmToolError::new(FaultCode::BadName, error.to_string()))?;
    let gone = || WasmToolError::new(FaultCode::Unreadable, "it has gone");
    let path = folder.join(format!("{name}.wasm"));
    let manifest = match file::read(&path.with_extension("toml"), LONGEST_MANIFEST)? {
        Some(bytes) => Manifest::parse(&bytes)?,
        None => Manifest::default(),
    };
    let bytes = file::read(&path, settings.limits.max_file_bytes)?.ok_or_else(gone)?;
    let sha256 = sha256_hex(&bytes);
    let compiled = match compiled.filter(|compiled| compiled.sha256 == sha256) {
        Some(compiled) => Arc::clone(compiled),
        None => Arc::new(compile(&bytes, sha256)?),
    };
    Ok((compiled, manifest))
}
