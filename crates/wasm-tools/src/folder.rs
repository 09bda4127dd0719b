use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::digest::sha256_hex;
use pillion_core::tool::ToolName;

use crate::file::{self, Stamps};
use crate::host::Door;
use crate::http;
use crate::manifest::Manifest;
use crate::sandbox::{Sandbox, chain};
use crate::saying;
use crate::settings::{Limits, WasmToolsSettings};
use crate::tool::{Compiled, WasmTool};
use crate::{FaultCode, WasmToolError};

/// The longest manifest, in bytes.
const LONGEST_MANIFEST: u64 = 64 * 1024;

/// The tools of a folder, as they were at the last [`look`](Self::look).
pub struct WasmFolder {
    settings: WasmToolsSettings,
    sandbox: Arc<Sandbox>,
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

/// A search for the files of a folder.
#[derive(Debug)]
pub struct Search(Option<PathBuf>);

/// What a [`Search`] has come to.
#[derive(Debug)]
pub struct Found {
    folder: Option<PathBuf>,
    files: Result<BTreeMap<String, Stamps>, WasmToolError>,
}

/// A file that is to be taken up.
pub struct DueFile {
    folder: PathBuf,
    name: String,
    stamps: Option<Stamps>,
    sandbox: Arc<Sandbox>,
    limits: Limits,
    door: Door,
    compiled: Option<Arc<Compiled>>,
}

/// A file that was read and compiled, or could not be.
pub struct TakenUp {
    folder: PathBuf,
    name: String,
    stamps: Option<Stamps>,
    made: Result<(Arc<Compiled>, Manifest), WasmToolError>,
}

/// A component's file.
#[derive(Default)]
struct Place {
    /// As it was at the last search.
    seen: Option<Stamps>,
    /// Whether it is to be read.
    is_due: bool,
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
            sandbox: Arc::new(sandbox),
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

    /// Looks for files that came, went or changed, and takes them up, one after the other.
    ///
    /// Blocks, since compiling takes a while, and wants to be inside a runtime. Who has to do something
    /// else meanwhile goes by [`search`](Self::search), [`found`](Self::found),
    /// [`next_file`](Self::next_file) and [`taken_up`](Self::taken_up).
    pub fn look(&mut self) {
        self.found(self.search().run());
        while let Some(file) = self.next_file() {
            self.taken_up(file.take_up());
        }
    }

    /// The search for what is in the folder.
    #[must_use]
    pub fn search(&self) -> Search {
        Search(self.settings.folder.clone())
    }

    /// What is there no longer is gone at once. A file that changes is to be taken up after the
    /// second search that finds it as it is, since it may be half there.
    pub fn found(&mut self, found: Found) {
        if found.folder != self.settings.folder {
            return;
        }
        let found = match found.files {
            Ok(files) => files,
            Err(error) => {
                self.fault = Some(error);
                return;
            }
        };
        self.fault = None;
        self.places.retain(|name, _| found.contains_key(name));
        for (name, stamps) in found {
            let place = self.places.entry(name).or_default();
            let has_settled = place.seen == Some(stamps) || !self.has_looked;
            place.seen = Some(stamps);
            place.is_due = has_settled && place.read != Some(stamps);
        }
        self.has_looked = true;
    }

    /// The next file that is to be taken up.
    pub fn next_file(&mut self) -> Option<DueFile> {
        let folder = self.settings.folder.clone()?;
        let (name, place) = self.places.iter_mut().find(|(_, place)| place.is_due)?;
        place.is_due = false;
        place.read = place.seen;
        Some(DueFile {
            door: door_of(&mut self.doors, &self.settings, name),
            sandbox: Arc::clone(&self.sandbox),
            limits: self.settings.limits.clone(),
            compiled: place.compiled.clone(),
            stamps: place.seen,
            name: name.clone(),
            folder,
        })
    }

    /// What has become of a file. It is a tool by the settings and the files that are there now. One
    /// that is no tool leaves the tool as it was that was made of it before.
    pub fn taken_up(&mut self, file: TakenUp) {
        let TakenUp {
            folder,
            name,
            stamps,
            made,
        } = file;
        let is_here = self.settings.folder.as_ref() == Some(&folder);
        let place = self.places.get_mut(&name);
        let Some(place) = place.filter(|place| is_here && place.seen == stamps) else {
            return;
        };
        if let Ok((compiled, _)) = &made {
            place.compiled = Some(Arc::clone(compiled));
        }
        // It is read once more, for the settings that are there now.
        if place.read != stamps {
            return;
        }
        let door = door_of(&mut self.doors, &self.settings, &name);
        let made = made.and_then(|(compiled, manifest)| {
            WasmTool::new(&name, compiled, manifest, &self.settings, &door)
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

    /// Taking up the file of that name takes longer than others wait. What it comes to counts all the
    /// same.
    pub fn late(&mut self, name: &str) {
        if let Some(place) = self.places.get_mut(name) {
            let seconds = self.settings.limits.compile_timeout().as_secs_f64();
            let what = format!("it takes longer than {seconds}s to compile");
            place.fault = Some(WasmToolError::new(FaultCode::TooSlow, what));
        }
    }

    /// Taking up the file of that name ended without telling how.
    pub fn lost(&mut self, name: &str) {
        if let Some(place) = self.places.get_mut(name) {
            let what = "it cannot be taken up: compiling it failed unexpectedly";
            place.fault = Some(WasmToolError::new(FaultCode::InvalidComponent, what));
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
                tool: Some(saying::line(name)),
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

impl Search {
    /// Looks. Blocks, as reading a folder does.
    #[must_use]
    pub fn run(self) -> Found {
        let files = match &self.0 {
            Some(folder) => file::list(folder),
            None => Ok(BTreeMap::new()),
        };
        Found {
            folder: self.0,
            files,
        }
    }
}

impl DueFile {
    /// The tool that it is to be.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long others wait for it; then it is [late](WasmFolder::late).
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.limits.compile_timeout()
    }

    /// Reads it, compiles it, and asks it what it is. Blocks, and wants to be inside a runtime.
    #[must_use]
    pub fn take_up(self) -> TakenUp {
        let made = self.made();
        TakenUp {
            folder: self.folder,
            name: self.name,
            stamps: self.stamps,
            made,
        }
    }

    /// What the files have in them; a component that was compiled is not compiled again.
    fn made(&self) -> Result<(Arc<Compiled>, Manifest), WasmToolError> {
        ToolName::new(&self.name)
            .map_err(|error| WasmToolError::new(FaultCode::BadName, error.to_string()))?;
        let gone = || WasmToolError::new(FaultCode::Unreadable, "it has gone");
        let path = self.folder.join(format!("{}.wasm", self.name));
        let manifest = match file::read(&path.with_extension("toml"), LONGEST_MANIFEST)? {
            Some(bytes) => Manifest::parse(&bytes)?,
            None => Manifest::default(),
        };
        let bytes = file::read(&path, self.limits.max_file_bytes)?.ok_or_else(gone)?;
        let sha256 = sha256_hex(&bytes);
        let before = self.compiled.as_ref();
        let compiled = match before.filter(|compiled| compiled.sha256 == sha256) {
            Some(compiled) => Arc::clone(compiled),
            None => Arc::new(Compiled::new(
                &self.sandbox,
                &bytes,
                sha256,
                &self.limits,
                &self.door,
            )?),
        };
        Ok((compiled, manifest))
    }
}
