use percent_encoding::utf8_percent_encode;
use pillion_wire::route;

use super::{Raw, SEGMENT, body_of, with_query};
use crate::{Caller, ClientError};

/// The MCP servers of the sidecar, and the vault.
impl Raw<'_> {
    /// `GET /api/v1/servers/`, as a [`ServerList`](pillion_wire::ServerList).
    ///
    /// # Errors
    /// [`ClientError`]: `unavailable` if the sidecar has no store.
    pub fn servers(&self) -> Result<Vec<u8>, ClientError> {
        self.get(route::SERVERS)
    }

    /// `GET /api/v1/servers/{id}`, as a [`ServerResponse`](pillion_wire::ServerResponse).
    ///
    /// # Errors
    /// [`ClientError`]: `not_found` if the server does not exist.
    pub fn server(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        self.get(&path_of(id, ""))
    }

    /// `POST /api/v1/servers/`; the body is the definition of a server as JSON,
    /// the response a [`ServerResponse`](pillion_wire::ServerResponse).
    ///
    /// # Errors
    /// [`ClientError`]: `invalid_input`, also if the name is in use; `denied`
    /// for a program, and for credentials if the vault has no key.
    pub fn add_server(&self, server: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.ask("POST", route::SERVERS, Some(server))
    }

    /// `PATCH /api/v1/servers/{id}`: a merge patch; absent fields stay unchanged.
    ///
    /// # Errors
    /// As for [`add_server`](Self::add_server), and `not_found`.
    pub fn change_server(&self, id: &str, change: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.ask("PATCH", &path_of(id, ""), Some(change))
    }

    /// `DELETE /api/v1/servers/{id}`, as a [`ServerRemoved`](pillion_wire::ServerRemoved).
    ///
    /// # Errors
    /// [`ClientError`]: `not_found`; `denied` for a server of the configuration file.
    pub fn remove_server(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        self.ask("DELETE", &path_of(id, ""), None)
    }

    /// `POST /api/v1/servers/{id}/reconnect`, as a
    /// [`ServerResponse`](pillion_wire::ServerResponse).
    ///
    /// # Errors
    /// As for [`server`](Self::server).
    pub fn reconnect_server(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        self.ask("POST", &path_of(id, "/reconnect"), Some(b""))
    }

    /// `POST /api/v1/servers/{id}/connect`, as a [`ServerResponse`](pillion_wire::ServerResponse);
    /// `status` is the result of the connection attempt.
    ///
    /// # Errors
    /// As for [`server`](Self::server), and `unavailable` if the server is not in use.
    pub fn connect_server(&self, id: &str, caller: &Caller) -> Result<Vec<u8>, ClientError> {
        self.post(&path_of(id, "/connect"), b"", caller)
    }

    /// `POST /api/v1/servers/{id}/disconnect`, as a
    /// [`ServerResponse`](pillion_wire::ServerResponse).
    ///
    /// # Errors
    /// As for [`connect_server`](Self::connect_server).
    pub fn disconnect_server(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        self.ask("POST", &path_of(id, "/disconnect"), Some(b""))
    }

    /// `GET /api/v1/servers/{id}/resources`, as a
    /// [`ResourceList`](pillion_wire::ResourceList).
    ///
    /// # Errors
    /// As for [`connect_server`](Self::connect_server).
    pub fn server_resources(&self, id: &str, caller: &Caller) -> Result<Vec<u8>, ClientError> {
        let path = path_of(id, "/resources");
        let (status, body) = self.client.send_as("GET", &path, None, caller)?;
        body_of(status, body)
    }

    /// `GET /api/v1/servers/{id}/resources/read`, as a
    /// [`ResourceResponse`](pillion_wire::ResourceResponse).
    ///
    /// # Errors
    /// As for [`connect_server`](Self::connect_server); `not_found` also if the server has no such
    /// resource.
    pub fn read_server_resource(
        &self,
        id: &str,
        uri: &str,
        caller: &Caller,
    ) -> Result<Vec<u8>, ClientError> {
        let path = path_of(id, "/resources/read");
        let path = with_query(&path, &[("uri", uri.to_owned())]);
        let (status, body) = self.client.send_as("GET", &path, None, caller)?;
        body_of(status, body)
    }

    /// `GET /api/v1/servers/{id}/tools`, as a [`ToolList`](pillion_wire::ToolList).
    ///
    /// # Errors
    /// As for [`server`](Self::server).
    pub fn server_tools(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        self.get(&path_of(id, "/tools"))
    }

    /// [`server_tools`](Self::server_tools), including the tools that the server lists only for the
    /// caller's user.
    ///
    /// # Errors
    /// As for [`server`](Self::server).
    pub fn server_tools_for(&self, id: &str, caller: &Caller) -> Result<Vec<u8>, ClientError> {
        let path = path_of(id, "/tools");
        let (status, body) = self.client.send_as("GET", &path, None, caller)?;
        body_of(status, body)
    }

    /// `GET /api/v1/servers/{id}/credentials`, as a
    /// [`UserCredentialList`](pillion_wire::UserCredentialList).
    ///
    /// # Errors
    /// As for [`server`](Self::server).
    pub fn server_credentials(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        self.get(&path_of(id, "/credentials"))
    }

    /// `PUT /api/v1/servers/{id}/credentials/{user}`; the body is a
    /// [`UserCredentialInput`](pillion_wire::UserCredentialInput) as JSON, the response a
    /// [`UserCredentialResponse`](pillion_wire::UserCredentialResponse).
    ///
    /// # Errors
    /// [`ClientError`]: `not_found`; `invalid_input`, also if calls of the server use
    /// the server's own credential; `denied` if the vault has no key.
    pub fn set_server_credential(
        &self,
        id: &str,
        user: &str,
        credential: &[u8],
    ) -> Result<Vec<u8>, ClientError> {
        self.ask("PUT", &credential_path(id, user), Some(credential))
    }

    /// `DELETE /api/v1/servers/{id}/credentials/{user}`, as a
    /// [`ServerRemoved`](pillion_wire::ServerRemoved).
    ///
    /// # Errors
    /// [`ClientError`]: `not_found`, also if the user has no credential.
    pub fn remove_server_credential(&self, id: &str, user: &str) -> Result<Vec<u8>, ClientError> {
        self.ask("DELETE", &credential_path(id, user), None)
    }

    /// `POST /api/v1/servers/{id}/test`, as a [`ServerTrial`](pillion_wire::ServerTrial).
    ///
    /// # Errors
    /// As for [`server`](Self::server), and `denied` for a program if the server is not in use.
    pub fn test_server(&self, id: &str) -> Result<Vec<u8>, ClientError> {
        self.ask("POST", &path_of(id, "/test"), Some(b""))
    }

    /// `POST /api/v1/servers/test`: as [`add_server`](Self::add_server), but does not add the
    /// server; the response is a [`ServerTrial`](pillion_wire::ServerTrial).
    ///
    /// # Errors
    /// As for [`add_server`](Self::add_server).
    pub fn test_unsaved_server(&self, server: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.ask("POST", route::SERVER_TEST, Some(server))
    }

    /// `POST /api/v1/servers/refresh`, as a [`ServerList`](pillion_wire::ServerList).
    ///
    /// # Errors
    /// [`ClientError`]: `unavailable` if the sidecar's store is unavailable.
    pub fn refresh_servers(&self) -> Result<Vec<u8>, ClientError> {
        self.ask("POST", route::SERVER_REFRESH, Some(b""))
    }

    /// `POST /api/v1/vault/rotate`.
    ///
    /// # Errors
    /// [`ClientError`]: `denied` if there is no new key beside the vault's key.
    pub fn rotate_vault(&self) -> Result<Vec<u8>, ClientError> {
        self.ask("POST", route::VAULT_ROTATE, Some(b""))
    }

    fn ask(&self, method: &str, path: &str, body: Option<&[u8]>) -> Result<Vec<u8>, ClientError> {
        let caller = Caller::default();
        let (status, body) = self.client.send_as(method, path, body, &caller)?;
        body_of(status, body)
    }
}

fn credential_path(id: &str, user: &str) -> String {
    let user = utf8_percent_encode(user, SEGMENT);
    path_of(id, &format!("/credentials/{user}"))
}

fn path_of(id: &str, rest: &str) -> String {
    let id = utf8_percent_encode(id, SEGMENT);
    format!("{}{id}{rest}", route::SERVERS)
}
