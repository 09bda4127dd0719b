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
pub(crate) struct Host {
    wasi: WasiCtx,
    table: ResourceTable,
    pub(crate) memory: MemoryLimit,
    pub(crate) stderr: Stderr,
    pub(crate) requests: RunRequests,
}

impl Host {
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
        // The component inherits nothing from this process: neither standard input and output nor
        // arguments.
        wasi.stderr(stderr.clone())
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(MAX_RANDOM_BYTES)
            .envs(&permissions.environment);
        for folder in &permissions.folders {
            let permissions = match folder.access {
                FolderAccess::Read => FsPerms::ReadOnly,
                FolderAccess::ReadWrite => FsPerms::ReadWrite,
            };
            wasi.preopened_dir(folder.path(), &folder.guest, permissions)
                .map_err(|error| {
                    format!("cannot open the folder for '{}': {error}", folder.guest)
                })?;
        }
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCES);
        Ok(Self {
            wasi: wasi.build(),
            table,
            memory: MemoryLimit::new(limits.max_memory_bytes),
            stderr,
            requests,
        })
    }
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl http::Host for Host {
    async fn send(&mut self, request: http::Request) -> Result<http::Response, http::Error> {
        self.requests.send(request).await
    }
}

impl types::Host for Host {}
