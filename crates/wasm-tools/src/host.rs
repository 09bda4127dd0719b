use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::bindings::pillion::tool::{http, types};
use crate::http::RunRequests;
use crate::memory::MemoryLimit;
use crate::permissions::ToolPermissions;
use crate::settings::{FolderAccess, Limits};
use crate::stderr::Stderr;

/// Maximum number of open files, streams and other resources of a run.
const MAX_RESOURCES: usize = 1024;
/// Maximum number of random bytes per request.
const MAX_RANDOM_BYTES: u64 = 64 * 1024;

/// The host resources of one run of a component: WASI, HTTP and limits.
pub(crate) struct HostState {
    wasi: WasiCtx,
    table: ResourceTable,
    pub(crate) memory_limit: MemoryLimit,
    pub(crate) stderr: Stderr,
    pub(crate) requests: RunRequests,
}

impl HostState {
    /// Creates the host resources that the permissions allow, and opens the permitted folders.
    ///
    /// # Errors
    /// A folder cannot be opened; the message contains the tool's name for the folder.
    pub(crate) fn new(
        limits: &Limits,
        permissions: &ToolPermissions,
        requests: RunRequests,
    ) -> Result<Self, String> {
        let stderr = Stderr::default();
        let mut wasi = WasiCtxBuilder::new();
        // The component inherits neither the standard input and output nor the arguments of this
        // process.
        wasi.stderr(stderr.clone())
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(MAX_RANDOM_BYTES)
            .envs(&permissions.environment);
        for folder in &permissions.folders {
            let fs_permissions = match folder.access {
                FolderAccess::Read => FsPerms::ReadOnly,
                FolderAccess::ReadWrite => FsPerms::ReadWrite,
            };
            wasi.preopened_dir(folder.host_path(), &folder.guest_path, fs_permissions)
                .map_err(|error| {
                    format!(
                        "cannot open the folder for '{}': {error}",
                        folder.guest_path
                    )
                })?;
        }
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCES);
        Ok(Self {
            wasi: wasi.build(),
            table,
            memory_limit: MemoryLimit::new(limits.max_memory_bytes),
            stderr,
            requests,
        })
    }
}

impl WasiView for HostState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl http::Host for HostState {
    async fn send(&mut self, request: http::Request) -> Result<http::Response, http::Error> {
        self.requests.send(request).await
    }
}

impl types::Host for HostState {}
