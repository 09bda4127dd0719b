use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::digest::sha256_hex;
use pillion_core::tool::ToolName;
use pillion_egress::LazyHttpClient;

use crate::bounded_text;
use crate::file::{self, WasmFileStamps};
use crate::manifest::Manifest;
use crate::sandbox::{Sandbox, format_error_chain};
use crate::settings::{Limits, WasmToolsSettings};
use crate::tool::{CompiledComponent, WasmTool};
use crate::{FaultCode, WasmToolError};

/// Maximum size of a manifest, in bytes.
const MAX_MANIFEST_BYTES: u64 = 64 * 1024;

/// The tools of a folder, as of the last [`refresh`](Self::refresh).
pub struct WasmFolder {
    settings: WasmToolsSettings,
    sandbox: Arc<Sandbox>,
    http_clients: HashMap<String, Arc<LazyHttpClient>>,
    files: BTreeMap<String, FileState>,
    /// The error of the folder itself, if the folder cannot be read.
    fault: Option<WasmToolError>,
    has_searched: bool,
}

/// The error of a file in the folder, or of the folder itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WasmFileError {
    /// The name of the file's tool; `None` for the folder.
    pub tool: Option<String>,
    /// The reason why the file or folder is not usable.
    pub error: WasmToolError,
    /// Whether the tool is still offered, from the previous version of its file.
    pub previous_version_offered: bool,
}

/// Lists the files of a folder. [`run`](Self::run) blocks, so it can be called on a thread for
/// blocking work.
#[derive(Debug)]
pub struct FolderSearch(Option<PathBuf>);

/// The result of a [`FolderSearch`].
#[derive(Debug)]
pub struct FolderSearchResult {
    folder: Option<PathBuf>,
    files: Result<BTreeMap<String, WasmFileStamps>, WasmToolError>,
}

/// A file of the folder that has to be loaded.
pub struct PendingFile {
    folder: PathBuf,
    name: String,
    stamps: Option<WasmFileStamps>,
    sandbox: Arc<Sandbox>,
    limits: Limits,
    http_client: Arc<LazyHttpClient>,
    component: Option<Arc<CompiledComponent>>,
}

/// The result of loading a file, which is a component or an error.
pub struct LoadedFile {
    folder: PathBuf,
    name: String,
    stamps: Option<WasmFileStamps>,
    result: Result<(Arc<CompiledComponent>, Manifest), WasmToolError>,
}

/// The state of a component's file, and the component and tool that were loaded from it.
#[derive(Default)]
struct FileState {
    /// The file's metadata at the last scan.
    last_stamps: Option<WasmFileStamps>,
    /// Whether the file has to be loaded.
    needs_loading: bool,
    /// The metadata that the file had when it was loaded.
    loaded_stamps: Option<WasmFileStamps>,
    tool: Option<Arc<WasmTool>>,
    /// The last component that was compiled from the file, whether or not it is offered as a tool.
    component: Option<Arc<CompiledComponent>>,
    fault: Option<WasmToolError>,
}

impl WasmFolder {
    /// Creates a folder without tools. Does no I/O.
    ///
    /// # Errors
    /// [`FaultCode::InvalidComponent`] if WebAssembly cannot be compiled for this processor.
    pub fn new(settings: WasmToolsSettings) -> Result<Self, WasmToolError> {
        let sandbox = Sandbox::new().map_err(|error| {
            WasmToolError::new(FaultCode::InvalidComponent, format_error_chain(&error))
        })?;
        Ok(Self {
            settings,
            sandbox: Arc::new(sandbox),
            http_clients: HashMap::new(),
            files: BTreeMap::new(),
            fault: None,
            has_searched: false,
        })
    }

    /// Replaces the settings, and returns whether the new settings differ. Tools that request a
    /// withdrawn permission are removed at once; newly granted permissions take effect with the
    /// next [`refresh`](Self::refresh).
    pub fn reconfigure(&mut self, settings: WasmToolsSettings) -> bool {
        if settings == self.settings {
            return false;
        }
        if settings.folder != self.settings.folder {
            self.files.clear();
            self.fault = None;
            self.has_searched = false;
        }
        if settings.egress != self.settings.egress {
            self.http_clients.clear();
        }
        self.settings = settings;
        for (name, file_state) in &mut self.files {
            // The file is loaded again, because an error with the old settings might not recur with
            // the new settings.
            file_state.loaded_stamps = None;
            let Some(tool) = file_state.tool.take() else {
                continue;
            };
            let http_client =
                find_or_create_http_client(&mut self.http_clients, &self.settings, name);
            let component = Arc::clone(&tool.component);
            let manifest = tool.manifest.clone();
            match WasmTool::new(name, component, manifest, &self.settings, &http_client) {
                Ok(new_tool) if new_tool.is_equivalent(&tool) => file_state.tool = Some(tool),
                Ok(new_tool) => file_state.tool = Some(Arc::new(new_tool)),
                Err(error) => file_state.fault = Some(error),
            }
        }
        true
    }

