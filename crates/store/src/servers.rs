use std::time::Duration;

use async_trait::async_trait;
use pillion_core::store::{RecordOwner, ServerRecord, ServerStore, StoreError, Timestamp};

use crate::Result;
use crate::database::{Row, Transaction};
use crate::sql_store::SqlStore;

/// The Postgres timeout of statements that change all call records of an MCP server.
const ALL_CALLS_TIMEOUT: Duration = Duration::from_secs(600);

#[async_trait]
impl ServerStore for SqlStore {
    async fn insert_server(&self, server: &ServerRecord) -> Result<()> {
        let sql = "INSERT INTO servers \
                   (id, name, configuration, enabled, last_connected_at, created_at, updated_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let values = vec![
            (&server.id).into(),
            (&server.name).into(),
            (&server.configuration).into(),
            server.enabled.into(),
            server.last_connected_at.into(),
            server.created_at.into(),
            server.updated_at.into(),
        ];
        let outcome = self.database.write(sql, values).await;
        outcome
            .map_err(|error| to_name_conflict(error, server))
            .map(drop)
    }

    async fn update_server(&self, server: &ServerRecord, record_owner: RecordOwner) -> Result<()> {
        let sql = "UPDATE servers SET name = $2, configuration = $3, enabled = $4, \
                   last_connected_at = $5, updated_at = $6 WHERE id = $1";
        let values = vec![
            (&server.id).into(),
            (&server.name).into(),
            (&server.configuration).into(),
            server.enabled.into(),
            server.last_connected_at.into(),
            server.updated_at.into(),
        ];
        self.flush_all_processes().await?;
        let mut transaction = self.database.begin().await?;
        transaction.set_statement_timeout(ALL_CALLS_TIMEOUT);
        let old_name = read_server_name(&mut transaction, &server.id).await?;
        let write_outcome = transaction.write(sql, values).await;
        let changed_rows = write_outcome.map_err(|error| to_name_conflict(error, server))?;
        check_found(changed_rows, &server.id)?;
        let previous_name = old_name
            .filter(|name| *name != server.name && record_owner == RecordOwner::StoredServer);
        if let Some(name) = &previous_name {
            // The pins of the new name are removed, because pins of an earlier server with this
            // name must not apply to this server.
            let pins_sql = "DELETE FROM tool_pins WHERE server = $1";
            transaction
                .write(pins_sql, vec![(&server.name).into()])
                .await?;
            for rename_sql in [
                "UPDATE tool_calls SET server = $2 WHERE server = $1",
                "UPDATE tool_pins SET server = $2 WHERE server = $1",
                "UPDATE approvals SET server = $2 WHERE server = $1",
            ] {
                let rename_values = vec![name.into(), (&server.name).into()];
                transaction.write(rename_sql, rename_values).await?;
            }
        }
        transaction.commit().await?;
        if let Some(name) = previous_name
            && let Err(error) = self.rename_recent_calls(&name, &server.name).await
        {
            tracing::warn!(
                old_name = name,
                new_name = server.name,
                %error,
                "Some recorded calls of a renamed server may keep the old name"
            );
        }
        Ok(())
    }

    async fn mark_server_connected(&self, id: &str, connected_at: Timestamp) -> Result<()> {
        let sql = "UPDATE servers SET last_connected_at = $2 WHERE id = $1";
        self.database
            .write(sql, vec![id.into(), connected_at.into()])
            .await?;
        Ok(())
    }

    async fn remove_server(&self, id: &str, record_owner: RecordOwner) -> Result<()> {
        self.flush_all_processes().await?;
        let mut transaction = self.database.begin().await?;
        transaction.set_statement_timeout(ALL_CALLS_TIMEOUT);
        let name = match record_owner {
            RecordOwner::StoredServer => read_server_name(&mut transaction, id)
                .await?
                .unwrap_or_default(),
            RecordOwner::UnstoredServer => String::new(),
        };
        let delete_sql = "DELETE FROM servers WHERE id = $1";
        let deleted_rows = transaction.write(delete_sql, vec![id.into()]).await?;
        check_found(deleted_rows, id)?;
        for sql in [
            "INSERT INTO removed_calls (only_row, newest) \
             SELECT 1, id FROM tool_calls WHERE server IN ($1, $2) ORDER BY id DESC LIMIT 1 \
             ON CONFLICT (only_row) DO UPDATE SET newest = excluded.newest \
             WHERE removed_calls.newest < excluded.newest",
            "DELETE FROM tool_calls WHERE server IN ($1, $2) \
             AND id <= (SELECT newest FROM removed_calls)",
            "DELETE FROM tool_pins WHERE server IN ($1, $2)",
        ] {
            let values = vec![id.into(), (&name).into()];
            transaction.write(sql, values).await?;
        }
        transaction.commit().await
    }

    async fn find_server(&self, id: &str) -> Result<Option<ServerRecord>> {
        let sql = "SELECT * FROM servers WHERE id = $1";
        let row = self.database.read_one(sql, vec![id.into()]).await?;
        row.as_ref().map(read_server).transpose()
    }

    async fn find_server_by_name(&self, name: &str) -> Result<Option<ServerRecord>> {
        let sql = "SELECT * FROM servers WHERE name = $1";
        let row = self.database.read_one(sql, vec![name.into()]).await?;
        row.as_ref().map(read_server).transpose()
    }

    async fn servers(&self) -> Result<Vec<ServerRecord>> {
        let sql = "SELECT * FROM servers ORDER BY name";
        let rows = self.database.read(sql, vec![]).await?;
        rows.iter().map(read_server).collect()
    }
}

impl SqlStore {
    /// Changes the server name in the records of calls that began while the server was being
    /// renamed, unless another server has the old name now.
    async fn rename_recent_calls(&self, old_name: &str, new_name: &str) -> Result<()> {
        self.flush_all_processes().await?;
        let sql = "UPDATE tool_calls SET server = $2 WHERE server = $1 \
                   AND NOT EXISTS (SELECT 1 FROM servers WHERE name = $1)";
        let mut transaction = self.database.begin().await?;
        transaction.set_statement_timeout(ALL_CALLS_TIMEOUT);
        let values = vec![old_name.into(), new_name.into()];
        transaction.write(sql, values).await?;
        transaction.commit().await
    }
}

fn read_server(row: &Row) -> Result<ServerRecord> {
    Ok(ServerRecord {
        id: row.text("id")?,
        name: row.text("name")?,
        configuration: row.text("configuration")?,
        enabled: row.integer("enabled")? != 0,
        last_connected_at: row.optional_timestamp("last_connected_at")?,
        created_at: row.timestamp("created_at")?,
        updated_at: row.timestamp("updated_at")?,
    })
}

/// Returns the name of the server with this ID. Call records refer to a server by its name.
async fn read_server_name(transaction: &mut Transaction, id: &str) -> Result<Option<String>> {
    let sql = "SELECT name FROM servers WHERE id = $1";
    let rows = transaction.read(sql, vec![id.into()]).await?;
    rows.first().map(|row| row.text("name")).transpose()
}

fn check_found(changed_rows: u64, id: &str) -> Result<()> {
    match changed_rows {
        0 => Err(StoreError::not_found(format!(
            "the server '{id}' does not exist"
        ))),
        _ => Ok(()),
    }
}

fn to_name_conflict(error: StoreError, server: &ServerRecord) -> StoreError {
    if error.is_conflict() {
        let message = format!(
            "a server with the name '{}' or the id '{}' already exists",
            server.name, server.id
        );
        StoreError::conflict(message).with_source(error)
    } else {
        error
    }
}
