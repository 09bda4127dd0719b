use percent_encoding::utf8_percent_encode;
use pillion_wire::route;

use super::{Raw, SEGMENT, body_of, with_query};
use crate::{Caller, ClientError};

/// The packs of the sidecar and the entries that packs store.
impl Raw<'_> {
    /// `GET /api/v1/packs/`, as a [`PackList`](pillion_wire::PackList).
    ///
    /// # Errors
    /// [`ClientError`]: `unavailable` if the sidecar's store is unavailable.
    pub fn packs(&self) -> Result<Vec<u8>, ClientError> {
        self.get(route::PACKS)
    }

    /// `GET /api/v1/packs/{pack}/{kind}` with `query`, as a [`StoredItemList`](pillion_wire::StoredItemList).
    ///
    /// # Errors
    /// [`ClientError`]: `not_found` if the pack does not exist or has no such kind.
    pub fn list_pack_items(
        &self,
        pack: &str,
        kind: &str,
        query: &[(&str, String)],
    ) -> Result<Vec<u8>, ClientError> {
        self.get(&with_query(&path_of(pack, kind), query))
    }

    /// `DELETE /api/v1/packs/{pack}/{kind}/{name}`, as a
    /// [`StoredItemRemoved`](pillion_wire::StoredItemRemoved).
    ///
    /// # Errors
    /// As for [`list_pack_items`](Self::list_pack_items); `not_found` also if there is no entry of that name.
    pub fn remove_pack_item(
        &self,
        pack: &str,
        kind: &str,
        name: &str,
    ) -> Result<Vec<u8>, ClientError> {
        let name = utf8_percent_encode(name, SEGMENT);
        let path = format!("{}/{name}", path_of(pack, kind));
        let caller = Caller::default();
        let (status, body) = self.client.send_as("DELETE", &path, None, &caller)?;
        body_of(status, body)
    }
}

fn path_of(pack: &str, kind: &str) -> String {
    let encode = |name| utf8_percent_encode(name, SEGMENT);
    format!("{}{}/{}", route::PACKS, encode(pack), encode(kind))
}
