use async_trait::async_trait;
use pillion_core::store::{PendingDefinition, PinStore, StoreError, Timestamp, ToolPin};

use crate::database::Row;
use crate::sql_store::SqlStore;

impl SqlStore {
    async fn pin(&self, server: &str, tool: &str) -> Result<ToolPin, StoreError> {
        let sql = "SELECT * FROM tool_pins WHERE server = $1 AND tool = $2";
        let values = vec![server.into(), tool.into()];
        match self.database.read_one(sql, values).await? {
            Some(row) => read(&row),
            None => Err(StoreError::not_found("that tool is not pinned")),
        }
    }
}

#[async_trait]
impl PinStore for SqlStore {
    async fn insert_pin(&self, pin: &ToolPin) -> Result<ToolPin, StoreError> {
        let sql = "INSERT INTO tool_pins (server, tool, hash, definition, accepted_at, \
                   pending_hash, pending_definition, pending_seen_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (server, tool) DO NOTHING";
        let mut values = vec![
            (&pin.server).into(),
            (&pin.tool).into(),
            (&pin.hash).into(),
            (&pin.definition).into(),
            pin.accepted_at.into(),
        ];
        values.extend(pending_values(pin.pending.as_ref()));
        if self.database.write(sql, values).await? == 1 {
            return Ok(pin.clone());
        }
        self.pin(&pin.server, &pin.tool).await
    }

    async fn pins(&self, server: &str) -> Result<Vec<ToolPin>, StoreError> {
        let sql = "SELECT * FROM tool_pins WHERE server = $1 ORDER BY tool";
        let rows = self.database.read(sql, vec![server.into()]).await?;
        rows.iter().map(read).collect()
    }

    async fn set_pending_pin(
        &self,
        server: &str,
        tool: &str,
        pending: Option<&PendingDefinition>,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE tool_pins SET pending_hash = $3, pending_definition = $4, \
                   pending_seen_at = $5 WHERE server = $1 AND tool = $2";
        let mut values = vec![server.into(), tool.into()];
        values.extend(pending_values(pending));
        match self.database.write(sql, values).await? {
            0 => Err(StoreError::not_found("that tool is not pinned")),
            _ => Ok(()),
        }
    }

    async fn accept_pin(
        &self,
        server: &str,
        tool: &str,
        hash: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE tool_pins SET hash = pending_hash, definition = pending_definition, \
                   accepted_at = $4, pending_hash = NULL, pending_definition = NULL, \
                   pending_seen_at = NULL \
                   WHERE server = $1 AND tool = $2 AND pending_hash = $3";
        let values = vec![server.into(), tool.into(), hash.into(), at.into()];
        if self.database.write(sql, values).await? == 1 {
            return Ok(());
        }
        self.pin(server, tool).await?;
        let message = "another definition of that tool waits to be accepted, or none";
        Err(StoreError::conflict(message))
    }

    async fn remove_pin(&self, server: &str, tool: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM tool_pins WHERE server = $1 AND tool = $2";
        self.database
            .write(sql, vec![server.into(), tool.into()])
            .await?;
        Ok(())
    }
}

fn pending_values(pending: Option<&PendingDefinition>) -> [crate::database::Value; 3] {
    [
        pending.map(|pending| pending.hash.as_str()).into(),
        pending.map(|pending| pending.definition.as_str()).into(),
        pending.map(|pending| pending.seen_at).into(),
    ]
}

fn read(row: &Row) -> Result<ToolPin, StoreError> {
    let pending = match row.optional_text("pending_hash")? {
        Some(hash) => Some(PendingDefinition {
            hash,
            definition: row.text("pending_definition")?,
            seen_at: row.moment("pending_seen_at")?,
        }),
        None => None,
    };
    Ok(ToolPin {
        server: row.text("server")?,
        tool: row.text("tool")?,
        hash: row.text("hash")?,
        definition: row.text("definition")?,
        accepted_at: row.moment("accepted_at")?,
        pending,
    })
}