    /// Searches for added, removed and changed files, and loads them one after the other.
    ///
    /// Blocks, because compiling takes a while, and must be called inside a runtime. To do other
    /// work meanwhile, use [`search`](Self::search), [`apply_search`](Self::apply_search),
    /// [`next_file`](Self::next_file) and [`apply_loaded`](Self::apply_loaded).
    pub fn refresh(&mut self) {
        self.apply_search(self.search().run());
        while let Some(file) = self.next_file() {
            self.apply_loaded(file.load());
        }
    }

    /// Returns a search for the files in the folder.
    #[must_use]
    pub fn search(&self) -> FolderSearch {
        FolderSearch(self.settings.folder.clone())
    }

    /// Applies the result of a search. Tools of removed files disappear at once. A changed file is
    /// loaded after a second search finds the file unchanged, because a program may still be
    /// writing the file.
    pub fn apply_search(&mut self, result: FolderSearchResult) {
        if result.folder != self.settings.folder {
            return;
        }
        let stamps_by_name = match result.files {
            Ok(files) => files,
            Err(error) => {
                self.fault = Some(error);
                return;
            }
        };
        self.fault = None;
        self.files
            .retain(|name, _| stamps_by_name.contains_key(name));
        for (name, stamps) in stamps_by_name {
            let file_state = self.files.entry(name).or_default();
            let is_settled = file_state.last_stamps == Some(stamps) || !self.has_searched;
            file_state.last_stamps = Some(stamps);
            file_state.needs_loading = is_settled && file_state.loaded_stamps != Some(stamps);
        }
        self.has_searched = true;
    }

    /// Returns the next file to load.
    pub fn next_file(&mut self) -> Option<PendingFile> {
        let folder = self.settings.folder.clone()?;
        let (name, file_state) = self
            .files
            .iter_mut()
            .find(|(_, file_state)| file_state.needs_loading)?;
        file_state.needs_loading = false;
        file_state.loaded_stamps = file_state.last_stamps;
        Some(PendingFile {
            http_client: find_or_create_http_client(&mut self.http_clients, &self.settings, name),
            sandbox: Arc::clone(&self.sandbox),
            limits: self.settings.limits.clone(),
            component: file_state.component.clone(),
            stamps: file_state.last_stamps,
            name: name.clone(),
            folder,
        })
    }

    /// Applies the result of loading a file, under the current settings, unless the file has
    /// changed meanwhile. If the file is invalid, the tool from its previous version stays.
    pub fn apply_loaded(&mut self, file: LoadedFile) {
        let LoadedFile {
            folder,
            name,
            stamps,
            result,
        } = file;
        let is_same_folder = self.settings.folder.as_ref() == Some(&folder);
        let file_state = match self.files.get_mut(&name) {
            Some(file_state) if is_same_folder && file_state.last_stamps == stamps => file_state,
            _ => return,
        };
        if let Ok((component, _)) = &result {
            file_state.component = Some(Arc::clone(component));
        }
        // Ignores the result if the file or the settings have changed while the file was loaded,
        // because the file will be loaded again.
        if file_state.loaded_stamps != stamps {
            return;
        }
        let http_client = find_or_create_http_client(&mut self.http_clients, &self.settings, &name);
        let creation_result = result.and_then(|(component, manifest)| {
            WasmTool::new(&name, component, manifest, &self.settings, &http_client)
        });
        match creation_result {
            Ok(tool) => {
                file_state.fault = None;
                let is_equivalent = file_state
                    .tool
                    .as_ref()
                    .is_some_and(|previous_tool| previous_tool.is_equivalent(&tool));
                if !is_equivalent {
                    file_state.tool = Some(Arc::new(tool));
                }
            }
            Err(error) => file_state.fault = Some(error),
        }
    }

