use async_trait::async_trait;
use pillion_core::store::{PendingDefinition, PinOwner, PinStore, StoreError, Timestamp, ToolPin};

use crate::Result;
use crate::database::{Row, SqlValue};
use crate::sql_store::SqlStore;

#[async_trait]
impl PinStore for SqlStore {
    async fn insert_pin(&self, pin: &ToolPin) -> Result<ToolPin> {
        let sql = "INSERT INTO tool_pins (server, user_name, tool, hash, definition, \
                   accepted_at, pending_hash, pending_definition, pending_seen_at, \
                   rejected_hash) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
                   ON CONFLICT (server, user_name, tool) DO NOTHING";
        let owner = PinOwner {
            server: &pin.server,
            user: pin.user.as_deref(),
        };
        let mut values = build_owner_values(owner);
        values.extend([
            (&pin.tool).into(),
            (&pin.hash).into(),
            (&pin.definition).into(),
            pin.accepted_at.into(),
        ]);
        values.extend(build_pending_values(pin.pending.as_ref()));
        values.push(pin.rejected_hash.as_deref().into());
        if self.database.write(sql, values).await? == 1 {
            return Ok(pin.clone());
        }
        self.find_pin(owner, &pin.tool)
            .await?
            .ok_or_else(|| not_pinned_error(&pin.tool))
    }

    async fn pins(&self, owner: PinOwner<'_>) -> Result<Vec<ToolPin>> {
        let sql = "SELECT * FROM tool_pins WHERE server = $1 AND user_name = $2 ORDER BY tool";
        let rows = self.database.read(sql, build_owner_values(owner)).await?;
        rows.iter().map(read_pin).collect()
    }

    async fn server_pins(&self, server: &str) -> Result<Vec<ToolPin>> {
        let sql = "SELECT * FROM tool_pins WHERE server = $1 ORDER BY user_name, tool";
        let rows = self.database.read(sql, vec![server.into()]).await?;
        rows.iter().map(read_pin).collect()
    }

    async fn count_pending_pins(&self) -> Result<u64> {
        let sql = "SELECT COUNT(*) AS pins FROM tool_pins WHERE pending_hash IS NOT NULL \
                   AND (rejected_hash IS NULL OR rejected_hash <> pending_hash)";
        let row = self.database.read_one(sql, vec![]).await?;
        row.map_or(Ok(0), |row| row.count("pins"))
    }

    async fn find_pin(&self, owner: PinOwner<'_>, tool: &str) -> Result<Option<ToolPin>> {
        let sql = "SELECT * FROM tool_pins WHERE server = $1 AND user_name = $2 AND tool = $3";
        let row = self
            .database
            .read_one(sql, build_tool_values(owner, tool))
            .await?;
        row.as_ref().map(read_pin).transpose()
    }

    async fn set_pending_pin(
        &self,
        owner: PinOwner<'_>,
        tool: &str,
        pending_definition: Option<&PendingDefinition>,
    ) -> Result<()> {
        let sql = "UPDATE tool_pins SET pending_hash = $4, pending_definition = $5, \
                   pending_seen_at = $6 WHERE server = $1 AND user_name = $2 AND tool = $3";
        let mut values = build_tool_values(owner, tool);
        values.extend(build_pending_values(pending_definition));
        match self.database.write(sql, values).await? {
            0 => Err(not_pinned_error(tool)),
            _ => Ok(()),
        }
    }

    async fn accept_pin(
        &self,
        owner: PinOwner<'_>,
        tool: &str,
        hash: &str,
        accepted_at: Timestamp,
    ) -> Result<()> {
        let sql = "UPDATE tool_pins SET hash = pending_hash, definition = pending_definition, \
                   accepted_at = $5, pending_hash = NULL, pending_definition = NULL, \
                   pending_seen_at = NULL, rejected_hash = \
                   CASE WHEN rejected_hash = pending_hash THEN NULL ELSE rejected_hash END \
                   WHERE server = $1 AND user_name = $2 AND tool = $3 AND pending_hash = $4";
        let mut values = build_tool_values(owner, tool);
        values.extend([hash.into(), accepted_at.into()]);
        if self.database.write(sql, values).await? == 1 {
            return Ok(());
        }
        Err(self.no_such_definition_error(owner, tool).await?)
    }

    async fn reject_pin(&self, owner: PinOwner<'_>, tool: &str, hash: &str) -> Result<()> {
        let sql = "UPDATE tool_pins SET rejected_hash = pending_hash \
                   WHERE server = $1 AND user_name = $2 AND tool = $3 AND pending_hash = $4";
        let mut values = build_tool_values(owner, tool);
        values.push(hash.into());
        if self.database.write(sql, values).await? == 1 {
            return Ok(());
        }
        Err(self.no_such_definition_error(owner, tool).await?)
    }

    async fn remove_pins(&self, owner: PinOwner<'_>) -> Result<()> {
        let sql = "DELETE FROM tool_pins WHERE server = $1 AND user_name = $2";
        self.database.write(sql, build_owner_values(owner)).await?;
        Ok(())
    }
}

impl SqlStore {
    /// Returns the error for a decision on a definition that is not pending.
    async fn no_such_definition_error(
        &self,
        owner: PinOwner<'_>,
        tool: &str,
    ) -> Result<StoreError> {
        Ok(match self.find_pin(owner, tool).await? {
            None => not_pinned_error(tool),
            Some(_) => StoreError::conflict(format!(
                "the pending definition of tool '{tool}' has changed or does not exist: list the \
                pins again"
            )),
        })
    }
}

fn not_pinned_error(tool: &str) -> StoreError {
    StoreError::not_found(format!("tool '{tool}' is not pinned"))
}

/// Returns the values of the columns `server` and `user_name` for an owner. An empty `user_name`
/// means that the owner has no user.
fn build_owner_values(owner: PinOwner<'_>) -> Vec<SqlValue> {
    vec![owner.server.into(), owner.user.unwrap_or_default().into()]
}

/// Returns the values of the columns of a pin's primary key.
fn build_tool_values(owner: PinOwner<'_>, tool: &str) -> Vec<SqlValue> {
    let mut values = build_owner_values(owner);
    values.push(tool.into());
    values
}

fn build_pending_values(definition: Option<&PendingDefinition>) -> [SqlValue; 3] {
    [
        definition.map(|pending| pending.hash.as_str()).into(),
        definition.map(|pending| pending.definition.as_str()).into(),
        definition.map(|pending| pending.seen_at).into(),
    ]
}

fn read_pin(row: &Row) -> Result<ToolPin> {
    let pending_definition = match row.optional_text("pending_hash")? {
        Some(hash) => Some(PendingDefinition {
            hash,
            definition: row.text("pending_definition")?,
            seen_at: row.timestamp("pending_seen_at")?,
        }),
        None => None,
    };
    let user = row.text("user_name")?;
    Ok(ToolPin {
        server: row.text("server")?,
        user: (!user.is_empty()).then_some(user),
        tool: row.text("tool")?,
        hash: row.text("hash")?,
        definition: row.text("definition")?,
        accepted_at: row.timestamp("accepted_at")?,
        pending: pending_definition,
        rejected_hash: row.optional_text("rejected_hash")?,
    })
}