    /// Marks a file as too slow to compile, so that other files no longer wait for it. When loading
    /// finishes later, the result is still applied.
    pub fn mark_slow(&mut self, name: &str) {
        if let Some(file_state) = self.files.get_mut(name) {
            let seconds = self.settings.limits.compile_timeout().as_secs_f64();
            let message = format!("compiling the component takes longer than {seconds}s");
            file_state.fault = Some(WasmToolError::new(FaultCode::TooSlow, message));
        }
    }

    /// Marks a file as invalid, because loading it ended without a result.
    pub fn mark_failed(&mut self, name: &str) {
        if let Some(file_state) = self.files.get_mut(name) {
            let message = "loading the component failed unexpectedly: the log has the reason";
            file_state.fault = Some(WasmToolError::new(FaultCode::InvalidComponent, message));
        }
    }

    /// Returns the tools that the folder offers, ordered by name.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<WasmTool>> {
        let files = self.files.values();
        files
            .filter_map(|file_state| file_state.tool.clone())
            .collect()
    }

    /// Returns the errors of the folder and of its files, the error of the folder first.
    #[must_use]
    pub fn faults(&self) -> Vec<WasmFileError> {
        let folder_error = self.fault.iter().map(|error| WasmFileError {
            tool: None,
            error: error.clone(),
            previous_version_offered: self
                .files
                .values()
                .any(|file_state| file_state.tool.is_some()),
        });
        let file_errors = self.files.iter().filter_map(|(name, file_state)| {
            Some(WasmFileError {
                tool: Some(bounded_text::to_single_line(name)),
                error: file_state.fault.clone()?,
                previous_version_offered: file_state.tool.is_some(),
            })
        });
        folder_error.chain(file_errors).collect()
    }
}

/// Returns the HTTP client of a tool. The connections of the client stay open as long as the egress
/// policy does not change.
fn find_or_create_http_client(
    http_clients: &mut HashMap<String, Arc<LazyHttpClient>>,
    settings: &WasmToolsSettings,
    name: &str,
) -> Arc<LazyHttpClient> {
    let http_client = http_clients
        .entry(name.to_owned())
        .or_insert_with(|| Arc::new(LazyHttpClient::new(settings.egress.clone())));
    Arc::clone(http_client)
}

impl FolderSearch {
    /// Runs the search. Blocks while reading the folder.
    #[must_use]
    pub fn run(self) -> FolderSearchResult {
        let files = match &self.0 {
            Some(folder) => file::list_components(folder),
            None => Ok(BTreeMap::new()),
        };
        FolderSearchResult {
            folder: self.0,
            files,
        }
    }
}

impl PendingFile {
    /// Returns the name of the file's tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how long other files wait for this file before the file is
    /// [marked as slow](WasmFolder::mark_slow).
    #[must_use]
    pub fn load_timeout(&self) -> Duration {
        self.limits.compile_timeout()
    }

    /// Reads and compiles the file, and calls `describe`. Blocks, and must be called inside a
    /// runtime.
    #[must_use]
    pub fn load(self) -> LoadedFile {
        let result = self.load_component();
        LoadedFile {
            folder: self.folder,
            name: self.name,
            stamps: self.stamps,
            result,
        }
    }

    /// Returns the compiled component and the manifest. Compiles only a component that is not
    /// compiled yet.
    fn load_component(&self) -> Result<(Arc<CompiledComponent>, Manifest), WasmToolError> {
        ToolName::new(&self.name)
            .map_err(|error| WasmToolError::new(FaultCode::BadName, error.to_string()))?;
        let missing_file =
            || WasmToolError::new(FaultCode::Unreadable, "the file no longer exists");
        let path = self.folder.join(format!("{}.wasm", self.name));
        let manifest = match file::read(&path.with_extension("toml"), MAX_MANIFEST_BYTES)? {
            Some(bytes) => Manifest::parse(&bytes)?,
            None => Manifest::default(),
        };
        let bytes = file::read(&path, self.limits.max_file_bytes)?.ok_or_else(missing_file)?;
        let sha256 = sha256_hex(&bytes);
        let component = match &self.component {
            Some(component) if component.sha256 == sha256 => Arc::clone(component),
            _ => Arc::new(CompiledComponent::new(
                &self.sandbox,
                &bytes,
                sha256,
                &self.limits,
                &self.http_client,
            )?),
        };
        Ok((component, manifest))
    }
}
